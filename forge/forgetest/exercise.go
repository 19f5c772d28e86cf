package forgetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// Human is a client of a person, with the acts that writ itself never does.
type Human interface {
	forge.Client
	FileIssue(ctx context.Context, r forge.Repo, title, body string) (forge.Issue, error)
	EditIssue(ctx context.Context, r forge.Repo, number int64, title, body string) error
	// ReviewAt comments on a place of a change. What the forge can't be told it leaves
	// out or refuses.
	ReviewAt(ctx context.Context, r forge.Repo, change int64, at forge.ReviewPlace, body string) error
	// EditReview changes the text of such a comment.
	EditReview(ctx context.Context, r forge.Repo, change, id int64, body string) error
}

// Place is a forge as [Exercise] finds it: fresh, with one repository, in which
// three accounts have different permissions.
type Place struct {
	Repo   forge.Repo
	Bot    forge.Client // may write; the client under test
	Owner  Human        // may administer
	Reader Human        // may read

	// Grant sets what an account may do.
	Grant func(t *testing.T, user int64, p forge.Permission)
	// Branch makes a branch with one commit on top of the default branch, and
	// returns the commit.
	Branch func(t *testing.T, name string) string
	// Merge merges a change, as the owner.
	Merge func(t *testing.T, number int64)
	// Checks reads the checks of a commit.
	Checks func(t *testing.T, oid string) []forge.Check
	// Digests says that the forge keeps every version of an issue's text, so
	// that each event has its digest.
	Digests bool
	// Trims says that the forge takes white space off the end of a text.
	Trims bool
	// NoCommas says that a label can't have one.
	NoCommas bool
}

// Setup makes a place. It is called once for each part of the suite.
type Setup func(t *testing.T) *Place

// Exercise holds a client to what forge.Client says, in its plain and its
// awkward uses.
func Exercise(t *testing.T, setup Setup) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, *Place)
	}{
		{"Repository", exerciseRepository},
		{"Missing", exerciseMissing},
		{"EndedContext", exerciseEnded},
		{"Issue", exerciseIssue},
		{"State", exerciseState},
		{"ListSince", exerciseList},
		{"ListStops", exerciseListStops},
		{"HistoryOrder", exerciseHistory},
		{"EditHistory", exerciseDigests},
		{"Labels", exerciseLabels},
		{"LabelsOfOthers", exerciseOthersLabels},
		{"Comments", exerciseComments},
		{"CommentBytes", exerciseBytes},
		{"ManyComments", exerciseMany},
		{"Reactions", exerciseReactions},
		{"Permissions", exercisePermissions},
		{"Refusals", exerciseRefusals},
		{"Change", exerciseChange},
		{"ChangeTwice", exerciseChangeTwice},
		{"ChangeMerged", exerciseMerged},
		{"Checks", exerciseChecks},
		{"Reviews", exerciseReviews},
		{"ManyReviews", exerciseManyReviews},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, setup(t)) })
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must is ok for a call with a result: must(t)(client.Issue(…)).
func must[T any](t *testing.T) func(T, error) T {
	return func(out T, err error) T {
		t.Helper()
		ok(t, err)
		return out
	}
}

// wantReason demands a forge.Error with that reason.
func wantReason(t *testing.T, what string, err error, want ...forge.Reason) {
	t.Helper()
	var e *forge.Error
	if !errors.As(err, &e) {
		t.Errorf("%s: error %v, want a forge.Error: %v", what, err, want)
		return
	}
	for _, r := range want {
		if e.Reason == r {
			return
		}
	}
	t.Errorf("%s: reason %q (%v), want %q", what, e.Reason, err, want)
}

// file is an issue by the owner.
func (p *Place) file(t *testing.T, title string) forge.Issue {
	t.Helper()
	return must[forge.Issue](t)(p.Owner.FileIssue(t.Context(), p.Repo, title, "The text of "+title))
}

func (p *Place) issue(t *testing.T, number int64) forge.Issue {
	t.Helper()
	return must[forge.Issue](t)(p.Bot.Issue(t.Context(), p.Repo, number))
}

func (p *Place) comments(t *testing.T, number int64) []forge.Comment {
	t.Helper()
	return must[[]forge.Comment](t)(p.Bot.Comments(t.Context(), p.Repo, number))
}

func self(t *testing.T, c forge.Client) forge.User {
	t.Helper()
	return must[forge.User](t)(c.Self(t.Context()))
}

// unknown is a number that nothing has.
const unknown = 987654321

