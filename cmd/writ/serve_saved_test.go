package main

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/executor/supervisor"
)

// servedOnce is a place whose server did a task and was ended, and the file in which it
// left what it had folded.
func servedOnce(t *testing.T) (p *forgePlace, file string, records int64) {
	t.Helper()
	p = newForgePlace(t)
	s := p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.Until("the first task is told", func() bool { return len(p.BotComments(n)) == 1 && strings.Contains(p.BotComments(n)[0], "completed") })
	if exit := s.End(); exit != problem.ExitDone {
		t.Fatalf("serve ended with %d", exit)
	}
	file = installation.SavedFile(p.State(), p.World())
	doc, err := os.ReadFile(file)
	must(t, err)
	key, err := instancekey.Load(p.State())
	must(t, err)
	mark, folded, err := ledger.OpenMark(doc, key.Public)
	must(t, err)
	saved, err := supervisor.DecodeSaved(folded)
	must(t, err)
	if saved.World.Head != mark.Head || mark.Size() < 50 {
		t.Fatalf("it was saved at %+v, the mark is at %+v", saved.World.Head, mark.Head)
	}
	return p, file, mark.Size()
}

// TestServe_GoesOnFromWhatItSaved: the next server goes on from what the one before
// folded, verifies the rest behind, does a task, and leaves a ledger that verifies. What
// was saved and changed since is of no use and does no harm.
func TestServe_GoesOnFromWhatItSaved(t *testing.T) {
	t.Parallel()
	p, file, _ := servedOnce(t)
	s := p.Serve()
	p.Until("the ledger is verified behind", func() bool { return strings.Contains(s.Log.String(), "the whole ledger is verified") })
	n := p.File("default")
	p.Approve(n)
	p.Until("the second task completes", func() bool { return p.Head(n) == "completed" })
	if exit := s.End(); exit != problem.ExitDone {
		t.Fatalf("serve ended with %d", exit)
	}
	doc, err := os.ReadFile(file)
	must(t, err)
	changed := bytes.Replace(doc, []byte(`"attempts":1`), []byte(`"attempts":2`), 1)
	if bytes.Equal(changed, doc) {
		t.Fatal("nothing was changed")
	}
	must(t, os.WriteFile(file, changed, 0o600))
	s = p.Serve()
	p.Until("it is folded from the first record", func() bool {
		return strings.Contains(s.Log.String(), "verified and folded from its first record on")
	})
	third := p.File("default")
	p.Approve(third)
	p.Until("the third task completes", func() bool { return p.Head(third) == "completed" })
	if exit := s.End(); exit != problem.ExitDone {
		t.Fatalf("serve ended with %d", exit)
	}
	if exit, out := p.cli("verify", "--state-dir", p.State()); exit != problem.ExitDone {
		t.Errorf("verify ended with %d: %s", exit, out)
	}
}

// TestR1_ServeFindsBehind: a record of before that was changed while no server ran is
// found behind the start: the server ends, and no next one starts.
func TestR1_ServeFindsBehind(t *testing.T) {
	t.Parallel()
	p, file, records := servedOnce(t)
	db, err := sql.Open("sqlite", filepath.Join(p.State(), ledger.FileName))
	must(t, err)
	_, err = db.ExecContext(t.Context(), `UPDATE records SET raw = CAST(replace(CAST(raw AS TEXT), 'IDLE', 'IDLF') AS BLOB) WHERE seq = ?`, records/2)
	must(t, err)
	var changed int
	must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM records WHERE CAST(raw AS TEXT) LIKE '%IDLF%'`).Scan(&changed))
	if changed == 0 { // another kind of record: any byte will do
		_, err = db.ExecContext(t.Context(), `UPDATE records SET raw = CAST(CAST(raw AS TEXT) || ' ' AS BLOB) WHERE seq = ?`, records/2)
		must(t, err)
	}
	must(t, db.Close())
	for boots := range 2 {
		s := p.Serve()
		exit := <-s.Exit
		s.Exit <- exit
		if boots > 0 && !strings.Contains(s.Log.String(), `\"state_from\":\"BOOTING\",\"state_to\":\"HALTED\"`) {
			t.Errorf("the log lacks the entry of the kernel that didn't boot:\n%s", s.Log)
		}
		if exit != problem.ExitRefused || !strings.Contains(s.Log.String(), "ledger.corrupt") {
			t.Fatalf("serve ended with %d:\n%s", exit, s.Log)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("what was saved of it is still there")
		}
	}
}

// TestShow_SavedOfAnotherStore: what a server saved is gone on from only where its last
// record is the ledger's.
func TestShow_SavedOfAnotherStore(t *testing.T) {
	t.Parallel()
	p, _, records := servedOnce(t)
	show := func(want int) {
		t.Helper()
		if exit, out := p.cli("task", "show", "1", "--state-dir", p.State()); exit != want {
			t.Errorf("show ended with %d: %s", exit, out)
		}
	}
	show(problem.ExitDone)
	db, err := sql.Open("sqlite", filepath.Join(p.State(), ledger.FileName))
	must(t, err)
	_, err = db.ExecContext(t.Context(), `UPDATE records SET raw = CAST(CAST(raw AS TEXT) || ' ' AS BLOB) WHERE seq = ?`, records-1)
	must(t, err)
	must(t, db.Close())
	show(problem.ExitRefused)
}
