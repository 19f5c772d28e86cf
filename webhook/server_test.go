package webhook_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

// tellWhenGone closes gone once a request's context has ended.
func tellWhenGone(gone chan<- struct{}) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			context.AfterFunc(c.Request().Context(), func() { close(gone) })
			return next(c)
		}
	}
}

// wantReady asks /readyz, whose checks are the store and the forge, and /healthz,
// which depends on neither.
func (r *receiver) wantReady(status int, store, forge bool) {
	r.t.Helper()
	got := r.get("/readyz")
	type check struct {
		Name string
		OK   bool
	}
	var body struct {
		Ready  bool
		Checks []check
	}
	if err := json.Unmarshal([]byte(got.text), &body); err != nil {
		r.t.Fatal(err)
	}
	if got.status != status || body.Ready != (store && forge) || !slices.Equal(body.Checks, []check{{"store", store}, {"forge", forge}}) {
		r.t.Errorf("%d %s", got.status, got.text)
	}
	if strings.Contains(got.text, "canary") {
		r.t.Error("whoever asks is told too much")
	}
	if got := r.get("/healthz"); got.status != http.StatusOK {
		r.t.Errorf("the process lives, and says %d", got.status)
	}
}

func TestReadiness(t *testing.T) {
	var storeErr error
	r := start(t, func(c *webhook.Config) {
		c.Limits.Check = patience
		c.Checks = []webhook.Check{
			{Name: "store", Run: func(context.Context) error { return storeErr }},
			{Name: "forge", Run: func(context.Context) error { return nil }},
		}
	})
	r.wantReady(http.StatusOK, true, true)
	storeErr = errors.New("disk full at /canary/path")
	r.wantReady(http.StatusServiceUnavailable, false, true)
	if !strings.Contains(r.log.String(), "disk full") {
		t.Error("the log doesn't say why")
	}
	storeErr = nil
	r.wantReady(http.StatusOK, true, true)
}

// TestReadiness_Hangs: a check that hangs has failed, and isn't started again
// while it hangs.
func TestReadiness_Hangs(t *testing.T) {
	hang := make(chan struct{})
	runs := make(chan struct{}, 8)
	r := start(t, func(c *webhook.Config) {
		c.Limits.Check = time.Second
		c.Checks = []webhook.Check{
			{Name: "store", Run: func(context.Context) error { return nil }},
			{Name: "forge", Run: func(context.Context) error { runs <- struct{}{}; <-hang; return nil }},
		}
	})
	for range 3 {
		r.wantReady(http.StatusServiceUnavailable, true, false)
	}
	if len(runs) != 1 {
		t.Errorf("the hanging check runs %d times at once", len(runs))
	}
	close(hang)
}

// TestReadiness_PartFails: what one part alone can't do is shown with its reason,
// and the receiver is ready all the same: the webhooks of the others must be
// taken. It is logged once for each reason.
func TestReadiness_PartFails(t *testing.T) {
	var parts []webhook.Check
	r := start(t, func(c *webhook.Config) {
		c.Checks = []webhook.Check{{Name: "store", Run: func(context.Context) error { return nil }}}
		c.Parts = func() []webhook.Check { return parts }
	})
	fails := func(why string) webhook.Check {
		return webhook.Check{Name: "forge:o/n", Part: true, Run: func(context.Context) error { return errors.New(why) }}
	}
	for i, c := range []struct {
		part webhook.Check
		said int
	}{{fails("It is not there."), 1}, {fails("It is not there."), 1}, {fails("It is suspended."), 2}, {webhook.Check{Name: "forge:o/n", Part: true, Run: func(context.Context) error { return nil }}, 2}, {fails("It is suspended."), 3}} {
		parts = []webhook.Check{c.part}
		got := r.get("/readyz")
		why := ""
		if err := c.part.Run(t.Context()); err != nil {
			why = err.Error()
		}
		if got.status != http.StatusOK || !strings.Contains(got.text, `"ready":true`) || strings.Contains(got.text, `"degraded":true`) != (why != "") || !strings.Contains(got.text, why) {
			t.Errorf("%d: %d %s", i, got.status, got.text)
		}
		if n := strings.Count(r.log.String(), "a part is not ready"); n != c.said {
			t.Errorf("%d: it was said %d times, want %d", i, n, c.said)
		}
	}
	parts = nil
	if got := r.get("/readyz"); strings.Contains(got.text, "forge") {
		t.Errorf("a part that is gone is in %s", got.text)
	}
}