func exerciseRepository(t *testing.T, p *Place) {
	got := must[forge.Repository](t)(p.Bot.Repository(t.Context(), p.Repo.ID))
	if got.Repo != p.Repo || got.DefaultBranch == "" || got.Archived || got.Fork || got.URL == "" {
		t.Errorf("repository %+v, want %s with a default branch and a page", got, p.Repo)
	}
	bot, owner := self(t, p.Bot), self(t, p.Owner)
	if bot.ID == owner.ID || bot.ID == 0 || bot.Login == "" || bot.Kind != forge.Bot || owner.Kind != forge.Person {
		t.Errorf("accounts %+v and %+v, want a bot and another person", bot, owner)
	}
}

// exerciseMissing: what isn't there is NotFound, in every method.
func exerciseMissing(t *testing.T, p *Place) {
	ctx, r, c := t.Context(), p.Repo, p.Bot
	calls := everyCall(ctx, c, r, unknown)
	delete(calls, "Self")
	delete(calls, "ListIssues")
	delete(calls, "EnsureLabels")
	delete(calls, "Permission") // an account that is gone may do nothing: see exercisePermissions
	delete(calls, "OpenChange") // see exerciseChangeTwice
	for name, call := range calls {
		reasons := []forge.Reason{forge.NotFound}
		if name == "SetCheck" {
			reasons = append(reasons, forge.Invalid) // the usual word for an unknown commit
		}
		wantReason(t, name+" of what isn't there", call(), reasons...)
	}
	gone := forge.Repo{ID: unknown, Owner: r.Owner, Name: "gone"}
	calls = everyCall(ctx, c, gone, 1)
	delete(calls, "Self")
	for name, call := range calls {
		wantReason(t, name+" in a repository that isn't there", call(), forge.NotFound)
	}
}

// exerciseEnded: a call whose context has ended says so, and does nothing.
func exerciseEnded(t *testing.T, p *Place) {
	i := p.file(t, "Untouched")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range everyCall(ctx, p.Bot, p.Repo, i.Number) {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that has ended: %v", name, err)
		}
	}
	if got := p.issue(t, i.Number); got.State != forge.Open || len(got.Labels) > 0 || len(p.comments(t, i.Number)) > 0 {
		t.Errorf("the issue was changed: %+v", got)
	}
}

// everyCall is each method, as a call about one number.
func everyCall(ctx context.Context, c forge.Client, r forge.Repo, n int64) map[string]func() error {
	return map[string]func() error{
		"Repository":    func() error { _, err := c.Repository(ctx, n+r.ID*2); return err },
		"Issue":         func() error { _, err := c.Issue(ctx, r, n); return err },
		"ListIssues":    func() error { return c.ListIssues(ctx, r, noTime, func(forge.Issue) error { return nil }) },
		"History":       func() error { _, err := c.History(ctx, r, n); return err },
		"SetState":      func() error { return c.SetState(ctx, r, n, forge.Closed) },
		"Comments":      func() error { _, err := c.Comments(ctx, r, n); return err },
		"AddComment":    func() error { _, err := c.AddComment(ctx, r, n, "text"); return err },
		"EditComment":   func() error { return c.EditComment(ctx, r, n, "text") },
		"DeleteComment": func() error { return c.DeleteComment(ctx, r, n) },
		"React":         func() error { return c.React(ctx, r, n, forge.ReactionSeen) },
		"ReactToIssue":  func() error { return c.ReactToIssue(ctx, r, n, forge.ReactionSeen) },
		"EnsureLabels":  func() error { return c.EnsureLabels(ctx, r, []forge.Label{{Name: "x", Color: "ededed"}}) },
		"AddLabel":      func() error { return c.AddLabel(ctx, r, n, "x") },
		"RemoveLabel":   func() error { return c.RemoveLabel(ctx, r, n, "x") },
		"Self":          func() error { _, err := c.Self(ctx); return err },
		"Permission":    func() error { _, err := c.Permission(ctx, r, n); return err },
		"FindChange":    func() error { _, err := c.FindChange(ctx, r, "no-such-branch", ""); return err },
		"OpenChange": func() error {
			_, err := c.OpenChange(ctx, r, forge.Change{Title: "x", Head: "no-such-branch", Base: "main"})
			return err
		},
		"EditChange":     func() error { return c.EditChange(ctx, r, n, "title", "body") },
		"ReviewComments": func() error { _, err := c.ReviewComments(ctx, r, n); return err },
		"SetCheck": func() error {
			return c.SetCheck(ctx, r, CommitID("nobody's"), forge.Check{Name: "writ", State: forge.CheckPassed})
		},
	}
}

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

