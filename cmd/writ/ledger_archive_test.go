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

// TestLedgerArchive: of a server's ledger the old records are archived, and it is verified
// with and without them. A server goes on without the archive, also on an issue whose
// records are archived, and says what isn't there.
func TestLedgerArchive(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	s := p.Serve()
	const tasks = 9 // of some 170 records each
	var first int64
	for range tasks {
		n := p.File("default")
		if first == 0 {
			first = n
		}
		p.Approve(n)
		p.Until("a task is told", func() bool { return len(p.BotComments(n)) == 1 && strings.Contains(p.BotComments(n)[0], "completed") })
	}
	archive := filepath.Join(t.TempDir(), "archive")
	must(t, os.Mkdir(archive, 0o700))
	if exit, out := p.cli("ledger", "archive", "--state-dir", p.State(), "--before", "2199-01-01", archive); exit != problem.ExitHeld {
		t.Errorf("beside a server: %d: %s", exit, out)
	}
	if exit := s.End(); exit != problem.ExitDone {
		t.Fatalf("serve ended with %d", exit)
	}
	for _, args := range [][]string{{"--before", "tomorrow"}, {}} {
		if exit, out := p.cli(append([]string{"ledger", "archive", "--state-dir", p.State(), archive}, args...)...); exit != problem.ExitUsage {
			t.Errorf("%v: %d: %s", args, exit, out)
		}
	}
	if exit, out := p.cli("ledger", "archive", "--state-dir", p.State(), "--before", "2001-01-01", archive); exit != problem.ExitDone || !strings.Contains(out, "nothing of it is old enough") {
		t.Errorf("%d: %s", exit, out)
	}
	exit, out := p.cli("ledger", "archive", "--state-dir", p.State(), "--before", "2199-01-01", archive)
	said := regexp.MustCompile(`: (\d+) records of \d+ archived in `).FindStringSubmatch(out) // whole files of 512
	if exit != problem.ExitDone || said == nil {
		t.Fatalf("%d: %s", exit, out)
	}
	archived := "the first " + said[1] + " records"
	verify := func(what string, want int, says string, args ...string) {
		t.Helper()
		if exit, out := p.cli(append([]string{"verify", "--state-dir", p.State()}, args...)...); exit != want || !strings.Contains(out, says) {
			t.Errorf("%s: %d: %s", what, exit, out)
		}
	}
	verify("with the archive", problem.ExitDone, "archived, and read: "+archived)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	must(t, os.Rename(archive, elsewhere))
	verify("without the archive", problem.ExitDone, "ARCHIVED, NOT READ: "+archived+": "+archive)
	verify("with another directory", problem.ExitOther, "NOT VERIFIED: ledger.archived: first bad record 0", "--archive", t.TempDir())
	verify("with the archive elsewhere", problem.ExitDone, "archived, and read: "+archived, "--archive", elsewhere)

	s = p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.Until("another task completes", func() bool { return p.Head(n) == "completed" })
	p.Until("the rest is verified", func() bool { return strings.Contains(s.Log.String(), "the whole ledger is verified") })
	p.Says(first, "/writ retry")
	p.Until("an archived task is answered", func() bool { return len(p.BotComments(first)) == 2 })
	if exit := s.End(); exit != problem.ExitDone {
		t.Fatalf("serve ended with %d:\n%s", exit, s.Log)
	}
	if exit, out := p.cli("task", "show", fmt.Sprint(first), "--state-dir", p.State()); exit != problem.ExitDone {
		t.Errorf("show: %d: %s", exit, out)
	}
	// What needs all records says where they were.
	saved := installation.SavedFile(p.State(), p.World())
	must(t, os.Rename(saved, saved+".away"))
	if exit, out := p.cli("task", "show", fmt.Sprint(first), "--state-dir", p.State()); exit != problem.ExitRefused || !strings.Contains(out, "ledger.archived") || !strings.Contains(out, archive) {
		t.Errorf("show without what was saved: %d: %s", exit, out)
	}
	s = p.Serve()
	if exit := <-s.Exit; exit != problem.ExitRefused || !strings.Contains(s.Log.String(), "ledger.archived") {
		t.Fatalf("serve without what was saved ended with %d:\n%s", exit, s.Log)
	}
	s.Exit <- problem.ExitRefused
	must(t, os.Rename(elsewhere, archive))
	s = p.Serve()
	n = p.File("default")
	p.Approve(n)
	p.Until("and it goes on", func() bool { return p.Head(n) == "completed" })
	if exit := s.End(); exit != problem.ExitDone {
		t.Fatalf("serve ended with %d:\n%s", exit, s.Log)
	}
	verify("with the archive again", problem.ExitDone, "archived, and read: "+archived)
}
