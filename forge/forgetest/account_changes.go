package forgetest

import (
	"context"
	"slices"
	"strings"

	"github.com/writbot/writ/forge"
)

// FindChange is forge.Changes.
func (a *Account) FindChange(ctx context.Context, r forge.Repo, head, base string) (forge.Change, error) {
	repo, err := a.enter(ctx, r, forge.Read, FindChange)
	if err != nil {
		return forge.Change{}, err
	}
	defer a.f.mu.Unlock()
	var newest *forge.Change
	for _, it := range repo.items {
		if it.change != nil && it.change.Head == head && (newest == nil || it.change.Delivers(*newest, base)) {
			newest = it.change
		}
	}
	if newest == nil {
		return forge.Change{}, fail(forge.NotFound, "a change from %s in %s", head, r)
	}
	return *newest, nil
}

// OpenChange is forge.Changes.
func (a *Account) OpenChange(ctx context.Context, r forge.Repo, c forge.Change) (forge.Change, error) {
	repo, err := a.enter(ctx, r, forge.Write, OpenChange)
	if err != nil {
		return forge.Change{}, err
	}
	defer a.f.mu.Unlock()
	head, base := repo.branches[c.Head], repo.branches[c.Base]
	if head == "" || base == "" || head == base || strings.TrimSpace(c.Title) == "" {
		return forge.Change{}, fail(forge.Invalid, "open a change from %s to %s in %s", c.Head, c.Base, r)
	}
	for _, it := range repo.items {
		if it.change != nil && it.change.Head == c.Head && it.change.Base == c.Base && it.change.State == forge.ChangeOpen {
			return forge.Change{}, fail(forge.Conflict, "%s#%d is open from %s", r, it.change.Number, c.Head)
		}
	}
	it := a.add(repo, c.Title, c.Body)
	it.issue.IsChange = true
	it.issue.URL = repo.about.URL + "/changes"
	it.change = &forge.Change{
		Number: it.issue.Number, Title: c.Title, Body: c.Body, Head: c.Head, Base: c.Base, HeadOID: head,
		State: forge.ChangeOpen, Draft: c.Draft, Author: a.User, URL: it.issue.URL,
	}
	a.f.tellItem(repo.about, it, a.User, "opened", "")
	return *it.change, nil
}

// EditChange is forge.Changes.
func (a *Account) EditChange(ctx context.Context, r forge.Repo, number int64, title, body string) error {
	return a.withChange(ctx, r, number, EditChange, func(repo *fakeRepo, it *item) error {
		if strings.TrimSpace(title) == "" {
			return fail(forge.Invalid, "edit %s#%d", r, number)
		}
		it.issue.Title, it.issue.Body = title, body
		it.change.Title, it.change.Body = title, body
		it.issue.UpdatedAt = a.f.now()
		a.f.tellItem(repo.about, it, a.User, "edited", "")
		return nil
	})
}

func (a *Account) withChange(ctx context.Context, r forge.Repo, number int64, op Op, act func(*fakeRepo, *item) error) error {
	return a.withItem(ctx, r, number, forge.Write, op, func(repo *fakeRepo, it *item) error {
		if it.change == nil {
			return fail(forge.NotFound, "%s#%d is no change", r, number)
		}
		return act(repo, it)
	})
}

// Retarget has a change be for another branch.
func (a *Account) Retarget(ctx context.Context, r forge.Repo, number int64, base string) error {
	return a.withChange(ctx, r, number, "Retarget", func(repo *fakeRepo, it *item) error {
		if repo.branches[base] == "" {
			return fail(forge.Invalid, "%s has no branch %s", r, base)
		}
		it.change.Base, it.issue.UpdatedAt = base, a.f.now()
		return nil
	})
}

// SetCheck is forge.Changes.
func (a *Account) SetCheck(ctx context.Context, r forge.Repo, oid string, c forge.Check) error {
	repo, err := a.enter(ctx, r, forge.Write, SetCheck)
	if err != nil {
		return err
	}
	defer a.f.mu.Unlock()
	if !repo.commits[oid] {
		return fail(forge.NotFound, "commit %s in %s", oid, r)
	}
	if c.Name == "" {
		return fail(forge.Invalid, "a check without a name")
	}
	all := repo.checks[oid]
	at := slices.IndexFunc(all, func(old forge.Check) bool { return old.Name == c.Name })
	if at < 0 {
		repo.checks[oid] = append(all, c)
		return nil
	}
	all[at] = c
	return nil
}

// Merge merges a change: the base moves to the commit given.
func (a *Account) Merge(ctx context.Context, r forge.Repo, number int64, merged string) error {
	return a.withChange(ctx, r, number, "Merge", func(repo *fakeRepo, it *item) error {
		if it.change.State != forge.ChangeOpen {
			return fail(forge.Conflict, "%s#%d is %s", r, number, it.change.State)
		}
		it.change.State, it.change.MergedOID = forge.ChangeMerged, merged
		it.issue.State, it.issue.UpdatedAt = forge.Closed, a.f.now()
		repo.branches[it.change.Base], repo.commits[merged] = merged, true
		a.f.tellItem(repo.about, it, a.User, "merged", "")
		return nil
	})
}

// CloseChange closes a change unmerged.
func (a *Account) CloseChange(ctx context.Context, r forge.Repo, number int64) error {
	return a.withChange(ctx, r, number, "CloseChange", func(repo *fakeRepo, it *item) error {
		if it.change.State != forge.ChangeOpen {
			return fail(forge.Conflict, "%s#%d is %s", r, number, it.change.State)
		}
		it.change.State = forge.ChangeClosed
		it.issue.State, it.issue.UpdatedAt = forge.Closed, a.f.now()
		a.f.tellItem(repo.about, it, a.User, "closed", "")
		return nil
	})
}
