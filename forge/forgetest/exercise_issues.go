package forgetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// noTime is before everything.
var noTime time.Time

func exerciseIssue(t *testing.T, p *Place) {
	body := "Add fails.\n\n```writ\nallowed_files: [calc/**]\n```\n\nümläut, 日本, 🙂\n"
	if p.Trims {
		body = strings.TrimSpace(body)
	}
	filed := must[forge.Issue](t)(p.Owner.FileIssue(t.Context(), p.Repo, "Add fails on <negative> & \"zero\"", body))
	got := p.issue(t, filed.Number)
	if got.Title != filed.Title || got.Body != body {
		t.Errorf("text came back as %q, %q", got.Title, got.Body)
	}
	if got.ID == 0 || got.Number != filed.Number || got.State != forge.Open || got.Locked || got.IsChange || len(got.Labels) > 0 {
		t.Errorf("a new issue is %+v", got)
	}
	if owner := self(t, p.Owner); got.Author != owner || got.CreatedAt.IsZero() || got.UpdatedAt.IsZero() || got.URL == "" {
		t.Errorf("issue %+v, want the author %+v, a time and a page", got, owner)
	}
	ok(t, p.Owner.EditIssue(t.Context(), p.Repo, filed.Number, "Another title", "another text"))
	if after := p.issue(t, filed.Number); after.Title != "Another title" || after.Body != "another text" || after.ID != got.ID || !after.CreatedAt.Equal(got.CreatedAt) {
		t.Errorf("after the edit: %+v", after)
	}
}

// exerciseState: closing and opening are idempotent, and no event tells twice.
func exerciseState(t *testing.T, p *Place) {
	i := p.file(t, "Closed and opened")
	for _, s := range []forge.State{forge.Open, forge.Closed, forge.Closed, forge.Open, forge.Open, forge.Closed} {
		ok(t, p.Bot.SetState(t.Context(), p.Repo, i.Number, s))
		if got := p.issue(t, i.Number).State; got != s {
			t.Fatalf("state %q, want %q", got, s)
		}
	}
	want := []forge.EventKind{forge.EventClosed, forge.EventReopened, forge.EventClosed}
	if got := kinds(p.history(t, i.Number)); !slices.Equal(got, want) {
		t.Errorf("history %q, want %q", got, want)
	}
}

func (p *Place) history(t *testing.T, number int64) []forge.Event {
	t.Helper()
	return must[[]forge.Event](t)(p.Bot.History(t.Context(), p.Repo, number))
}

func kinds(events []forge.Event) []forge.EventKind {
	var out []forge.EventKind
	for _, e := range events {
		out = append(out, e.Kind)
	}
	return out
}

func (p *Place) list(t *testing.T, since time.Time) []forge.Issue {
	t.Helper()
	var out []forge.Issue
	ok(t, p.Bot.ListIssues(t.Context(), p.Repo, since, func(i forge.Issue) error {
		out = append(out, i)
		return nil
	}))
	return out
}

func numbers(issues []forge.Issue) []int64 {
	var out []int64
	for _, i := range issues {
		out = append(out, i.Number)
	}
	return out
}

// exerciseList: more than a page, oldest update first, since is inclusive, closed ones
// and changes too. What is said of a change updates it.
func exerciseList(t *testing.T, p *Place) {
	const many = 105
	change := p.change(t, "work") // first, so that the first page has it: GitHub's double lists no change of the very second asked for
	said, err := p.Owner.AddComment(t.Context(), p.Repo, change.Number, "A word on it")
	ok(t, err)
	last := p.list(t, noTime)
	if at := slices.Index(numbers(last), change.Number); at < 0 || last[at].UpdatedAt.Before(said.CreatedAt.Truncate(time.Second)) {
		t.Errorf("what is said of the change doesn't update it: %v", numbers(last))
	}
	all := make([]forge.Issue, 0, many)
	for range many {
		all = append(all, p.file(t, "One of many"))
	}
	ok(t, p.Bot.SetState(t.Context(), p.Repo, all[1].Number, forge.Closed))
	_, err = p.Bot.AddComment(t.Context(), p.Repo, all[0].Number, "A word")
	ok(t, err)

	got := p.list(t, noTime)
	if len(got) != many+1 {
		t.Fatalf("%d issues and changes listed, want %d: %v", len(got), many+1, numbers(got))
	}
	for _, i := range got {
		if i.IsChange != (i.Number == change.Number) || i.IsChange && (i.Body != change.Body || i.State != forge.Open || i.Author.ID != change.Author.ID) {
			t.Errorf("listed is %+v, and the change is %+v", i, change)
		}
	}
	if !slices.IsSortedFunc(got, func(a, b forge.Issue) int { return a.UpdatedAt.Compare(b.UpdatedAt) }) {
		t.Errorf("not by update: %v", numbers(got))
	}
	for _, want := range all {
		if !slices.Contains(numbers(got), want.Number) {
			t.Errorf("#%d is missing", want.Number)
		}
	}
	commented := p.issue(t, all[0].Number)
	late := p.list(t, commented.UpdatedAt)
	if !slices.Contains(numbers(late), commented.Number) {
		t.Errorf("since the very time of an update leaves it out: %v", numbers(late))
	}
	for _, i := range late {
		if i.UpdatedAt.Before(commented.UpdatedAt) {
			t.Errorf("#%d of %v is older than asked for", i.Number, i.UpdatedAt)
		}
	}
	if none := p.list(t, commented.UpdatedAt.AddDate(1, 0, 0)); len(none) > 0 {
		t.Errorf("issues of the future: %v", numbers(none))
	}
}

