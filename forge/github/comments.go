package github

import (
	"context"
	"fmt"
	"slices"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// Comments is forge.Comments.
func (c *client) Comments(ctx context.Context, r forge.Repo, number int64) (out []forge.Comment, err error) {
	err = c.h.do(ctx, r, act{op: onItem("list the comments of", r, number), scope: toRead}, func(ctx context.Context, at spot) error {
		out = nil
		return pages(func(o *api.ListOptions) (*api.Response, error) {
			got, res, err := at.Issues.ListComments(ctx, at.owner, at.name, itemNumber(number), &api.IssueListCommentsOptions{ListOptions: *o})
			if err != nil {
				return nil, err
			}
			return res, readEach(got, comment, func(c forge.Comment) { out = append(out, c) })
		})
	})
	slices.SortStableFunc(out, func(a, b forge.Comment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, err
}

// AddComment is forge.Comments.
func (c *client) AddComment(ctx context.Context, r forge.Repo, number int64, body string) (out forge.Comment, err error) {
	a := act{op: onItem("comment on", r, number), scope: toTalk, lane: transport.Create}
	err = c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		made, _, err := at.Issues.CreateComment(ctx, at.owner, at.name, itemNumber(number), &api.IssueComment{Body: &body})
		if err == nil {
			out, err = comment(made)
		}
		return err
	})
	return out, err
}

// EditComment is forge.Comments.
func (c *client) EditComment(ctx context.Context, r forge.Repo, id int64, body string) error {
	a := act{op: fmt.Sprintf("edit comment %d in %s", id, r), scope: toTalk, lane: transport.Edit}
	return c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		_, _, err := at.Issues.EditComment(ctx, at.owner, at.name, id, &api.IssueComment{Body: &body})
		return err
	})
}

// DeleteComment is forge.Comments.
func (c *client) DeleteComment(ctx context.Context, r forge.Repo, id int64) error {
	a := act{op: fmt.Sprintf("delete comment %d in %s", id, r), scope: toTalk, lane: transport.Edit}
	return c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		_, err := at.Issues.DeleteComment(ctx, at.owner, at.name, id)
		return err
	})
}

// React is forge.Comments. GitHub keeps one reaction of a kind for each account.
func (c *client) React(ctx context.Context, r forge.Repo, id int64, with forge.Reaction) error {
	a := act{op: fmt.Sprintf("react to comment %d in %s", id, r), scope: toTalk, lane: transport.Edit}
	return c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		_, _, err := at.Reactions.CreateIssueCommentReaction(ctx, at.owner, at.name, id, string(with))
		return err
	})
}

// ReactToIssue is forge.Comments.
func (c *client) ReactToIssue(ctx context.Context, r forge.Repo, number int64, with forge.Reaction) error {
	a := act{op: fmt.Sprintf("react to %s#%d", r, number), scope: toTalk, lane: transport.Edit}
	return c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		_, _, err := at.Reactions.CreateIssueReaction(ctx, at.owner, at.name, int(number), string(with))
		return err
	})
}
