package server

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
)

// TestW6_AnEndedTaskIsLeftAlone: deliveries that come again for a task that has
// ended leave no record, and what a person does there is seen.
func TestW6_AnEndedTaskIsLeftAlone(t *testing.T) {
	p := newServerPlace(t)
	p.Sweep = "1h" // the first one that finds a task open has all of them looked at
	p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.Until("the issue is closed", func() bool { return p.Issue(n).State == forge.Closed })
	const looks = `writ_task_runs_total{outcome="final"}`
	still := func() bool { return p.Metric("writ_tasks_running") == 0 && p.Metric("writ_schedule_due") == 0 }
	p.Until("it has ended", func() bool { return p.Metric(looks) > 0 && still() })
	again := func() (records float64) {
		before := p.Metric(looks)
		all, err := p.Store.Deliveries(t.Context())
		must(t, err)
		for _, d := range all {
			must(t, p.Store.Redeliver(t.Context(), d.ID))
		}
		p.Until("it was looked at again", func() bool { return p.Metric(looks) > before && still() })
		return p.Metric("writ_ledger_records")
	}
	records := again() // the first look after its run is a whole one, for what is said of its change
	if now := again(); now != records {
		t.Errorf("looking at an ended task left %v records", now-records)
	}
	must(t, p.Maintainer.SetState(t.Context(), p.Repo, n, forge.Open))
	p.Until("a person's act is seen", func() bool { return p.Metric("writ_ledger_records") > records })
}

// counting counts the requests of a client. It may be refused what concerns a change.
type counting struct {
	forge.Client
	n      atomic.Int64
	denied map[string]bool
}

func (c *counting) answer(request string) error {
	if c.n.Add(1); c.denied[request] {
		return &forge.Error{Reason: forge.Forbidden, Op: request}
	}
	return nil
}

func (c *counting) Issue(ctx context.Context, r forge.Repo, n int64) (forge.Issue, error) {
	c.n.Add(1)
	return c.Client.Issue(ctx, r, n)
}

func (c *counting) History(ctx context.Context, r forge.Repo, n int64) ([]forge.Event, error) {
	c.n.Add(1)
	return c.Client.History(ctx, r, n)
}

func (c *counting) Comments(ctx context.Context, r forge.Repo, n int64) ([]forge.Comment, error) {
	c.n.Add(1)
	return c.Client.Comments(ctx, r, n)
}

func (c *counting) FindChange(ctx context.Context, r forge.Repo, head, base string) (forge.Change, error) {
	if err := c.answer(toFind); err != nil {
		return forge.Change{}, err
	}
	return c.Client.FindChange(ctx, r, head, base)
}

func (c *counting) ReviewComments(ctx context.Context, r forge.Repo, change int64) ([]forge.ReviewComment, error) {
	if err := c.answer(toReview); err != nil {
		return nil, err
	}
	return c.Client.ReviewComments(ctx, r, change)
}

// lookedAt is a task at rest, after a look as a supervisor makes it: without a change, with
// one that isn't there, or with one that is reviewed. The requests that were denied to the
// look are allowed after it.
func lookedAt(t *testing.T, p *serverPlace, change string, denied ...string) (*unchanged, *counting, *git.Repo, int64) {
	t.Helper()
	ctx := t.Context()
	repo, err := git.Open(ctx, git.Endpoint{URL: p.Store.GitDir(p.Repo.ID)}, git.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, repo.Close()) })
	n := p.File("default")
	gittest.Git(t, p.Store.GitDir(p.Repo.ID), "update-ref", fmt.Sprintf("refs/writ/task/%d", n), "refs/heads/main")
	c := &counting{Client: p.Store.As(p.Bot), denied: map[string]bool{}}
	for _, request := range denied {
		c.denied[request] = true
	}
	r := newUnchanged(c, p.Repo)
	r.begin(n)
	for range 2 {
		_, err = r.Issue(ctx, p.Repo, n)
		must(t, err)
		_, err = r.History(ctx, p.Repo, n)
		must(t, err)
		_, err = r.Comments(ctx, p.Repo, n)
		must(t, err)
	}
	branch := fmt.Sprintf("writ/change/%d", n)
	switch change {
	case missingChange:
		if _, err = r.FindChange(ctx, p.Repo, branch, ""); !forge.IsReason(err, forge.NotFound) {
			t.Fatal(err)
		}
	case openChange, closedChange, unreadChange, unheardChange:
		gittest.Commit(t, p.Store.GitDir(p.Repo.ID), "refs/heads/"+branch, "refs/heads/main", map[string]string{"x": "y"})
		opened, err := p.Store.As(p.Bot).OpenChange(ctx, p.Repo, forge.Change{Title: "Say hello", Head: branch, Base: "main"})
		must(t, err)
		if change == closedChange {
			must(t, p.Maintainer.CloseChange(ctx, p.Repo, opened.Number))
		}
		if change == unreadChange {
			break
		}
		found, err := r.FindChange(ctx, p.Repo, branch, "main")
		if err == nil && change != unheardChange {
			_, err = r.ReviewComments(ctx, p.Repo, found.Number)
		}
		if forge.IsReason(err, forge.Forbidden) != (len(denied) > 0) {
			t.Fatal(err)
		}
	}
	r.end(n, true, gittest.RefOID(p.Store.GitDir(p.Repo.ID), "refs/heads/main"))
	c.n.Store(0)
	clear(c.denied)
	return r, c, repo, n
}

// What a look found of a change.
const noChange, missingChange, openChange, closedChange, unreadChange, unheardChange = "none", "missing", "open", "closed", "unread", "unheard"

