package localforge

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/forge/local"
)

// DefaultListen is where the embedded forge listens unless it is told otherwise.
const DefaultListen = "127.0.0.1:8715"

// Serve serves the forge at an address of this machine until ctx ends. It tells where, and
// whom the forge tells, when it listens.
func (d Dir) Serve(ctx context.Context, proc *wire.Process, listen string, tell func(url string, hooks []local.Hook)) error {
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return problem.Usage("--listen must be an address of this machine's loopback and a port, such as %s: the forge speaks without TLS.", DefaultListen)
	}
	hooks, err := d.Hooks()
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return problem.BadAddress(listen, err, "--listen")
	}
	defer l.Close()
	url := "http://" + l.Addr().String()
	for _, h := range hooks {
		proc.HideValues([]string{string(h.Secret)})
	}
	log := slog.New(slog.NewTextHandler(&wire.LockedLines{W: proc.Stderr}, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: proc.Clean}))
	return d.With(ctx, local.Options{URL: url, Hooks: hooks, Logger: log}, func(s *local.Store) error {
		handler, err := s.Handler()
		if err != nil {
			return err
		}
		tell(url, hooks)
		return serveUntil(ctx, l, handler)
	})
}

// Limits of the forge's server. A push of a large repository takes a while.
const (
	headTime  = 10 * time.Second
	idleTime  = 2 * time.Minute
	closeTime = 5 * time.Second
)

// serveUntil serves until ctx ends, and then what is in hand for a moment more.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: headTime, IdleTimeout: idleTime}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		return srv.Close() // who still waits is cut off; what was done is on disk
	}
	return nil
}
