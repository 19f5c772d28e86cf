package setup

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// listen opens a loopback address and no other.
func listen(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	if err != nil || ip == nil || !ip.IsLoopback() {
		return nil, &Error{Usage: true, Text: "--listen must be a loopback address with a port, such as 127.0.0.1:0.", Remedy: "The page receives the App's key, so it is for this machine alone; from another, use ssh -L."}
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &Error{Text: "The page can't be served at " + address + ": " + err.Error() + ".", Remedy: "Give another port with --listen, or 127.0.0.1:0 for any.", Err: err}
	}
	return ln, nil
}

// The limits of the page's server. A browser on this machine is quick.
const (
	headerTime  = 10 * time.Second
	closeTime   = 40 * time.Second // a code may be being traded, and counts once
	doneTime    = time.Second      // the last page has been sent
	headerBytes = 64 << 10
)

// serve serves the page until the App is kept, and closes it.
func serve(ctx context.Context, ln net.Listener, p *page) error {
	srv := &http.Server{Handler: p, ReadHeaderTimeout: headerTime, MaxHeaderBytes: headerBytes}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	var err error
	select {
	case <-p.done:
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-failed:
		return err
	}
	patience := closeTime
	if p.isLocked() {
		patience = doneTime
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if shut := srv.Shutdown(last); shut != nil {
		_ = srv.Close() // nobody is waiting any more
	}
	if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if p.isLocked() {
		return nil
	}
	return err
}
