package github

import (
	"context"
	"slices"
	"time"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
)

// ReviewComments is forge.Reviews: reviews, what they say of lines, and the conversation
// beside them. A comment that is part of a review can be read once that is submitted, and
// GitHub says when it was begun; so it is taken to be of the submission, which may touch
// it without an edit. Of a review's own text GitHub doesn't say when it was edited, and
// who settled a comment only its other API knows.
func (c *client) ReviewComments(ctx context.Context, r forge.Repo, change int64) (out []forge.ReviewComment, err error) {
	submitted := map[int64]time.Time{}
	err = c.h.do(ctx, r, act{op: onItem("list the reviews of", r, change), scope: toRead}, func(ctx context.Context, at spot) error {
		out = nil
		clear(submitted)
		if err := at.reviews(ctx, change, submitted, &out); err != nil {
			return err
		}
		o := &api.PullRequestListCommentsOptions{Sort: "created", Direction: "asc"}
		return pages(func(p *api.ListOptions) (*api.Response, error) {
			o.ListOptions = *p
			got, res, err := at.PullRequests.ListComments(ctx, at.owner, at.name, itemNumber(change), o)
			if err != nil {
				return nil, err
			}
			return res, readEach(got, func(g *api.PullRequestComment) (forge.ReviewComment, error) {
				return lineComment(g, submitted[g.GetPullRequestReviewID()])
			}, func(c forge.ReviewComment) { out = append(out, c) })
		})
	})
	if err != nil {
		return nil, err
	}
	talk, err := c.Comments(ctx, r, change)
	if err != nil {
		return nil, err
	}
	for _, said := range talk {
		out = append(out, forge.ReviewComment{Comment: said, Kind: forge.ReviewTalk})
	}
	slices.SortStableFunc(out, func(a, b forge.ReviewComment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, nil
}

// reviews reads the reviews themselves, and when each was submitted. Those that have no
// text of their own say nothing.
func (at spot) reviews(ctx context.Context, change int64, submitted map[int64]time.Time, out *[]forge.ReviewComment) error {
	return pages(func(o *api.ListOptions) (*api.Response, error) {
		got, res, err := at.PullRequests.ListReviews(ctx, at.owner, at.name, itemNumber(change), o)
		if err != nil {
			return nil, err
		}
		return res, readEach(got, summary, func(c forge.ReviewComment) {
			submitted[c.ID] = c.CreatedAt
			if c.Body != "" && !c.CreatedAt.IsZero() {
				*out = append(*out, c)
			}
		})
	})
}

// summary is a review's own text. One that isn't submitted yet has no time.
func summary(r *api.PullRequestReview) (forge.ReviewComment, error) {
	author, err := user(r.User)
	if err != nil {
		return forge.ReviewComment{}, err
	}
	if r.GetID() <= 0 {
		return forge.ReviewComment{}, odd("a review without an id")
	}
	return forge.ReviewComment{Kind: forge.ReviewSummary, Comment: forge.Comment{
		ID: r.GetID(), Author: author, Body: r.GetBody(), CreatedAt: r.GetSubmittedAt().Time, URL: r.GetHTMLURL(),
	}}, nil
}

// lineComment reads a comment on a file. Where it stands is told as of the commit that it
// was made on: GitHub moves it along with later ones.
func lineComment(c *api.PullRequestComment, submitted time.Time) (forge.ReviewComment, error) {
	author, err := user(c.User)
	if err != nil {
		return forge.ReviewComment{}, err
	}
	if c.GetID() <= 0 || c.GetCreatedAt().IsZero() || c.GetUpdatedAt().IsZero() {
		return forge.ReviewComment{}, odd("a comment without id or time")
	}
	out := forge.ReviewComment{Kind: forge.ReviewLine, Comment: forge.Comment{
		ID: c.GetID(), Author: author, Body: c.GetBody(),
		CreatedAt: c.GetCreatedAt().Time, UpdatedAt: c.GetUpdatedAt().Time, URL: c.GetHTMLURL(),
	}}
	if submitted.After(out.CreatedAt) {
		out.CreatedAt = submitted
	}
	if out.UpdatedAt.Before(out.CreatedAt) {
		out.UpdatedAt = out.CreatedAt
	}
	place := forge.ReviewPlace{Path: c.GetPath(), Commit: c.GetOriginalCommitID(), Old: c.GetSide() == "LEFT"}
	if c.GetSubjectType() != "file" {
		place.Start, place.End = int64(c.GetOriginalStartLine()), int64(c.GetOriginalLine())
		if c.OriginalStartLine == nil {
			place.Start = place.End
		}
	}
	// Of lines of both sides at once it is the file's.
	if c.StartSide != nil && c.GetStartSide() != c.GetSide() {
		place.Start, place.End, place.Old = 0, 0, false
	}
	out.Place = &place
	return out, nil
}
