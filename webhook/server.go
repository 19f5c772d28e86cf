package webhook

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"github.com/writbot/writ/kernel"
)

// Config is what a [Server] is made of.
type Config struct {
	Listener net.Listener // required; closed by Run
	Hooks    []Hook       // each under /hooks/<name>
	Inbox    Inbox        // required
	Checks   []Check      // of /readyz
	// Parts are further checks of /readyz, each of a part that comes and goes; it
	// is called for each answer. Nil: there are none.
	Parts  func() []Check
	Limits Limits
	Logger *slog.Logger // required; one line for each request
	// Registry gets the receiver's metrics and is what /metrics shows. Nil: there
	// is no such page.
	Registry *prometheus.Registry
	// Middleware runs inside the access log and the shelter from panics, around
	// every route: the place for traces.
	Middleware []echo.MiddlewareFunc
	// Routes adds pages of other rooms to the same listener.
	Routes func(*echo.Echo)
	Now    func() time.Time // nil: time.Now
}

// Server receives deliveries. It is made by [New] and run once.
type Server struct {
	listener net.Listener
	echo     *echo.Echo
	inbox    Inbox
	limits   Limits
	log      *slog.Logger
	now      func() time.Time
	budget   *budget
	metrics  *metrics
	probes   []*probe
	parts    func() []Check
	// partsMu guards partProbes, the probes of parts by name.
	partsMu    sync.Mutex
	partProbes map[string]*probe
	draining   atomic.Bool
	// handOvers are calls of the inbox, which may outlive their requests.
	handOvers sync.WaitGroup
}

// hookName is the form of a hook's name in its path.
var hookName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// New makes a server without starting it. Its errors are [*Error]:
// config.secret.empty for a hook without a secret on a listener that others
// reach, config.invalid for what is missing.
func New(c Config) (*Server, error) {
	s := &Server{
		listener: c.Listener, inbox: c.Inbox, limits: c.Limits.withDefaults(), log: c.Logger, now: c.Now, parts: c.Parts,
	}
	if s.now == nil {
		s.now = time.Now
	}
	if c.Listener == nil || c.Inbox == nil || c.Logger == nil {
		return nil, refuse(kernel.CodeConfigInvalid, "Listener, inbox and logger are required.")
	}
	if err := s.limits.check(); err != nil {
		return nil, err
	}
	if err := checkHooks(c.Hooks, c.Listener.Addr()); err != nil {
		return nil, err
	}
	s.budget = &budget{deliveries: s.limits.InHand, bytes: s.limits.Memory}
	var registerer prometheus.Registerer
	if c.Registry != nil {
		registerer = c.Registry
	}
	var err error
	if s.metrics, err = newMetrics(registerer, s.budget); err != nil {
		return nil, refuse(kernel.CodeConfigInvalid, err.Error()+".")
	}
	for _, check := range c.Checks {
		s.probes = append(s.probes, &probe{Check: check, timeout: s.limits.Probe})
	}
	s.route(c)
	return s, nil
}

// checkHooks refuses a hook that takes anybody's deliveries where anybody could
// send some.
func checkHooks(hooks []Hook, addr net.Addr) error {
	seen := map[string]bool{}
	for _, h := range hooks {
		if name := h.Name(); seen[name] || !hookName.MatchString(name) {
			return refuse(kernel.CodeConfigInvalid, "A hook's name stands twice, or isn't lower-case letters, digits and dashes.")
		}
		seen[h.Name()] = true
		if u, ok := h.(unsigned); ok && u.Unsigned() && !loopback(addr) {
			return refuse(kernel.CodeSecretEmpty, "Without one it may listen on a loopback address only.")
		}
	}
	return nil
}

func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

func (s *Server) route(c Config) {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Logger.SetOutput(io.Discard) // ours is slog
	e.HTTPErrorHandler = s.answerError
	e.Use(s.watch, recovered)
	e.Use(c.Middleware...)
	for _, h := range c.Hooks {
		e.POST("/hooks/"+h.Name(), s.receive(h))
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		e.Add(method, "/healthz", live)
		e.Add(method, "/readyz", s.ready)
	}
	if c.Registry != nil {
		e.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(c.Registry, promhttp.HandlerOpts{
			MaxRequestsInFlight: 4, Timeout: s.limits.Probe,
		})))
	}
	if c.Routes != nil {
		c.Routes(e)
	}
	s.echo = e
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx ends, then takes no more connections, answers what is in
// hand and returns nil. What isn't answered within Limits.Shutdown is cut off,
// and that is an error; so is a listener that fails.
func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler:           s.echo,
		ReadHeaderTimeout: s.limits.HeaderTime,
		ReadTimeout:       s.limits.RequestTime,
		// From the end of the head on: the body, the hand-over, and time to write.
		WriteTimeout:   s.limits.RequestTime + s.limits.Store + s.limits.HeaderTime,
		IdleTimeout:    s.limits.IdleTime,
		MaxHeaderBytes: s.limits.Header,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		ConnState:      connState,
	}
	listener := watchedListener{netutil.LimitListener(s.listener, s.limits.Connections)}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	s.log.Info("listening", "address", s.listener.Addr().String())
	select {
	case err := <-served:
		return errors.Join(err, srv.Close())
	case <-ctx.Done():
	}
	s.draining.Store(true)
	return s.drain(context.WithoutCancel(ctx), srv, served)
}

func (s *Server) drain(ctx context.Context, srv *http.Server, served <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Shutdown)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		return errors.Join(errors.New("requests were cut off at shutdown"), err, srv.Close())
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	stored := make(chan struct{})
	go func() { s.handOvers.Wait(); close(stored) }()
	select {
	case <-stored:
		return nil
	case <-ctx.Done():
		return errors.New("the store had not taken every delivery at shutdown")
	}
}
