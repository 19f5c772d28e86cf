package webhook

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// Check is a dependency of the process. Run is nil-safe to call again and again
// and reports whether the dependency works now; its error goes to the log, not
// to who asks. It should end with the context.
type Check struct {
	Name string
	Run  func(context.Context) error
}

// probe runs a check at most once at a time: who asks while it runs gets that
// run's answer, so that a dependency that hangs isn't asked ever more often.
type probe struct {
	Check
	timeout time.Duration

	mu      sync.Mutex
	running *probing
}

type probing struct {
	done chan struct{}
	err  error // after done
}

func (p *probe) start(ctx context.Context) *probing {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return p.running
	}
	run := &probing{done: make(chan struct{})}
	p.running = run
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
	go func() {
		defer cancel()
		run.err = sheltered(func() error { return p.Run(ctx) })
		p.mu.Lock()
		p.running = nil
		p.mu.Unlock()
		close(run.done)
	}()
	return run
}

func (p *probe) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	run := p.start(ctx)
	select {
	case <-run.done:
		return run.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readiness is the answer of /readyz.
type readiness struct {
	Ready    bool          `json:"ready"`
	Draining bool          `json:"draining,omitempty"`
	Checks   []checkResult `json:"checks"`
}

type checkResult struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
}

// live says that the process answers, and nothing of what it depends on: whoever
// restarts a process on this answer must not do so because a disk is full.
func live(c echo.Context) error { return c.JSON(http.StatusOK, map[string]bool{"live": true}) }

// ready asks all checks at once.
func (s *Server) ready(c echo.Context) error {
	ctx := c.Request().Context()
	errs := make([]error, len(s.probes))
	var asked sync.WaitGroup
	for i, p := range s.probes {
		asked.Go(func() { errs[i] = p.ask(ctx) })
	}
	asked.Wait()
	draining := s.draining.Load()
	r := readiness{Ready: !draining, Draining: draining, Checks: make([]checkResult, len(errs))}
	for i, err := range errs {
		r.Checks[i] = checkResult{Name: s.probes[i].Name, OK: err == nil}
		if err != nil {
			r.Ready = false
			s.log.Warn("not ready", "check", s.probes[i].Name, "error", err)
		}
	}
	if !r.Ready {
		return c.JSON(http.StatusServiceUnavailable, r)
	}
	return c.JSON(http.StatusOK, r)
}
