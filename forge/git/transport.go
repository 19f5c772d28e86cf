package git

import (
	"context"
	"errors"
	"io"
)

// The two services of a git server.
const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

// transport reaches a repository over one protocol.
type transport interface {
	// dial starts an exchange with a service. Its errors are *Error.
	dial(ctx context.Context, service string) (conn, error)
	// stateless says that send may come without advert: the request goes alone,
	// and the server alone judges it. Half the cost, the same safety.
	stateless() bool
	close() error
}

// conn is one exchange: the server's advertisement, then one request.
type conn interface {
	// advert returns the advertisement; it is to be read up to its flush.
	advert(ctx context.Context) (io.Reader, error)
	// send writes a request and returns the answer. v2 asks for protocol version
	// 2. An error that wraps errUnsent says that nothing reached the server.
	send(ctx context.Context, request []byte, v2 bool) (io.Reader, error)
	// words is what the server has said beside its answer, on standard error.
	words() string
	// finish ends the exchange, once. wait: what the server still does is waited for.
	finish(wait bool)
}

type progressKey struct{}

// WithProgress returns a context that has f called, and no other function, with all that
// its exchanges send and get, as it moves, and with each object that is made of it: a
// transfer that takes long is told from a server that is silent. f is called often, and
// by several goroutines at once.
func WithProgress(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

func progressOf(ctx context.Context) func() {
	if f, _ := ctx.Value(progressKey{}).(func()); f != nil {
		return f
	}
	return func() {}
}

// moving is what is read as it moves.
type moving struct {
	from  io.Reader
	moved func()
}

func progressing(ctx context.Context, from io.Reader) io.Reader { return moving{from, progressOf(ctx)} }

func (m moving) Read(b []byte) (int, error) {
	n, err := m.from.Read(b)
	if n > 0 {
		m.moved()
	}
	return n, err
}

// errUnsent marks an error after which the server can't have acted.
var errUnsent = errors.New("nothing was sent")

// unsent marks err.
func unsent(err error) error { return &unsentError{err} }

type unsentError struct{ err error }

func (e *unsentError) Error() string   { return e.err.Error() }
func (e *unsentError) Unwrap() []error { return []error{errUnsent, e.err} }

func unreachable(why string, err error) *Error {
	return fail(CodeUnreachable, why, "check the URL, the network and the server; it will be tried again", err)
}