// What a look asks of a change.
const toFind, toReview = "find a change", "read what was said of a change"

func TestRestful_CountsItsRequests(t *testing.T) {
	for change, want := range map[string]int64{noChange: 3, missingChange: 4, openChange: 5} {
		p := newServerPlace(t)
		r, c, repo, n := lookedAt(t, p, change)
		if !r.rests(t.Context(), repo, installation.StateRef("", n), n) {
			t.Error("a task that nobody touched doesn't rest")
		}
		if got := c.n.Load(); got != want {
			t.Errorf("that took %d requests of the forge, want %d", got, want)
		}
		if c.n.Store(0); r.rests(t.Context(), repo, installation.StateRef("", n+1), n+1) || c.n.Load() != 0 {
			t.Error("a task that was never looked at rests, or was read")
		}
	}
}

// TestRestful_WhatWasUnreadIsLookedAt: what a look could not read it doesn't know, so that
// the task doesn't rest: not where the change's branch is gone, nor where the change is closed.
func TestRestful_WhatWasUnreadIsLookedAt(t *testing.T) {
	for _, denied := range []string{toFind, toReview} {
		p := newServerPlace(t)
		change := openChange
		if denied == toReview {
			change = closedChange
		}
		r, _, repo, n := lookedAt(t, p, change, denied)
		gittest.Git(t, p.Store.GitDir(p.Repo.ID), "update-ref", "-d", fmt.Sprintf("refs/heads/writ/change/%d", n))
		if r.rests(t.Context(), repo, installation.StateRef("", n), n) {
			t.Errorf("the look was denied to %s, and the task rests", denied)
		}
	}
}

func TestRestful_WhateverChangesIsLookedAt(t *testing.T) {
	for name, change := range map[string]func(context.Context, *serverPlace, *unchanged, int64) error{
		"a label": func(ctx context.Context, p *serverPlace, _ *unchanged, n int64) error {
			return p.Maintainer.AddLabel(ctx, p.Repo, n, "writ")
		},
		"the text": func(ctx context.Context, p *serverPlace, _ *unchanged, n int64) error {
			return p.Reporter.EditIssue(ctx, p.Repo, n, "Say hello", "Please.")
		},
		"the state": func(ctx context.Context, p *serverPlace, _ *unchanged, n int64) error {
			return p.Maintainer.SetState(ctx, p.Repo, n, forge.Closed)
		},
		"a comment": func(ctx context.Context, p *serverPlace, _ *unchanged, n int64) error {
			_, err := p.Maintainer.AddComment(ctx, p.Repo, n, "/writ retry")
			return err
		},
		"a word on its change": func(ctx context.Context, p *serverPlace, _ *unchanged, n int64) error {
			c, err := p.Maintainer.FindChange(ctx, p.Repo, fmt.Sprintf("writ/change/%d", n), "")
			must(p.T, err)
			_, err = p.Maintainer.AddComment(ctx, p.Repo, c.Number, "/writ fix")
			return err
		},
		"HEAD": func(_ context.Context, p *serverPlace, _ *unchanged, n int64) error {
			dir := p.Store.GitDir(p.Repo.ID)
			gittest.Commit(p.T, dir, fmt.Sprintf("refs/writ/task/%d", n), "refs/heads/main", map[string]string{"x": "y"})
			return nil
		},
		"an operator's act": func(_ context.Context, _ *serverPlace, r *unchanged, n int64) error {
			r.forget(n)
			return nil
		},
		"it runs again": func(_ context.Context, _ *serverPlace, r *unchanged, n int64) error {
			r.begin(n)
			r.end(n, false, "")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newServerPlace(t)
			r, _, repo, n := lookedAt(t, p, openChange)
			must(t, change(t.Context(), p, r, n))
			if r.rests(t.Context(), repo, installation.StateRef("", n), n) {
				t.Error("the task rests")
			}
		})
	}
}

// TestRestful_ChangeThatNobodyLookedAt: a task is looked at if it has a change of which the
// last look saw nothing, or an open one of which it didn't ask what is said of it, as the
// first one after its run.
func TestRestful_ChangeThatNobodyLookedAt(t *testing.T) {
	for _, change := range []string{unreadChange, unheardChange} {
		p := newServerPlace(t)
		r, _, repo, n := lookedAt(t, p, change)
		if r.rests(t.Context(), repo, installation.StateRef("", n), n) {
			t.Errorf("the change is %s, and the task rests", change)
		}
	}
}

// TestRestful_HeardBeforeItsRun: what a look read of a change before its run isn't what it
// knows of it at its end: who said it may be owed an answer.
func TestRestful_HeardBeforeItsRun(t *testing.T) {
	ctx := t.Context()
	p := newServerPlace(t)
	r, _, repo, n := lookedAt(t, p, openChange)
	branch := fmt.Sprintf("writ/change/%d", n)
	read := func() forge.Change {
		_, err := r.Issue(ctx, p.Repo, n)
		must(t, err)
		_, err = r.History(ctx, p.Repo, n)
		must(t, err)
		_, err = r.Comments(ctx, p.Repo, n)
		must(t, err)
		found, err := r.FindChange(ctx, p.Repo, branch, "main")
		must(t, err)
		return found
	}
	r.begin(n)
	_, err := r.ReviewComments(ctx, p.Repo, read().Number)
	must(t, err)
	read()
	r.end(n, true, gittest.RefOID(p.Store.GitDir(p.Repo.ID), "refs/heads/main"))
	if r.rests(ctx, repo, installation.StateRef("", n), n) {
		t.Error("the task rests")
	}
}
