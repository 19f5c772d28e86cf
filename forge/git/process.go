package git

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// killGrace is how long a git process may clean up its lock files after SIGTERM.
const killGrace = 2 * time.Second

// processTransport runs git's own server programs on a repository on disk, with
// --stateless-rpc, so that no list of all refs is written and read first. Locks,
// hooks and rules are the repository's own, as for any push.
type processTransport struct {
	git string // the git program
	dir string // the repository

	running sync.WaitGroup
}

func (t *processTransport) stateless() bool { return true }

// close waits for processes that have answered but still run hooks.
func (t *processTransport) close() error {
	t.running.Wait()
	return nil
}

func (t *processTransport) dial(_ context.Context, service string) (conn, error) {
	return &processConn{t: t, service: service}, nil
}

type processConn struct {
	t       *processTransport
	service string
	stderr  lockedWords
	cmd     *exec.Cmd
	out     io.Reader
	disarm  func() bool   // the context no longer ends the process
	done    chan struct{} // closed when the process has ended
	ending  sync.Once
}

// gitEnv is the environment of a git process: nothing of the caller's GIT_*
// variables, no prompt, no translation (its words are read), no replacement of
// objects, and no transport that could run a command.
func gitEnv(extra ...string) []string {
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

func (c *processConn) args(advertise bool) []string {
	args := []string{strings.TrimPrefix(c.service, "git-"), "--stateless-rpc"}
	if advertise {
		args = append(args, "--http-backend-info-refs")
	}
	return append(args, "--end-of-options", c.t.dir)
}

func (c *processConn) advert(ctx context.Context) (io.Reader, error) {
	return c.run(ctx, c.args(true), nil, true)
}

func (c *processConn) send(ctx context.Context, request []byte, v2 bool) (io.Reader, error) {
	return c.run(ctx, c.args(false), request, v2)
}

// run starts git and returns its output.
func (c *processConn) run(ctx context.Context, args []string, stdin []byte, v2 bool) (io.Reader, error) {
	cmd := exec.Command(c.t.git, args...) //nolint:noctx // killed below, with its group; the operator's git, argv of our own
	cmd.Env = gitEnv()
	if v2 && c.service == uploadPack {
		cmd.Env = append(cmd.Env, "GIT_PROTOCOL=version=2")
	}
	// A group of its own: a Ctrl-C meant for us does not stop a push half-way.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stderr = &c.stderr
	cmd.WaitDelay = killGrace // a hook's background child may keep the pipe
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, unsent(fail(CodeLocal, "git can't be started", "install git and put it on the PATH", err))
	}
	c.cmd, c.out, c.done = cmd, out, make(chan struct{})
	c.disarm = context.AfterFunc(ctx, c.kill)
	return out, nil
}

// kill ends the process group, gently first: git removes its locks on SIGTERM.
func (c *processConn) kill() {
	pid := c.cmd.Process.Pid
	_ = syscall.Kill(-pid, syscall.SIGTERM) // it may be gone
	select {
	case <-c.done:
	case <-time.After(killGrace):
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it may be gone
	}
}

func (c *processConn) words() string { return c.stderr.String() }

// finish lets the process end by itself: a post-receive hook is no part of the
// answer, and the end of our context no reason to kill it.
func (c *processConn) finish(wait bool) {
	if c.cmd == nil {
		return
	}
	c.ending.Do(func() {
		c.disarm()
		c.t.running.Go(func() {
			_, _ = io.Copy(io.Discard, c.out) // until its end
			_ = c.cmd.Wait()                  // its answer was read
			close(c.done)
		})
	})
	if wait {
		<-c.done
	}
}

// lockedWords is words for a process's standard error, written by another goroutine.
type lockedWords struct {
	mu sync.Mutex
	w  words
}

func (l *lockedWords) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (l *lockedWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.w.b)
}
