package gitlab

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
)

// Repository is forge.Repositories.
func (h *Host) Repository(ctx context.Context, id int64) (forge.Repository, error) {
	return h.repository(ctx, "read a repository", int(id))
}

func (h *Host) repository(ctx context.Context, op string, which any) (forge.Repository, error) {
	w := reading("%s", op).live()
	p, _, err := h.api.Projects.GetProject(which, nil, w.in(ctx))
	if err != nil {
		return forge.Repository{}, w.err(err)
	}
	at := strings.LastIndex(p.PathWithNamespace, "/")
	if id, byID := which.(int); at < 0 || p.ID <= 0 || byID && p.ID != id {
		return forge.Repository{}, w.other(false)
	}
	is := forge.Repo{ID: int64(p.ID), Owner: p.PathWithNamespace[:at], Name: p.PathWithNamespace[at+1:]}
	h.mu.Lock()
	if len(h.names) >= maxKnown {
		clear(h.names)
	}
	h.names[is.ID] = is
	h.mu.Unlock()
	return forge.Repository{
		Repo:          is,
		DefaultBranch: p.DefaultBranch,
		Private:       p.Visibility == gitlab.PrivateVisibility,
		Archived:      p.Archived || p.MarkedForDeletionAt != nil,
		Fork:          p.ForkedFromProject != nil,
		URL:           p.WebURL,
	}, nil
}

// The words of the API.
const (
	stateOpened = "opened"
	stateClosed = "closed"
	stateAll    = "all"
	ascending   = "asc"
	descending  = "desc"
	byCreation  = "created_at"
	byUpdate    = "updated_at"
)

// issueAnswer is the library's type without its own way of reading, which ends
// the process at an answer without an id.
type issueAnswer gitlab.Issue

func issuePath(r forge.Repo, number int64) string {
	return fmt.Sprintf("projects/%d/issues/%d", r.ID, number)
}

// Issue is forge.Issues.
func (h *Host) Issue(ctx context.Context, r forge.Repo, number int64) (forge.Issue, error) {
	w := reading("read %s#%d", r, number)
	i := new(issueAnswer)
	if _, err := h.ask(ctx, w, http.MethodGet, issuePath(r, number), nil, i); err != nil {
		return forge.Issue{}, err
	}
	if err := w.other(i.ID > 0 && int64(i.IID) == number); err != nil {
		return forge.Issue{}, err
	}
	if hidden, err := h.hidden(ctx, r, i); err != nil || hidden {
		if hidden {
			err = w.refuse(forge.NotFound, "it is confidential, and the project is not private")
		}
		return forge.Issue{}, err
	}
	return h.issue(ctx, i)
}

// hidden reports whether an issue is seen by fewer people than what writ records
// of it would be.
func (h *Host) hidden(ctx context.Context, r forge.Repo, i *issueAnswer) (bool, error) {
	if !i.Confidential {
		return false, nil
	}
	about, err := h.Repository(ctx, r.ID)
	return err == nil && !about.Private, err
}

func (h *Host) issue(ctx context.Context, i *issueAnswer) (forge.Issue, error) {
	w := reading("read an issue")
	switch {
	case i.ID <= 0 || i.IID <= 0 || int64(i.IID) >= changeBase || i.State != stateOpened && i.State != stateClosed:
		return forge.Issue{}, w.odd("an issue without id, number or state")
	case i.CreatedAt == nil || i.UpdatedAt == nil || i.CreatedAt.IsZero() || i.UpdatedAt.IsZero():
		return forge.Issue{}, w.odd("issue %d has no time", i.IID)
	case slices.Contains(i.Labels, ""):
		return forge.Issue{}, w.odd("a label of issue %d has no name", i.IID)
	}
	out := forge.Issue{
		Number: int64(i.IID), ID: int64(i.ID), Title: i.Title, Body: i.Description, State: forge.Closed,
		Labels: i.Labels, Locked: i.DiscussionLocked, URL: i.WebURL,
	}
	if i.State == stateOpened {
		out.State = forge.Open
	}
	out.CreatedAt, out.UpdatedAt = *i.CreatedAt, *i.UpdatedAt
	var err error
	if i.Author != nil {
		out.Author, err = h.user(ctx, i.Author.ID, i.Author.Username)
	}
	return out, err
}

// seen is an issue's version in a listing.
type seen struct {
	id int
	at time.Time
}

