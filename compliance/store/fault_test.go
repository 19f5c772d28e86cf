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
// taken, what was stored before is there, and the words name what failed and what to do.
func TestR4_ACommitFails(t *testing.T) {
	fails := []string{"the disk fails on the file system mounted at /", "dmesg"}
	calls := []struct {
		name   string
		number int
		errno  unix.Errno
		words  []string
	}{
		{"fsync EIO", unix.SYS_FSYNC, unix.EIO, fails},
		{"fdatasync EIO", unix.SYS_FDATASYNC, unix.EIO, fails},
		{"pwrite EIO", unix.SYS_PWRITE64, unix.EIO, fails},
		{"pwrite ENOSPC", unix.SYS_PWRITE64, unix.ENOSPC, []string{"is full, or its quota is used up (free are ", "Make room there"}},
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
		told, words, _ := strings.Cut(string(out), "\n")
		const refused = "3 true true true"
		if told == refused {
			failed++
			wantWords(t, c.name, words, c.words)
		} else if !flush {
			t.Errorf("%s: %q, want %q", c.name, told, refused)
		}
		// After a failed flush the rows may be there, all or none; after a failed
		// write they aren't.
		got := names(t, openAt(t, path))
		all := []string{"kept", "lost-1", "lost-2", "lost-3"}
		if !slices.Equal(got, all[:1]) && (!flush || !slices.Equal(got, all) && told == refused) {
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

// wantWords holds a failed store's words against what must be in them; what became of the
// transaction afterwards must not.
func wantWords(t *testing.T, name, words string, want []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(words, w) {
			t.Errorf("%s: %q lacks %q", name, words, w)
		}
	}
	if strings.Contains(words, "rollback") || strings.Contains(words, "read-only") {
		t.Errorf("%s: %q blames something else", name, words)
	}
}

// TestBlame: what can't be read is the disk's fault, however the file system is mounted and
// however full it is; what can't be written is the disk's only where it is neither read-only
// nor full.
func TestBlame(t *testing.T) {
	for name, want := range map[string][4]error{
		// neither, full, read-only, both
		"read":   {errDisk, errDisk, errDisk, errDisk},
		"write":  {errDisk, errNoRoom, unix.EROFS, errNoRoom},
		"sync":   {errDisk, errNoRoom, unix.EROFS, errNoRoom},
		"full":   {errNoRoom, errNoRoom, errNoRoom, errNoRoom},
		"closed": {nil, nil, unix.EROFS, unix.EROFS},
		"syntax": {nil, nil, nil, nil},
	} {
		out, err := child(t, "blame", filepath.Join(t.TempDir(), FileName), name).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := strings.TrimSpace(string(out)); got != fmt.Sprint(want) {
			t.Errorf("%s is blamed on %s, want %v", name, got, want)
		}
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
