package forgetest

import (
	"context"
	"slices"

	"github.com/writbot/writ/forge"
)

// ReviewComments is forge.Reviews.
func (a *Account) ReviewComments(ctx context.Context, r forge.Repo, change int64) (out []forge.ReviewComment, err error) {
	err = a.withReviews(ctx, r, change, forge.Read, ReviewComments, func(_ *fakeRepo, it *item) error {
		for _, c := range it.comments {
			out = append(out, forge.ReviewComment{Comment: *c, Kind: forge.ReviewTalk})
		}
		for _, c := range it.reviews {
			out = append(out, *c)
		}
		slices.SortStableFunc(out, func(a, b forge.ReviewComment) int { return a.CreatedAt.Compare(b.CreatedAt) })
		return nil
	})
	return out, err
}

func (a *Account) withReviews(ctx context.Context, r forge.Repo, change int64, need forge.Permission, op Op, act func(*fakeRepo, *item) error) error {
	return a.withItem(ctx, r, change, need, op, func(repo *fakeRepo, it *item) error {
		if it.change == nil {
			return fail(forge.NotFound, "%s#%d is no change", r, change)
		}
		return act(repo, it)
	})
}

// ReviewAt comments on a place of a change, whatever that is.
func (a *Account) ReviewAt(ctx context.Context, r forge.Repo, change int64, at forge.ReviewPlace, body string) error {
	return a.withReviews(ctx, r, change, forge.Read, "ReviewAt", func(repo *fakeRepo, it *item) error {
		if err := commentFault(body); err != nil {
			return err
		}
		now := a.f.now()
		c := forge.ReviewComment{
			Comment: forge.Comment{ID: a.f.id(), Author: a.User, Body: body, CreatedAt: now, UpdatedAt: now, URL: it.issue.URL},
			Kind:    forge.ReviewLine, Place: &at,
		}
		it.reviews, it.issue.UpdatedAt = append(it.reviews, &c), now
		a.f.tellComment(repo.about, it, a.User, "created", c.Comment)
		return nil
	})
}

// EditReview changes the text of such a comment.
func (a *Account) EditReview(ctx context.Context, r forge.Repo, change, id int64, body string) error {
	return a.onReview(ctx, r, change, id, "edited", func(c *forge.ReviewComment) { c.Body, c.UpdatedAt = body, a.f.now() })
}

// ResolveReview says that what a comment asks for is settled.
func (a *Account) ResolveReview(ctx context.Context, r forge.Repo, change, id int64) error {
	return a.onReview(ctx, r, change, id, "resolved", func(c *forge.ReviewComment) { c.Resolved = true })
}

func (a *Account) onReview(ctx context.Context, r forge.Repo, change, id int64, action string, act func(*forge.ReviewComment)) error {
	return a.withReviews(ctx, r, change, forge.Read, Op(action), func(repo *fakeRepo, it *item) error {
		at := slices.IndexFunc(it.reviews, func(c *forge.ReviewComment) bool { return c.ID == id })
		if at < 0 {
			return fail(forge.NotFound, "the review comment %d", id)
		}
		if it.reviews[at].Author.ID != a.ID && repo.permission(a.ID) < forge.Write {
			return fail(forge.Forbidden, "%s %d", action, id)
		}
		act(it.reviews[at])
		a.f.tellComment(repo.about, it, a.User, action, it.reviews[at].Comment)
		return nil
	})
}
