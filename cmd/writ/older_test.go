package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
)

// copyState copies the state directory of a server that has ended, or puts a copy back.
func copyState(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	must(t, os.CopyFS(to, os.DirFS(from)))
	must(t, os.Chmod(to, 0o700))
	must(t, filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = os.Chmod(path, 0o600)
		}
		return err
	}))
}

// TestR10_ServeOlder: a server's whole state directory is put back from a snapshot. It
// ends at the first commit of its key that it doesn't know, with the code and the way
// back, and stays ended, also where other work is due; adopt --head is the way back, and
// so is the newer directory. Nothing is done twice.
func TestR10_ServeOlder(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	s := p.Serve()
	first := p.File("default")
	p.Approve(first)
	p.finished(first)
	s.End()
	monday, newer := filepath.Join(p.Root, "monday"), filepath.Join(p.Root, "newer")
	copyState(t, p.State(), monday)
	s = p.Serve()
	lost := p.File("default")
	p.Approve(lost)
	p.finished(lost)
	s.End()
	copyState(t, p.State(), newer)

	copyState(t, monday, p.State())
	p.Says(lost, "How is it?")
	refused := func() string {
		t.Helper()
		s := p.Serve()
		if exit := <-s.Exit; exit != problem.ExitRefused {
			t.Fatalf("it ended with %d", exit)
		} else {
			s.Exit <- exit
		}
		return s.Log.String()
	}
	log := refused()
	head := refOf(p.refs(), fmt.Sprintf("refs/writ/task/%d", lost))
	_, head, _ = strings.Cut(head, " ")
	if !strings.Contains(log, "ledger.rollback") || !strings.Contains(log, head) {
		t.Errorf("why it ended:\n%s", log)
	}
	other := p.File("default")
	p.Approve(other)
	log = refused()
	command := regexp.MustCompile(`writ (ledger adopt .*--head [0-9a-f]+)`).FindStringSubmatch(log)
	if command == nil || p.Head(other) != "" {
		t.Fatalf("a restart: task %d is %q\n%s", other, p.Head(other), log)
	}
	p.want(problem.ExitRefused, "ledger.rollback", "task", "halt", fmt.Sprint(other), "--state-dir", p.State())

	older := filepath.Join(p.Root, "older")
	copyState(t, p.State(), older)
	mark, err := os.ReadFile(filepath.Join(older, installation.OlderFile))
	must(t, err)
	copyState(t, newer, p.State())
	must(t, os.WriteFile(filepath.Join(p.State(), installation.OlderFile), mark, 0o600))
	p.want(problem.ExitDone, "is halted", "task", "halt", fmt.Sprint(other), "--state-dir", p.State())
	if _, err := os.Stat(filepath.Join(p.State(), installation.OlderFile)); err == nil {
		t.Error("the newer store counts as older")
	}

	copyState(t, older, p.State())
	args := strings.Fields(strings.ReplaceAll(command[1], "'", ""))
	p.want(problem.ExitUsage, "none of them tells of 1 state commit of its key", args...)
	p.want(problem.ExitDone, "adopted: history 2", append(args, "--reason", "the disk died")...)
	s = p.Serve()
	p.finished(other)
	p.Until("the task whose records are lost is looked at", func() bool { return strings.Contains(s.Log.String(), fmt.Sprintf("task=%d ", lost)) })
	if exit := s.End(); exit != problem.ExitDone {
		t.Errorf("serve ended with %d", exit)
	}
	for _, n := range []int64{first, lost, other} {
		if c, comments := p.claims(n), len(p.BotComments(n)); c != 1 || comments != 1 || p.Head(n) != "completed" {
			t.Errorf("task %d is %s, claimed %d times, with %d comments", n, p.Head(n), c, comments)
		}
	}
	p.want(problem.ExitDone, "ADOPTED: history 2", "verify", "--state-dir", p.State())
}
