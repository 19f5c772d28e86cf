package gittest

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { os.Exit(InMemory(m).Run()) }

// TestInMemory: run by root, temporary files are in memory, in a file system that no other
// process sees; what is started from here isn't told where it is.
func TestInMemory(t *testing.T) {
	if os.Geteuid() != 0 || flag.Lookup("test.bench").Value.String() != "" {
		t.Log("not root, or with benchmarks: temporary files are on the disk")
		return
	}
	dir := t.TempDir()
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err != nil || at.Type != unix.TMPFS_MAGIC {
		t.Errorf("temporary files are in a file system of type %#x, %v", at.Type, err)
	}
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(os.Getppid()), "root", dir)); !os.IsNotExist(err) {
		t.Errorf("the process that started this one sees %s: %v", dir, err)
	}
	if at, ok := os.LookupEnv(envInMemory); ok {
		t.Errorf("programs would take %s for theirs", at)
	}
}
