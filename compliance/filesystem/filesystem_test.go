package filesystem_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/filesystem"
)

// TestMountPoint: a mount is told from a directory, and what isn't there yet is
// where it would be.
func TestMountPoint(t *testing.T) {
	for path, want := range map[string]string{"/": "/", "/proc": "/proc", "/proc/self/status": "/proc", "/proc/none/at/all": "/proc"} {
		if got := filesystem.MountPoint(path); got != want {
			t.Errorf("%s is on %s, want %s", path, got, want)
		}
	}
	if err := os.WriteFile("/dev/full", []byte("x"), 0); !filesystem.Refused(err) {
		t.Errorf("a full disk is not known by %v", err)
	}
	if _, err := os.Stat(filepath.Join(t.TempDir(), "none")); filesystem.Refused(err) {
		t.Error("a file that isn't there is taken for a full disk")
	}
	if free := filesystem.Free(t.TempDir()); free <= 0 {
		t.Errorf("free are %d bytes", free)
	}
	if free := filesystem.Free(filepath.Join(t.TempDir(), "none")); free != 0 {
		t.Errorf("free are %d bytes where nothing is", free)
	}
	if got := filesystem.NoRoom("/proc"); !strings.HasPrefix(got, "the file system mounted at /proc is full") {
		t.Error(got)
	}
}
