package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/worlds"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// refs are the refs that writ writes for tasks, with their commits, a line each.
func (p *forgePlace) refs() []string {
	p.T.Helper()
	out := gittest.Git(p.T, p.Store.GitDir(p.Repo.ID), "for-each-ref", "--format=%(refname) %(objectname)", "refs/writ/", "refs/heads/writ/")
	return strings.Split(strings.TrimSpace(out), "\n")
}

// loses has the repository be as it was when it had these refs, as after its back-up was
// restored: what was pushed since is gone, objects and all.
func (p *forgePlace) loses(before []string) {
	p.T.Helper()
	bare := p.Store.GitDir(p.Repo.ID)
	var b strings.Builder
	for _, line := range p.refs() {
		ref, _, _ := strings.Cut(line, " ")
		fmt.Fprintf(&b, "delete %s\n", ref)
	}
	gittest.GitInput(p.T, bare, b.String(), "update-ref", "--stdin")
	b.Reset()
	for _, line := range before {
		fmt.Fprintf(&b, "create %s\n", line)
	}
	gittest.GitInput(p.T, bare, b.String(), "update-ref", "--stdin")
	gittest.Git(p.T, bare, "reflog", "expire", "--expire=now", "--all")
	gittest.Git(p.T, bare, "gc", "-q", "--prune=now")
}

// killed runs the program, which kills itself at this point.
func (p *forgePlace) killed(at supervisor.Point, args ...string) {
	p.T.Helper()
	self, err := os.Executable()
	must(p.T, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(append(os.Environ(), p.Env...), envMain+"=1", envFault+"="+string(at))
	out, err := cmd.CombinedOutput()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); err == nil || !ok || ws.Signal() != syscall.SIGKILL {
		p.T.Fatalf("it wasn't killed at %s: %v\n%s", at, err, out)
	}
}

// refOf is the line of a state ref or change branch.
func refOf(lines []string, ref string) string {
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, ref+" ") })
	if i < 0 {
		return ""
	}
	return lines[i]
}

// TestL19_ForgeRestored: the embedded forge is put back to an earlier moment, with real
// git over HTTP: tasks that were completed since are gone or set back to their lease. The
// command shows what it would do, is killed at each of its points, and puts back exactly
// what is still the same task. The server then does nothing twice.
func TestL19_ForgeRestored(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	s := p.Serve()
	before, running := p.File("default"), p.File("waits")
	p.Approve(before)
	p.finished(before)
	p.Approve(running)
	p.Until("the builder runs", func() bool { return p.Head(running) == "working" })
	backup := p.refs()
	must(t, os.WriteFile(p.Gate(), nil, 0o600))
	p.finished(running)
	var later []int64
	for range 3 {
		n := p.File("default")
		p.Approve(n)
		p.finished(n)
		later = append(later, n)
	}
	gone, edited, aged := later[0], later[1], later[2]
	if exit := s.End(); exit != problem.ExitDone {
		t.Fatalf("serve ended with %d", exit)
	}
	full := p.refs()
	p.loses(backup)
	must(t, p.Maintainer.EditIssue(t.Context(), p.Repo, edited, "Something else", "entirely"))
	p.forgets(aged)

	restore := []string{"world", "restore", p.World(), "--state-dir", p.State(), "--config", p.Config()}
	p.want(problem.ExitUsage, "4 tasks are behind what was seen, 2 of them can be put back", restore...)
	p.want(problem.ExitUsage, fmt.Sprintf("left: task %d: the issue has another text", edited), restore...)
	p.want(problem.ExitUsage, fmt.Sprintf("left: task %d: this store hasn't the commit", aged), restore...)
	if now := p.refs(); !slices.Equal(now, backup) {
		t.Fatalf("without a reason it changed %v to %v", backup, now)
	}
	restore = append(restore, "--reason", "the forge was restored")
	for _, at := range []supervisor.Point{worlds.FaultRestoreBefore, worlds.FaultRestoreActed, worlds.FaultRestoreRecorded, worlds.FaultRestoreBack} {
		p.killed(at, restore...)
	}
	if !p.due(running) {
		t.Error("the task that is back is looked at by nobody, where the command was killed after it")
	}
	p.want(problem.ExitDone, "1 of them can be put back", restore...)
	p.want(problem.ExitDone, "nothing is to be put back", restore...)

	now := p.refs()
	for _, n := range []int64{before, running, gone} {
		for _, ref := range []string{fmt.Sprintf("refs/writ/task/%d", n), fmt.Sprintf("refs/heads/writ/change/%d", n)} {
			if refOf(now, ref) == "" || refOf(now, ref) != refOf(full, ref) {
				t.Errorf("%s is %q, was %q", ref, refOf(now, ref), refOf(full, ref))
			}
		}
	}
	for _, n := range []int64{edited, aged} {
		if at := refOf(now, fmt.Sprintf("refs/writ/task/%d", n)); at != "" {
			t.Errorf("task %d was put back: %s", n, at)
		}
	}
	_, log := p.cli("world", "log", p.URL+"/o/n.git", "--config", p.Config(), "--state-dir", p.State())
	if strings.Count(log, "repair: the forge was restored") != 1 || !strings.Contains(log, "2 refs") {
		t.Errorf("the acts:\n%s", log)
	}
	p.want(problem.ExitDone, "", "verify", "--state-dir", p.State())
	if n := p.recorded(`"act":"put_back"`); n != 2 {
		t.Errorf("%d records of 2 tasks that were put back", n)
	}

	s = p.Serve()
	next := p.File("default")
	p.Approve(next)
	p.finished(next)
	p.Until("what was put back is looked at", func() bool {
		return strings.Contains(s.Log.String(), fmt.Sprintf("task=%d ", running)) && strings.Contains(s.Log.String(), fmt.Sprintf("task=%d ", gone))
	})
	if exit := s.End(); exit != problem.ExitDone {
		t.Errorf("serve ended with %d", exit)
	}
	for _, n := range []int64{before, running, gone, next} {
		if c, comments, closed := p.claims(n), len(p.BotComments(n)), p.Closings(n); c != 1 || comments != 1 || closed != 1 || p.Head(n) != "completed" {
			t.Errorf("task %d is %s, claimed %d times, with %d comments, closed %d times", n, p.Head(n), c, comments, closed)
		}
		p.want(problem.ExitDone, "", "verify", p.Store.GitDir(p.Repo.ID), "--task", fmt.Sprint(n))
	}
}

