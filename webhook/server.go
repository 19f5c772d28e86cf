package webhook

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/kernel"
)

// Config is what a [Server] is made of.
type Config struct {
	Listener net.Listener // required; closed by Run
	// ProbeListener is where /healthz, /readyz and /metrics are, out of reach of a flood
	// at Listener. Nil: they are at Listener too. Closed by Run.
	ProbeListener net.Listener
	// Hosts are names under which /readyz and /metrics may be asked for, beside
	// addresses and localhost.
	Hosts []string
	// Proxies are the operator's own: the client that X-Forwarded-For names behind them is
	// believed, and one client may hold Limits.PerAddress. Without them all senders may
	// come from one address, that of a proxy.
	Proxies []netip.Prefix
	Hooks   []Hook  // each under /hooks/<name>
	Inbox   Inbox   // required
	Checks  []Check // of /readyz
	// Parts are further checks of /readyz, each of a part that comes and goes; it
	// is called for each answer. Nil: there are none.
	Parts func() []Check
	// Numbers are shown by /readyz as they are at that moment; it is called for each
	// answer. Nil: there are none.
	Numbers func() map[string]int64
	Limits  Limits
	Logger  *slog.Logger // required; one line for each delivery that is taken
	// Registry gets the receiver's metrics and is what /metrics shows. Nil: there
	// is no such page.
	Registry *prometheus.Registry
	// Middleware runs around every route, inside the log of requests and what catches
	// panics: the place for traces.
	Middleware []echo.MiddlewareFunc
	// Routes adds pages of other rooms to the same listener.
	Routes func(*echo.Echo)
	Now    func() time.Time // nil: time.Now
}

// Server receives deliveries. It is made by [New] and run once.
type Server struct {
	listener net.Listener
	fronts   []front
	senders  *senders
	hosts    []string
	inbox    Inbox
	limits   Limits
	log      *slog.Logger
	sparse   *sparse
	now      func() time.Time
	budget   *budget
	metrics  *metrics
	checks   []*sharedCheck
	parts    func() []Check
	numbers  func() map[string]int64
	// partsMu guards partChecks, the checks of parts by name.
	partsMu    sync.Mutex
	partChecks map[string]*sharedCheck
	draining   atomic.Bool
	// handOvers are calls of the inbox, which may outlive their requests.
	handOvers sync.WaitGroup
}

// hookName is the form of a hook's name in its path.
var hookName = lazyregexp.New(`^[a-z][a-z0-9-]{0,31}$`)

// New makes a server without starting it. Its errors are [*Error]:
// config.secret.empty for a hook without a secret on a listener that others
// reach, config.invalid for what is missing.
func New(c Config) (*Server, error) {
	s := &Server{
		listener: c.Listener, inbox: c.Inbox, limits: c.Limits.withDefaults(), log: c.Logger, now: c.Now, parts: c.Parts, numbers: c.Numbers,
		senders: &senders{proxies: c.Proxies}, hosts: c.Hosts,
	}
	if s.now == nil {
		s.now = time.Now
	}
	if c.Listener == nil || c.Inbox == nil || c.Logger == nil {
		return nil, refuse(kernel.CodeConfigInvalid, "Listener, inbox and logger are required.")
	}
	s.sparse = &sparse{log: c.Logger, now: s.now, causes: map[cause]*stretch{}}
	if err := s.limits.check(); err != nil {
		return nil, err
	}
	if err := checkHooks(c.Hooks, c.Listener.Addr()); err != nil {
		return nil, err
	}
	s.budget = &budget{deliveries: s.limits.InFlight, bytes: s.limits.Memory, grace: s.limits.Grace}
	if len(c.Proxies) > 0 {
		s.budget.perClient = s.limits.PerAddress
	}
	var registerer prometheus.Registerer
	if c.Registry != nil {
		registerer = c.Registry
	}
	var err error
	if s.metrics, err = newMetrics(registerer, s.budget); err != nil {
		return nil, refuse(kernel.CodeConfigInvalid, err.Error()+".")
	}
	s.budget.evicted = s.metrics.evictions("delivery")
	for _, check := range c.Checks {
		s.checks = append(s.checks, &sharedCheck{Check: check, timeout: s.limits.Check})
	}
	s.route(c)
	return s, nil
}

