package scope

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"golang.org/x/sys/unix"
)

// Long names at every level: each entry's path would be 30 KB.
func TestS16_LongPathsAreNotKept(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	fd, err := openDir(unix.AT_FDCWD, w.path("calc"))
	must(t, err)
	name := strings.Repeat("d", 255)
	for range 120 {
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := openDir(fd, name)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	for i := range 6000 {
		f, err := unix.Openat(fd, fmt.Sprint(i), unix.O_CREAT|unix.O_WRONLY, 0o644)
		must(t, err)
		unix.Close(f)
	}
	unix.Close(fd)
	s, err := New(w.entries, w.rules())
	must(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	snap, err := s.Snapshot(context.Background(), w.dir)
	must(t, err)
	v, err := s.Compare(context.Background(), snap)
	must(t, err)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
		t.Errorf("%d MiB were allocated, 6,000 paths are 172", got>>20)
	}
	if len(snap.unread) != 1 || len(snap.files) != len(baseFiles) || len(v.Violations) > 5 {
		t.Errorf("%d refused, %d files, %d violations", len(snap.unread), len(snap.files), len(v.Violations))
	}
}

func TestS16_CancelledCompare(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	w.write("calc/new", "x")
	s, err := New(w.entries, w.rules())
	must(t, err)
	snap, err := s.Snapshot(context.Background(), w.dir)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Compare(ctx, snap); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A builder that shuts its workspace has done so itself.
func TestS4_ShutWorkspace(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	must(t, os.Chmod(w.dir, 0))
	t.Cleanup(func() { _ = os.Chmod(w.dir, 0o700) })
	v := w.verify(w.rules())
	wantViolation(t, v, kernel.CodeScopeMode, ".")
	if len(v.Changes) > 0 {
		t.Error(v.Changes)
	}
	for _, x := range v.Violations {
		if strings.Contains(x.Subject+x.Detail, w.dir) {
			t.Errorf("a path of the host: %v", x)
		}
	}
}