// TestL19_SetBackInsideAPush: a task's ref is set to a commit of its own chain that was
// never at HEAD, for its push brought the next one with it. The server leaves it alone, and
// the command puts the last one back.
func TestL19_SetBackInsideAPush(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	s := p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.finished(n)
	s.End()
	bare, ref := p.Store.GitDir(p.Repo.ID), fmt.Sprintf("refs/writ/task/%d", n)
	last, first := gittest.RefOID(bare, ref), gittest.Git(t, bare, "rev-list", "--max-parents=0", ref)
	gittest.Git(t, bare, "update-ref", ref, first)
	s = p.Serve()
	p.Says(n, "How is it?")
	p.Until("the task waits", func() bool { return strings.Contains(s.Log.String(), string(kernel.CodeStateRollback)) })
	s.End()
	if now := gittest.RefOID(bare, ref); now != first {
		t.Fatalf("the server moved it to %s", now)
	}
	p.want(problem.ExitDone, "1 of them can be put back", "world", "restore", p.World(), "--state-dir", p.State(), "--config", p.Config(), "--reason", "set back")
	if now := gittest.RefOID(bare, ref); now != last || p.claims(n) != 1 {
		t.Errorf("it is at %s after %d claims, was at %s", now, p.claims(n), last)
	}
}

// recorded is how many records of the stopped server's ledger hold a text.
func (p *forgePlace) recorded(text string) (n int) {
	p.T.Helper()
	db, err := store.OpenReadOnly(p.T.Context(), p.State()+"/writ.db", store.Options{})
	must(p.T, err)
	must(p.T, db.View(p.T.Context(), func(q store.Queries) error {
		return q.Rows("SELECT raw FROM records", nil, func(r store.Row) error {
			var raw []byte
			if err := r.Scan(&raw); err != nil {
				return err
			}
			if bytes.Contains(raw, []byte(text)) {
				n++
			}
			return nil
		})
	}))
	must(p.T, db.Close())
	return n
}

// due reports whether the stopped server's store has a task to be looked at now.
func (p *forgePlace) due(task int64) (due bool) {
	p.T.Helper()
	db, err := store.OpenReadOnly(p.T.Context(), p.State()+"/writ.db", store.Options{})
	must(p.T, err)
	must(p.T, db.View(p.T.Context(), func(q store.Queries) error {
		return q.Rows("SELECT 1 FROM schedule WHERE task = $1 AND due_ms <> 0 AND due_ms <= $2", []any{task, time.Now().UnixMilli()}, func(store.Row) error {
			due = true
			return nil
		})
	}))
	must(p.T, db.Close())
	return due
}

// forgets takes a task's pushes out of the store, as their age does.
func (p *forgePlace) forgets(task int64) {
	p.T.Helper()
	db, err := store.Open(p.T.Context(), p.State()+"/writ.db", store.Options{})
	must(p.T, err)
	must(p.T, db.Write(p.T.Context(), func(tx store.Tx) error {
		n, err := tx.Exec("DELETE FROM pushed WHERE task = $1", task)
		if n == 0 {
			p.T.Error("nothing was kept of the task")
		}
		return err
	}))
	must(p.T, db.Close())
}
