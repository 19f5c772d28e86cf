package webhook

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Startup answers at addresses whose [Server] isn't there yet, because what it needs
// is still being opened: /healthz says that the process lives, and everything else is
// answered 503, so that a sender knows at once that nothing was taken.
//
// The addresses stay taken over [Startup.End], and connections that come in between
// wait for the server.
type Startup struct {
	fronts []*startupFront
	served sync.WaitGroup
}

type startupFront struct {
	listener lent
	http     *http.Server
}

// lent is a listener that stays open when its borrower closes it.
type lent struct{ *net.TCPListener }

// Close ends Accept.
func (l lent) Close() error { return l.SetDeadline(time.Now()) }

const (
	// startupHeader bounds a request's head, in bytes: nothing of it is needed.
	startupHeader = 8 << 10
	// startupTime bounds a whole exchange.
	startupTime = 2 * time.Second
	// startupEnd is how long an exchange that has begun may take once the server is there.
	startupEnd = 200 * time.Millisecond
	// startupRetry is the delay after which a sender should try again, in seconds.
	startupRetry = "5"
)

// NewStartup answers at TCP listeners until End. What goes wrong on a connection is logged
// for debugging only.
func NewStartup(logger *slog.Logger, listeners ...*net.TCPListener) *Startup {
	s := &Startup{}
	for _, l := range listeners {
		f := &startupFront{listener: lent{l}, http: &http.Server{
			Handler: http.HandlerFunc(answerAtStartup), ReadTimeout: startupTime, WriteTimeout: startupTime,
			MaxHeaderBytes: startupHeader, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		}}
		f.http.SetKeepAlivesEnabled(false)
		s.fronts = append(s.fronts, f)
		s.served.Go(func() { _ = f.http.Serve(f.listener) }) // its end is End
	}
	return s
}

func answerAtStartup(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if r.URL.Path == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		_, _ = io.WriteString(w, `{"live":true}`+"\n") // the sender may be gone
		return
	}
	w.Header().Set("Retry-After", startupRetry)
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `{"ready":false,"checks":[{"name":"start","ok":false}]}`+"\n")
}

// End stops answering and gives the listeners back, as they were. A second call does
// nothing.
func (s *Startup) End() error {
	ctx, cancel := context.WithTimeout(context.Background(), startupEnd)
	defer cancel()
	var errs []error
	for _, f := range s.fronts {
		if f.http.Shutdown(ctx) != nil { // a sender doesn't end
			_ = f.http.Close()
		}
	}
	s.served.Wait()
	for _, f := range s.fronts {
		errs = append(errs, f.listener.SetDeadline(time.Time{}))
	}
	s.fronts = nil
	return errors.Join(errs...)
}
