package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// alone makes calls without a sandbox, but for one layer.
func alone(t *testing.T, only layer, v victim, calls ...uintptr) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{"act-alone", string(only)}, sweepArgs(t, v, calls...)...)...)
	cmd.Dir, cmd.Stdin = removable(t), strings.NewReader("") // or calls on descriptor 0 would change /dev/null
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// actAlone puts one layer on, and becomes the program of the other arguments.
// What the filter hands over is answered by a process that it isn't on.
func actAlone(args []string) {
	err := closeOnExec() // or calls would change what the caller has open
	if err == nil {
		err = putOn(layer(args[0]), args)
	}
	if err != nil {
		fmt.Println("alone:", err)
		os.Exit(1)
	}
	fmt.Println("alone:", syscall.Exec(args[1], args[1:], os.Environ()))
	os.Exit(1)
}

func putOn(only layer, args []string) error {
	if only == "" {
		return nil
	}
	runtime.LockOSThread()
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	c := initConfig{Confined: true, Landlock: true, ABI: landlockABI(), Uncounted: true, Writable: []string{dir}}
	if only == byLandlock {
		c.Readable = append(systemPaths(), "/proc", filepath.Dir(args[1]), args[3][len(outside):])
		return landlock(c)
	}
	filters, err := newFilters(c.filter())
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	other := exec.Command("/proc/self/exe", "act-answer", dir)
	other.ExtraFiles = []*os.File{os.NewFile(uintptr(pair[0]), "notify")}
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := other.Start(); err != nil {
		return err
	}
	listener, err := filters.install()
	if err != nil {
		return err
	}
	return sendFD(pair[1], listener)
}

// actAnswer answers what a filter hands over until the one who asked has ended.
func actAnswer(args []string) {
	a, err := newAnswerer(initConfig{Confined: true, Uncounted: true, Writable: args})
	if err != nil {
		os.Exit(1)
	}
	stop, _, _ := os.Pipe()
	a.serve(os.NewFile(3, "notify"), stop)
}
