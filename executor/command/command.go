// Package command runs a program as whoever started writ, as make would: with his
// environment, files and network. It is for commands that a repository's own
// people wrote (seed 000); builders run in executor/sandbox.
//
// The program has a process group of its own, and the group doesn't outlive writ,
// kill -9 included: a small watchman in the group reads a pipe that writ holds, and
// kills the group when it ends. What the program started and leaves the group on purpose
// (setsid) stays.
package command

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// StopGrace is how long a program that is asked to end may take, before it is
// killed with its group.
const StopGrace = 5 * time.Second

// Spec is what to run.
type Spec struct {
	Argv []string // the program, looked up on the PATH without a slash, and its arguments
	Dir  string
	Env  []string
	// Stdin is nothing where it is nil. The streams are handed on as they are, so
	// that nobody waits for a process that keeps one open.
	Stdin, Stdout, Stderr *os.File
}

// Process is a running program.
type Process struct {
	cmd   *exec.Cmd
	hold  *os.File // the watchman's pipe
	guard *exec.Cmd
	done  chan struct{}
	once  sync.Once
}

// Start starts a program.
func Start(s Spec) (*Process, error) {
	p := &Process{done: make(chan struct{})}
	p.cmd = exec.Command(s.Argv[0], s.Argv[1:]...) //nolint:noctx // the caller's own command; ended by Stop
	p.cmd.Dir, p.cmd.Env = s.Dir, s.Env
	if s.Stdin != nil {
		p.cmd.Stdin = s.Stdin
	}
	if s.Stdout != nil {
		p.cmd.Stdout = s.Stdout
	}
	if s.Stderr != nil {
		p.cmd.Stderr = s.Stderr
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.watch()
	started := make(chan error)
	go func() {
		// The parent-death signal follows the thread, which must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		if err != nil {
			p.end()
		}
		started <- err
		if err != nil {
			return
		}
		_ = p.cmd.Wait() // Exit reads the state
		p.end()
		close(p.done)
	}()
	return p, <-started
}

// watch starts the watchman, whose group the program then joins: there is no moment
// at which the program runs and nobody watches it. Without a shell there is none,
// and only the program itself ends with writ.
func (p *Process) watch() {
	read, write, err := os.Pipe()
	if err != nil {
		return
	}
	defer read.Close()
	p.guard = exec.Command("/bin/sh", "-c", "trap '' TERM INT HUP QUIT; read -r _; kill -KILL 0") //nolint:noctx // it ends with its pipe
	p.guard.Stdin, p.guard.Dir = read, "/"
	p.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.guard.Start() != nil {
		p.guard = nil
		_ = write.Close() // nobody reads it
		return
	}
	p.hold = write
	p.cmd.SysProcAttr.Pgid = p.guard.Process.Pid
}

// end has the watchman kill what is left of the group.
func (p *Process) end() {
	if p.guard == nil {
		return
	}
	_ = p.hold.Close() // what he waits for
	_ = p.guard.Wait() // he kills himself, too
}

// Done is closed when the program has ended, and its group with it.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for that, and returns the exit status as a shell counts it.
func (p *Process) Wait() int {
	<-p.done
	state := p.cmd.ProcessState
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() { //nolint:misspell // the method's name
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// Stop ends the program and its group: by SIGTERM, and after grace by SIGKILL. It
// returns when nothing of it runs.
func (p *Process) Stop(grace time.Duration) {
	p.once.Do(func() {
		p.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(grace):
		}
		p.Signal(syscall.SIGKILL)
	})
	<-p.done
}

// Signal sends a signal to the group, and to the program where it left its group.
func (p *Process) Signal(s syscall.Signal) {
	select {
	case <-p.done: // its number may be another's
		return
	default:
	}
	group := p.cmd.Process.Pid
	if p.guard != nil {
		group = p.guard.Process.Pid
	}
	if now, err := syscall.Getpgid(p.cmd.Process.Pid); err == nil && now != group {
		_ = p.cmd.Process.Signal(s) // it may be gone
	}
	_ = syscall.Kill(-group, s) // likewise
}

// Detach starts this same program with other arguments, in a session of its own,
// so that it goes on when its caller ends. What it writes to its third descriptor
// is returned for reading; everything else goes to log.
func Detach(args, env []string, log *os.File) (io.ReadCloser, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...) //nolint:noctx // writ itself, which goes on by itself
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = env, log, log, []*os.File{write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := errors.Join(cmd.Start(), write.Close()); err != nil {
		_ = read.Close() // nothing comes
		return nil, err
	}
	_ = cmd.Process.Release() // it isn't waited for
	return read, nil
}
