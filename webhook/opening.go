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

// Opening answers at addresses whose [Server] isn't there yet, because what it needs
// is still being opened: /healthz says that the process lives, and everything else is
// answered 503, so that whoever delivers knows at once that nothing was taken.
//
// The addresses stay taken over [Opening.End], and connections that come in between
// wait for the server.
type Opening struct {
	fronts []*openingFront
	served sync.WaitGroup
}

type openingFront struct {
	listener lent
	http     *http.Server
}

// lent is a listener that stays when the one who borrowed it closes it.
type lent struct{ *net.TCPListener }

// Close ends Accept.
func (l lent) Close() error { return l.SetDeadline(time.Now()) }

const (
	// openingHeader bounds a request's head, in bytes: nothing of it is needed.
	openingHeader = 8 << 10
	// openingTime bounds a whole exchange.
	openingTime = 2 * time.Second
	// openingEnd is how long an exchange that has begun may take once the server is there.
	openingEnd = 200 * time.Millisecond
	// openingRetry is the delay after which a sender should try again, in seconds.
	openingRetry = "5"
)

// Open answers at TCP listeners until End. What goes wrong on a connection is told to
// debugging only.
func Open(logger *slog.Logger, listeners ...*net.TCPListener) *Opening {
	o := &Opening{}
	for _, l := range listeners {
		f := &openingFront{listener: lent{l}, http: &http.Server{
			Handler: http.HandlerFunc(answerOpening), ReadTimeout: openingTime, WriteTimeout: openingTime,
			MaxHeaderBytes: openingHeader, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		}}
		f.http.SetKeepAlivesEnabled(false)
		o.fronts = append(o.fronts, f)
		o.served.Go(func() { _ = f.http.Serve(f.listener) }) // its end is End
	}
	return o
}

func answerOpening(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if r.URL.Path == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		_, _ = io.WriteString(w, `{"live":true}`+"\n") // who asked may be gone
		return
	}
	w.Header().Set("Retry-After", openingRetry)
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `{"ready":false,"checks":[{"name":"start","ok":false}]}`+"\n")
}

// End stops answering and gives the listeners back, as they were. A second call does
// nothing.
func (o *Opening) End() error {
	ctx, cancel := context.WithTimeout(context.Background(), openingEnd)
	defer cancel()
	var errs []error
	for _, f := range o.fronts {
		if f.http.Shutdown(ctx) != nil { // somebody sends and doesn't end
			_ = f.http.Close()
		}
	}
	o.served.Wait()
	for _, f := range o.fronts {
		errs = append(errs, f.listener.SetDeadline(time.Time{}))
	}
	o.fronts = nil
	return errors.Join(errs...)
}
