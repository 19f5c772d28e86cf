package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
	p := newForgePlace(t)
	s := p.serve()
	first := p.File("default")
	p.Approve(first)
	p.finished(first)
	s.end()
	monday, newer := filepath.Join(p.dir, "monday"), filepath.Join(p.dir, "newer")
	copyState(t, p.state(), monday)
	s = p.serve()
	lost := p.File("default")
	p.Approve(lost)
	p.finished(lost)
	s.end()
	copyState(t, p.state(), newer)

	copyState(t, monday, p.state())
	p.Says(lost, "How is it?")
	refused := func() string {
		t.Helper()
		s := p.serve()
		if exit := <-s.exit; exit != exitRefused {
			t.Fatalf("it ended with %d", exit)
		} else {
			s.exit <- exit
		}
		return s.log.String()
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
	if command == nil || p.head(other) != "" {
		t.Fatalf("a restart: task %d is %q\n%s", other, p.head(other), log)
	}
	p.want(exitRefused, "ledger.rollback", "task", "halt", fmt.Sprint(other), "--state-dir", p.state())

	older := filepath.Join(p.dir, "older")
	copyState(t, p.state(), older)
	mark, err := os.ReadFile(filepath.Join(older, olderFile))
	must(t, err)
	copyState(t, newer, p.state())
	must(t, os.WriteFile(filepath.Join(p.state(), olderFile), mark, 0o600))
	p.want(exitDone, "is halted", "task", "halt", fmt.Sprint(other), "--state-dir", p.state())
	if _, err := os.Stat(filepath.Join(p.state(), olderFile)); err == nil {
		t.Error("the newer store counts as older")
	}

	copyState(t, older, p.state())
	args := strings.Fields(strings.ReplaceAll(command[1], "'", ""))
	p.want(exitUsage, "none of them tells of 1 state commit of its key", args...)
	p.want(exitDone, "adopted: history 2", append(args, "--reason", "the disk died")...)
	s = p.serve()
	p.finished(other)
	p.until("the task whose records are lost is looked at", func() bool { return strings.Contains(s.log.String(), fmt.Sprintf("task=%d ", lost)) })
	if exit := s.end(); exit != exitDone {
		t.Errorf("serve ended with %d", exit)
	}
	for _, n := range []int64{first, lost, other} {
		if c, comments := p.claims(n), len(p.BotComments(n)); c != 1 || comments != 1 || p.head(n) != "completed" {
			t.Errorf("task %d is %s, claimed %d times, with %d comments", n, p.head(n), c, comments)
		}
	}
	p.want(exitDone, "ADOPTED: history 2", "verify", "--state-dir", p.state())
}
