package webhook_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/webhook"
)

// TestW13_LogOfTheTurnedAway: whoever is turned away can't fill the disk with log. Each
// cause has its own few lines and its sum, and what is taken is always told.
func TestW13_LogOfTheTurnedAway(t *testing.T) {
	var minutes atomic.Int64
	r := start(t, func(c *webhook.Config) {
		c.Now = func() time.Time { return time.Unix(1_800_000_000, 0).Add(time.Duration(minutes.Load()) * time.Minute) }
	})
	body := encode(t, labeled())
	const many = 100
	floods := map[string]func(i int) reply{
		"webhook.sig.mismatch": func(int) reply {
			return r.post(body, func(req *http.Request) { req.Header.Set(webhook.HeaderSignature, sign("another", body)) })
		},
		"webhook.host": func(int) reply {
			req := r.delivery(nil, func(req *http.Request) {
				req.Method, req.URL.Path, req.Host = http.MethodGet, "/readyz", "evil.example"
			})
			return r.do(req)
		},
		"webhook.not_found": func(i int) reply { return r.get(fmt.Sprintf("/canary-%d", i)) },
		"ignored": func(i int) reply {
			p := labeled()
			p.Repository.ID, p.Issue.Number = 99, int64(i+1)
			return r.post(encode(t, p), nil)
		},
		"/healthz": func(int) reply { return r.get("/healthz") },
	}
	for name, flood := range floods {
		before := len(r.log.String())
		for i := range many {
			flood(i)
		}
		said := r.log.String()[before:]
		if n := strings.Count(said, "\n"); n < 5 || n > 45 {
			t.Errorf("%s: %d requests have %d lines:\n%s", name, many, n, said[:min(len(said), 2000)])
		}
		if !strings.Contains(said, name) {
			t.Errorf("%s isn't named:\n%s", name, said[:min(len(said), 2000)])
		}
	}
	before := len(r.log.String())
	for i := range many {
		p := labeled()
		p.Issue.Number = int64(i + 1)
		if got := r.post(encode(t, p), nil); got.Outcome != "accepted" {
			t.Fatalf("%+v", got)
		}
	}
	if n := strings.Count(r.log.String()[before:], `"outcome":"accepted"`); n != many {
		t.Errorf("%d deliveries were taken, %d told", many, n)
	}
	before = len(r.log.String())
	minutes.Store(1)
	r.get("/healthz")
	sums := r.log.String()[before:]
	for name := range floods {
		ok := false
		for line := range strings.Lines(sums) {
			ok = ok || strings.Contains(line, name) && strings.Contains(line, `"requests":80`)
		}
		if !ok {
			t.Errorf("no sum of %s:\n%s", name, sums)
		}
	}
	if strings.Contains(r.log.String(), "canary") {
		t.Error("the log has a sender's words")
	}
	for i := range many {
		floods["webhook.sig.mismatch"](i)
	}
	before = len(r.log.String())
	r.stop()
	err := awaited(t, r.ended)
	r.ended <- err
	if end := r.log.String()[before:]; !strings.Contains(end, `"requests":80`) {
		t.Errorf("at its end the server says nothing of them:\n%s", end)
	}
}

// TestW13_MethodIsNoText: a method that a sender made up isn't his line in the log.
func TestW13_MethodIsNoText(t *testing.T) {
	r := start(t, nil)
	r.do(r.delivery(nil, func(req *http.Request) { req.Method = "CANARY-" + strings.Repeat("x", 1000) }))
	if said := r.log.String(); strings.Contains(said, "CANARY") || !strings.Contains(said, `"method":"other"`) {
		t.Errorf("log:\n%s", said)
	}
}
