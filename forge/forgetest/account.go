package forgetest

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/writbot/writ/forge"
)

// Account is somebody on a [Fake]: a forge.Client that acts as him, and what
// people do beyond it.
type Account struct {
	f *Fake
	forge.User
}

var _ Human = (*Account)(nil)

// enter locks the forge and finds the repository for an act that needs p. The
// caller unlocks if there is no error.
func (a *Account) enter(ctx context.Context, r forge.Repo, p forge.Permission, op Op) (*fakeRepo, error) {
	if ctx.Err() != nil {
		return nil, &forge.Error{Reason: forge.Unavailable, Op: string(op), Err: ctx.Err()}
	}
	a.f.mu.Lock()
	repo, err := a.find(r.ID, op)
	switch {
	case err != nil:
	case repo.permission(a.ID) < p:
		err = fail(forge.Forbidden, "%s in %s needs %s", op, r, p)
	case op.Writes() && repo.about.Archived:
		err = fail(forge.Forbidden, "%s: %s is archived", op, r)
	}
	if err != nil {
		a.f.mu.Unlock()
		return nil, err
	}
	return repo, nil
}

func (a *Account) find(id int64, op Op) (*fakeRepo, error) {
	repo := a.f.repos[id]
	if repo == nil || repo.permission(a.ID) < forge.Read {
		return nil, fail(forge.NotFound, "%s: repository %d", op, id)
	}
	return repo, nil
}

func (r *fakeRepo) item(number int64) (*item, error) {
	if it := r.items[number]; it != nil {
		return it, nil
	}
	return nil, fail(forge.NotFound, "%s#%d", r.about.Repo, number)
}

// withItem does one act on one item under the lock.
func (a *Account) withItem(ctx context.Context, r forge.Repo, number int64, p forge.Permission, op Op, act func(*fakeRepo, *item) error) error {
	repo, err := a.enter(ctx, r, p, op)
	if err != nil {
		return err
	}
	defer a.f.mu.Unlock()
	it, err := repo.item(number)
	if err != nil {
		return err
	}
	return act(repo, it)
}

// Repository is forge.Repositories.
func (a *Account) Repository(ctx context.Context, id int64) (forge.Repository, error) {
	repo, err := a.enter(ctx, forge.Repo{ID: id}, forge.Read, Repository)
	if err != nil {
		return forge.Repository{}, err
	}
	defer a.f.mu.Unlock()
	return repo.about, nil
}

// Self is forge.Identities.
func (a *Account) Self(ctx context.Context) (forge.User, error) {
	if ctx.Err() != nil {
		return forge.User{}, &forge.Error{Reason: forge.Unavailable, Op: string(Self), Err: ctx.Err()}
	}
	return a.User, nil
}

// Permission is forge.Identities.
func (a *Account) Permission(ctx context.Context, r forge.Repo, user int64) (forge.Permission, error) {
	repo, err := a.enter(ctx, r, forge.Read, Permission)
	if err != nil {
		return forge.None, err
	}
	defer a.f.mu.Unlock()
	if _, known := a.f.users[user]; !known {
		return forge.None, nil
	}
	return repo.permission(user), nil
}

// Issue is forge.Issues.
func (a *Account) Issue(ctx context.Context, r forge.Repo, number int64) (out forge.Issue, err error) {
	err = a.withItem(ctx, r, number, forge.Read, Issue, func(_ *fakeRepo, it *item) error {
		out = it.copy()
		return nil
	})
	return out, err
}

func (it *item) copy() forge.Issue {
	out := it.issue
	out.Labels = slices.Clone(out.Labels)
	return out
}

// ListIssues is forge.Issues.
func (a *Account) ListIssues(ctx context.Context, r forge.Repo, since time.Time, each func(forge.Issue) error) error {
	repo, err := a.enter(ctx, r, forge.Read, ListIssues)
	if err != nil {
		return err
	}
	var all []forge.Issue
	for _, it := range repo.items {
		if !it.issue.UpdatedAt.Before(since) {
			all = append(all, it.copy())
		}
	}
	a.f.mu.Unlock()
	slices.SortFunc(all, func(x, y forge.Issue) int {
		if c := x.UpdatedAt.Compare(y.UpdatedAt); c != 0 {
			return c
		}
		return int(x.Number - y.Number)
	})
	for _, i := range all {
		if err := each(i); err != nil {
			return err
		}
	}
	return nil
}

