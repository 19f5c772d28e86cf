package forgetest

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/writbot/writ/forge"
)

// MaxComment is the longest comment that a Fake takes, in bytes: what the
// strictest of the real forges takes.
const MaxComment = 65536

// Comments is forge.Comments.
func (a *Account) Comments(ctx context.Context, r forge.Repo, number int64) (out []forge.Comment, err error) {
	err = a.withItem(ctx, r, number, forge.Read, Comments, func(_ *fakeRepo, it *item) error {
		for _, c := range it.comments {
			out = append(out, *c)
		}
		return nil
	})
	return out, err
}

// AddComment is forge.Comments.
func (a *Account) AddComment(ctx context.Context, r forge.Repo, number int64, body string) (out forge.Comment, err error) {
	err = a.withItem(ctx, r, number, forge.Read, AddComment, func(repo *fakeRepo, it *item) error {
		if it.issue.Locked && repo.permission(a.ID) < forge.Write {
			return fail(forge.Forbidden, "comment on %s#%d: locked", r, number)
		}
		if err := commentFault(body); err != nil {
			return err
		}
		now := a.f.now()
		out = forge.Comment{ID: a.f.id(), Author: a.User, Body: body, CreatedAt: now, UpdatedAt: now, URL: it.issue.URL}
		kept := out
		it.comments = append(it.comments, &kept)
		it.issue.UpdatedAt = now
		a.f.tellComment(repo.about, it, a.User, "created", out)
		return nil
	})
	return out, err
}

func commentFault(body string) error {
	if strings.TrimSpace(body) == "" || len(body) > MaxComment || !utf8.ValidString(body) {
		return fail(forge.Invalid, "a comment of %d bytes", len(body))
	}
	return nil
}

// withComment does one act on a comment under the lock.
func (a *Account) withComment(ctx context.Context, r forge.Repo, id int64, op Op, act func(*fakeRepo, *item, int) error) error {
	repo, err := a.enter(ctx, r, forge.Read, op)
	if err != nil {
		return err
	}
	defer a.f.mu.Unlock()
	for _, it := range repo.items {
		for i, c := range it.comments {
			if c.ID != id {
				continue
			}
			if op != React && c.Author.ID != a.ID && repo.permission(a.ID) < forge.Write {
				return fail(forge.Forbidden, "%s %d", op, id)
			}
			return act(repo, it, i)
		}
	}
	return fail(forge.NotFound, "%s %d in %s", op, id, r)
}

// EditComment is forge.Comments.
func (a *Account) EditComment(ctx context.Context, r forge.Repo, id int64, body string) error {
	return a.withComment(ctx, r, id, EditComment, func(repo *fakeRepo, it *item, i int) error {
		if err := commentFault(body); err != nil {
			return err
		}
		it.comments[i].Body, it.comments[i].UpdatedAt = body, a.f.now()
		it.issue.UpdatedAt = it.comments[i].UpdatedAt
		a.f.tellComment(repo.about, it, a.User, "edited", *it.comments[i])
		return nil
	})
}

// DeleteComment is forge.Comments.
func (a *Account) DeleteComment(ctx context.Context, r forge.Repo, id int64) error {
	return a.withComment(ctx, r, id, DeleteComment, func(repo *fakeRepo, it *item, i int) error {
		a.f.tellComment(repo.about, it, a.User, "deleted", *it.comments[i])
		it.comments = slices.Delete(it.comments, i, i+1)
		it.issue.UpdatedAt = a.f.now()
		return nil
	})
}

// React is forge.Comments.
func (a *Account) React(ctx context.Context, r forge.Repo, comment int64, with forge.Reaction) error {
	return a.withComment(ctx, r, comment, React, func(_ *fakeRepo, it *item, _ int) error {
		if !slices.Contains(it.reacted[comment], with) {
			it.reacted[comment] = append(it.reacted[comment], with)
		}
		return nil
	})
}

// ReactToIssue is forge.Comments.
func (a *Account) ReactToIssue(ctx context.Context, r forge.Repo, number int64, with forge.Reaction) error {
	return a.withItem(ctx, r, number, forge.Read, ReactToIssue, func(_ *fakeRepo, it *item) error {
		if !slices.Contains(it.reacted[0], with) {
			it.reacted[0] = append(it.reacted[0], with)
		}
		return nil
	})
}

// EnsureLabels is forge.Labels.
func (a *Account) EnsureLabels(ctx context.Context, r forge.Repo, labels []forge.Label) error {
	repo, err := a.enter(ctx, r, forge.Write, EnsureLabels)
	if err != nil {
		return err
	}
	defer a.f.mu.Unlock()
	for _, l := range labels {
		if _, there := repo.labels[l.Name]; !there {
			repo.labels[l.Name] = l
		}
	}
	return nil
}

// AddLabel is forge.Labels. Who may write makes a label that isn't there.
func (a *Account) AddLabel(ctx context.Context, r forge.Repo, number int64, label string) error {
	return a.withItem(ctx, r, number, forge.Triage, AddLabel, func(repo *fakeRepo, it *item) error {
		if _, there := repo.labels[label]; !there {
			if label == "" || repo.permission(a.ID) < forge.Write {
				return fail(forge.Invalid, "label %q", label)
			}
			repo.labels[label] = forge.Label{Name: label}
		}
		if slices.Contains(it.issue.Labels, label) {
			return nil
		}
		it.issue.Labels = append(it.issue.Labels, label)
		slices.Sort(it.issue.Labels)
		return a.f.event(repo.about, it, a.User, forge.EventLabeled, label)
	})
}

// RemoveLabel is forge.Labels.
func (a *Account) RemoveLabel(ctx context.Context, r forge.Repo, number int64, label string) error {
	return a.withItem(ctx, r, number, forge.Triage, RemoveLabel, func(repo *fakeRepo, it *item) error {
		at := slices.Index(it.issue.Labels, label)
		if at < 0 {
			return nil
		}
		it.issue.Labels = slices.Delete(it.issue.Labels, at, at+1)
		return a.f.event(repo.about, it, a.User, forge.EventUnlabeled, label)
	})
}
