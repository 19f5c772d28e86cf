package github

import (
	"context"
	"math"
	"slices"
	"time"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// eventGap is the distance between the ids of two events of GitHub's as they are
// told here, so that edits, which have no number, find room between them.
const eventGap = 16

var eventKinds = map[string]forge.EventKind{
	"labeled": forge.EventLabeled, "unlabeled": forge.EventUnlabeled, "closed": forge.EventClosed, "reopened": forge.EventReopened,
	"renamed": forge.EventEdited, "transferred": forge.EventTransferred,
}

// entry is an event, and what it says of the title.
type entry struct {
	forge.Event
	renamedFrom *string
}

// History is forge.Issues: GitHub's events, and the edits of the body, which are
// told apart. An edit in the second of an act is told after it, since it may
// have been.
func (c *client) History(ctx context.Context, r forge.Repo, number int64) (out []forge.Event, err error) {
	err = c.h.do(ctx, r, act{op: onItem("read the history of", r, number), scope: toRead}, func(ctx context.Context, at spot) error {
		events, err := at.events(ctx, number)
		if err != nil {
			return err
		}
		t, err := at.askTexts(ctx, c.h, number)
		if err != nil {
			return err
		}
		out = t.tell(events)
		return nil
	})
	return out, err
}

func (at spot) events(ctx context.Context, number int64) (out []entry, err error) {
	err = pages(func(o *api.ListOptions) (*api.Response, error) {
		got, res, err := at.Issues.ListIssueEvents(ctx, at.owner, at.name, itemNumber(number), o)
		if err != nil {
			return nil, err
		}
		return res, readEach(got, event, func(e entry) {
			if e.Kind != "" {
				out = append(out, e)
			}
		})
	})
	slices.SortStableFunc(out, func(a, b entry) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return int(min(max(a.ID-b.ID, -1), 1))
	})
	return out, err
}

// event reads an entry; one that doesn't matter here has no kind.
func event(g *api.IssueEvent) (entry, error) {
	if g.GetEvent() == "" {
		return entry{}, odd("an event that doesn't say what happened")
	}
	kind, wanted := eventKinds[g.GetEvent()]
	if !wanted {
		return entry{}, nil
	}
	actor, err := user(g.Actor)
	if err != nil {
		return entry{}, err
	}
	if g.GetID() <= 0 || g.GetID() > math.MaxInt64/eventGap || g.GetCreatedAt().IsZero() {
		return entry{}, odd("an event without id or time")
	}
	e := entry{Event: forge.Event{ID: g.GetID() * eventGap, Kind: kind, Actor: actor, Label: g.GetLabel().GetName(), At: g.GetCreatedAt().Time}}
	if named := kind == forge.EventLabeled || kind == forge.EventUnlabeled; named && e.Label == "" {
		return entry{}, odd("an event of a label without its name")
	}
	if g.Rename != nil {
		e.renamedFrom = g.Rename.From
	}
	return e, nil
}

// tell puts the edits of the body among the events, and the digests to them.
func (t texts) tell(events []entry) []forge.Event {
	out := make([]forge.Event, 0, len(events)+len(t.versions))
	next := 0
	title := t.titles(events)
	for n, e := range events {
		for ; next < len(t.versions) && second(t.versions[next].at).Before(second(e.At)); next++ {
			out = t.edit(out, next, title[n])
		}
		e.Digest = digest(title[n], t.bodyAt(e.At))
		if e.Kind == forge.EventEdited {
			// The title before it is title[n]'s: the one after is the next one's.
			e.Digest = digest(title[n+1], t.bodyAt(e.At))
		}
		out = append(out, e.Event)
	}
	for ; next < len(t.versions); next++ {
		out = t.edit(out, next, title[len(events)])
	}
	return out
}

// titles are the title before each event, and at the end.
func (t texts) titles(events []entry) []string {
	out := make([]string, len(events)+1)
	out[len(events)] = t.title
	for n := len(events) - 1; n >= 0; n-- {
		out[n] = out[n+1]
		if from := events[n].renamedFrom; from != nil {
			out[n] = *from
		}
	}
	return out
}

// edit tells a version, unless it is the original. Its id follows the last one's.
func (t texts) edit(out []forge.Event, n int, title string) []forge.Event {
	v := t.versions[n]
	if v.original {
		return out
	}
	e := forge.Event{ID: 1, Kind: forge.EventEdited, Actor: v.by, At: v.at}
	if t.trusted() && !v.unknown {
		e.Digest = digest(title, &v.body)
	}
	if len(out) > 0 {
		last := out[len(out)-1]
		if last.ID%eventGap == eventGap-1 { // no room for one more: the latest is what counts
			e.ID, out = last.ID, out[:len(out)-1]
		} else {
			e.ID = last.ID + 1
		}
	}
	return append(out, e)
}

// bodyAt is the body in the second of a time, if it is known: no edit may have
// fallen into it.
func (t texts) bodyAt(at time.Time) *string {
	if len(t.versions) == 0 {
		return &t.body
	}
	if !t.trusted() {
		return nil
	}
	var found *string
	for n := range t.versions {
		v := &t.versions[n]
		switch {
		case second(v.at).Equal(second(at)) && !v.original:
			return nil
		case second(v.at).After(second(at)):
			return found
		case v.unknown:
			found = nil
		default:
			found = &v.body
		}
	}
	return found
}

// trusted says that versions are whole texts: the last one is the body of now.
func (t texts) trusted() bool {
	last := t.versions[len(t.versions)-1]
	return !last.unknown && last.body == t.body
}

func second(t time.Time) time.Time { return t.Truncate(time.Second) }

// digest is the approval digest of a text, "" for one that isn't known.
func digest(title string, body *string) string {
	if body == nil {
		return ""
	}
	d, err := kernel.ApprovalDigest(title, *body)
	if err != nil {
		return "" // no text that could be approved
	}
	return string(d)
}