// TestReadiness_ManyAskAtOnce: several who ask at once are each answered; the race
// detector looks on while parts are made anew for each.
func TestReadiness_ManyAskAtOnce(t *testing.T) {
	r := start(t, func(c *webhook.Config) {
		c.Parts = func() []webhook.Check {
			return []webhook.Check{{Name: "forge:o/n", Part: true, Run: func(context.Context) error { return errors.New("It is not there.") }}}
		}
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got := r.get("/readyz"); got.status != http.StatusOK {
				t.Errorf("it answers %d", got.status)
			}
		})
	}
	all.Wait()
}

func TestReadinessSurvivesAPanic(t *testing.T) {
	r := start(t, func(c *webhook.Config) {
		c.Checks = []webhook.Check{{Name: "store", Run: func(context.Context) error { panic("x") }}}
	})
	if got := r.get("/readyz"); got.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", got.status, got.text)
	}
}

func TestMetrics(t *testing.T) {
	r := start(t, nil)
	id := uuid.NewString()
	for range 2 {
		r.post(encode(t, labeled()), func(req *http.Request) { req.Header.Set(webhook.HeaderDelivery, id) })
	}
	r.post(encode(t, labeled()), func(req *http.Request) { req.Header.Set(webhook.HeaderEvent, "stars") })
	r.post(encode(t, labeled()), func(req *http.Request) { req.Header.Del(webhook.HeaderSignature) })
	text := r.get("/metrics").text
	for _, line := range []string{
		`writ_webhook_deliveries_total{code="",hook="local",outcome="accepted"} 1`,
		`writ_webhook_deliveries_total{code="",hook="local",outcome="duplicate"} 1`,
		`writ_webhook_deliveries_total{code="webhook.event.unused",hook="local",outcome="ignored"} 1`,
		`writ_webhook_deliveries_total{code="webhook.sig.missing",hook="local",outcome="refused"} 1`,
		`writ_webhook_duration_seconds_count{hook="local"} 4`,
		`writ_webhook_in_flight 0`, `writ_webhook_body_bytes 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("not there: %s\n%s", line, text)
		}
	}
}

func TestAddresses(t *testing.T) {
	r := start(t, func(c *webhook.Config) {
		c.Routes = func(e *echo.Echo) {
			e.GET("/broken", func(echo.Context) error { return errors.New("canary cause") })
		}
	})
	r.wantRefused(r.get("/hooks/other?token=canary"), http.StatusNotFound, kernel.CodeWebhookNotFound)
	r.wantRefused(r.get("/hooks/local"), http.StatusMethodNotAllowed, kernel.CodeWebhookMethod)
	got := r.get("/broken")
	r.wantRefused(got, http.StatusInternalServerError, kernel.CodeWebhookInternal)
	if strings.Contains(got.text, "canary") {
		t.Error("the cause is shown")
	}
}

func TestConfigInvalid(t *testing.T) {
	l := listen(t)
	defer l.Close()
	good := webhook.Config{Listener: l, Inbox: &memory{}, Logger: quiet(), Hooks: []webhook.Hook{localHook(t)}}
	for name, spoil := range map[string]func(*webhook.Config){
		"no listener":       func(c *webhook.Config) { c.Listener = nil },
		"no inbox":          func(c *webhook.Config) { c.Inbox = nil },
		"no logger":         func(c *webhook.Config) { c.Logger = nil },
		"two hooks, a name": func(c *webhook.Config) { c.Hooks = append(c.Hooks, c.Hooks[0]) },
	} {
		c := good
		c.Hooks = slices.Clone(good.Hooks)
		spoil(&c)
		_, err := webhook.New(c)
		t.Run(name, func(t *testing.T) { wantCode(t, err, kernel.CodeConfigInvalid) })
	}
	_, err := webhook.NewLocalHook(webhook.LocalConfig{Secrets: []string{secret}})
	wantCode(t, err, kernel.CodeConfigInvalid)
}

// TestF3_Log sends secrets and texts by every way in, and looks for them in
// every line; each line of a delivery has its id.
func TestF3_Log(t *testing.T) {
	r := start(t, nil)
	body := encode(t, labeled())
	id := uuid.NewString()
	named := func(req *http.Request) { req.Header.Set(webhook.HeaderDelivery, id) }
	r.post(body, named)
	r.post(body, func(req *http.Request) {
		named(req)
		req.Header.Set(webhook.HeaderSignature, sign("canary-other", body))
	})
	r.post(body, func(req *http.Request) { named(req); req.Header.Set(webhook.HeaderSignature, "canary") })
	r.post([]byte(`{"canary":`), named)
	r.post([]byte(`{"event":"canary","action":"canary x"}`), func(req *http.Request) { named(req); req.Header.Set(webhook.HeaderEvent, "Canary") })
	r.post(body, func(req *http.Request) { named(req); req.URL.RawQuery = "token=canary" })
	r.post(body, func(req *http.Request) { req.Header.Set(webhook.HeaderDelivery, "canary") })
	r.post(body, func(req *http.Request) { req.URL.Path = "/hooks/canary" })
	log := r.log.String()
	if strings.Contains(strings.ToLower(log), "canary") || strings.Contains(log, sign(secret, body)) {
		t.Errorf("something that was sent is in the log:\n%s", log)
	}
	lines := 0
	for in := bufio.NewScanner(strings.NewReader(log)); in.Scan(); {
		var line struct{ Msg, Hook, Delivery, Outcome string }
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Msg == "request" && line.Hook != "" && line.Delivery == id && line.Outcome != "" {
			lines++
		}
	}
	if lines != 6 {
		t.Errorf("%d lines have the delivery's id, want 6:\n%s", lines, log)
	}
}

// TestShutdown answers what is in flight, and takes no more.
func TestShutdown(t *testing.T) {
	inbox := &memory{entered: make(chan webhook.Delivery, 1), gate: make(chan struct{})}
	r := start(t, func(c *webhook.Config) { c.Inbox, c.Limits.Store = inbox, patience })
	reply := make(chan reply, 1)
	req := r.delivery(encode(t, labeled()), nil)
	go func() { got, _ := r.send(req); reply <- got }()
	awaited(t, inbox.entered)
	r.stop()
	select {
	case err := <-r.ended:
		t.Fatalf("stopped with a delivery in flight: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(inbox.gate)
	if got := awaited(t, reply); got.status != http.StatusAccepted {
		t.Errorf("%d %s", got.status, got.text)
	}
	err := awaited(t, r.ended)
	if err != nil {
		t.Error(err)
	}
	r.ended <- err
	if _, err := r.send(r.delivery(encode(t, labeled()), nil)); err == nil {
		t.Error("still listening")
	}
}

// TestShutdownIsBounded: a store that hangs can't keep the process.
func TestShutdownIsBounded(t *testing.T) {
	inbox := &memory{entered: make(chan webhook.Delivery, 1), gate: make(chan struct{})}
	r := start(t, func(c *webhook.Config) {
		c.Inbox, c.Limits.Store, c.Limits.Shutdown = inbox, time.Millisecond, 50*time.Millisecond
	})
	r.post(encode(t, labeled()), nil)
	r.stop()
	err := awaited(t, r.ended)
	if err == nil {
		t.Error("a delivery that the store still has is no clean stop")
	}
	r.unclean = true
	r.ended <- err
	close(inbox.gate)
}
