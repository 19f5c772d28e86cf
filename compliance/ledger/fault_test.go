package ledger

import (
	"bufio"
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/kernel"
)

// faultScript appends batches until one fails, and returns how often it was
// told that something is durable.
func faultScript(l *Ledger) (acknowledged kernel.Head, err error) {
	ctx := context.Background()
	acknowledged = kernel.NoHead()
	steps := []func() error{
		func() error { return l.Start(ctx, genesis(), 1) },
		func() error { _, err := l.Write(ctx, 2, audit(1)); return err },
		func() error { _, err := l.Checkpoint(ctx); return err },
		func() error { _, err := l.Write(ctx, 3, audit(2), audit(3)); return err },
		func() error { _, err := l.Checkpoint(ctx); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return acknowledged, err
		}
		acknowledged = l.Chain().Head
	}
	return acknowledged, nil
}

const faultWrites = 5 // of faultScript

func TestR4_EveryWriteFails(t *testing.T) {
	for write := range faultWrites {
		for mode := failsBefore; mode <= faultsNumber; mode++ {
			t.Run(fmt.Sprintf("write %d mode %d", write, mode), func(t *testing.T) {
				m := newMemory()
				m.fault = func(n int) fault {
					if n == write {
						return mode
					}
					return noFault
				}
				oneFault(t, m, mode)
			})
		}
	}
}

func oneFault(t *testing.T, m *memory, mode fault) {
	l := openWorld(t, newStore(m, nil, testKey(t, 1), Options{}), worldA)
	acknowledged, err := faultScript(l)
	if CodeOf(err) != kernel.CodeLedgerUnavailable {
		t.Fatalf("the failed write gave %v", err)
	}
	if l.Chain().Head != acknowledged {
		t.Error("a failed append moved the chain")
	}
	writes := m.writes
	_, err = l.Write(t.Context(), 9, audit(9))
	if mode == busyFault {
		if err != nil && acknowledged.Seq >= 0 {
			t.Errorf("a busy store is not a broken one: %v", err)
		}
	} else if CodeOf(err) != kernel.CodeLedgerUnavailable || m.writes != writes {
		t.Errorf("the store was written to after a failure: %v", err)
	}
	again := openWorld(t, newStore(m, nil, testKey(t, 1), Options{}), worldA)
	found := again.Chain().Head.Seq
	switch mode {
	case failsBefore:
		if found != acknowledged.Seq {
			t.Errorf("acknowledged %d, found %d", acknowledged.Seq, found)
		}
	case failsAfter:
		if found < acknowledged.Seq {
			t.Errorf("acknowledged %d, found %d: a durable record is lost", acknowledged.Seq, found)
		}
	}
	if _, err := again.Write(t.Context(), 10, audit(10)); err != nil && found >= 0 {
		t.Errorf("the ledger does not go on after a restart: %v", err)
	}
}

func TestR4_ShortWrites(t *testing.T) {
	out, err := child(t, "fsize", t.TempDir()).Output()
	if err != nil {
		t.Fatal(err)
	}
	var failures int
	if _, err := fmt.Sscan(string(out), &failures); err != nil || failures < 50 {
		t.Errorf("%d writes were cut short (%v); the test did not reach what it is about", failures, err)
	}
}

func TestR4_SystemCallsFail(t *testing.T) {
	calls := []struct {
		name   string
		number int
		errno  unix.Errno
	}{
		{"fsync EIO", unix.SYS_FSYNC, unix.EIO},
		{"fdatasync EIO", unix.SYS_FDATASYNC, unix.EIO},
		{"pwrite EIO", unix.SYS_PWRITE64, unix.EIO},
		{"pwrite ENOSPC", unix.SYS_PWRITE64, unix.ENOSPC},
	}
	failed := 0
	for _, c := range calls {
		path := filepath.Join(t.TempDir(), FileName)
		key, _, err := loadChildKey(path)
		if err != nil {
			t.Fatal(err)
		}
		s := openStore(t, path, key)
		fill(t, openWorld(t, s, worldA), 3)
		out, err := child(t, "errno", path, fmt.Sprint(c.number), fmt.Sprint(int(c.errno))).Output()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := string(out)
		const refused = "ledger.unavailable ledger.unavailable ledger.unavailable 2\n"
		if got == refused {
			failed++
		} else if c.number != unix.SYS_FSYNC && c.number != unix.SYS_FDATASYNC {
			t.Errorf("%s: %q, want %q", c.name, got, refused)
		}
		r := mustVerify(t, openWorld(t, openStore(t, path, key), worldA), VerifyOptions{Deep: true})
		if !r.OK || r.Records < 3 {
			t.Errorf("%s: afterwards %+v", c.name, r)
		}
	}
	// SQLite uses one of the two calls to flush; that one must have counted.
	if failed < len(calls)-1 {
		t.Errorf("only %d of the failing calls stopped an append: a commit does not wait for the disk", failed)
	}
}

