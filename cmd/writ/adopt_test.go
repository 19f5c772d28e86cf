package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
)

// claims is how often a task was claimed, by its state ref.
func (p *forgePlace) claims(n int64) int {
	log := gittest.Git(p.T, p.Store.GitDir(p.Repo.ID), "log", "--format=%(trailers:key=aynig-state,valueonly)", fmt.Sprintf("refs/writ/task/%d", n))
	return strings.Count(log, "working")
}

// finished waits until a task is completed, told and closed.
func (p *forgePlace) finished(n int64) {
	p.T.Helper()
	p.Until("the task completes", func() bool { return p.Head(n) == "completed" })
	p.Until("the issue is closed", func() bool { return p.Issue(n).State == forge.Closed })
	p.Until("the label says so", func() bool { return slices.Contains(p.Issue(n).Labels, "writ:completed") })
	p.Until("the comment says so", func() bool {
		bodies := p.BotComments(n)
		return len(bodies) == 1 && strings.Contains(bodies[0], "task_final_state: `completed`")
	})
}

// restoreStore puts a back-up in the place of the store.
func (p *forgePlace) restoreStore(from string) {
	p.T.Helper()
	old, err := filepath.Glob(filepath.Join(p.State(), "writ.db*"))
	must(p.T, err)
	for _, path := range old {
		must(p.T, os.Remove(path))
	}
	data, err := os.ReadFile(from)
	must(p.T, err)
	must(p.T, os.WriteFile(filepath.Join(p.State(), "writ.db"), data, 0o600))
}

// want runs a command, which must end with this status and say this.
func (p *forgePlace) want(exit int, says string, args ...string) {
	p.T.Helper()
	if got, out := p.cli(args...); got != exit || !strings.Contains(out, says) {
		p.T.Fatalf("writ %s: exit %d, want %d and %q\n%s", strings.Join(args, " "), got, exit, says, out)
	}
}

// TestR2_RestoredServerGoesOnFromHead: a back-up is restored, made while one task
// was running and before another was approved. The server refuses to start,
// until somebody adopts the older store; then HEAD decides: nothing is dispatched,
// told or closed again, and new work is done.
func TestR2_RestoredServerGoesOnFromHead(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	s := p.Serve()
	before, running := p.File("default"), p.File("waits")
	p.Approve(before)
	p.finished(before)
	p.Approve(running)
	p.Until("the builder runs", func() bool { return p.Head(running) == "working" })
	backup := filepath.Join(p.Root, "monday.db")
	p.want(problem.ExitDone, "copied to", "ledger", "backup", "--state-dir", p.State(), backup)
	must(t, os.WriteFile(p.Gate(), nil, 0o600))
	p.finished(running)
	after := p.File("default")
	p.Approve(after)
	p.finished(after)
	if exit := s.End(); exit != problem.ExitDone {
		t.Fatalf("serve ended with %d", exit)
	}

	p.restoreStore(backup)
	refused := p.Serve()
	p.Until("the server ends or serves", func() bool {
		return len(refused.Exit) > 0 || strings.Contains(refused.Log.String(), "msg=serving")
	})
	if exit := refused.End(); exit != problem.ExitRefused || !strings.Contains(refused.Log.String(), "ledger.rollback") {
		t.Fatalf("an older store is served: exit %d\n%s", exit, refused.Log)
	}
	p.want(problem.ExitOther, "ledger.rollback", "verify", "--state-dir", p.State())
	p.want(problem.ExitDone, "adopted: history 2", "ledger", "adopt", "--state-dir", p.State(), "--reason", "the disk died")
	p.want(problem.ExitDone, "ADOPTED: history 2", "verify", "--state-dir", p.State())

	s = p.Serve()
	next := p.File("default")
	p.Approve(next)
	p.finished(next)
	p.Until("what was finished is looked at", func() bool {
		for _, n := range []int64{running, after} {
			if !strings.Contains(s.Log.String(), fmt.Sprintf("task=%d ", n)) {
				return false
			}
		}
		return true
	})
	if exit := s.End(); exit != problem.ExitDone {
		t.Errorf("serve ended with %d", exit)
	}
	if !strings.Contains(s.Log.String(), "went on from an older store") {
		t.Error("the log doesn't say that the store was adopted")
	}
	for _, n := range []int64{before, running, after, next} {
		if c := p.claims(n); c != 1 {
			t.Errorf("task %d was claimed %d times", n, c)
		}
		if c, closed := len(p.BotComments(n)), p.Closings(n); c != 1 || closed != 1 || p.Head(n) != "completed" {
			t.Errorf("task %d is %s, with %d comments, closed %d times", n, p.Head(n), c, closed)
		}
		p.want(problem.ExitDone, "", "verify", p.Store.GitDir(p.Repo.ID), "--task", fmt.Sprint(n))
	}
	p.want(problem.ExitDone, "ADOPTED: history 2", "verify", "--state-dir", p.State())
}
