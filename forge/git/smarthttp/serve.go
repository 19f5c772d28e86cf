package smarthttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/writbot/writ/forge/git/internal/pkt"
	"github.com/writbot/writ/forge/git/internal/process"
)

// errAnswered says that something failed after the answer had begun, so that it
// can't be told there any more.
var errAnswered = errors.New("failed behind the beginning of the answer")

// advertise answers what the server offers.
func (h *Handler) advertise(r *http.Request, a *answer, q request) error {
	ctx, cancel := context.WithDeadline(r.Context(), a.until)
	defer cancel()
	a.kind = "application/x-git-" + q.service + "-advertisement"
	var head []byte
	if q.version != "version=2" { // which leaves the line out
		head = pkt.Append(nil, "# service=git-%s\n", q.service)
		head = append(head, "0000"...)
	}
	return h.run(ctx, q, nil, func(stdout io.Reader, _ *feed) error { return pass(a, head, stdout) })
}

// pass writes r to w as it comes, and head before it. If nothing comes, head does
// not go either: a git that fails at once is answered with a status.
func pass(w io.Writer, head []byte, r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			out := buf[:n]
			if head != nil {
				out, head = append(head, out...), nil
			}
			if _, err := w.Write(out); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// run runs git while consume reads its output. The body is fed to it; nil: none.
// git has ended when run returns.
func (h *Handler) run(ctx context.Context, q request, body io.Reader, consume func(stdout io.Reader, f *feed) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := newFeed(body, cancel)
	waited, err := h.runFed(ctx, q, f, func(stdout io.Reader) {
		if err := consume(stdout, f); err != nil {
			cancel(err)
		}
	})
	f.end()
	if err == nil {
		err = f.fault()
	}
	if err == nil {
		err = verdict(ctx, waited)
	}
	return err
}

// runFed is run up to the end of git, whose error comes first.
func (h *Handler) runFed(ctx context.Context, q request, f *feed, consume func(stdout io.Reader)) (waited, err error) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return nil, &statusError{http.StatusServiceUnavailable, "the server is busy"}
	}
	p, err := process.Start(ctx, process.Command{
		Git: h.opts.GitBinary, Args: h.args(q), Env: append(userEnv(q), h.opts.Env...), Stdin: f.stdin(),
	})
	if err != nil {
		return nil, fmt.Errorf("git can't be started: %w", err)
	}
	consume(p.Stdout)
	f.gitEnded()
	waited = p.Wait()
	if words := printable(p.Words()); waited != nil && words != "" {
		h.log.Warn("git said", "repo", q.repo, "service", q.service, "words", words)
	}
	return waited, nil
}

// verdict says what an exchange came to. That git was ended by us counts before
// its exit status.
func verdict(ctx context.Context, waited error) error {
	var exit interface{ ExitCode() int }
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		return &statusError{http.StatusServiceUnavailable, "git took too long"}
	case errors.Is(cause, context.Canceled):
		return &errBroken{cause}
	case cause != nil:
		return cause
	case errors.As(waited, &exit):
		return &statusError{http.StatusInternalServerError, "git failed; the server's log says why"}
	}
	return nil // what else Wait may say is about a hook's background child
}

// fixed are settings of git that hold whatever a repository's own are.
var fixed = []string{
	"transfer.hideRefs=!refs", // the last one wins: nothing is hidden
	"receive.advertiseAtomic=true",
	"uploadpack.allowFilter=true",
}

func (h *Handler) args(q request) []string {
	var args []string
	for _, kv := range append(fixed[:len(fixed):len(fixed)], h.opts.Config...) {
		args = append(args, "-c", kv)
	}
	args = append(args, q.service, "--stateless-rpc")
	if q.advertise {
		args = append(args, "--http-backend-info-refs")
	}
	if q.service == uploadPack {
		args = append(args, "--strict") // this very directory
	}
	return append(args, "--end-of-options", q.dir)
}

// userEnv tells git, and its hooks, who asks.
func userEnv(q request) []string {
	var env []string
	if q.version != "" {
		env = append(env, "GIT_PROTOCOL="+q.version)
	}
	if user := printable(q.user); user != "" {
		env = append(env, "REMOTE_USER="+user, "GIT_COMMITTER_NAME="+user, "GIT_COMMITTER_EMAIL="+user+"@http")
	}
	return env
}

// printable takes control characters out, line ends included.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s))
}

// feed brings a request's body to git, and reads on when git does not: a client
// that is still sending would not read why.
type feed struct {
	pipe *io.PipeReader // nil: there is no body
	done chan struct{}

	mu   sync.Mutex
	err  error // the body can't be read to its end
	kill *time.Timer
}

// newFeed begins to feed. If the body can't be read to its end, git sees it end
// early and cleans up after itself, which it would not if it were killed; kill is
// called if it does not end by that.
func newFeed(body io.Reader, kill func(error)) *feed {
	f := &feed{done: make(chan struct{})}
	if body == nil {
		close(f.done)
		return f
	}
	r, w := io.Pipe()
	f.pipe = r
	go func() {
		defer close(f.done)
		_, err := io.Copy(w, body)
		if errors.Is(err, io.ErrClosedPipe) {
			_, err = io.Copy(io.Discard, body)
		}
		if err != nil {
			f.mu.Lock()
			f.err = err
			f.kill = time.AfterFunc(process.KillGrace, func() { kill(err) })
			f.mu.Unlock()
		}
		_ = w.Close() // never fails
	}()
	return f
}

// fault says why the body was not read to its end, nil if it was, or will be yet.
func (f *feed) fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// stdin is what git reads.
func (f *feed) stdin() io.Reader {
	if f.pipe == nil {
		return nil
	}
	return quiet{f.pipe}
}

// quiet makes every error an end.
type quiet struct{ r io.Reader }

func (q quiet) Read(b []byte) (int, error) {
	n, err := q.r.Read(b)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// gitEnded says that nobody reads any more.
func (f *feed) gitEnded() {
	if f.pipe != nil {
		_ = f.pipe.Close() // never fails
	}
}

// end waits until the body was read. git has ended.
func (f *feed) end() {
	f.gitEnded()
	<-f.done
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kill != nil {
		f.kill.Stop()
	}
}
