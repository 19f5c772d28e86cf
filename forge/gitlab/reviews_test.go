package gitlab

import (
	"net/http"
	"testing"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// TestI17_ReviewNotes: a reaction and a resolution are no edits, of any text; an edit is
// one. What is for fewer people than the merge request is left out.
func TestI17_ReviewNotes(t *testing.T) {
	w := newWorld(t, func(o *gitlabtest.Options) { o.Now = steady(2e9) })
	ctx := t.Context()
	c := w.change(t, "writ/change/1", "x", "")
	iid := c.Number - changeBase
	place := forge.ReviewPlace{Path: "1", Start: 1, End: 1, Commit: c.HeadOID}
	settled := w.Review(w.repo.ID, w.owner.user.ID, iid, &place, "settled")
	open := w.Review(w.repo.ID, w.owner.user.ID, iid, &place, "open")
	edited := w.Review(w.repo.ID, w.owner.user.ID, iid, nil, "will be edited")
	ok(t, second(w.owner.host.ask(ctx, creating("whisper"), http.MethodPost, mergePath(w.repo, int(iid))+"/notes", map[string]any{"body": "whispered", "internal": true}, new(any))))
	ok(t, w.bot.React(ctx, w.repo, open, forge.ReactionSeen))
	w.Resolve(w.repo.ID, w.owner.user.ID, iid, settled)
	w.EditReview(w.repo.ID, w.reader.user.ID, iid, edited, "another's words")
	for _, got := range must[[]forge.ReviewComment](t)(w.bot.ReviewComments(ctx, w.repo, c.Number)) {
		was := !got.UpdatedAt.Equal(got.CreatedAt)
		switch got.ID {
		case settled, open:
			if was || got.Resolved != (got.ID == settled) || got.Kind != forge.ReviewLine || *got.Place != place {
				t.Errorf("%+v at %+v", got, got.Place)
			}
		case edited:
			if !was || got.Body != "another's words" || got.Kind != forge.ReviewTalk {
				t.Errorf("%+v", got)
			}
		default:
			t.Errorf("also %q", got.Body)
		}
	}
}

// TestI17_NotePlaces: positions as GitLab and whoever speaks to its API write them.
func TestI17_NotePlaces(t *testing.T) {
	at := func(was, is int) *gitlab.LinePosition { return &gitlab.LinePosition{OldLine: was, NewLine: is} }
	for name, c := range map[string]struct {
		p    gitlab.NotePosition
		want forge.ReviewPlace
	}{
		"a line":              {gitlab.NotePosition{NewLine: 3}, forge.ReviewPlace{Path: "is", Start: 3, End: 3}},
		"one that was there":  {gitlab.NotePosition{OldLine: 2, NewLine: 3}, forge.ReviewPlace{Path: "is", Start: 3, End: 3}},
		"one that is gone":    {gitlab.NotePosition{OldLine: 2}, forge.ReviewPlace{Path: "was", Start: 2, End: 2, Old: true}},
		"lines":               {gitlab.NotePosition{NewLine: 5, LineRange: &gitlab.LineRange{StartRange: at(0, 3), EndRange: at(4, 5)}}, forge.ReviewPlace{Path: "is", Start: 3, End: 5}},
		"lines of both sides": {gitlab.NotePosition{NewLine: 5, LineRange: &gitlab.LineRange{StartRange: at(3, 0), EndRange: at(4, 5)}}, forge.ReviewPlace{Path: "is"}},
		"half a range":        {gitlab.NotePosition{NewLine: 5, LineRange: &gitlab.LineRange{StartRange: at(3, 0)}}, forge.ReviewPlace{Path: "is", Start: 5, End: 5}},
		"no line can be so":   {gitlab.NotePosition{NewLine: -1}, forge.ReviewPlace{Path: "is", Start: -1, End: -1}},
		"no line":             {gitlab.NotePosition{}, forge.ReviewPlace{Path: "was", Old: true}},
		"an image":            {gitlab.NotePosition{PositionType: "image", NewLine: 3}, forge.ReviewPlace{Path: "is"}},
	} {
		p := c.p
		if p.OldPath, p.NewPath, p.HeadSHA = "was", "is", "head"; p.PositionType == "" {
			p.PositionType = "text"
		}
		c.want.Commit = "head"
		if got := *placeOf(&p); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