func TestR4_KilledWhileAppending(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	key, _, err := loadChildKey(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, key, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, openWorld(t, s, worldA), 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for round := range 6 {
		last := killAfter(t, path, 1+7*round)
		s, err := Open(t.Context(), path, key, Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := mustVerify(t, openWorld(t, s, worldA), VerifyOptions{Deep: true})
		if !r.OK || r.Head.Seq < last || r.Head.Seq%3 != 0 {
			t.Fatalf("round %d: acknowledged %d, found %+v", round, last, r)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killAfter kills an appending process when it has reported n durable heads and
// returns the last one it reported.
func killAfter(t *testing.T, path string, n int) (last int64) {
	t.Helper()
	cmd := child(t, "forever", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); seen++ {
		if _, err := fmt.Sscan(lines.Text(), &last); err != nil {
			t.Fatal(err)
		}
		if seen == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the process was not killed: %v", err)
	}
	return last
}

func TestR4_QuarantineIsExplicit(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name     string
		bad      int // this record's bytes are damaged
		signed   int64
		wantCode kernel.Code
	}{
		{"an unsigned tail", 6, 4, ""},
		{"a signed record", 3, 4, kernel.CodeLedgerCorrupt},
		{"the genesis, nothing signed", 0, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory()
			l := openWorld(t, newStore(m, nil, testKey(t, 1), Options{}), worldA)
			if c.signed > 0 {
				fill(t, l, int(c.signed))
				if _, err := l.Checkpoint(ctx); err != nil {
					t.Fatal(err)
				}
			}
			fill(t, l, 8)
			m.rowsOf[worldA][c.bad].raw[20] ^= 1

			s := newStore(m, nil, testKey(t, 1), Options{})
			if _, err := s.World(ctx, worldA); CodeOf(err) != kernel.CodeLedgerCorrupt {
				t.Fatalf("a damaged ledger was opened: %v", err)
			}
			if len(m.aside) != 0 {
				t.Fatal("a tail was set aside unasked")
			}
			r, err := s.Quarantine(ctx, worldA, 9, nil)
			if CodeOf(err) != c.wantCode {
				t.Fatalf("quarantine: %v, want %q", err, c.wantCode)
			}
			wantBad(t, r, int64(c.bad), "the report")
			if c.wantCode != "" {
				return
			}
			if want := 8 - c.bad; len(m.aside) != want {
				t.Errorf("%d rows were kept aside, want %d", len(m.aside), want)
			}
			if got := openWorld(t, s, worldA).Chain().Head.Seq; got != int64(c.bad-1) {
				t.Errorf("the ledger goes on after %d, want %d", got, c.bad-1)
			}
		})
	}
}

func TestR4_QuarantineOnDisk(t *testing.T) {
	s, l, path := sample(t, 6)
	tamper(t, s, `UPDATE records SET task = 99 WHERE seq = 4`)
	wantBad(t, mustVerify(t, l, VerifyOptions{}), 4, "a changed column")
	again := openStore(t, path, testKey(t, 1))
	if _, err := again.Quarantine(t.Context(), worldA, 7, nil); err != nil {
		t.Fatal(err)
	}
	l = openWorld(t, again, worldA)
	fill(t, l, 7)
	if r := mustVerify(t, l, VerifyOptions{Deep: true}); !r.OK || r.Records != 7 {
		t.Errorf("after the quarantine: %+v", r)
	}
	if kept := numberIn(t, again, `SELECT count(*) FROM quarantined WHERE at = 7`); kept != 2 {
		t.Errorf("%d rows were kept aside, want 2", kept)
	}
}

func TestR4_AllOrNothing(t *testing.T) {
	s, l, path := sample(t, 3)
	// A stray row in the third place makes the append fail after two rows.
	const stray = `INSERT INTO records SELECT world, 5, task, nodes, raw FROM records WHERE seq = 1`
	tamper(t, s, stray)
	if _, err := l.Write(t.Context(), 1, audit(1), audit(2), audit(3)); CodeOf(err) != kernel.CodeLedgerUnavailable {
		t.Fatalf("%v, want %s", err, kernel.CodeLedgerUnavailable)
	}
	again := openStore(t, path, testKey(t, 1))
	r, err := again.Quarantine(t.Context(), worldA, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantBad(t, r, 3, "nothing but the stray row after the head")
	if got := openWorld(t, again, worldA).Chain().Head.Seq; got != 2 {
		t.Errorf("the ledger goes on after %d, want 2", got)
	}
	if kept := numberIn(t, again, `SELECT count(*) FROM quarantined`); kept != 1 {
		t.Errorf("%d rows were set aside, want the stray one: a part of the append was stored", kept)
	}
}