// checkHooks refuses a hook that takes unsigned deliveries where other machines could
// send some.
func checkHooks(hooks []Hook, addr net.Addr) error {
	seen := map[string]bool{}
	for _, h := range hooks {
		if name := h.Name(); seen[name] || !hookName().MatchString(name) {
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

// front is a listener and what it answers.
type front struct {
	*crowd
	http *http.Server
}

func (s *Server) route(c Config) {
	hookRouter := s.newRouter(c)
	for _, h := range c.Hooks {
		hookRouter.POST("/hooks/"+h.Name(), s.receive(h))
	}
	if c.Routes != nil {
		c.Routes(hookRouter)
	}
	probeRouter := hookRouter
	if c.ProbeListener != nil {
		probeRouter = s.newRouter(c)
		s.addFront(c.ProbeListener, probeRouter)
	}
	s.addFront(c.Listener, hookRouter)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		probeRouter.Add(method, "/healthz", live)
		probeRouter.Add(method, "/readyz", s.ready, s.ownHostOnly)
	}
	if c.Registry != nil {
		probeRouter.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(c.Registry, promhttp.HandlerOpts{
			MaxRequestsInFlight: 4, Timeout: s.limits.Check,
		})), s.ownHostOnly)
	}
}

// live says that the process answers, and nothing of what it depends on: a supervisor of
// processes that restarts one on this answer must not do so because a disk is full.
func live(c echo.Context) error { return c.JSON(http.StatusOK, map[string]bool{"live": true}) }

// newRouter has the middleware, and no route yet.
func (s *Server) newRouter(c Config) *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Logger.SetOutput(io.Discard) // ours is slog
	e.HTTPErrorHandler = s.answerError
	e.Use(s.watch, recovered, s.closeUnreadBody)
	e.Use(c.Middleware...)
	return e
}

// recovered turns a panic of a handler into webhook.panic.
func recovered(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := sheltered(func() error { return next(c) })
		var p *panicked
		if errors.As(err, &p) && p.abort {
			panic(http.ErrAbortHandler)
		}
		return err
	}
}

// closeUnreadBody has a connection closed after the answer to a request whose body wasn't
// read, and doesn't wait for the body: net/http would, for as long as the sender may take.
// A hook lifts that once it has read all.
func (s *Server) closeUnreadBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().ContentLength == 0 {
			return next(c)
		}
		head := c.Response().Header()
		head.Set("Connection", "close")
		err := next(c)
		if conn := s.sender(c.Request()).conn; conn != nil && head.Get("Connection") == "close" {
			conn.linger()
		}
		return err
	}
}

// ownHostOnly answers under the server's own names only. Without that, a page in a
// browser on this machine or in its network could read these, by a name of its own that
// leads here.
func (s *Server) ownHostOnly(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		host := c.Request().Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.TrimSuffix(strings.ToLower(host), ".")
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil && host != "localhost" && !slices.Contains(s.hosts, host) {
			return refuse(kernel.CodeWebhookHost, "")
		}
		return next(c)
	}
}

// addFront has the listener served by h once the server runs.
func (s *Server) addFront(l net.Listener, h http.Handler) {
	s.fronts = append(s.fronts, front{newCrowd(l, s.senders, s.limits, s.metrics.evictions("connection")), &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.limits.HeaderTime,
		ReadTimeout:       s.limits.RequestTime,
		// From the end of the head on: the body, the hand-over, and time to write.
		WriteTimeout:   s.limits.RequestTime + s.limits.Store + s.limits.HeaderTime,
		IdleTimeout:    s.limits.IdleTime,
		MaxHeaderBytes: s.limits.Header,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		ConnState:      connState,
		ConnContext:    withConn,
	}})
}

// connState is called by the connection's own goroutine.
func connState(conn net.Conn, state http.ConnState) {
	c, ok := conn.(*watchedConn)
	if !ok {
		return
	}
	switch state {
	case http.StateActive:
		c.inside.Store(true)
		c.of.change(func() { c.busy, c.since = true, time.Now() })
	case http.StateIdle:
		c.begun.Store(false)
		c.timedOut.Store(false)
		c.inside.Store(false)
		c.of.change(func() { c.busy, c.since = false, time.Now() })
	}
}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx ends, then takes no more connections, answers what is in
// flight and returns nil. What isn't answered within Limits.Shutdown is cut off,
// and that is an error; so is a listener that fails.
func (s *Server) Run(ctx context.Context) error {
	defer s.sparse.endStretches(func(*stretch) bool { return true })
	served := make(chan error, len(s.fronts))
	for _, f := range s.fronts {
		go func() { served <- f.http.Serve(f.crowd) }()
		s.log.Info("listening", "address", f.Addr().String())
	}
	select {
	case err := <-served:
		for _, f := range s.fronts {
			err = errors.Join(err, f.http.Close())
		}
		return err
	case <-ctx.Done():
	}
	s.draining.Store(true)
	return s.drain(context.WithoutCancel(ctx), served)
}

// drain closes the listener of the probes last: a probe must not take a server that ends
// for one that is stuck.
func (s *Server) drain(ctx context.Context, served <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Shutdown)
	defer cancel()
	for _, f := range slices.Backward(s.fronts) {
		if err := f.http.Shutdown(ctx); err != nil {
			for _, f := range s.fronts {
				err = errors.Join(err, f.http.Close())
			}
			return errors.Join(errors.New("requests were cut off at shutdown"), err)
		}
	}
	for range s.fronts {
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
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
