package smarthttp

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/writbot/writ/forge/git/internal/process"
)

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