// exerciseListStops: the caller's error ends the list and comes back.
func exerciseListStops(t *testing.T, p *Place) {
	for range 3 {
		p.file(t, "One of three")
	}
	enough, seen := errors.New("enough"), 0
	err := p.Bot.ListIssues(t.Context(), p.Repo, noTime, func(forge.Issue) error {
		seen++
		return enough
	})
	if !errors.Is(err, enough) || seen != 1 {
		t.Errorf("error %v after %d issues, want the caller's own after one", err, seen)
	}
}

// exerciseHistory: who did what, in the order in which it happened.
func exerciseHistory(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	i := p.file(t, "With a history")
	if got := p.history(t, i.Number); len(got) > 0 {
		t.Errorf("a new issue has a history: %+v", got)
	}
	ok(t, p.Bot.EnsureLabels(ctx, r, []forge.Label{{Name: "writ", Color: "1d76db"}}))
	ok(t, p.Owner.AddLabel(ctx, r, i.Number, "writ"))
	ok(t, p.Owner.RemoveLabel(ctx, r, i.Number, "writ"))
	ok(t, p.Owner.AddLabel(ctx, r, i.Number, "writ"))
	ok(t, p.Bot.SetState(ctx, r, i.Number, forge.Closed))
	ok(t, p.Owner.SetState(ctx, r, i.Number, forge.Open))

	owner, bot := self(t, p.Owner).ID, self(t, p.Bot).ID
	want := []struct {
		kind  forge.EventKind
		actor int64
		label string
	}{
		{forge.EventLabeled, owner, "writ"},
		{forge.EventUnlabeled, owner, "writ"},
		{forge.EventLabeled, owner, "writ"},
		{forge.EventClosed, bot, ""},
		{forge.EventReopened, owner, ""},
	}
	got := p.history(t, i.Number)
	if len(got) != len(want) {
		t.Fatalf("%d events: %+v, want %d", len(got), got, len(want))
	}
	for n, w := range want {
		e := got[n]
		if e.Kind != w.kind || e.Actor.ID != w.actor || e.Label != w.label || e.At.IsZero() {
			t.Errorf("event %d is %+v, want %+v", n, e, w)
		}
		if n > 0 && (e.ID <= got[n-1].ID || e.At.Before(got[n-1].At)) {
			t.Errorf("event %d (%d, %v) isn't after the one before (%d, %v)", n, e.ID, e.At, got[n-1].ID, got[n-1].At)
		}
	}
}

// exerciseDigests: where the forge keeps every version, each event has the
// digest of the text as it then was; an edit that changes nothing is none. No
// forge gives a digest that is wrong.
func exerciseDigests(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	i := p.file(t, "First title")
	texts := [][2]string{{i.Title, i.Body}}
	ok(t, p.Owner.AddLabel(ctx, r, i.Number, "writ"))
	for _, text := range [][2]string{{"Second title", i.Body}, {"Second title", i.Body}, {"Second title", "Second\r\nbody "}} {
		ok(t, p.Owner.EditIssue(ctx, r, i.Number, text[0], text[1]))
		if text != texts[len(texts)-1] {
			texts = append(texts, text)
		}
	}
	events := p.history(t, i.Number)
	var edits int
	for _, e := range events {
		if e.Kind == forge.EventEdited {
			edits++
		}
		want, err := kernel.ApprovalDigest(texts[edits][0], texts[edits][1])
		ok(t, err)
		if e.Digest != "" && e.Digest != string(want) || e.Digest == "" && p.Digests {
			t.Errorf("%s after %d edits has the digest %q, want %q", e.Kind, edits, e.Digest, want)
		}
	}
	if p.Digests && edits != len(texts)-1 {
		t.Errorf("%d edits in the history %+v, want %d", edits, events, len(texts)-1)
	}
}
