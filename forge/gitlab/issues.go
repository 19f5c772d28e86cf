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

// ListIssues is forge.Issues. GitLab lists issues and merge requests apart, and the two
// lists are merged. While one of them is read, entries of the other one are updated, so that
// an entry is handed on only once the other list was read past its time, or to its end and
// later than it. Otherwise whoever goes on from the last entry would miss an update. An entry
// that is dated ahead, as owners may do, says nothing of how far a list was read.
func (h *Host) ListIssues(ctx context.Context, r forge.Repo, since time.Time, f func(forge.Issue) error) error {
	lists := [2]*updates{
		{w: reading("list issues of %s", r).sweep(), pageOf: h.issuePage},
		{w: reading("list merge requests of %s", r).sweep(), pageOf: h.mergePage},
	}
	for _, l := range lists {
		l.since, l.from, l.page, l.more, l.known, l.now = since, since.Truncate(time.Second), 1, true, map[version]bool{}, h.cfg.Now
		l.end = l.from
	}
	for turn := 1; ; turn++ {
		next, other := lists[0], lists[1]
		if len(next.entries) == 0 || len(other.entries) > 0 && other.entries[0].updated.Before(*next.entries[0].updated) {
			next, other = other, next
		}
		var err error
		switch {
		case len(next.entries) == 0 && !lists[0].more && !lists[1].more:
			return nil
		case len(next.entries) == 0 && !other.more:
			err = next.ask(ctx, r, turn)
		case len(next.entries) == 0, !other.isPast() && (other.more || other.asked < next.asked && next.entries[0].updated.After(since)):
			err = other.ask(ctx, r, turn)
		default:
			err = next.tell(f)
		}
		if err != nil {
			return err
		}
	}
}

// pageOf asks for a page of what was updated from a time on, oldest update first, and
// whether another one follows.
type pageOf func(ctx context.Context, w how, r forge.Repo, from *time.Time, page int) (some []listed, more bool, err error)

// listed is an entry of such a page. read says what it is, and whether it is one of those
// that are listed.
type listed struct {
	id      int
	updated *time.Time
	ahead   bool // of the clock when it was read
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
		out = append(out, listed{id: i.ID, updated: i.UpdatedAt, read: func() (forge.Issue, bool, error) {
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
		if off, asked := h.mergesOff(ctx, w, r, err); off || asked != nil {
			return nil, false, asked
		}
		return nil, false, err
	}
	for _, m := range some {
		if m == nil {
			m = &mergeAnswer{}
		}
		out = append(out, listed{id: m.ID, updated: m.UpdatedAt, read: func() (forge.Issue, bool, error) {
			one, err := h.mergeIssue(ctx, m)
			return one, true, err
		}})
	}
	return out, res.NextPage > 0, nil
}

// mergesOff reports whether a list of merge requests was refused because the project has them
// switched off: then there are none, and its issues are listed all the same.
func (h *Host) mergesOff(ctx context.Context, w how, r forge.Repo, err error) (off bool, asked error) {
	if !forge.IsReason(err, forge.Forbidden) && !forge.IsReason(err, forge.NotFound) {
		return false, nil
	}
	p, _, asked := h.api.Projects.GetProject(int(r.ID), nil, w.in(ctx))
	if asked != nil {
		return false, w.err(asked)
	}
	return int64(p.ID) == r.ID && p.MergeRequestsAccessLevel == gitlab.DisabledAccessControl, nil
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

// version is an entry's version in a listing.
type version struct {
	id int
	at time.Time
}

// updates is a list while it is read. An entry that is updated meanwhile moves to the end
// of the list, and all behind it move up: so each page begins anew at the time of the last
// entry, and only if all of a page have the same second the next one is asked for.
type updates struct {
	w       how
	pageOf  pageOf
	since   time.Time
	from    time.Time
	end     time.Time        // from when on it is read again after its end
	page    int              // that is asked for next
	more    bool             // it isn't read to its end
	entries []listed         // that were read and not handed on
	known   map[version]bool // those that were read before
	asked   int              // the turn in which the last page was asked for
	pages   int
	idle    int // pages in a row that had nothing new
	now     func() time.Time
}

// isPast reports whether what was read of the list and not handed on shows that it was read
// past the time of an older entry of the other one.
func (l *updates) isPast() bool { return len(l.entries) > 0 && !l.entries[0].ahead }

// mostIdle is how many pages may have nothing new in a row: a listing that begins
// anew at a second with many updates repeats one.
const mostIdle = 3

// ask reads a page. The one after the last page begins again where the list ended, but for
// what is dated ahead: what is updated meanwhile comes before that.
func (l *updates) ask(ctx context.Context, r forge.Repo, turn int) error {
	if l.pages++; l.pages > maxPages {
		return l.w.refuse(forge.Invalid, "%w", errTooMany)
	}
	var after *time.Time
	if !l.from.IsZero() {
		after = &l.from
	}
	some, more, err := l.pageOf(ctx, l.w, r, after, l.page)
	if err != nil {
		return err
	}
	l.asked, l.more = turn, more && len(some) > 0
	news, now := len(l.known), l.now()
	for n, e := range some {
		if e.id <= 0 || e.updated == nil {
			return l.w.odd("entry %d of the list is null, or has no id or time", n)
		}
		if e.ahead = e.updated.After(now); !e.ahead && e.updated.After(l.end) {
			l.end = e.updated.Truncate(time.Second)
		}
		if v := (version{e.id, *e.updated}); !e.updated.Before(l.since) && !l.known[v] {
			l.known[v] = true
			l.entries = append(l.entries, e)
		}
	}
	slices.SortStableFunc(l.entries, func(a, b listed) int { return a.updated.Compare(*b.updated) })
	// What is dated ahead is listed again each time that the list is read behind its end.
	if l.idle++; len(l.known) > news || !l.more || some[len(some)-1].updated.After(now) {
		l.idle = 0
	}
	if l.idle > mostIdle {
		return l.w.refuse(forge.Invalid, "the list doesn't end")
	}
	l.page++
	if len(some) > 0 {
		if last := some[len(some)-1].updated.Truncate(time.Second); last.After(l.from) {
			l.from, l.page = last, 1
		}
	}
	if !l.more {
		l.from, l.page = l.end, 1
	}
	maps.DeleteFunc(l.known, func(v version, _ bool) bool { return v.at.Before(l.end) && v.at.Before(l.from) }) // it isn't listed any more
	return nil
}

// tell hands on the first entry that was read.
func (l *updates) tell(f func(forge.Issue) error) error {
	e := l.entries[0]
	l.entries = l.entries[1:]
	one, shown, err := e.read()
	if err == nil && shown {
		err = f(one)
	}
	return err
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
