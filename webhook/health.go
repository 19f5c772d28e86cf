package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// Check is a dependency of the process. Run may be called again and again, and returns
// nil if the dependency works now. Its error goes to the log, and is shown by /readyz only
// if Part is set. It should end with the context.
type Check struct {
	Name string
	Run  func(context.Context) error
	// Part says that the process can do without: /readyz stays ready, and shows the
	// failure with its error, whose text must be fit for anybody's eyes.
	Part bool
}

// sharedCheck runs a check at most once at a time: a request that comes while it runs
// gets that run's result, so that a dependency that hangs isn't asked ever more often.
type sharedCheck struct {
	Check
	timeout time.Duration

	mu      sync.Mutex
	running *checkRun
	said    string // in the log, of a part
}

type checkRun struct {
	done chan struct{}
	err  error // after done
}

func (k *sharedCheck) start(ctx context.Context) *checkRun {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running != nil {
		return k.running
	}
	run, work := &checkRun{done: make(chan struct{})}, k.Run
	k.running = run
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.timeout)
	go func() {
		defer cancel()
		run.err = sheltered(func() error { return work(ctx) })
		k.mu.Lock()
		k.running = nil
		k.mu.Unlock()
		close(run.done)
	}()
	return run
}

func (k *sharedCheck) result(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	run := k.start(ctx)
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
	Degraded bool          `json:"degraded,omitempty"` // a part fails
	Draining bool          `json:"draining,omitempty"`
	Checks   []checkResult `json:"checks"`

	Numbers map[string]int64 `json:"now,omitempty"` // see [Config.Numbers]
}

type checkResult struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"` // of a part that fails
}

// namedCheck is a check for one answer: another answer may renew the shared one
// meanwhile.
type namedCheck struct {
	*sharedCheck
	name string
	part bool
}

// currentChecks are the lasting ones, and those of parts, which come and go.
func (s *Server) currentChecks() (all []namedCheck) {
	for _, k := range s.checks {
		all = append(all, namedCheck{k, k.Name, k.Part})
	}
	if s.parts == nil {
		return all
	}
	now := s.parts()
	s.partsMu.Lock()
	defer s.partsMu.Unlock()
	next := make(map[string]*sharedCheck, len(now))
	for _, check := range now {
		k := s.partChecks[check.Name]
		if k == nil {
			k = &sharedCheck{timeout: s.limits.Check}
		}
		k.renew(check)
		next[check.Name] = k
		all = append(all, namedCheck{k, check.Name, check.Part})
	}
	s.partChecks = next
	return all
}

// renew replaces the check by that of this moment.
func (k *sharedCheck) renew(c Check) {
	k.mu.Lock()
	k.Check = c
	k.mu.Unlock()
}

// news reports whether a part's failure is another one than was told last.
func (k *sharedCheck) news(err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	is := text != "" && text != k.said
	k.said = text
	return is
}

// ready runs all checks at once.
func (s *Server) ready(c echo.Context) error {
	ctx := c.Request().Context()
	checks := s.currentChecks()
	errs := make([]error, len(checks))
	var running sync.WaitGroup
	for i, k := range checks {
		running.Go(func() { errs[i] = k.result(ctx) })
	}
	running.Wait()
	draining := s.draining.Load()
	r := readiness{Ready: !draining, Draining: draining, Checks: make([]checkResult, len(errs))}
	for i, err := range errs {
		s.addResult(&r, i, checks[i], err)
	}
	if s.numbers != nil {
		r.Numbers = s.numbers()
	}
	if !r.Ready {
		return c.JSON(http.StatusServiceUnavailable, r)
	}
	return c.JSON(http.StatusOK, r)
}

// addResult adds what one check came to.
func (s *Server) addResult(r *readiness, i int, k namedCheck, err error) {
	r.Checks[i] = checkResult{Name: k.name, OK: err == nil}
	switch {
	case k.part:
		if k.news(err) {
			s.log.Warn("a part is not ready", "check", k.name, "error", err)
		}
		if err != nil {
			r.Degraded, r.Checks[i].Reason = true, reason(err)
		}
	case err != nil:
		r.Ready = false
		s.log.Warn("not ready", "check", k.name, "error", err)
	}
}

// maxReason bounds what is shown of a reason, in bytes.
const maxReason = 512

func reason(err error) string {
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = "There was no answer in time."
	}
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}
