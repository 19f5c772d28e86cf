package git

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"

	"github.com/writbot/writ/forge/git/internal/process"
)

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
	proc    *process.Process
	done    chan struct{} // closed when the process has ended
	ending  sync.Once
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
	cmd := process.Command{Git: c.t.git, Args: args, Stdin: progressing(ctx, bytes.NewReader(stdin))}
	if v2 && c.service == uploadPack {
		cmd.Env = []string{"GIT_PROTOCOL=version=2"}
	}
	p, err := process.Start(ctx, cmd)
	if err != nil {
		return nil, unsent(fail(CodeLocal, "git can't be started", "install git and put it on the PATH", err))
	}
	c.proc, c.done = p, make(chan struct{})
	return progressing(ctx, p.Stdout), nil
}

func (c *processConn) words() string {
	if c.proc == nil {
		return ""
	}
	return c.proc.Words()
}

// finish lets the process end by itself: a post-receive hook is no part of the
// answer, and the end of our context no reason to kill it.
func (c *processConn) finish(wait bool) {
	if c.proc == nil {
		return
	}
	c.ending.Do(func() {
		c.proc.Detach()
		c.t.running.Go(func() {
			_ = c.proc.Wait() // its answer was read
			close(c.done)
		})
	})
	if wait {
		<-c.done
	}
}
