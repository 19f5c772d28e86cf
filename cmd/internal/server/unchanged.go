package server

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel/canon"
)

// An ended task is told of again: a delivery comes twice, a sweep sees writ's own
// last act. As long as issue, change and HEAD are what its last look saw,
// another one would find the same, for three times as many requests and some
// records. So what the last look saw is remembered, and compared first. It is
// remembered in memory: after a start the first look is a whole one.

// mostUnchanged bounds the tasks remembered of one world, some hundred bytes each.
const mostUnchanged = 1 << 14

// unchanged is a world's client that remembers what the looks at its tasks read.
type unchanged struct {
	forge.Client
	at forge.Repo

	mu      sync.Mutex
	base    string           // that changes were asked for last
	looks   map[int64]*sight // of the tasks that are being looked at
	settled map[int64]canon.Digest
}

func newUnchanged(c forge.Client, at forge.Repo) *unchanged {
	return &unchanged{Client: c, at: at, looks: map[int64]*sight{}, settled: map[int64]canon.Digest{}}
}

// sight is what a look at a task reads of the forge.
type sight struct {
	Head     string // of the state ref
	Issue    *forge.Issue
	History  *[]forge.Event
	Comments *[]forge.Comment
	Change   *forge.Change          // nil where the task needs none; zero where there is none
	Said     *[]forge.ReviewComment // of the change; nil where the look didn't ask
	unread   bool                   // the change, or what was said of it, could not be read
}

// digest names a sight; "" for one that was not read to its end.
func (s *sight) digest() canon.Digest {
	if s == nil || s.Head == "" || s.unread || s.Issue == nil || s.History == nil || s.Comments == nil {
		return ""
	}
	data, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return canon.Sum(data)
}

// note changes the sight of a task that is being looked at.
func (r *unchanged) note(n int64, f func(*sight)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.looks[n]; s != nil {
		f(s)
	}
}

// Issue implements forge.Client. A reading begins with it: what an earlier one saw of the
// change is no more known to be so, and what was said there may be owed an answer since.
func (r *unchanged) Issue(ctx context.Context, at forge.Repo, n int64) (forge.Issue, error) {
	i, err := r.Client.Issue(ctx, at, n)
	r.note(n, func(s *sight) {
		s.Issue, s.History, s.Comments, s.Change, s.Said = nil, nil, nil, nil, nil
		if err == nil {
			s.Issue = &i
		}
	})
	return i, err
}

// History implements forge.Client.
func (r *unchanged) History(ctx context.Context, at forge.Repo, n int64) ([]forge.Event, error) {
	list, err := r.Client.History(ctx, at, n)
	if err == nil {
		r.note(n, func(s *sight) { s.History = &list })
	}
	return list, err
}

// Comments implements forge.Client.
func (r *unchanged) Comments(ctx context.Context, at forge.Repo, n int64) ([]forge.Comment, error) {
	list, err := r.Client.Comments(ctx, at, n)
	if err == nil {
		r.note(n, func(s *sight) { s.Comments = &list })
	}
	return list, err
}

// changePrefix is followed by the task's number in the names of its branches.
const changePrefix = "writ/change/"

// FindChange implements forge.Client.
func (r *unchanged) FindChange(ctx context.Context, at forge.Repo, head, base string) (forge.Change, error) {
	c, err := r.Client.FindChange(ctx, at, head, base)
	n, _ := strconv.ParseInt(strings.TrimPrefix(head, changePrefix), 10, 64) // 0 is no task
	r.mu.Lock()
	r.base = base
	r.mu.Unlock()
	r.note(n, func(s *sight) {
		if err == nil || forge.IsReason(err, forge.NotFound) {
			s.Change = &c
		} else {
			s.unread = true
		}
	})
	return c, err
}

// ReviewComments implements forge.Client.
func (r *unchanged) ReviewComments(ctx context.Context, at forge.Repo, change int64) ([]forge.ReviewComment, error) {
	list, err := r.Client.ReviewComments(ctx, at, change)
	said := append([]forge.ReviewComment{}, list...) // an empty one isn't one that nobody read
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.looks {
		switch {
		case s.Change == nil || s.Change.Number != change:
		case err != nil:
			s.unread = true
		default:
			s.Said = &said
		}
	}
	return list, err
}

// begin begins a look at a task.
func (r *unchanged) begin(n int64) {
	r.mu.Lock()
	r.looks[n] = &sight{}
	r.mu.Unlock()
}

// end ends it. An ended task is at rest from now on, with HEAD where the look saw
// it.
func (r *unchanged) end(n int64, ended bool, head string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.looks[n]
	delete(r.looks, n)
	delete(r.settled, n)
	if !ended || s == nil {
		return
	}
	s.Head = head
	for other := range r.settled {
		if len(r.settled) < mostUnchanged {
			break
		}
		delete(r.settled, other)
	}
	if d := s.digest(); d != "" {
		r.settled[n] = d
	}
}

// forget has the next look at a task be a whole one, though one be under way now.
func (r *unchanged) forget(n int64) {
	r.mu.Lock()
	delete(r.settled, n)
	delete(r.looks, n)
	r.mu.Unlock()
}

// rests reports whether an ended task is what its last look saw. What can't be
// read is looked at.
func (r *unchanged) rests(ctx context.Context, repo *git.Repo, ref string, n int64) bool {
	r.mu.Lock()
	seen, ok := r.settled[n]
	r.mu.Unlock()
	if !ok {
		return false
	}
	branch := changePrefix + strconv.FormatInt(n, 10)
	refs, err := repo.Refs(ctx, ref, "refs/heads/"+branch)
	if err != nil {
		return false
	}
	now := &unchanged{Client: r.Client, at: r.at, looks: map[int64]*sight{n: {Head: string(refs.OID(ref))}}}
	s := now.looks[n]
	for _, read := range []func() error{
		func() error { _, err := now.Issue(ctx, r.at, n); return err },
		func() error { _, err := now.History(ctx, r.at, n); return err },
		func() error { _, err := now.Comments(ctx, r.at, n); return err },
	} {
		if read() != nil {
			return false
		}
	}
	if s.digest() == seen {
		return refs.OID("refs/heads/" + branch).IsZero() // else nobody has looked at its change yet
	}
	r.mu.Lock()
	base := r.base
	r.mu.Unlock()
	c, err := now.FindChange(ctx, r.at, branch, base)
	switch {
	case err != nil && !forge.IsReason(err, forge.NotFound):
		return false
	case err != nil || c.State != forge.ChangeOpen:
		return s.digest() == seen
	case s.digest() == seen:
		return false // nobody has looked at what is said of the change yet
	}
	_, err = now.ReviewComments(ctx, r.at, c.Number)
	return err == nil && s.digest() == seen
}

// rests reports whether a task needs no look: it ended, and nobody touched it.
// What a person asked of it is always carried out.
func (s *server) rests(ctx context.Context, w *served, j *scheduler.Job) bool {
	n := j.Key().Task
	return len(j.Acts()) == 0 && w.unchanged.rests(ctx, w.Repo, installation.StateRef(s.cfg.Refs, n), n)
}
