package gittest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// envAt is set for the process that runs the tests: where its file system in memory belongs.
const envAt = "WRIT_TEST_IN_MEMORY"

// fuzzWorker is the argument of a process that the fuzzer started, with descriptors that it needs.
const fuzzWorker = "-test.fuzzworker"

// Tests are a package's, as [testing.M] has them.
type Tests interface{ Run() int }

// InMemory is these tests with their temporary files in memory, where root runs them:
// making and removing them on a disk takes a tenth of the time, and a disk's durability tells
// these tests nothing. They then run in a process of their own, in whose mount namespace a
// tmpfs lies. Whoever isn't root has them on the disk as ever, as has a kernel whose tmpfs
// knows no attributes of users (before Linux 6.6).
func InMemory(tests Tests) Tests { return inMemory{tests} }

type inMemory struct{ Tests }

func (m inMemory) Run() int {
	if at, child := os.LookupEnv(envAt); child {
		_ = os.Unsetenv(envAt) // programs that the tests start aren't meant
		if err := mount(at); err != nil {
			fmt.Fprintln(os.Stderr, "the tests have their files on the disk:", err)
		}
		return m.Tests.Run()
	}
	if os.Geteuid() != 0 || slices.Contains(os.Args, fuzzWorker) {
		return m.Tests.Run()
	}
	dir, err := os.MkdirTemp("", "w")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return inside(dir)
}

// inside runs this program again, in a mount namespace of its own.
func inside(dir string) int {
	defer func() { _ = os.RemoveAll(dir) }() // it is empty outside
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), envAt+"="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread() // Pdeathsig tells of the end of a thread
	err := cmd.Run()
	if ended := new(exec.ExitError); errors.As(err, &ended) {
		return max(ended.ExitCode(), 1) // -1 where a signal ended it
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the tests can't be started in memory:", err)
		return 1
	}
	return 0
}

// mount puts a tmpfs there, and temporary files into it.
func mount(at string) error {
	if err := unix.Mount("writ-tests", at, "tmpfs", 0, "mode=1777"); err != nil {
		return err
	}
	probe := filepath.Join(at, "probe")
	err := os.WriteFile(probe, nil, 0o600)
	err = errors.Join(err, unix.Setxattr(probe, "user.writ", []byte("1"), 0), os.Remove(probe))
	if err != nil {
		return errors.Join(err, unix.Unmount(at, 0))
	}
	return os.Setenv("TMPDIR", at)
}
