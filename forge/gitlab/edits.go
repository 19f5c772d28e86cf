package gitlab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/writbot/writ/forge"
)

// editsAtOnce is of how many notes one query asks: far below the complexity that
// GitLab allows one.
const editsAtOnce = 20

// noteVersion is a note as a listing showed it.
type noteVersion struct {
	id      int64
	updated time.Time
}

// noteEdit is what GraphQL says of a note. Its times are whole seconds.
type noteEdit struct {
	LastEditedAt time.Time `json:"lastEditedAt"`
	LastEditedBy *struct {
		ID string `json:"id"`
	} `json:"lastEditedBy"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// of is when the text of a comment was last edited, by what is said of its note. In
// doubt it was edited when the note was last updated. Of a text that was never edited
// GitLab says the last activity, and nobody who edited it.
func (e *noteEdit) of(c forge.Comment) time.Time {
	switch {
	case e == nil || e.LastEditedAt.IsZero() || e.UpdatedAt.Before(c.UpdatedAt.Truncate(time.Second)): // or it is of a replica that lags
		return c.UpdatedAt
	case e.LastEditedBy == nil && e.LastEditedAt.Equal(e.UpdatedAt):
		return c.CreatedAt
	}
	if at := e.LastEditedAt.Add(time.Second); at.Before(c.UpdatedAt) {
		return at
	}
	return c.UpdatedAt
}

// edits puts right when texts were last edited: the time that a listing has is that of a
// note's last activity, and a reaction is one, writ's own too. Asked is only about those
// that matter.
func (h *Host) edits(ctx context.Context, op string, list []forge.Comment, matters func(forge.Comment) bool) error {
	var ask []forge.Comment
	h.mu.Lock()
	for i, c := range list {
		if c.UpdatedAt.Equal(c.CreatedAt) || !matters(c) {
			continue
		}
		if at, known := h.edited[noteVersion{c.ID, c.UpdatedAt}]; known {
			list[i].UpdatedAt = at
		} else {
			ask = append(ask, c)
		}
	}
	h.mu.Unlock()
	for some := range slices.Chunk(ask, editsAtOnce) {
		said, err := h.askEdits(ctx, op, some)
		if err != nil {
			return err
		}
		h.mu.Lock()
		for _, c := range some {
			at := said[noteAlias(c.ID)].of(c)
			if len(h.edited) >= maxKnown {
				clear(h.edited)
			}
			h.edited[noteVersion{c.ID, c.UpdatedAt}] = at
			list[slices.IndexFunc(list, func(is forge.Comment) bool { return is.ID == c.ID })].UpdatedAt = at
		}
		h.mu.Unlock()
	}
	return nil
}

func noteAlias(id int64) string { return fmt.Sprintf("n%d", id) }

// askEdits asks about some notes. Which of them GitLab says nothing of is left out.
func (h *Host) askEdits(ctx context.Context, op string, some []forge.Comment) (map[string]*noteEdit, error) {
	var q strings.Builder
	for _, c := range some {
		fmt.Fprintf(&q, ` %s: note(id: "gid://gitlab/Note/%d") { lastEditedAt lastEditedBy { id } updatedAt }`, noteAlias(c.ID), c.ID)
	}
	var said struct {
		Data map[string]*noteEdit `json:"data"`
	}
	err := h.graph(ctx, op, "query {"+q.String()+" }", map[string]any{}, &said)
	return said.Data, err
}
