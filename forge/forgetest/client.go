package forgetest

import (
	"context"
	"time"

	"github.com/writbot/writ/forge"
)

// none is the result of a method that returns an error only.
type none = struct{}

func plain(call func() error) func() (none, error) {
	return func() (none, error) { return none{}, call() }
}

// Repository is forge.Repositories.
func (f *Faults) Repository(ctx context.Context, id int64) (forge.Repository, error) {
	return do(ctx, f, Call{Op: Repository, ID: id}, func() (forge.Repository, error) { return f.inner.Repository(ctx, id) })
}

// Issue is forge.Issues.
func (f *Faults) Issue(ctx context.Context, r forge.Repo, number int64) (forge.Issue, error) {
	return do(ctx, f, Call{Op: Issue, Repo: r, Number: number}, func() (forge.Issue, error) {
		if s := f.replica(r, number); s != nil {
			return s.issue, nil
		}
		return f.inner.Issue(ctx, r, number)
	})
}

// ListIssues is forge.Issues. What a replica answers is out of order at times.
func (f *Faults) ListIssues(ctx context.Context, r forge.Repo, since time.Time, each func(forge.Issue) error) error {
	_, err := do(ctx, f, Call{Op: ListIssues, Repo: r, Since: since}, plain(func() error {
		return f.inner.ListIssues(ctx, r, since, func(i forge.Issue) error {
			if s := f.replica(r, i.Number); s != nil {
				i = s.issue
			}
			return each(i)
		})
	}))
	return err
}

// History is forge.Issues.
func (f *Faults) History(ctx context.Context, r forge.Repo, number int64) ([]forge.Event, error) {
	return do(ctx, f, Call{Op: History, Repo: r, Number: number}, func() ([]forge.Event, error) {
		if s := f.replica(r, number); s != nil {
			return s.history, nil
		}
		return f.inner.History(ctx, r, number)
	})
}

// SetState is forge.Issues.
func (f *Faults) SetState(ctx context.Context, r forge.Repo, number int64, s forge.State) error {
	c := Call{Op: SetState, Repo: r, Number: number, Texts: []string{string(s)}}
	_, err := do(ctx, f, c, plain(func() error { return f.inner.SetState(ctx, r, number, s) }))
	return err
}

// Comments is forge.Comments.
func (f *Faults) Comments(ctx context.Context, r forge.Repo, number int64) ([]forge.Comment, error) {
	return do(ctx, f, Call{Op: Comments, Repo: r, Number: number}, func() ([]forge.Comment, error) {
		if s := f.replica(r, number); s != nil {
			return s.comments, nil
		}
		return f.inner.Comments(ctx, r, number)
	})
}

// AddComment is forge.Comments.
func (f *Faults) AddComment(ctx context.Context, r forge.Repo, number int64, body string) (forge.Comment, error) {
	c := Call{Op: AddComment, Repo: r, Number: number, Texts: []string{body}}
	return do(ctx, f, c, func() (forge.Comment, error) { return f.inner.AddComment(ctx, r, number, body) })
}

// EditComment is forge.Comments.
func (f *Faults) EditComment(ctx context.Context, r forge.Repo, id int64, body string) error {
	c := Call{Op: EditComment, Repo: r, ID: id, Texts: []string{body}}
	_, err := do(ctx, f, c, plain(func() error { return f.inner.EditComment(ctx, r, id, body) }))
	return err
}

// DeleteComment is forge.Comments.
func (f *Faults) DeleteComment(ctx context.Context, r forge.Repo, id int64) error {
	c := Call{Op: DeleteComment, Repo: r, ID: id}
	_, err := do(ctx, f, c, plain(func() error { return f.inner.DeleteComment(ctx, r, id) }))
	return err
}

// React is forge.Comments.
func (f *Faults) React(ctx context.Context, r forge.Repo, comment int64, with forge.Reaction) error {
	c := Call{Op: React, Repo: r, ID: comment, Texts: []string{string(with)}}
	_, err := do(ctx, f, c, plain(func() error { return f.inner.React(ctx, r, comment, with) }))
	return err
}

