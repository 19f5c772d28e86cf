package gittest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// envInMemory is set for the process that runs the tests: the process that started it, and
// where its file system in memory belongs.
const envInMemory = "WRIT_TEST_IN_MEMORY"

// Tests are a package's, as [testing.M] has them.
type Tests interface{ Run() int }

// InMemory is these tests with their temporary files in memory, where root runs them. Making
// and removing files on a disk is a tenth to a third of their time, and a disk's durability
// tells these tests nothing. They then run in a process of their own, in whose mount namespace
// a tmpfs lies.
//
// The files are on the disk, as without it, where somebody else than root runs the tests,
// where the host allows no mount namespace, and where a tmpfs has no extended attributes
// user.*, which files of builders may have (before Linux 6.6). So they are for benchmarks,
// which measure the disk as well, for coverage, and for a fuzzer's workers.
func InMemory(tests Tests) Tests { return inMemory{tests} }

type inMemory struct{ Tests }

// onDisk begins the arguments of runs that stay on the disk.
var onDisk = []string{"-test.bench=", "-test.cover", "-test.gocoverdir", "-test.fuzzworker"}

func (m inMemory) Run() int {
	parent, at, _ := strings.Cut(os.Getenv(envInMemory), " ")
	_ = os.Unsetenv(envInMemory) // programs that the tests start aren't meant
	if parent == strconv.Itoa(os.Getppid()) {
		if err := mount(at); err != nil {
			fmt.Fprintln(os.Stderr, "the tests have their files on the disk:", err)
		}
		return m.Tests.Run()
	}
	for _, arg := range os.Args[1:] {
		if slices.ContainsFunc(onDisk, func(flag string) bool { return strings.HasPrefix(arg, flag) }) {
			return m.Tests.Run()
		}
	}
	if os.Geteuid() == 0 {
		if code, ran := inside(); ran {
			return code
		}
	}
	return m.Tests.Run()
}

// inside runs this program again, in a mount namespace of its own. It reports whether it could.
func inside() (code int, ran bool) {
	dir, err := os.MkdirTemp("", "gittest-")
	if err != nil {
		return 0, false
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty outside
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", envInMemory, os.Getpid(), dir))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread() // Pdeathsig tells of the end of a thread
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "the tests have their files on the disk:", err)
		return 0, false
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s != unix.SIGINT { // which a terminal sends to both
				_ = cmd.Process.Signal(s)
			}
		case err := <-ended:
			if err != nil && cmd.ProcessState.ExitCode() < 1 {
				fmt.Fprintln(os.Stderr, "the tests ended:", err) // by a signal
				return 1, true
			}
			return cmd.ProcessState.ExitCode(), true
		}
	}
}

// mount puts a tmpfs there, and temporary files into it.
func mount(at string) error {
	if err := unix.Mount("gittest", at, "tmpfs", 0, "mode=1777"); err != nil {
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
