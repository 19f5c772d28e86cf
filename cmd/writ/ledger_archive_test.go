package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLedgerArchive: of a server's ledger the old records are archived, and it is verified
// with and without them. A server goes on without the archive, also on an issue whose
// records are archived, and says what isn't there.
func TestLedgerArchive(t *testing.T) {
	p := newForgePlace(t)
	s := p.serve()
	const tasks = 9 // of some 140 records each
	var first int64
	for range tasks {
		n := p.File("default")
		if first == 0 {
			first = n
		}
		p.Approve(n)
		p.until("a task is told", func() bool { return len(p.BotComments(n)) == 1 && strings.Contains(p.BotComments(n)[0], "completed") })
	}
	archive := filepath.Join(t.TempDir(), "archive")
	must(t, os.Mkdir(archive, 0o700))
	if exit, out := p.cli("ledger", "archive", "--state-dir", p.state(), "--before", "2199-01-01", archive); exit != exitHeld {
		t.Errorf("beside a server: %d: %s", exit, out)
	}
	if exit := s.end(); exit != exitDone {
		t.Fatalf("serve ended with %d", exit)
	}
	for _, args := range [][]string{{"--before", "tomorrow"}, {}} {
		if exit, out := p.cli(append([]string{"ledger", "archive", "--state-dir", p.state(), archive}, args...)...); exit != exitUsage {
			t.Errorf("%v: %d: %s", args, exit, out)
		}
	}
	if exit, out := p.cli("ledger", "archive", "--state-dir", p.state(), "--before", "2001-01-01", archive); exit != exitDone || !strings.Contains(out, "nothing of it is old enough") {
		t.Errorf("%d: %s", exit, out)
	}
	if exit, out := p.cli("ledger", "archive", "--state-dir", p.state(), "--before", "2199-01-01", archive); exit != exitDone || !strings.Contains(out, ": 512 records of ") {
		t.Fatalf("%d: %s", exit, out)
	}
	verify := func(what string, want int, says string, args ...string) {
		t.Helper()
		if exit, out := p.cli(append([]string{"verify", "--state-dir", p.state()}, args...)...); exit != want || !strings.Contains(out, says) {
			t.Errorf("%s: %d: %s", what, exit, out)
		}
	}
	verify("with the archive", exitDone, "archived, and read: the first 512 records")
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	must(t, os.Rename(archive, elsewhere))
	verify("without the archive", exitDone, "ARCHIVED, NOT READ: the first 512 records: "+archive)
	verify("with another directory", exitOther, "NOT VERIFIED: ledger.archived: first bad record 0", "--archive", t.TempDir())
	verify("with the archive elsewhere", exitDone, "archived, and read: the first 512 records", "--archive", elsewhere)

	s = p.serve()
	n := p.File("default")
	p.Approve(n)
	p.until("another task completes", func() bool { return p.head(n) == "completed" })
	p.until("the rest is verified", func() bool { return strings.Contains(s.log.String(), "the whole ledger is verified") })
	p.Says(first, "/writ retry")
	p.until("an archived task is answered", func() bool { return len(p.BotComments(first)) == 2 })
	if exit := s.end(); exit != exitDone {
		t.Fatalf("serve ended with %d:\n%s", exit, s.log)
	}
	if exit, out := p.cli("task", "show", fmt.Sprint(first), "--state-dir", p.state()); exit != exitDone {
		t.Errorf("show: %d: %s", exit, out)
	}
	// What needs all records says where they were.
	saved := savedFile(p.state(), p.world())
	must(t, os.Rename(saved, saved+".away"))
	if exit, out := p.cli("task", "show", fmt.Sprint(first), "--state-dir", p.state()); exit != exitRefused || !strings.Contains(out, "ledger.archived") || !strings.Contains(out, archive) {
		t.Errorf("show without what was saved: %d: %s", exit, out)
	}
	s = p.serve()
	if exit := <-s.exit; exit != exitRefused || !strings.Contains(s.log.String(), "ledger.archived") {
		t.Fatalf("serve without what was saved ended with %d:\n%s", exit, s.log)
	}
	s.exit <- exitRefused
	must(t, os.Rename(elsewhere, archive))
	s = p.serve()
	n = p.File("default")
	p.Approve(n)
	p.until("and it goes on", func() bool { return p.head(n) == "completed" })
	if exit := s.end(); exit != exitDone {
		t.Fatalf("serve ended with %d:\n%s", exit, s.log)
	}
	verify("with the archive again", exitDone, "archived, and read: the first 512 records")
}