// ReactToIssue is forge.Comments.
func (f *Faults) ReactToIssue(ctx context.Context, r forge.Repo, number int64, with forge.Reaction) error {
	c := Call{Op: ReactToIssue, Repo: r, Number: number, Texts: []string{string(with)}}
	_, err := do(ctx, f, c, plain(func() error { return f.inner.ReactToIssue(ctx, r, number, with) }))
	return err
}

// EnsureLabels is forge.Labels.
func (f *Faults) EnsureLabels(ctx context.Context, r forge.Repo, labels []forge.Label) error {
	c := Call{Op: EnsureLabels, Repo: r}
	for _, l := range labels {
		c.Texts = append(c.Texts, l.Name, l.Description)
	}
	_, err := do(ctx, f, c, plain(func() error { return f.inner.EnsureLabels(ctx, r, labels) }))
	return err
}

// AddLabel is forge.Labels.
func (f *Faults) AddLabel(ctx context.Context, r forge.Repo, number int64, label string) error {
	c := Call{Op: AddLabel, Repo: r, Number: number, Texts: []string{label}}
	_, err := do(ctx, f, c, plain(func() error { return f.inner.AddLabel(ctx, r, number, label) }))
	return err
}

// RemoveLabel is forge.Labels.
func (f *Faults) RemoveLabel(ctx context.Context, r forge.Repo, number int64, label string) error {
	c := Call{Op: RemoveLabel, Repo: r, Number: number, Texts: []string{label}}
	_, err := do(ctx, f, c, plain(func() error { return f.inner.RemoveLabel(ctx, r, number, label) }))
	return err
}

// Self is forge.Identities.
func (f *Faults) Self(ctx context.Context) (forge.User, error) {
	return do(ctx, f, Call{Op: Self}, func() (forge.User, error) { return f.inner.Self(ctx) })
}

// Permission is forge.Identities.
func (f *Faults) Permission(ctx context.Context, r forge.Repo, user int64) (forge.Permission, error) {
	c := Call{Op: Permission, Repo: r, ID: user}
	return do(ctx, f, c, func() (forge.Permission, error) { return f.inner.Permission(ctx, r, user) })
}

// FindChange is forge.Changes.
func (f *Faults) FindChange(ctx context.Context, r forge.Repo, head, base string) (forge.Change, error) {
	c := Call{Op: FindChange, Repo: r, Texts: []string{head}}
	return do(ctx, f, c, func() (forge.Change, error) { return f.inner.FindChange(ctx, r, head, base) })
}

// OpenChange is forge.Changes.
func (f *Faults) OpenChange(ctx context.Context, r forge.Repo, ch forge.Change) (forge.Change, error) {
	c := Call{Op: OpenChange, Repo: r, Texts: []string{ch.Head, ch.Base, ch.Title, ch.Body}}
	return do(ctx, f, c, func() (forge.Change, error) { return f.inner.OpenChange(ctx, r, ch) })
}

// EditChange is forge.Changes.
func (f *Faults) EditChange(ctx context.Context, r forge.Repo, number int64, title, body string) error {
	c := Call{Op: EditChange, Repo: r, Number: number, Texts: []string{title, body}}
	_, err := do(ctx, f, c, plain(func() error { return f.inner.EditChange(ctx, r, number, title, body) }))
	return err
}

// SetCheck is forge.Changes.
func (f *Faults) SetCheck(ctx context.Context, r forge.Repo, oid string, check forge.Check) error {
	c := Call{Op: SetCheck, Repo: r, Texts: []string{oid, check.Name, string(check.State), check.Summary, check.Detail}}
	_, err := do(ctx, f, c, plain(func() error { return f.inner.SetCheck(ctx, r, oid, check) }))
	return err
}

// ReviewComments is forge.Reviews.
func (f *Faults) ReviewComments(ctx context.Context, r forge.Repo, change int64) ([]forge.ReviewComment, error) {
	c := Call{Op: ReviewComments, Repo: r, Number: change}
	return do(ctx, f, c, func() ([]forge.ReviewComment, error) { return f.inner.ReviewComments(ctx, r, change) })
}
