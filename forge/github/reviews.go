package github

import (
	"context"
	"maps"
	"slices"
	"time"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
)

// ReviewComments is forge.Reviews: reviews, what they say of lines, and the conversation
// beside them. A comment that is part of a review can be read once that is submitted, and
// GitHub says when it was begun; so it is taken to be of the submission. That may touch it
// without an edit, a second later, and of a review's own text no time of an edit is told:
// of these GitHub's other API is asked. Who settled a comment that API alone knows, too.
func (c *client) ReviewComments(ctx context.Context, r forge.Repo, change int64) (out []forge.ReviewComment, err error) {
	submitted, doubtful := map[int64]time.Time{}, map[string]int{}
	err = c.h.do(ctx, r, act{op: onItem("list the reviews of", r, change), scope: toRead}, func(ctx context.Context, at spot) error {
		out = nil
		clear(submitted)
		clear(doubtful)
		if err := at.reviews(ctx, change, submitted, doubtful, &out); err != nil {
			return err
		}
		o := &api.PullRequestListCommentsOptions{Sort: "created", Direction: "asc"}
		err := pages(func(p *api.ListOptions) (*api.Response, error) {
			o.ListOptions = *p
			got, res, err := at.PullRequests.ListComments(ctx, at.owner, at.name, itemNumber(change), o)
			if err != nil {
				return nil, err
			}
			node := ""
			return res, readEach(got, func(g *api.PullRequestComment) (forge.ReviewComment, error) {
				node = g.GetNodeID()
				return lineComment(g, submitted[g.GetPullRequestReviewID()])
			}, func(c forge.ReviewComment) {
				if c.UpdatedAt.After(c.CreatedAt) {
					doubtful[node] = len(out)
				}
				out = append(out, c)
			})
		})
		if err != nil {
			return err
		}
		return at.askEdited(ctx, c.h, doubtful, out)
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
// text of their own say nothing; the others are doubtful.
func (at spot) reviews(ctx context.Context, change int64, submitted map[int64]time.Time, doubtful map[string]int, out *[]forge.ReviewComment) error {
	return pages(func(o *api.ListOptions) (*api.Response, error) {
		got, res, err := at.PullRequests.ListReviews(ctx, at.owner, at.name, itemNumber(change), o)
		if err != nil {
			return nil, err
		}
		node := ""
		return res, readEach(got, func(g *api.PullRequestReview) (forge.ReviewComment, error) {
			node = g.GetNodeID()
			return summary(g)
		}, func(c forge.ReviewComment) {
			submitted[c.ID] = c.CreatedAt
			if c.Body != "" && !c.CreatedAt.IsZero() {
				doubtful[node] = len(*out)
				*out = append(*out, c)
			}
		})
	})
}

// editedQuery asks when texts were last edited: null for never.
const editedQuery = `query($ids: [ID!]!) {
  nodes(ids: $ids) { ... on PullRequestReview { id lastEditedAt } ... on PullRequestReviewComment { id lastEditedAt } }
}`

// maxNodes is how many nodes GitHub takes in one question.
const maxNodes = 100

// askEdited asks when doubtful texts were edited. Of what isn't answered nothing is known,
// and it stays as it is: so does a text that has no such time in an answer with errors, as
// a part that can't be shown is null beside an error.
func (at spot) askEdited(ctx context.Context, h *Host, doubtful map[string]int, out []forge.ReviewComment) error {
	delete(doubtful, "")
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(doubtful)), maxNodes) {
		var a struct {
			Data struct {
				Nodes []*struct {
					ID           string
					LastEditedAt *time.Time
				}
			}
			Errors []graphError
		}
		if err := at.ask(ctx, h, editedQuery, map[string]any{"ids": ids}, &a); err != nil {
			return err
		}
		if err := answerError("text", a.Errors); len(a.Errors) > 0 && err.Reason != forge.NotFound && err.Reason != forge.Forbidden {
			return err
		}
		for _, node := range a.Data.Nodes {
			if node == nil {
				continue
			}
			n, asked := doubtful[node.ID]
			if !asked || node.LastEditedAt == nil && len(a.Errors) > 0 {
				continue
			}
			out[n].UpdatedAt = out[n].CreatedAt
			if at := node.LastEditedAt; at != nil && at.After(out[n].CreatedAt) {
				out[n].UpdatedAt = *at
			}
		}
	}
	return nil
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
