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

// Check is a dependency of the process. Run may be called again and again, and
// reports whether the dependency works now; its error goes to the log, not to who
// asks. It should end with the context.
type Check struct {
	Name string
	Run  func(context.Context) error
	// Part says that the process can do without: /readyz shows the failure, and
	// why, which must be fit for anybody's eyes, and stays ready.
	Part bool
}

// probe runs a check at most once at a time: who asks while it runs gets that
// run's answer, so that a dependency that hangs isn't asked ever more often.
type probe struct {
	Check
	timeout time.Duration

	mu      sync.Mutex
	running *probing
	said    string // in the log, of a part
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
	run, work := &probing{done: make(chan struct{})}, p.Run
	p.running = run
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
	go func() {
		defer cancel()
		run.err = sheltered(func() error { return work(ctx) })
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
	Degraded bool          `json:"degraded,omitempty"` // a part fails
	Draining bool          `json:"draining,omitempty"`
	Checks   []checkResult `json:"checks"`

	Now map[string]int64 `json:"now,omitempty"` // see [Config.Numbers]
}

type checkResult struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"` // of a part that fails
}

// question is a probe for one answer: another answer may renew the probe's check
// meanwhile.
type question struct {
	*probe
	name string
	part bool
}

// asked are the probes of this moment: the lasting ones, and those of parts,
// which come and go.
func (s *Server) asked() (all []question) {
	for _, p := range s.probes {
		all = append(all, question{p, p.Name, p.Part})
	}
	if s.parts == nil {
		return all
	}
	now := s.parts()
	s.partsMu.Lock()
	defer s.partsMu.Unlock()
	next := make(map[string]*probe, len(now))
	for _, check := range now {
		p := s.partProbes[check.Name]
		if p == nil {
			p = &probe{timeout: s.limits.Probe}
		}
		p.renew(check)
		next[check.Name] = p
		all = append(all, question{p, check.Name, check.Part})
	}
	s.partProbes = next
	return all
}

// renew gives a probe the check of this moment.
func (p *probe) renew(c Check) {
	p.mu.Lock()
	p.Check = c
	p.mu.Unlock()
}

// news reports whether a part's failure is another one than was told last.
func (p *probe) news(err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	is := text != "" && text != p.said
	p.said = text
	return is
}

// ready asks all checks at once.
func (s *Server) ready(c echo.Context) error {
	ctx := c.Request().Context()
	questions := s.asked()
	errs := make([]error, len(questions))
	var asked sync.WaitGroup
	for i, q := range questions {
		asked.Go(func() { errs[i] = q.ask(ctx) })
	}
	asked.Wait()
	draining := s.draining.Load()
	r := readiness{Ready: !draining, Draining: draining, Checks: make([]checkResult, len(errs))}
	for i, err := range errs {
		s.judge(&r, i, questions[i], err)
	}
	if s.numbers != nil {
		r.Now = s.numbers()
	}
	if !r.Ready {
		return c.JSON(http.StatusServiceUnavailable, r)
	}
	return c.JSON(http.StatusOK, r)
}

// judge adds what one check came to.
func (s *Server) judge(r *readiness, i int, q question, err error) {
	r.Checks[i] = checkResult{Name: q.name, OK: err == nil}
	switch {
	case q.part:
		if q.news(err) {
			s.log.Warn("a part is not ready", "check", q.name, "error", err)
		}
		if err != nil {
			r.Degraded, r.Checks[i].Reason = true, reason(err)
		}
	case err != nil:
		r.Ready = false
		s.log.Warn("not ready", "check", q.name, "error", err)
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
