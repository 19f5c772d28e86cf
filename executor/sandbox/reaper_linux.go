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

// The socket for the filter's listener: as the reaper finds it, and as it hands it
// on to the program's stage.
const (
	reaperNotifyFD = 6
	notifyFD       = 5
)

// reapEvery is how often a tree that is to die is gone through.
const reapEvery = 2 * time.Millisecond

// runReaper is the outer of the two inner stages without namespaces. It starts
// the other one, inherits every process that loses its parent, and ends when the
// last of them is dead: after the program's end, or when the hold is let go. It
// never returns.
func runReaper() {
	status := os.NewFile(statusFD, "status")
	r, err := newReaper()
	if err != nil {
		var no syscall.Errno
		_ = errors.As(err, &no) // 0 where it is no call's
		_ = json.NewEncoder(status).Encode(initFailure{Stage: "reaper", Errno: int(no), Text: err.Error()})
		syscall.Exit(initExit)
	}
	_ = status.Close() // the program's stage has its own
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(holdFD, "hold"))
		r.end()
	}()
	go func() { syscall.Exit(r.reap()) }() // at once: there is nothing to flush
	<-r.dying
	r.slay()
}

// reaper ends a tree of processes.
type reaper struct {
	main int // the program, and its process group
	uid  int // the user that the tree alone has; 0: it is all that the thread that kills can reach

	mu     sync.Mutex
	dying  chan struct{} // has a word when all are to be killed
	reaped bool          // the program's number may be another's
}

// end begins to kill all of them. Most are of the program's group, which the
// kernel kills at once, however fast they fork.
func (r *reaper) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reaped {
		_ = unix.Kill(-r.main, unix.SIGKILL)
	}
	select {
	case r.dying <- struct{}{}:
	default:
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

// newReaper starts the tree. The thread that does is the only one in the tree's
// domain: none but it may kill. The parent-death signal that the program's stage
// sets follows it, too, so it never ends. Where the kernel has no such domain, the
// tree is known by its user.
func newReaper() (*reaper, error) {
	runtime.LockOSThread()
	var c initConfig
	if err := readConfig(&c); err != nil {
		return nil, err
	}
	r := &reaper{dying: make(chan struct{}, 1)}
	alone := scopeSignals
	if c.ABI < abiScoped {
		r.uid = c.UID
		alone = func() error { return signalUser(r.uid, 0) }
	}
	if err := alone(); err != nil {
		return nil, err
	}
	var err error
	r.main, err = startInner()
	return r, err
}

// scopeSignals puts this thread, and what it starts from now on, into a domain that
// no signal of theirs leaves. That it holds is seen before anybody trusts in it.
func scopeSignals() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	// Each domain above a program must allow a file to be moved to another directory,
	// also one that is about signals.
	const moves = unix.LANDLOCK_ACCESS_FS_REFER
	fd, err := newRuleset(unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_SIGNAL, Handled_access_fs: moves})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := landlockAllow(fd, "/", moves); err != nil {
		return err
	}
	if err := restrictSelf(fd); err != nil {
		return err
	}
	return onlyOwnSignals()
}

// startInner forks the program's stage.
func startInner() (int, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("subreaper: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	pid, err := syscall.ForkExec(self, []string{initPath, wordInit}, &syscall.ProcAttr{
		Env: []string{}, Files: []uintptr{0, 1, 2, configFD, statusFD, reaperNotifyFD},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 0, err
	}
	for _, fd := range []int{0, configFD, reaperNotifyFD} {
		_ = unix.Close(fd) // the reaper reads nothing more
	}
	return pid, nil
}

// slay kills until nobody is left, which reap finds out.
func (r *reaper) slay() {
	tick := time.NewTicker(reapEvery)
	defer tick.Stop()
	for ; ; <-tick.C {
		r.slayOnce()
	}
}

// slayOnce kills everybody. In a domain that no signal leaves, all but the reaper are
// the tree: the kernel kills it in one step, in which nobody can be born. So it does
// with all processes of a user.
func (r *reaper) slayOnce() {
	if r.uid != 0 {
		_ = signalUser(r.uid, unix.SIGKILL) // it worked at the start
		return
	}
	_ = unix.Kill(-1, unix.SIGKILL)
}

// signalUser sends a signal to all processes of a user who isn't root, and to no
// other, in one step.
func signalUser(uid int, sig unix.Signal) error {
	return asUser(uid, func() error {
		if err := onlyOwnSignals(); err != nil {
			return err
		}
		_ = unix.Kill(-1, sig) // that there is nobody is no failure
		return nil
	})
}

// asUser does something while this thread of root's has another effective user. Its
// real one is meanwhile somebody whom nobody else has, and root the saved one: by
// those two a signal finds it, so that none of that user does.
func asUser(uid int, do func() error) error {
	if uid <= rootIDs {
		return fmt.Errorf("user %d is no program's", uid)
	}
	if err := setUsers(uid-rootIDs, uid, 0); err != nil {
		return err
	}
	err := do()
	// Who changed his user can't be looked at; the program's stage does, see reaped.
	return errors.Join(err, setUsers(0, 0, 0), unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0))
}

// setUsers sets real, effective and saved user of this thread alone.
func setUsers(own, effective, saved int) error {
	if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(own), uintptr(effective), uintptr(saved)); no != 0 {
		return no
	}
	return nil
}

// onlyOwnSignals refuses to go on where a signal reaches what isn't of the tree. What
// is meant for the tree would reach all that runs.
func onlyOwnSignals() error {
	if err := unix.Kill(os.Getppid(), 0); !errors.Is(err, unix.EPERM) {
		return errors.New("signals reach more than the program")
	}
	return nil
}
