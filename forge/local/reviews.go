package local

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
)

// ReviewComments is forge.Reviews.
func (c *Client) ReviewComments(ctx context.Context, r forge.Repo, change int64) (out []forge.ReviewComment, err error) {
	err = c.inItem(ctx, r, change, reads("read the reviews of"), func(x *session, in scope, it itemRow) error {
		if _, err := x.change(in.repoRow, it); err != nil {
			return err
		}
		said, err := x.comments(it)
		if err != nil {
			return err
		}
		places, err := x.places(it.ID)
		for _, c := range said {
			one := forge.ReviewComment{Comment: c, Kind: forge.ReviewTalk}
			if p, at := places[c.ID]; at {
				one.Kind, one.Place, one.Resolved = forge.ReviewLine, &p.ReviewPlace, p.resolved
			}
			out = append(out, one)
		}
		return err
	})
	slices.SortStableFunc(out, func(a, b forge.ReviewComment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, err
}

// placeRow is where a comment points.
type placeRow struct {
	forge.ReviewPlace
	resolved bool
}

// places are those of the comments of a change, by the comment.
func (x *session) places(item int64) (map[int64]placeRow, error) {
	out := map[int64]placeRow{}
	err := x.each(func(scan func(...any) error) error {
		var id int64
		var p placeRow
		err := scan(&id, &p.Path, &p.Start, &p.End, &p.Old, &p.Commit, &p.resolved)
		out[id] = p
		return err
	}, `SELECT p.comment, p.path, p.start, p.stop, p.old, p.oid, p.resolved FROM review_places p
		JOIN comments c ON c.id = p.comment WHERE c.item = ?`, item)
	return out, err
}

// The limits of a place: bytes of a path, and the number of a line.
const (
	maxReviewPath = 4096
	maxReviewLine = 10_000_000
)

func checkPlace(at forge.ReviewPlace) error {
	odd := strings.ContainsFunc(at.Path, unicode.IsControl) || !utf8.ValidString(at.Path)
	switch {
	case at.Path == "" || len(at.Path) > maxReviewPath || odd || path.IsAbs(at.Path) || path.Clean(at.Path) != at.Path || at.Path == "." || strings.HasPrefix(at.Path, "../") || at.Path == "..":
		return refuse(forge.Invalid, "this is no path of a file in the repository")
	case (at.Start == 0) != (at.End == 0) || at.Start < 0 || at.End < at.Start || at.End > maxReviewLine:
		return refuse(forge.Invalid, "lines are counted from 1 to %d, the first one first", maxReviewLine)
	}
	return nil
}

// ReviewAt comments on a place of a change, as it is at the commit that the place names.
func (c *Client) ReviewAt(ctx context.Context, r forge.Repo, change int64, at forge.ReviewPlace, body string) error {
	return c.inItem(ctx, r, change, writes(forge.Read, "review"), func(x *session, in scope, it itemRow) error {
		if _, err := x.change(in.repoRow, it); err != nil {
			return err
		}
		if err := checkPlace(at); err != nil {
			return err
		}
		repo, err := x.s.git(in.ID)
		if err != nil {
			return err
		}
		if _, err := repo.Commit(x.ctx, git.OID(at.Commit)); err != nil {
			return refuse(forge.Invalid, "the commit %q is not there", at.Commit)
		}
		if it.Locked && in.may < forge.Write {
			return refuse(forge.Forbidden, "it is locked")
		}
		if err := checkComment(body); err != nil {
			return err
		}
		now := time.UnixMilli(x.now).UTC()
		said := forge.Comment{Author: in.by, Body: body, CreatedAt: now, UpdatedAt: now}
		err = x.one(to(&said.ID), `INSERT INTO comments (item, author, body, at, updated) VALUES (?, ?, ?, ?, ?) RETURNING id`,
			it.ID, in.by.ID, body, x.now, x.now)
		if err != nil {
			return err
		}
		err = x.do(`INSERT INTO review_places (comment, path, start, stop, old, oid, resolved) VALUES (?, ?, ?, ?, ?, ?, 0)`,
			said.ID, at.Path, at.Start, at.End, at.Old, at.Commit)
		if err != nil {
			return err
		}
		if err := x.touch(it.ID); err != nil {
			return err
		}
		return x.tellComment(in, it, "created", said)
	})
}

// EditReview changes the text of a comment on a change. An author may edit his own.
func (c *Client) EditReview(ctx context.Context, r forge.Repo, _, id int64, body string) error {
	return c.EditComment(ctx, r, id, body)
}

// ResolveReview says that what a comment on a place asks for is settled, as its author or
// who may write may do.
func (c *Client) ResolveReview(ctx context.Context, r forge.Repo, id int64) error {
	return c.inComment(ctx, r, id, "resolve", func(x *session, in scope, it itemRow, said forge.Comment) error {
		if err := in.own(said.Author.ID, forge.Write, "resolve another's comment"); err != nil {
			return err
		}
		if err := x.do(`UPDATE review_places SET resolved = 1 WHERE comment = ?`, id); err != nil {
			return err
		}
		return x.tellComment(in, it, "resolved", said)
	})
}

// words name a place on the page.
func (p placeRow) words() string {
	out := p.Path
	switch {
	case p.Start == p.End && p.End > 0:
		out = fmt.Sprintf("%s, line %d", out, p.Start)
	case p.End > 0:
		out = fmt.Sprintf("%s, lines %d to %d", out, p.Start, p.End)
	}
	if p.Old {
		out += ", as it was before"
	}
	if out += " at " + shorten(p.Commit, shortOID); p.resolved {
		out += " (resolved)"
	}
	return out
}
