package github

import (
	"context"
	"fmt"
	"maps"
	"time"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// Repository is forge.Repositories. The name is remembered from it.
func (c *client) Repository(ctx context.Context, id int64) (forge.Repository, error) {
	op := fmt.Sprintf("look at the repository %d", id)
	if err := ctx.Err(); err != nil {
		return forge.Repository{}, &forge.Error{Reason: forge.Unavailable, Op: op, Err: err}
	}
	r := c.home
	r.ID = id
	p, err := c.h.placeNow(ctx, op, r)
	if err != nil {
		return forge.Repository{}, err
	}
	return p.about, nil
}

// Issue is forge.Issues.
func (c *client) Issue(ctx context.Context, r forge.Repo, number int64) (out forge.Issue, err error) {
	err = c.h.do(ctx, r, act{op: onItem("read", r, number), scope: toRead}, func(ctx context.Context, at spot) error {
		i, _, err := at.Issues.Get(ctx, at.owner, at.name, itemNumber(number))
		if err != nil {
			return err
		}
		if out, err = issue(i); err == nil && out.Number != number {
			err = odd("it is about issue %d", out.Number)
		}
		return err
	})
	return out, err
}

// ListIssues is forge.Issues. GitHub lists pull requests among the issues. Its pages shift
// while issues are updated, so that one would be lost between two of them: each page begins
// at the last update of the one before.
func (c *client) ListIssues(ctx context.Context, r forge.Repo, since time.Time, f func(forge.Issue) error) error {
	a := act{op: fmt.Sprintf("list the issues of %s", r), scope: toRead, lane: transport.Sweep}
	return c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		w := window{since: since.UTC(), page: 1, told: map[int64]time.Time{}}
		for range maxPages * maxPages {
			o := &api.IssueListByRepoOptions{State: "all", Sort: "updated", Direction: "asc", Since: w.since}
			o.Page, o.PerPage = w.page, pageSize
			got, _, err := at.Issues.ListByRepo(ctx, at.owner, at.name, o)
			if err != nil {
				return err
			}
			news := false
			for n, i := range got {
				if i == nil {
					return odd("entry %d of the list is null", n)
				}
				one, err := issue(i)
				if err != nil {
					return err
				}
				if !w.isNews(one) {
					continue
				}
				news = true
				if err := w.tell(one, since, f); err != nil {
					return caller{err}
				}
			}
			if len(got) < pageSize {
				return nil
			}
			if !w.goesOn(news) {
				break
			}
			w.move(got[len(got)-1].GetUpdatedAt().Time)
		}
		return invalid(a.op, "the list doesn't end")
	})
}

// window is how far a list has come.
type window struct {
	since time.Time
	page  int
	told  map[int64]time.Time // entry to the update that was told, of now's window
	idle  int                 // full pages in a row that had nothing new
}

// isNews reports whether an entry wasn't on a page before as it is now.
func (w *window) isNews(i forge.Issue) bool {
	at, told := w.told[i.Number]
	w.told[i.Number] = i.UpdatedAt
	return !told || !at.Equal(i.UpdatedAt)
}

// mostIdle is how many full pages may have nothing new in a row: a window that
// begins anew at a second with many updates repeats one.
const mostIdle = 3

// goesOn reports whether the list still comes to an end.
func (w *window) goesOn(news bool) bool {
	w.idle++
	if news {
		w.idle = 0
	}
	return w.idle <= mostIdle
}

// move goes on at the time of the last update. More than a page of issues of one
// second need further pages.
func (w *window) move(last time.Time) {
	if last = last.Truncate(time.Second); last.After(w.since) {
		w.since, w.page = last, 1
		maps.DeleteFunc(w.told, func(_ int64, at time.Time) bool { return at.Before(last) }) // it isn't listed any more
		return
	}
	w.page++
}

func (w *window) tell(i forge.Issue, since time.Time, f func(forge.Issue) error) error {
	if i.UpdatedAt.Before(since) {
		return nil
	}
	return f(i)
}

// SetState is forge.Issues.
func (c *client) SetState(ctx context.Context, r forge.Repo, number int64, s forge.State) error {
	a := act{op: onItem("set the state of", r, number), scope: toTalk, lane: transport.Edit}
	if s != forge.Open && s != forge.Closed {
		return invalid(a.op, "%q is no state", s)
	}
	return c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		_, _, err := at.Issues.Edit(ctx, at.owner, at.name, itemNumber(number), &api.IssueRequest{State: api.String(string(s))})
		return err
	})
}
