package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// fewDescriptors is what a process of the test may open, and deepLevels how deep
// its tree is.
const (
	fewDescriptors = 64
	deepLevels     = 3000
)

// actRemove makes a deep tree below a directory and removes it, with few
// descriptors.
func actRemove(args []string) {
	dir := args[0]
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	limit := syscall.Rlimit{Cur: fewDescriptors, Max: fewDescriptors}
	fail(syscall.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	fail(os.Mkdir(filepath.Join(dir, "tree"), 0o700))
	fd, err := unix.Open(filepath.Join(dir, "tree"), unix.O_DIRECTORY, 0)
	fail(err)
	for n := range deepLevels {
		fail(unix.Symlinkat(filepath.Join(dir, "kept"), fd, "link"))
		fail(unix.Mkdirat(fd, "d", 0o700))
		fail(unix.Mkdirat(fd, "e", 0o700))
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY, 0)
		fail(err)
		if n%7 == 0 {
			fail(unix.Fchmod(fd, 0))
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	fail(RemoveTree(filepath.Join(dir, "tree")))
}

func TestSweep_DeeperThanDescriptors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"kept", "kept/file"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("/proc/self/exe", "act-remove", dir).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Errorf("left are %v, %v", list, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "kept", "file")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("what a link led to: %v, %v", info, err)
	}
}

// TestSweep_TakenNames has directories whose names are those of moved ones.
func TestSweep_TakenNames(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "tree")
	deep := filepath.Join(dir, strings.Repeat("d/", 3*maxOpenLevels))
	for _, d := range []string{deep, filepath.Join(dir, "deep-0", "x"), filepath.Join(dir, "deep-1")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 50 {
		if err := os.WriteFile(filepath.Join(deep, strconv.Itoa(n)), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveTree(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if err := RemoveTree(dir); err != nil {
		t.Errorf("what isn't there: %v", err)
	}
}

// TestK4_RemoverFollowsNoLink: what was a directory a moment ago may be a link by now.
func TestK4_RemoverFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept, link := filepath.Join(dir, "kept"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(kept, 0o755), os.Symlink(kept, link)); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (int, error){
		"opened": func() (int, error) { return openOwn(unix.AT_FDCWD, link) },
		"closed": func() (int, error) {
			return openClosed(unix.AT_FDCWD, link, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		},
	} {
		if fd, err := open(); err == nil {
			unix.Close(fd)
			t.Errorf("%s: the link was followed", name)
		}
		if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: what the link leads to: %v, %v", name, info, err)
		}
	}
	if err := RemoveTree(link); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}
