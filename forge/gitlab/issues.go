package gitlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
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

// ListIssues is forge.Issues. GitLab lists issues and merge requests apart, so two lists
// are read at once, each as far as the other one has come.
func (h *Host) ListIssues(ctx context.Context, r forge.Repo, since time.Time, f func(forge.Issue) error) error {
	var next [2]func() (forge.Issue, error, bool)
	var first [2]forge.Issue
	var there [2]bool
	for n, page := range [2]pageOf{h.issuePage, h.mergePage} {
		pull, stop := iter.Pull2(func(yield func(forge.Issue, error) bool) {
			err := h.listUpdates(ctx, r, since, page, func(i forge.Issue) error {
				if !yield(i, nil) {
					return errFound
				}
				return nil
			})
			if err != nil && !errors.Is(err, errFound) {
				yield(forge.Issue{}, err)
			}
		})
		defer stop()
		next[n] = pull
	}
	advance := func(n int) (err error) { first[n], err, there[n] = next[n](); return err }
	if err := cmp.Or(advance(0), advance(1)); err != nil {
		return err
	}
	for there[0] || there[1] {
		n := 0
		if !there[0] || there[1] && first[1].UpdatedAt.Before(first[0].UpdatedAt) {
			n = 1
		}
		if err := f(first[n]); err != nil {
			return err
		}
		if err := advance(n); err != nil {
			return err
		}
	}
	return nil
}

// pageOf asks for a page of what was updated from a time on, oldest update first, and
// whether another one follows.
type pageOf func(ctx context.Context, w how, r forge.Repo, from *time.Time, page int) (some []listed, more bool, err error)

// listed is an entry of such a page. read says what it is, and whether it is one of those
// that are listed.
type listed struct {
	id      int
	updated *time.Time
	read    func() (i forge.Issue, shown bool, err error)
}

// issuePage is a page of issues. Tasks, incidents and the like are left out, as hooks call
// them by another name.
func (h *Host) issuePage(ctx context.Context, w how, r forge.Repo, from *time.Time, page int) (out []listed, more bool, err error) {
	var some []*issueAnswer
	res, err := h.ask(ctx, w, http.MethodGet, fmt.Sprintf("projects/%d/issues", r.ID), &gitlab.ListProjectIssuesOptions{
		ListOptions: gitlab.ListOptions{Page: page, PerPage: perPage},
		OrderBy:     ptr(byUpdate), Sort: ptr(ascending), Scope: ptr(stateAll), IssueType: ptr("issue"), UpdatedAfter: from,
	}, &some)
	if err != nil {
		return nil, false, err
	}
	for _, i := range some {
		if i == nil {
			i = &issueAnswer{}
		}
		out = append(out, listed{i.ID, i.UpdatedAt, func() (forge.Issue, bool, error) {
			if hidden, err := h.hidden(ctx, r, i); err != nil || hidden {
				return forge.Issue{}, false, err
			}
			one, err := h.issue(ctx, i)
			return one, true, err
		}})
	}
	return out, res.NextPage > 0, nil
}

// mergePage is a page of merge requests.
func (h *Host) mergePage(ctx context.Context, w how, r forge.Repo, from *time.Time, page int) (out []listed, more bool, err error) {
	var some []*mergeAnswer
	res, err := h.ask(ctx, w, http.MethodGet, mergePath(r, 0), &gitlab.ListProjectMergeRequestsOptions{
		ListOptions: gitlab.ListOptions{Page: page, PerPage: perPage},
		OrderBy:     ptr(byUpdate), Sort: ptr(ascending), Scope: ptr(stateAll), State: ptr(stateAll), UpdatedAfter: from,
	}, &some)
	if err != nil {
		return nil, false, err
	}
	for _, m := range some {
		if m == nil {
			m = &mergeAnswer{}
		}
		out = append(out, listed{m.ID, m.UpdatedAt, func() (forge.Issue, bool, error) {
			one, err := h.mergeIssue(ctx, m)
			return one, true, err
		}})
	}
	return out, res.NextPage > 0, nil
}

// mergeIssue is a merge request as it stands in a list.
func (h *Host) mergeIssue(ctx context.Context, m *mergeAnswer) (forge.Issue, error) {
	c, err := h.change(ctx, m)
	if err == nil && (m.CreatedAt == nil || m.CreatedAt.IsZero() || m.UpdatedAt.IsZero() || slices.Contains(m.Labels, "")) {
		err = reading("read a merge request").odd("merge request %d has no time, or a label without a name", m.IID)
	}
	if err != nil {
		return forge.Issue{}, err
	}
	out := forge.Issue{
		Number: c.Number, ID: int64(m.ID), Title: c.Title, Body: c.Body, State: forge.Closed, Author: c.Author, Labels: m.Labels,
		Locked: m.DiscussionLocked, IsChange: true, CreatedAt: *m.CreatedAt, UpdatedAt: *m.UpdatedAt, URL: c.URL,
	}
	if c.State == forge.ChangeOpen {
		out.State = forge.Open
	}
	return out, nil
}

// seen is an entry's version in a listing.
type seen struct {
	id int
	at time.Time
}

// listUpdates calls f for each entry of a list. One that is updated meanwhile moves to
// the end of the list, and all behind it move up: so each page begins anew at the time
// of the last entry, and only if all of a page have the same second the next one is asked
// for.
func (h *Host) listUpdates(ctx context.Context, r forge.Repo, since time.Time, pageOf pageOf, f func(forge.Issue) error) error {
	w := reading("list issues of %s", r).sweep()
	known := map[seen]bool{}
	from, page, idle := since.Truncate(time.Second), 1, 0
	for n := 0; ; n++ {
		if n == maxPages {
			return w.refuse(forge.Invalid, "%w", errTooMany)
		}
		var after *time.Time
		if !from.IsZero() {
			after = &from
		}
		some, more, err := pageOf(ctx, w, r, after, page)
		if err != nil {
			return err
		}
		news := len(known)
		if err := each(w, some, since, known, f); err != nil {
			return err
		}
		if idle++; len(known) > news {
			idle = 0
		}
		if idle > mostIdle {
			return w.refuse(forge.Invalid, "the list doesn't end")
		}
		if !more || len(some) == 0 {
			return nil
		}
		page++
		if last := some[len(some)-1].updated.Truncate(time.Second); last.After(from) {
			from, page = last, 1
			maps.DeleteFunc(known, func(s seen, _ bool) bool { return s.at.Before(from) }) // it isn't listed any more
		}
	}
}

// mostIdle is how many pages may have nothing new in a row: a listing that begins
// anew at a second with many updates repeats one.
const mostIdle = 3

// each hands on the entries of a page that are new in this listing.
func each(w how, some []listed, since time.Time, known map[seen]bool, f func(forge.Issue) error) error {
	for n, e := range some {
		if e.id <= 0 || e.updated == nil {
			return w.odd("entry %d of the list is null, or has no id or time", n)
		}
		if e.updated.Before(since) || known[seen{e.id, *e.updated}] {
			continue
		}
		known[seen{e.id, *e.updated}] = true
		one, shown, err := e.read()
		if err == nil && shown {
			err = f(one)
		}
		if err != nil {
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
