package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// holdFD is the pipe that writ holds open as long as the tree may live. The
// kernel closes it when writ dies, kill -9 included.
const holdFD = 5

// reapEvery is how often a tree that is to die is gone through.
const reapEvery = 2 * time.Millisecond

// runReaper is the outer of the two inner stages without namespaces. It starts
// the other one, inherits every process that loses its parent, and ends when the
// last of them is dead: after the program's end, or when the hold is let go. It
// never returns.
func runReaper() {
	status := os.NewFile(statusFD, "status")
	pid, err := startInner(readWritable())
	if err != nil {
		var no syscall.Errno
		_ = errors.As(err, &no) // 0 where it is no call's
		_ = json.NewEncoder(status).Encode(initFailure{Stage: "reaper", Errno: int(no), Text: err.Error()})
		os.Exit(initExit)
	}
	_ = status.Close() // the program's stage has its own
	r := &reaper{main: pid}
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(holdFD, "hold"))
		r.end()
	}()
	syscall.Exit(r.reap()) // at once: there is nothing to flush
}

// reaper ends a tree of processes.
type reaper struct {
	main int // the program, and its process group

	mu     sync.Mutex
	dying  bool
	reaped bool // the program's number may be another's
}

// end begins to kill all of them. Most are of the program's group, which the
// kernel kills at once, however fast they fork.
func (r *reaper) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reaped {
		_ = unix.Kill(-r.main, unix.SIGKILL)
	}
	if !r.dying {
		r.dying = true
		go slayTree()
	}
}

// reap waits for every process until none is left, and gives the exit code of the
// program, as a shell counts it.
func (r *reaper) reap() (code int) {
	code = initExit
	for {
		pid, err := endedChild()
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // ECHILD: nobody is left
			return code
		case pid == r.main:
			r.end() // while its group is its own
		}
		var ws unix.WaitStatus
		r.mu.Lock()
		if _, err = unix.Wait4(pid, &ws, unix.WNOHANG, nil); err == nil && pid == r.main {
			r.reaped = true
			code = ws.ExitStatus()
			if ws.Signaled() { //nolint:misspell // the method's name
				code = 128 + int(ws.Signal())
			}
		}
		r.mu.Unlock()
	}
}

// endedChild waits for a child to end and leaves it as it is.
func endedChild() (int, error) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		return 0, err
	}
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), siginfoPid))), nil
}

// siginfoPid is where a siginfo of a child has its number, on 64-bit systems.
const siginfoPid = 16

// readWritable reads from the configuration, which is the other stage's, where
// the program may change files.
func readWritable() []string {
	var c initConfig
	data := make([]byte, maxConfig)
	n, err := unix.Pread(configFD, data, 0) // the offset is the other stage's
	if err != nil || json.Unmarshal(data[:n], &c) != nil {
		return nil // and then nothing may be changed
	}
	return c.Writable
}

// maxConfig bounds what the stages are told.
const maxConfig = 4 << 20

// startInner forks the program's stage. The parent-death signal that the stage
// sets follows this thread, which therefore never ends.
func startInner(writable []string) (int, error) {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("subreaper: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	pid, err := syscall.ForkExec(self, []string{initPath, wordInit}, &syscall.ProcAttr{
		Env: []string{}, Files: []uintptr{0, 1, 2, configFD, statusFD, uintptr(pair[1])},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 0, err
	}
	_ = unix.Close(pair[1])
	go answer(pair[0], writable)
	for _, fd := range []int{0, configFD} {
		_ = unix.Close(fd) // the reaper reads nothing
	}
	return pid, nil
}

// slayTree kills until nobody is left, which the reaper's own wait finds out.
// All are stopped before any is killed, so that none can fork while the rest is
// looked for; at the limit on processes nobody new can come either.
func slayTree() {
	tick := time.NewTicker(reapEvery)
	defer tick.Stop()
	for {
		stopped := map[int]bool{}
		for range 20 { // passes until one finds nobody new
			fresh := 0
			for pid, parent := range descendants(os.Getpid()) {
				if !stopped[pid] {
					stopped[pid] = true
					fresh++
					sendTo(pid, parent, unix.SIGSTOP)
				}
			}
			if fresh == 0 {
				break
			}
		}
		for pid, parent := range descendants(os.Getpid()) {
			sendTo(pid, parent, unix.SIGKILL)
		}
		<-tick.C
	}
}

// descendants gives all processes below one, with their parents.
func descendants(root int) map[int]int {
	found := map[int]int{}
	for queue := []int{root}; len(queue) > 0 && len(found) < maxTree; queue = queue[1:] {
		for _, pid := range children(queue[0]) {
			if _, seen := found[pid]; !seen {
				found[pid] = queue[0]
				queue = append(queue, pid)
			}
		}
	}
	return found
}

// sendTo sends to a process as long as it is the child that it was: a number
// that was given to somebody else meanwhile is left alone.
func sendTo(pid, parent int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if p := parentOf(pid); p == parent || p == os.Getpid() {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// parentOf is a process's parent now, 0 if it is gone.
func parentOf(pid int) int {
	f := statOf(pid)
	if f == nil {
		return 0
	}
	return int(number(f[statParent]))
}
