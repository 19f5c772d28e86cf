package gitlab

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
)

// source is where an entry of the history comes from. Each counts its own ids.
type source int64

const (
	fromLabels source = iota
	fromStates
	fromNotes
)

// The parts of an event's id: the time in Unix milliseconds, then the source,
// then the end of GitLab's id. So ids grow with time, are the same in every
// reading, and stay below 2^53 until the year 2109.
const (
	sourceBits = 2
	idBits     = 9
)

// entry is an event before its actor is completed.
type entry struct {
	forge.Event
	user  int
	login string
}

func newEntry(from source, id int, at *time.Time, kind forge.EventKind, user int, login string) (entry, error) {
	if at == nil || at.IsZero() || id <= 0 || user < 0 {
		return entry{}, reading("read an issue's history").odd("an event without id or time")
	}
	when := at.Truncate(time.Millisecond)
	number := when.UnixMilli()<<(sourceBits+idBits) | int64(from)<<idBits | int64(id)&(1<<idBits-1)
	return entry{forge.Event{ID: number, Kind: kind, At: when}, user, login}, nil
}

// History is forge.Issues.
func (h *Host) History(ctx context.Context, r forge.Repo, number int64) ([]forge.Event, error) {
	w := reading("read the history of %s#%d", r, number)
	labels, err := h.labelEvents(ctx, w, r, int(number))
	if err != nil {
		return nil, err
	}
	states, err := h.stateEvents(ctx, w, r, int(number))
	if err != nil {
		return nil, err
	}
	notes, err := h.listNotes(ctx, w, r, threadOf(number))
	if err != nil {
		return nil, err
	}
	told, err := noteEvents(notes)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(labels, states, told)
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.ID, b.ID) })
	out := make([]forge.Event, 0, len(all))
	for _, e := range all {
		if e.Actor, err = h.user(ctx, e.user, e.login); err != nil {
			return nil, err
		}
		out = append(out, e.Event)
	}
	return out, nil
}

func (h *Host) labelEvents(ctx context.Context, w how, r forge.Repo, number int) ([]entry, error) {
	all, err := collect(w, func(o gitlab.ListOptions) ([]*gitlab.LabelEvent, *gitlab.Response, error) {
		return h.api.ResourceLabelEvents.ListIssueLabelEvents(int(r.ID), number, &gitlab.ListLabelEventsOptions{ListOptions: o}, w.in(ctx))
	})
	var out []entry
	for _, e := range all {
		kind := forge.EventUnlabeled
		switch e.Action {
		case "add":
			kind = forge.EventLabeled
		case "remove":
		default:
			return nil, w.odd("a label event that doesn't say what happened")
		}
		one, err := newEntry(fromLabels, e.ID, e.CreatedAt, kind, e.User.ID, e.User.Username)
		if err != nil {
			return nil, err
		}
		one.Label = e.Label.Name
		out = append(out, one)
	}
	return out, err
}

func (h *Host) stateEvents(ctx context.Context, w how, r forge.Repo, number int) ([]entry, error) {
	all, err := collect(w, func(o gitlab.ListOptions) ([]*gitlab.StateEvent, *gitlab.Response, error) {
		return h.api.ResourceStateEvents.ListIssueStateEvents(int(r.ID), number, &gitlab.ListStateEventsOptions{ListOptions: o}, w.in(ctx))
	})
	var out []entry
	for _, e := range all {
		kind := forge.EventClosed
		if e.State == gitlab.ReopenedEventType {
			kind = forge.EventReopened
		}
		user := e.User
		if user == nil {
			user = &gitlab.BasicUser{}
		}
		one, err := newEntry(fromStates, e.ID, e.CreatedAt, kind, user.ID, user.Username)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, err
}

// notices are how system notes begin that matter here. People can't write them:
// GitLab marks its own.
var notices = map[forge.EventKind][]string{
	forge.EventEdited:      {"changed title from ", "changed the description", "marked the checklist item ", "marked the task "},
	forge.EventTransferred: {"moved to ", "promoted to "},
}

func noteEvents(notes []*gitlab.Note) (out []entry, err error) {
	for _, n := range notes {
		if !n.System {
			continue
		}
		for kind, beginnings := range notices {
			says := func(with string) bool { return strings.HasPrefix(n.Body, with) }
			if !slices.ContainsFunc(beginnings, says) {
				continue
			}
			one, err := newEntry(fromNotes, n.ID, n.CreatedAt, kind, n.Author.ID, n.Author.Username)
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
	}
	return out, nil
}