// History is forge.Issues.
func (a *Account) History(ctx context.Context, r forge.Repo, number int64) (out []forge.Event, err error) {
	err = a.withItem(ctx, r, number, forge.Read, History, func(_ *fakeRepo, it *item) error {
		out = slices.Clone(it.events)
		return nil
	})
	return out, err
}

// SetState is forge.Issues. An author may close and reopen his own.
func (a *Account) SetState(ctx context.Context, r forge.Repo, number int64, s forge.State) error {
	return a.withItem(ctx, r, number, forge.Read, SetState, func(repo *fakeRepo, it *item) error {
		switch {
		case it.issue.Author.ID != a.ID && repo.permission(a.ID) < forge.Triage:
			return fail(forge.Forbidden, "close %s#%d", r, number)
		case s != forge.Open && s != forge.Closed:
			return fail(forge.Invalid, "state %q", s)
		case it.issue.State == s:
			return nil
		case it.change != nil:
			return fail(forge.Conflict, "%s#%d is a change", r, number)
		}
		it.issue.State = s
		kind := forge.EventClosed
		if s == forge.Open {
			kind = forge.EventReopened
		}
		return a.f.event(repo.about, it, a.User, kind, "")
	})
}

// FileIssue opens an issue.
func (a *Account) FileIssue(ctx context.Context, r forge.Repo, title, body string) (forge.Issue, error) {
	repo, err := a.enter(ctx, r, forge.Read, "FileIssue")
	if err != nil {
		return forge.Issue{}, err
	}
	defer a.f.mu.Unlock()
	if strings.TrimSpace(title) == "" || !utf8.ValidString(title+body) {
		return forge.Issue{}, fail(forge.Invalid, "file an issue in %s", r)
	}
	it := a.add(repo, title, body)
	a.f.tellItem(repo.about, it, a.User, "opened", "")
	return it.copy(), nil
}

// add makes an item. The lock is held.
func (a *Account) add(repo *fakeRepo, title, body string) *item {
	repo.lastItem++
	it := &item{reacted: map[int64][]forge.Reaction{}, issue: forge.Issue{
		Number: repo.lastItem, ID: a.f.id(), Title: title, Body: body, State: forge.Open, Author: a.User, CreatedAt: a.f.now(), UpdatedAt: a.f.now(),
		URL: repo.about.URL + "/issues",
	}}
	repo.items[it.issue.Number] = it
	return it
}

// EditIssue changes title and body. An author may edit his own.
func (a *Account) EditIssue(ctx context.Context, r forge.Repo, number int64, title, body string) error {
	return a.withItem(ctx, r, number, forge.Read, "EditIssue", func(repo *fakeRepo, it *item) error {
		switch {
		case it.issue.Author.ID != a.ID && repo.permission(a.ID) < forge.Write:
			return fail(forge.Forbidden, "edit %s#%d", r, number)
		case strings.TrimSpace(title) == "" || !utf8.ValidString(title+body):
			return fail(forge.Invalid, "edit %s#%d", r, number)
		case it.issue.Title == title && it.issue.Body == body:
			return nil
		}
		it.issue.Title, it.issue.Body = title, body
		return a.f.event(repo.about, it, a.User, forge.EventEdited, "")
	})
}

// Lock forbids comments to those who may not write, or allows them again.
func (a *Account) Lock(ctx context.Context, r forge.Repo, number int64, locked bool) error {
	return a.withItem(ctx, r, number, forge.Triage, "Lock", func(_ *fakeRepo, it *item) error {
		it.issue.Locked = locked
		return nil
	})
}

// Transfer moves an issue to another repository, under a new number.
func (a *Account) Transfer(ctx context.Context, r forge.Repo, number int64, to forge.Repo) (moved forge.Issue, err error) {
	err = a.withItem(ctx, r, number, forge.Write, "Transfer", func(repo *fakeRepo, it *item) error {
		target, err := a.find(to.ID, "Transfer")
		if err != nil || target.permission(a.ID) < forge.Write {
			return fail(forge.Forbidden, "transfer to %s", to)
		}
		delete(repo.items, number)
		target.lastItem++
		it.issue.Number, it.issue.Labels = target.lastItem, nil
		target.items[it.issue.Number] = it
		if err := a.f.event(target.about, it, a.User, forge.EventTransferred, ""); err != nil {
			return err
		}
		moved = it.copy()
		return nil
	})
	return moved, err
}
