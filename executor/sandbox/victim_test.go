package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// victim is what is outside, and must stay as it is.
type victim struct {
	Key      string // a file that nobody else may read
	Readable string // one that the program may read, and its user owns
	Open     string // one that everybody may write
	Dir      string
	Terminal string // with words that its user typed
	Pid      int    // a process of the same user

	master *os.File
	heard  chan string
}

// typed is what the user has typed at the terminal, and nobody has read.
const typed = "typed at another terminal\n"

// newVictim lays it out.
func newVictim(t *testing.T) victim {
	t.Helper()
	v := victim{Dir: removable(t)}
	v.Key, v.Readable, v.Open = v.Dir+"/key", v.Dir+"/readable", v.Dir+"/open"
	for name, mode := range map[string]os.FileMode{v.Key: 0o600, v.Readable: 0o644, v.Open: 0o666} {
		if err := errors.Join(os.WriteFile(name, []byte("before"), 0o600), os.Chmod(name, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(v.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	other := exec.Command("sleep", "3600")
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	v.Pid = other.Process.Pid
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	v.openTerminal(t)
	_, v.heard = listeners(t)
	daemon, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: v.Dir + "/daemon", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Close() })
	go func() {
		if n, _, err := daemon.ReadFrom(make([]byte, 100)); err == nil {
			v.heard <- fmt.Sprintf("%d bytes to a daemon", n)
		}
	}()
	if err := os.Chmod(v.Dir+"/daemon", 0o777); err != nil {
		t.Fatal(err)
	}
	return v
}

// sweepKey is the key of shared memory that sweep.c uses, as the kernel prints it.
const sweepKey = "2003986804"

// removable is a place that can be removed whatever modes a sweep gives it.
func removable(t *testing.T) string {
	t.Helper()
	dir := place(t)
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				_ = os.Chmod(path, 0o700) // what fails is told by the removal
			}
			return nil
		})
	})
	return dir
}

// openTerminal makes a terminal at which somebody has typed.
func (v *victim) openTerminal(t *testing.T) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	v.Terminal, v.master = fmt.Sprintf("/dev/pts/%d", n), master
	side, err := os.OpenFile(v.Terminal, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = side.Close() })
	mode, err := unix.IoctlGetTermios(int(side.Fd()), unix.TCGETS)
	if err == nil {
		mode.Lflag &^= unix.ECHO
		err = unix.IoctlSetTermios(int(side.Fd()), unix.TCSETS, mode)
	}
	if err == nil {
		_, err = master.WriteString(typed)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// state is all of the victim that can be seen from outside, as text.
func (v victim) state(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, path := range []string{v.Key, v.Readable, v.Open, v.Dir, v.Dir + "/daemon", v.Terminal} {
		var st unix.Stat_t
		err := unix.Lstat(path, &st)
		var data []byte
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			data, _ = os.ReadFile(path)
		}
		if path == v.Terminal { // its times are those of its use
			st.Mtim, st.Ctim = unix.Timespec{}, unix.Timespec{}
		}
		list := make([]byte, 100)
		n, _ := unix.Llistxattr(path, list)
		fmt.Fprintln(&b, path, err, st.Mode, st.Uid, st.Gid, st.Nlink, st.Size, st.Mtim, st.Ctim, string(data), max(n, 0))
	}
	names, err := os.ReadDir(v.Dir)
	fmt.Fprintln(&b, names, err)
	// State, group, session, terminal; priority, niceness, threads; scheduling.
	f := statOf(v.Pid)
	if f == nil {
		return b.String() + "the process is gone"
	}
	for _, i := range []int{2, 3, 4, 15, 16, 17, 37, 38} {
		fmt.Fprintf(&b, "%s ", f[i])
	}
	fmt.Fprintln(&b, bytes.ContainsAny(f[0], "TtZX")) // stopped or dead
	for _, name := range []string{"limits", "oom_score_adj", "timerslack_ns"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", v.Pid, name))
		fmt.Fprintln(&b, name, string(data), err)
	}
	var cpus unix.CPUSet
	err = unix.SchedGetaffinity(v.Pid, &cpus)
	io, _, _ := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioWhoProcess, uintptr(v.Pid), 0)
	fmt.Fprintln(&b, cpus, err, io)
	// Of what belongs to the machine, what only a sweep would make: others use it too.
	for _, of := range []struct{ path, ours string }{
		{"/proc/sysvipc/shm", sweepKey},
		{"/proc/sysvipc/sem", sweepKey},
		{"/proc/sysvipc/msg", sweepKey},
		{"/proc/sys/kernel/hostname", "evil"},
		{"/proc/self/mounts", v.Dir},
		{"/proc/swaps", v.Dir},
	} {
		data, err := os.ReadFile(of.path)
		fmt.Fprintln(&b, of.path, strings.Contains(string(data), of.ours), err)
	}
	nice, _ := unix.Getpriority(unix.PRIO_PROCESS, 0) // the test's own: it is of the same user
	fmt.Fprintln(&b, nice)
	return b.String()
}

// intact compares the victim with what it was, and looks at its terminal.
func (v victim) intact(t *testing.T, before string) {
	t.Helper()
	if after := v.state(t); after != before {
		t.Errorf("outside something has changed, from\n%s\nto\n%s", before, after)
	}
	if len(v.heard) != 0 {
		t.Errorf("somebody outside heard: %s", <-v.heard)
	}
	// Not by package os, which would wait for words that somebody else has read.
	side, err := unix.Open(v.Terminal, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(side)
	got := make([]byte, 100)
	n, err := unix.Read(side, got)
	if err != nil || string(got[:max(n, 0)]) != typed {
		t.Errorf("of what was typed %q is left, %v", got[:max(n, 0)], err)
	}
	master := int(v.master.Fd()) // which makes it wait
	if err := unix.SetNonblock(master, true); err != nil {
		t.Fatal(err)
	}
	if n, _ := unix.Read(master, got); n > 0 {
		t.Errorf("written to the terminal: %q", got[:n])
	}
}
