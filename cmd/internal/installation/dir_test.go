package installation

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// TestT56_CopiedDirectoryIsAnotherRunner: only the directory itself, on this
// machine, is its own predecessor.
func TestT56_CopiedDirectoryIsAnotherRunner(t *testing.T) {
	id := func(path string) string {
		t.Helper()
		dir, err := OpenDir(path, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := dir.take(Use{Task: 1}); err != nil {
			t.Fatal(err)
		}
		defer dir.release()
		id, err := dir.RunnerID()
		if err != nil || !lease.ValidRunnerID(id) {
			t.Fatalf("%q %v", id, err)
		}
		return id
	}
	top := t.TempDir()
	one, two := filepath.Join(top, "one"), filepath.Join(top, "two")
	first := id(one)
	if again := id(one); again != first {
		t.Errorf("the same directory is %q, then %q", first, again)
	}
	if err := os.CopyFS(two, os.DirFS(one)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(two, 0o700); err != nil {
		t.Fatal(err)
	}
	if copied := id(two); copied == first {
		t.Errorf("a copy has the id of the original, %q", copied)
	}
	moved := filepath.Join(top, "moved")
	if err := os.Rename(one, moved); err != nil {
		t.Fatal(err)
	}
	if id(moved) != first {
		t.Error("a directory that was only renamed is another runner")
	}
}

func TestStateDir_OneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	one, err := OpenDir(path, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.take(Use{Task: 9, Repo: "/r"}); err != nil {
		t.Fatal(err)
	}
	two, err := OpenDir(path, true)
	if err != nil {
		t.Fatal(err)
	}
	err = two.take(Use{Task: 3})
	if p := problem.Explain(err); p.Code != kernel.CodeStateInUse || !strings.Contains(p.Text, fmt.Sprintf("process %d, which works on task 9", os.Getpid())) {
		t.Errorf("got %v", err)
	}
	if two.Probe() == nil {
		t.Error("the lock looks free")
	}
	for _, f := range []*os.File{one.lock, one.self} { // as a program that is just being started has them
		fd, err := unix.Dup(int(f.Fd()))
		must(t, err)
		defer unix.Close(fd)
	}
	one.release()
	if err := two.Probe(); err != nil {
		t.Errorf("the lock looks taken: %v", err)
	}
	if u := two.LastUse(); u.Task != 9 || u.Repo != "/r" {
		t.Errorf("last use %+v", u)
	}
}

// TestStateDir_HolderWasKilled: the lock of a process that is gone is waited for, since a
// program that it was starting has a copy for a moment.
func TestStateDir_HolderWasKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	one, err := OpenDir(path, true)
	must(t, err)
	must(t, one.take(Use{Server: true}))
	u := one.LastUse()
	u.PID = deadPID(t)
	must(t, writeUse(one.lock, u))
	released := time.AfterFunc(startLimit/10, one.release)
	defer released.Stop()
	two, err := OpenDir(path, false)
	must(t, err)
	must(t, two.take(Use{}))
	two.release()
}

// TestStateDir_ProbedWhileProgramsStart: who asks whether the lock is free leaves none
// behind, whatever the process starts meanwhile.
func TestStateDir_ProbedWhileProgramsStart(t *testing.T) {
	dir, err := OpenDir(filepath.Join(t.TempDir(), "s"), true)
	must(t, err)
	must(t, dir.take(Use{}))
	dir.release()
	var starting sync.WaitGroup
	defer starting.Wait()
	done := make(chan struct{})
	defer close(done)
	for range 4 {
		starting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.Command("true").Run() // only that it starts matters
				}
			}
		})
	}
	for i := range 4000 {
		must(t, dir.Probe())
		if err := dir.take(Use{}); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		dir.release()
	}
}

// TestStateDir_IsGone: only of a process that isn't there is anything waited for.
func TestStateDir_IsGone(t *testing.T) {
	for pid, want := range map[int]bool{0: false, os.Getpid(): false, 1: false, deadPID(t): true} {
		if isGone(pid) != want {
			t.Errorf("process %d: %v", pid, !want)
		}
	}
}

// deadPID is the id of a process that has ended.
func deadPID(t *testing.T) int {
	t.Helper()
	dead := exec.CommandContext(t.Context(), "true")
	must(t, dead.Run())
	return dead.Process.Pid
}

func TestStateDir_RefusesOthers(t *testing.T) {
	for _, mode := range []os.FileMode{0o755, 0o770, 0o704, 0o702, 0o777} {
		dir := filepath.Join(t.TempDir(), "s")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenDir(dir, true); err == nil || problem.Explain(err).Code != kernel.CodeEnvState {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

// TestL15_ObservationsAreKept: what one process saw, the next one knows.
func TestL15_ObservationsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), ObservedFile)
	obs := lease.Sighting{Ref: "refs/writ/task/1", OID: "abc", FirstSeenBootMs: 5, BootID: "b", FirstSeenWallMs: 6}
	if err := openSightings(path).Of("w/1").Save(obs); err != nil {
		t.Fatal(err)
	}
	other := obs
	other.OID = "def"
	if err := openSightings(path).Of("w/2").Save(other); err != nil {
		t.Fatal(err)
	}
	for world, want := range map[string]lease.Sighting{"w/1": obs, "w/2": other} {
		got, ok := openSightings(path).Of(world).Load(obs.Ref)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s: %v %s", world, ok, diff)
		}
	}
	if err := os.WriteFile(path, []byte("{torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := openSightings(path).Of("w/1")
	if _, ok := o.Load(obs.Ref); ok {
		t.Error("a torn file says something")
	}
	if err := o.Save(obs); err != nil {
		t.Errorf("a torn file can't be replaced: %v", err)
	}
}

func TestClock(t *testing.T) {
	a := NewClock().Now()
	b := NewClock().Now()
	if a.BootID == "" || a.BootID != b.BootID || b.BootMs < a.BootMs || a.BootMs <= 0 || a.WallMs <= 0 {
		t.Errorf("%+v %+v", a, b)
	}
}

// TestR3_LockFileRemoved: who removes or replaces the file of the lock lets no second
// process in, and the first one notices.
func TestR3_LockFileRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	one, err := OpenDir(path, true)
	must(t, err)
	must(t, one.take(Use{Server: true}))
	must(t, one.InPlace())
	for _, spoil := range []func() error{
		func() error { return os.Remove(one.File(lockFile)) },
		func() error { return os.WriteFile(one.File(lockFile), nil, 0o600) },
	} {
		must(t, spoil())
		if p := problem.Explain(one.InPlace()); p.Code != kernel.CodeEnvState || !strings.Contains(p.Text, "removed or replaced") {
			t.Errorf("the holder doesn't notice: %v", p)
		}
		two, err := OpenDir(path, false)
		must(t, err)
		if err := two.take(Use{}); problem.Explain(err).Code != kernel.CodeStateInUse {
			t.Errorf("a second process is let in: %v", err)
		}
		if two.Probe() == nil {
			t.Error("the lock looks free")
		}
	}
	one.release()
	two, err := OpenDir(path, false)
	must(t, err)
	must(t, two.take(Use{}))
	two.release()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
