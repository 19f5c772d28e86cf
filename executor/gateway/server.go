package gateway

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Limits are those of one run. None may be zero: nothing is unlimited.
type Limits struct {
	Open  int           // connections at once
	Total int           // connections in all
	Up    int64         // bytes to the outside, in all
	Down  int64         // bytes from the outside, in all
	Time  time.Duration // from Serve on
}

// Config is what a Server needs.
type Config struct {
	Decider  *Decider
	Resolver Resolver
	Limits   Limits
	// Roots are who is believed of hosts to which the gateway speaks TLS; nil: those
	// of the system.
	Roots *x509.CertPool
	// Purse bounds what requests to providers use; nil: nothing does.
	Purse Purse
	// Judged is told of the body of each request that a provider's table lets through to an
	// endpoint whose use is counted: one that counts tokens or lists models is no work. If it
	// is set, nothing goes out at all.
	Judged func(body []byte)
	// Record is told of every connection when it has ended, one call at a time.
	Record func(Record)
}

// How long one step of a connection may take. What is served afterwards is bounded
// by the run's time alone.
const (
	headTime  = 10 * time.Second // to send a request, or a ClientHello: it comes from the same machine
	reachTime = 30 * time.Second // to look a name up and connect
)

// Server is the way out for one run.
type Server struct {
	c                   Config
	headTime, helloTime time.Duration
	bodyTime            time.Duration
	bodies              chan struct{} // those of requests to providers that are looked at

	up, down atomic.Int64
	open     atomic.Int64
	records  sync.Mutex
}

// New checks the configuration.
func New(c Config) (*Server, error) {
	l := c.Limits
	if c.Decider == nil || c.Resolver == nil || c.Record == nil {
		return nil, errors.New("gateway: decider, resolver or record is missing")
	}
	if l.Open <= 0 || l.Total <= 0 || l.Up <= 0 || l.Down <= 0 || l.Time <= 0 {
		return nil, fmt.Errorf("gateway: every limit must be above zero: %+v", l)
	}
	return &Server{c: c, headTime: headTime, helloTime: headTime, bodyTime: bodyTime, bodies: make(chan struct{}, maxBodies)}, nil
}

var (
	errTime  = cut(CodeTime, "the run's time is over")
	errTotal = cut(CodeTotal, "too many connections in all")
	errOpen  = cut(CodeOpen, "too many connections at once")
)

// Serve answers connections until ctx or the run's time ends, or there were too many.
// When it returns, the listener and all connections are closed and recorded. The
// error is that of a listener that broke.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.c.Limits.Time, errTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	for n := 1; ; n++ {
		client, err := s.accept(ctx, l)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			cancel()
			return err
		}
		if n > s.c.Limits.Total {
			_ = l.Close()
			s.refuse(client, errTotal)
			return nil
		}
		if s.open.Add(1) > int64(s.c.Limits.Open) {
			s.open.Add(-1)
			s.refuse(client, errOpen)
			continue
		}
		running.Go(func() { s.handle(ctx, client) })
	}
}

// acceptPause and acceptPauseMax are the first and the longest wait before a connection is accepted after
// the machine had nothing left to accept it with.
const (
	acceptPause    = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// accept waits for the next connection. That the process has no descriptor or no memory
// left, be it by what the inside opened, ends no gateway: connections that end give both
// back.
func (s *Server) accept(ctx context.Context, l net.Listener) (net.Conn, error) {
	for pause := acceptPause; ; pause = min(2*pause, acceptPauseMax) {
		client, err := l.Accept()
		if err == nil || !passing(err) {
			return client, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func passing(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// refuse ends a connection unheard.
func (s *Server) refuse(client net.Conn, why error) {
	x := &exchange{server: s, client: client, record: Record{At: time.Now().UTC()}}
	x.end(why)
}

// handle serves one connection and records it, whatever happens.
func (s *Server) handle(ctx context.Context, client net.Conn) {
	x := &exchange{server: s, client: client, in: bufio.NewReaderSize(client, maxHead), record: Record{At: time.Now().UTC()}}
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	err := x.guarded(ctx)
	s.open.Add(-1) // whoever sees the record may take the place
	x.end(err)
}

// exchange is one connection while it is served.
type exchange struct {
	holdsBody bool   // of the places in server.bodies one is taken
	meter     *meter // of what is sent to a provider; nil for what costs nothing
	charged   bool   // the provider has the request, and didn't refuse it
	reserved  bool   // in the purse, for this request
	server    *Server
	client    net.Conn
	in        *bufio.Reader
	// tunnel says that the client was told to begin, and reads no HTTP any more;
	// begun that a part of an answer was sent.
	tunnel, begun bool
	record        Record
}

// guarded turns a panic into an error, and what broke since the time was over into that.
func (x *exchange) guarded(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &fault{verdict: Failed, code: CodeInternal, msg: clean(fmt.Sprint(p))}
		}
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, errTime) {
			err = cause
		}
	}()
	return x.serve(ctx)
}

// end says to the client what came of it, closes and records.
func (x *exchange) end(err error) {
	r := &x.record
	r.Verdict = Allowed
	if err != nil {
		f := asFault(err)
		r.Verdict, r.Code, r.Detail = f.verdict, f.code, f.msg
		x.tell(f)
	}
	if err != nil && x.begun {
		x.abort()
	} else {
		_ = x.client.Close()
	}
	r.Millis = time.Since(r.At).Milliseconds()
	x.server.records.Lock()
	defer x.server.records.Unlock()
	x.server.c.Record(*r)
}

// abort ends the client's connection so that it reads an error: what ends with its
// connection would look whole otherwise.
func (x *exchange) abort() {
	if c, ok := x.client.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = x.client.Close()
}

// tell sends the last words, if the client can understand any.
func (x *exchange) tell(f *fault) {
	words := f.answer()
	switch {
	case x.begun:
		return
	case x.tunnel:
		words = alert
	}
	_ = x.client.SetWriteDeadline(time.Now().Add(x.server.headTime))
	_, _ = x.client.Write([]byte(words))
}