// exerciseLabels: one by one, and idempotent.
func exerciseLabels(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	i := p.file(t, "With labels")
	labels := []forge.Label{{Name: "writ", Color: "1d76db", Description: "approved"}, {Name: "writ: blocked", Color: "b60205"}}
	for range 2 {
		ok(t, p.Bot.EnsureLabels(ctx, r, labels))
	}
	ok(t, p.Bot.EnsureLabels(ctx, r, nil))
	for range 2 {
		ok(t, p.Bot.AddLabel(ctx, r, i.Number, "writ: blocked"))
	}
	if got := p.issue(t, i.Number).Labels; !slices.Equal(got, []string{"writ: blocked"}) {
		t.Errorf("labels %q after adding one twice", got)
	}
	for range 2 {
		ok(t, p.Bot.RemoveLabel(ctx, r, i.Number, "writ: blocked"))
	}
	ok(t, p.Bot.RemoveLabel(ctx, r, i.Number, "never offered by this repository"))
	if got := p.issue(t, i.Number).Labels; len(got) > 0 {
		t.Errorf("labels %q after taking it off", got)
	}
	want := []forge.EventKind{forge.EventLabeled, forge.EventUnlabeled}
	if got := kinds(p.history(t, i.Number)); !slices.Equal(got, want) {
		t.Errorf("history %q, want %q: doing it again is no event", got, want)
	}
}

// exerciseOthersLabels: whatever we set and take off, other people's labels stay.
func exerciseOthersLabels(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	others := "urgent, really"
	if p.NoCommas {
		others = "urgent & really"
	}
	i := p.file(t, "Labelled by others")
	ok(t, p.Bot.EnsureLabels(ctx, r, []forge.Label{{Name: "bug", Color: "d73a4a"}, {Name: "writ", Color: "1d76db"}}))
	ok(t, p.Owner.AddLabel(ctx, r, i.Number, "bug"))
	ok(t, p.Bot.AddLabel(ctx, r, i.Number, "writ"))
	ok(t, p.Owner.AddLabel(ctx, r, i.Number, others))
	ok(t, p.Bot.RemoveLabel(ctx, r, i.Number, "writ"))
	got := p.issue(t, i.Number).Labels
	slices.Sort(got)
	if !slices.Equal(got, []string{"bug", others}) {
		t.Errorf("labels %q, want those of the owner", got)
	}
}

// exerciseComments: added, listed in order, edited, deleted.
func exerciseComments(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	i := p.file(t, "Talked about")
	if got := p.comments(t, i.Number); len(got) > 0 {
		t.Errorf("a new issue has comments: %+v", got)
	}
	bot := self(t, p.Bot)
	first := must[forge.Comment](t)(p.Bot.AddComment(ctx, r, i.Number, "first"))
	_, err := p.Reader.AddComment(ctx, r, i.Number, "second, by another")
	ok(t, err)
	third := must[forge.Comment](t)(p.Bot.AddComment(ctx, r, i.Number, "third"))
	if first.ID == 0 || first.ID == third.ID || first.Author.ID != bot.ID || first.Body != "first" || first.URL == "" || first.CreatedAt.IsZero() {
		t.Errorf("added %+v and %+v", first, third)
	}
	ok(t, p.Bot.EditComment(ctx, r, first.ID, "first, edited"))
	wantBodies(t, p.comments(t, i.Number), "first, edited", "second, by another", "third")
	if got := p.comments(t, i.Number)[0]; got.ID != first.ID || got.UpdatedAt.Before(first.UpdatedAt) || got.Author.ID != bot.ID {
		t.Errorf("edited: %+v, was %+v", got, first)
	}
	ok(t, p.Bot.DeleteComment(ctx, r, first.ID))
	wantBodies(t, p.comments(t, i.Number), "second, by another", "third")
	wantReason(t, "delete again", p.Bot.DeleteComment(ctx, r, first.ID), forge.NotFound)
	wantReason(t, "edit a deleted one", p.Bot.EditComment(ctx, r, first.ID, "x"), forge.NotFound)
	wantReason(t, "react to a deleted one", p.Bot.React(ctx, r, first.ID, forge.ReactionSeen), forge.NotFound)
}

func wantBodies(t *testing.T, got []forge.Comment, want ...string) {
	t.Helper()
	var bodies []string
	for _, c := range got {
		bodies = append(bodies, c.Body)
	}
	if !slices.Equal(bodies, want) {
		t.Errorf("comments %q, want %q", bodies, want)
	}
}

