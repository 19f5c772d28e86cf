package store

import (
	"bufio"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A disk that fails: nobody is told that something is durable, nothing more is
// taken, and what was stored before is there.
func TestR4_ACommitFails(t *testing.T) {
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
		db := openAt(t, path)
		for _, f := range []func(Tx) error{run(table), insert("kept")} {
			if err := db.Write(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		out, err := child(t, "errno", path, fmt.Sprint(c.number), fmt.Sprint(int(c.errno))).Output()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		flush := c.number == unix.SYS_FSYNC || c.number == unix.SYS_FDATASYNC
		const refused = "3 true true true\n"
		if string(out) == refused {
			failed++
		} else if !flush {
			t.Errorf("%s: %q, want %q", c.name, out, refused)
		}
		// After a failed flush the rows may be there, all or none; after a failed
		// write they aren't.
		got := names(t, openAt(t, path))
		all := []string{"kept", "lost-1", "lost-2", "lost-3"}
		if !slices.Equal(got, all[:1]) && (!flush || !slices.Equal(got, all) && string(out) == refused) {
			t.Errorf("%s: %q are stored", c.name, got)
		}
		if fault, err := db.Check(t.Context()); fault != "" || err != nil {
			t.Errorf("%s: %q %v", c.name, fault, err)
		}
	}
	// SQLite uses one of the two calls to flush; that one must have counted.
	if failed < len(calls)-1 {
		t.Errorf("only %d of the failing calls stopped a commit: it does not wait for the disk", failed)
	}
}

func TestR4_KilledWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	db := openAt(t, path)
	if err := db.Write(t.Context(), run(table)); err != nil {
		t.Fatal(err)
	}
	var durable []string
	for round := range 5 {
		durable = append(durable, killAfter(t, path, round, 1+13*round)...)
		stored := names(t, db)
		for _, name := range durable {
			if _, found := slices.BinarySearch(stored, name); !found {
				t.Fatalf("round %d: %s was acknowledged and is lost", round, name)
			}
		}
		for _, name := range stored {
			if whole, half := strings.CutSuffix(name, "+"); half {
				name = whole
			} else {
				name += "+"
			}
			if _, found := slices.BinarySearch(stored, name); !found {
				t.Fatalf("round %d: half of a part is stored, %s is missing", round, name)
			}
		}
	}
}

// killAfter kills a writing process when it has reported n durable names and
// returns those that it reported.
func killAfter(t *testing.T, path string, round, n int) (durable []string) {
	t.Helper()
	cmd := child(t, "forever", path, fmt.Sprint(round))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if durable = append(durable, lines.Text()); len(durable) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the process was not killed: %v", err)
	}
	return durable
}
