package forgetest

import (
	"context"
	"errors"
	"testing"

	"github.com/writbot/writ/forge"
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