// exerciseBytes: what was sent can be found again, hidden marker included.
func exerciseBytes(t *testing.T, p *Place) {
	i := p.file(t, "With a marker")
	for _, body := range []string{
		"<!-- writ:report run=0198-ab -->\n**Completed.** `a < b && c`",
		"| a | b |\n|---|---|\n| 1 | <2> |\n",
		"日本 🙂 \u00a0 é — &amp; \\ \" '",
		strings.Repeat("long ", 6000),
	} {
		c := must[forge.Comment](t)(p.Bot.AddComment(t.Context(), p.Repo, i.Number, body))
		all := p.comments(t, i.Number)
		if got := all[len(all)-1]; got.ID != c.ID || strings.TrimSpace(got.Body) != strings.TrimSpace(body) {
			t.Errorf("comment came back as %.80q, want %.80q", got.Body, body)
		}
	}
}

// exerciseMany: more than a page, none lost, none twice.
func exerciseMany(t *testing.T, p *Place) {
	const many = 105
	i := p.file(t, "Much talked about")
	want := make([]string, many)
	for n := range want {
		want[n] = fmt.Sprint("comment ", n)
		_, err := p.Bot.AddComment(t.Context(), p.Repo, i.Number, want[n])
		ok(t, err)
	}
	wantBodies(t, p.comments(t, i.Number), want...)
}

func exerciseReactions(t *testing.T, p *Place) {
	i := p.file(t, "Answered without words")
	c := must[forge.Comment](t)(p.Reader.AddComment(t.Context(), p.Repo, i.Number, "/writ retry"))
	for _, with := range []forge.Reaction{forge.ReactionSeen, forge.ReactionSeen, forge.ReactionDone, forge.ReactionRefused, forge.ReactionConfused} {
		ok(t, p.Bot.React(t.Context(), p.Repo, c.ID, with))
		ok(t, p.Bot.ReactToIssue(t.Context(), p.Repo, i.Number, with))
	}
	wantReason(t, "react to no issue", p.Bot.ReactToIssue(t.Context(), p.Repo, 1_000_000, forge.ReactionSeen), forge.NotFound)
	wantBodies(t, p.comments(t, i.Number), "/writ retry")
}

// exercisePermissions: asked by numeric id, told as of now.
func exercisePermissions(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	reader := self(t, p.Reader).ID
	ask := func(user int64) forge.Permission {
		t.Helper()
		return must[forge.Permission](t)(p.Bot.Permission(ctx, r, user))
	}
	if got := ask(self(t, p.Owner).ID); got != forge.Admin {
		t.Errorf("the owner has %s", got)
	}
	if got := ask(self(t, p.Bot).ID); got != forge.Write {
		t.Errorf("the bot has %s", got)
	}
	for _, want := range []forge.Permission{forge.Triage, forge.Write, forge.Maintain, forge.Admin, forge.Read, forge.Write, forge.Read} {
		p.Grant(t, reader, want)
		if got := ask(reader); got != want {
			t.Errorf("after granting %s: %s", want, got)
		}
	}
	if got := ask(unknown); got != forge.None {
		t.Errorf("an account that isn't there has %s, want none", got)
	}
}

// exerciseRefusals: who may only read is Forbidden to act, and nothing changes.
func exerciseRefusals(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	i := p.file(t, "Not for everybody")
	c := must[forge.Comment](t)(p.Bot.AddComment(ctx, r, i.Number, "the bot's own"))
	ok(t, p.Bot.EnsureLabels(ctx, r, []forge.Label{{Name: "writ", Color: "1d76db"}}))
	for what, err := range map[string]error{
		"label":        p.Reader.AddLabel(ctx, r, i.Number, "writ"),
		"close":        p.Reader.SetState(ctx, r, i.Number, forge.Closed),
		"edit":         p.Reader.EditIssue(ctx, r, i.Number, "Mine", "now"),
		"edit comment": p.Reader.EditComment(ctx, r, c.ID, "forged"),
	} {
		wantReason(t, what, err, forge.Forbidden)
	}
	got := p.issue(t, i.Number)
	if got.Title != i.Title || got.State != forge.Open || len(got.Labels) > 0 {
		t.Errorf("the issue was changed: %+v", got)
	}
	wantBodies(t, p.comments(t, i.Number), "the bot's own")
}