// ListIssues is forge.Issues. Tasks, incidents and the like are left out, as hooks
// call them by another name. An issue that is updated meanwhile moves to the end
// of the list, and all behind it move up: so each page begins anew at the time
// of the last issue, and only if all of a page have the same second the next one
// is asked for.
func (h *Host) ListIssues(ctx context.Context, r forge.Repo, since time.Time, f func(forge.Issue) error) error {
	w := reading("list issues of %s", r).sweep()
	known := map[seen]bool{}
	from, page, idle := since.Truncate(time.Second), 1, 0
	for n := 0; ; n++ {
		if n == maxPages {
			return w.refuse(forge.Invalid, "%w", errTooMany)
		}
		o := &gitlab.ListProjectIssuesOptions{
			ListOptions: gitlab.ListOptions{Page: page, PerPage: perPage},
			OrderBy:     ptr(byUpdate), Sort: ptr(ascending), Scope: ptr(stateAll), IssueType: ptr("issue"),
		}
		if !from.IsZero() {
			o.UpdatedAfter = &from
		}
		var some []*issueAnswer
		res, err := h.ask(ctx, w, http.MethodGet, fmt.Sprintf("projects/%d/issues", r.ID), o, &some)
		if err != nil {
			return err
		}
		news := len(known)
		if err := h.each(ctx, r, some, since, known, f); err != nil {
			return err
		}
		if idle++; len(known) > news {
			idle = 0
		}
		if idle > mostIdle {
			return w.refuse(forge.Invalid, "the list doesn't end")
		}
		if res.NextPage == 0 || len(some) == 0 {
			return nil
		}
		page++
		if last := lastUpdate(some); last.Truncate(time.Second).After(from) {
			from, page = last.Truncate(time.Second), 1
			maps.DeleteFunc(known, func(s seen, _ bool) bool { return s.at.Before(from) }) // it isn't listed any more
		}
	}
}

// mostIdle is how many pages may have nothing new in a row: a listing that begins
// anew at a second with many updates repeats one.
const mostIdle = 3

// lastUpdate is the time of the last issue of a page.
func lastUpdate(some []*issueAnswer) time.Time {
	if last := some[len(some)-1]; last != nil && last.UpdatedAt != nil {
		return *last.UpdatedAt
	}
	return time.Time{}
}

// each hands on the issues of a page that are new in this listing.
func (h *Host) each(ctx context.Context, r forge.Repo, some []*issueAnswer, since time.Time, known map[seen]bool, f func(forge.Issue) error) error {
	for n, i := range some {
		if i == nil || i.ID <= 0 || i.UpdatedAt == nil {
			return reading("list issues of %s", r).odd("entry %d of the list is null, or has no id or time", n)
		}
		if i.UpdatedAt.Before(since) || known[seen{i.ID, *i.UpdatedAt}] {
			continue
		}
		known[seen{i.ID, *i.UpdatedAt}] = true
		if hidden, err := h.hidden(ctx, r, i); err != nil || hidden {
			if err != nil {
				return err
			}
			continue
		}
		one, err := h.issue(ctx, i)
		if err != nil {
			return err
		}
		if err := f(one); err != nil {
			return err
		}
	}
	return nil
}

// SetState is forge.Issues.
func (h *Host) SetState(ctx context.Context, r forge.Repo, number int64, s forge.State) error {
	event, want := "close", stateClosed
	if s == forge.Open {
		event, want = "reopen", stateOpened
	}
	w := editing("%s %s#%d", event, r, number)
	i, err := h.update(ctx, w, r, number, &gitlab.UpdateIssueOptions{StateEvent: &event})
	if err == nil && i.State != want {
		return w.ignored("the issue stays " + i.State)
	}
	return err
}

func (h *Host) update(ctx context.Context, w how, r forge.Repo, number int64, o *gitlab.UpdateIssueOptions) (*issueAnswer, error) {
	i := new(issueAnswer)
	_, err := h.ask(ctx, w, http.MethodPut, issuePath(r, number), o, i)
	if err == nil {
		err = w.other(int64(i.IID) == number)
	}
	return i, err
}

// ignored is an update that GitLab answered with success and didn't make: it
// leaves out, without a word, what an account may not change.
func (w how) ignored(what string) error {
	return w.refuse(forge.Forbidden, "GitLab took the request and didn't follow it: %s", what)
}
