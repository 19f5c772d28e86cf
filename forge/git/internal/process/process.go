// Package process runs the git program: with an environment of its own, in a
// process group of its own, and no longer than its context lasts. It is the only
// place of forge/git that starts a process.
package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// KillGrace is how long a git process may clean up its lock files after SIGTERM.
const KillGrace = 2 * time.Second

// MaxWords bounds what is kept of a process's standard error, in bytes: a
// screenful. A hook may print without end.
const MaxWords = 4096

// Env is the environment of a git process: nothing of the caller's GIT_*
// variables, no prompt, no translation (its words are read), no replacement of
// objects, and no transport that could run a command. extra comes last and wins.
func Env(extra ...string) []string {
	env := []string{
		"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_ALLOW_PROTOCOL=file:http:https:ssh",
	}
	for _, key := range []string{"PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "USER", "LOGNAME"} {
		if v, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+v)
		}
	}
	return append(env, extra...)
}

// Command is what to run.
type Command struct {
	Git   string // the git program; empty: "git" on the PATH
	Args  []string
	Env   []string  // added to Env()
	Stdin io.Reader // nil: empty
}

// Process is a running git.
type Process struct {
	Stdout io.Reader // to be read to its end, or left to Wait

	cmd    *exec.Cmd
	stderr Words
	disarm func() bool
	done   chan struct{}
}

// Start starts git. When ctx ends, the whole process group is ended: by SIGTERM,
// after which git removes its locks, and what is left after KillGrace by
// SIGKILL. Wait must be called.
func Start(ctx context.Context, c Command) (*Process, error) {
	if c.Git == "" {
		c.Git = "git"
	}
	cmd := exec.Command(c.Git, c.Args...) //nolint:noctx // killed below, with its group; the operator's git, argv of our own
	cmd.Env = Env(c.Env...)
	cmd.Stdin = c.Stdin
	// A group of its own: a Ctrl-C meant for us does not stop a push half-way.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = KillGrace // a hook's background child may keep the pipe
	p := &Process{cmd: cmd, done: make(chan struct{})}
	cmd.Stderr = &p.stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	p.Stdout = out
	p.disarm = context.AfterFunc(ctx, p.kill)
	return p, nil
}

// kill ends the process group, gently first.
func (p *Process) kill() {
	group := -p.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM) // it may be gone
	select {
	case <-p.done:
	case <-time.After(KillGrace):
	}
	_ = syscall.Kill(group, syscall.SIGKILL) // what git left behind, if anything
}

// Detach lets the process go on when its context ends.
func (p *Process) Detach() { p.disarm() }

// Wait reads away what is left of Stdout and waits for the end. It is called once.
func (p *Process) Wait() error {
	_, _ = io.Copy(io.Discard, p.Stdout) // until its end
	err := p.cmd.Wait()
	close(p.done)
	p.disarm()
	return err
}

// Words is the beginning of what the process has said on standard error.
func (p *Process) Words() string { return p.stderr.String() }

// Words keeps the first MaxWords bytes written to it. It may be written and read
// at the same time.
type Words struct {
	mu sync.Mutex
	b  []byte
}

func (w *Words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, p[:min(len(p), MaxWords-len(w.b))]...)
	return len(p), nil
}

func (w *Words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.b)
}

// maxOutput bounds what Run keeps of an output, in bytes.
const maxOutput = 256 << 20

// Run runs a git that ends by itself, and returns its output, or its words where it
// fails.
func Run(ctx context.Context, c Command) ([]byte, error) {
	p, err := Start(ctx, c)
	if err != nil {
		return []byte(err.Error()), err
	}
	out, err := io.ReadAll(io.LimitReader(p.Stdout, maxOutput))
	// Its output was read to the end: what still holds its standard error on a busy
	// machine is no failure of git's.
	if waited := p.Wait(); !errors.Is(waited, exec.ErrWaitDelay) {
		err = errors.Join(err, waited)
	}
	if err != nil {
		return bytes.TrimSpace([]byte(p.Words())), err
	}
	return out, nil
}