// change opens one from a fresh branch.
func (p *Place) change(t *testing.T, branch string) forge.Change {
	t.Helper()
	oid := p.Branch(t, branch)
	about := must[forge.Repository](t)(p.Bot.Repository(t.Context(), p.Repo.ID))
	c := must[forge.Change](t)(p.Bot.OpenChange(t.Context(), p.Repo, forge.Change{
		Title: "Fix " + branch, Body: "It was *broken*.", Head: branch, Base: about.DefaultBranch,
	}))
	if c.HeadOID != oid {
		t.Errorf("the change's head is %s, the branch's %s", c.HeadOID, oid)
	}
	return c
}

func (p *Place) find(t *testing.T, head string) forge.Change {
	t.Helper()
	return must[forge.Change](t)(p.Bot.FindChange(t.Context(), p.Repo, head, ""))
}

// exerciseChange: opened, found by its branch, edited, talked about.
func exerciseChange(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	issue := p.file(t, "Before the change")
	opened := p.change(t, "writ/change/1")
	got := p.find(t, "writ/change/1")
	if got != opened {
		t.Errorf("found %+v, opened %+v", got, opened)
	}
	if got.Number == 0 || got.State != forge.ChangeOpen || got.Title != "Fix writ/change/1" || got.Body != "It was *broken*." ||
		got.MergedOID != "" || got.Draft || got.URL == "" || got.Author.ID != self(t, p.Bot).ID {
		t.Errorf("change %+v", got)
	}
	ok(t, p.Bot.EditChange(ctx, r, got.Number, "Another title", "another text"))
	if got := p.find(t, "writ/change/1"); got.Title != "Another title" || got.Body != "another text" || got.State != forge.ChangeOpen {
		t.Errorf("after the edit: %+v", got)
	}
	_, err := p.Bot.AddComment(ctx, r, got.Number, "on the change")
	ok(t, err)
	wantBodies(t, p.comments(t, got.Number), "on the change")
	wantBodies(t, p.comments(t, issue.Number))
	wantReason(t, "edit an issue as a change", p.Bot.EditChange(ctx, r, issue.Number, "x", "y"), forge.NotFound)
	wantReason(t, "find by another branch", second(p.Bot.FindChange(ctx, r, "writ/change/2", "")), forge.NotFound)
	wantReason(t, "find by the beginning of its name", second(p.Bot.FindChange(ctx, r, "writ/change/", "")), forge.NotFound)
}

func second[T any](_ T, err error) error { return err }

// exerciseChangeTwice: one branch has one open change, and needs to be there.
func exerciseChangeTwice(t *testing.T, p *Place) {
	opened := p.change(t, "writ/change/2")
	again := forge.Change{Title: "Again", Head: opened.Head, Base: opened.Base}
	wantReason(t, "open again", second(p.Bot.OpenChange(t.Context(), p.Repo, again)), forge.Conflict, forge.Invalid)
	if got := p.find(t, opened.Head); got != opened {
		t.Errorf("the second changed the first: %+v, was %+v", got, opened)
	}
	missing := forge.Change{Title: "From nowhere", Head: "no-such-branch", Base: opened.Base}
	wantReason(t, "open from a branch that isn't there", second(p.Bot.OpenChange(t.Context(), p.Repo, missing)), forge.Invalid, forge.NotFound)
	missing = forge.Change{Title: "Onto nothing", Head: opened.Head, Base: "no-such-branch"}
	wantReason(t, "open onto a branch that isn't there", second(p.Bot.OpenChange(t.Context(), p.Repo, missing)), forge.Invalid, forge.NotFound, forge.Conflict)
}

// exerciseMerged: a merged change says so, and a newer one hides it.
func exerciseMerged(t *testing.T, p *Place) {
	opened := p.change(t, "writ/change/3")
	p.Merge(t, opened.Number)
	merged := p.find(t, opened.Head)
	if merged.State != forge.ChangeMerged || merged.MergedOID == "" || merged.HeadOID != opened.HeadOID {
		t.Errorf("after the merge: %+v", merged)
	}
	newer := p.change(t, "writ/change/3")
	if got := p.find(t, "writ/change/3"); got.Number != newer.Number || got.State != forge.ChangeOpen {
		t.Errorf("found %+v, want the newer one, %+v", got, newer)
	}
}

// exerciseChecks: a check is found again by its name.
func exerciseChecks(t *testing.T, p *Place) {
	c := p.change(t, "writ/change/4")
	for _, state := range []forge.CheckState{forge.CheckRunning, forge.CheckFailed, forge.CheckPassed} {
		check := forge.Check{Name: "writ", Summary: "It is " + string(state), Detail: "**In detail**", State: state}
		ok(t, p.Bot.SetCheck(t.Context(), p.Repo, c.HeadOID, check))
		got := p.Checks(t, c.HeadOID)
		if len(got) != 1 || got[0].Name != "writ" || got[0].State != state || got[0].Summary != check.Summary {
			t.Errorf("checks %+v, want one, %+v", got, check)
		}
	}
}

func (p *Place) reviews(t *testing.T, change int64) []forge.ReviewComment {
	t.Helper()
	return must[[]forge.ReviewComment](t)(p.Bot.ReviewComments(t.Context(), p.Repo, change))
}

// exerciseReviews: what people said of a change and of places in it, each once, with who
// said it and where; an edit shows.
func exerciseReviews(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	c := p.change(t, "writ/change/5")
	if got := p.reviews(t, c.Number); len(got) > 0 {
		t.Errorf("a fresh change has %+v", got)
	}
	at := []forge.ReviewPlace{
		{Path: "work.txt", Start: 1, End: 1, Commit: c.HeadOID},
		{Path: "work.txt", Start: 1, End: 3, Commit: c.HeadOID},
		{Path: "work.txt", Start: 2, End: 2, Old: true, Commit: c.HeadOID},
		{Path: "work.txt", Commit: c.HeadOID},
	}
	must[forge.Comment](t)(p.Owner.AddComment(ctx, r, c.Number, "of the whole"))
	for n, place := range at {
		ok(t, p.Owner.ReviewAt(ctx, r, c.Number, place, fmt.Sprintf("of place %d, *raw*\n", n)))
	}
	owner, seen := self(t, p.Owner), map[string]bool{}
	for _, got := range p.reviews(t, c.Number) {
		seen[got.Body] = true
		if got.ID == 0 || got.Author.ID != owner.ID || got.CreatedAt.IsZero() || !got.UpdatedAt.Equal(got.CreatedAt) || got.URL == "" || got.Resolved {
			t.Errorf("comment %+v", got)
		}
		if got.Body == "of the whole" {
			if got.Kind != forge.ReviewTalk || got.Place != nil {
				t.Errorf("of the whole change: %+v", got)
			}
			continue
		}
		var n int
		if _, err := fmt.Sscanf(got.Body, "of place %d", &n); err != nil || got.Kind != forge.ReviewLine || got.Place == nil || *got.Place != at[n] {
			t.Errorf("%q is %q at %+v, want %+v", got.Body, got.Kind, got.Place, at[min(n, len(at)-1)])
		}
	}
	if len(seen) != 1+len(at) {
		t.Errorf("comments %v", seen)
	}
	all := p.reviews(t, c.Number)
	if !slices.IsSortedFunc(all, func(a, b forge.ReviewComment) int { return a.CreatedAt.Compare(b.CreatedAt) }) {
		t.Errorf("out of order: %+v", all)
	}
	line := all[slices.IndexFunc(all, func(c forge.ReviewComment) bool { return c.Place != nil })]
	ok(t, p.Owner.EditReview(ctx, r, c.Number, line.ID, "another text"))
	for _, got := range p.reviews(t, c.Number) {
		if got.ID == line.ID && got.Kind == line.Kind && (got.Body != "another text" || got.UpdatedAt.Before(line.CreatedAt) || !got.CreatedAt.Equal(line.CreatedAt)) {
			t.Errorf("after the edit %+v", got)
		}
	}
	issue := p.file(t, "No change")
	wantReason(t, "read an issue's", second(p.Bot.ReviewComments(ctx, r, issue.Number)), forge.NotFound)
}

// exerciseManyReviews: more than a page, none lost, none twice.
func exerciseManyReviews(t *testing.T, p *Place) {
	const many = 102
	c := p.change(t, "writ/change/6")
	seen := map[string]int{}
	for n := range many {
		ok(t, p.Owner.ReviewAt(t.Context(), p.Repo, c.Number, forge.ReviewPlace{Path: "work.txt", Start: 1, End: 1, Commit: c.HeadOID}, fmt.Sprint("line ", n)))
	}
	for _, got := range p.reviews(t, c.Number) {
		seen[got.Body]++
	}
	for n := range many {
		if seen[fmt.Sprint("line ", n)] != 1 {
			t.Fatalf("comment %d was read %d times, of %d", n, seen[fmt.Sprint("line ", n)], len(seen))
		}
	}
}
