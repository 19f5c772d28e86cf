package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/tracing/tracingtest"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/kernel"
)

// TestI8_AServerThatObserves: with server.observe an approved issue has one
// comment that says why nothing is done, and nothing is claimed; without it the
// same issue is done.
func TestI8_AServerThatObserves(t *testing.T) {
	p := newServerPlace(t)
	p.More = ", observe: true"
	s := p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.Until("writ says what it would do", func() bool {
		bodies := p.BotComments(n)
		return len(bodies) > 0 && strings.Contains(bodies[0], string(kernel.CodeObserveOnly))
	})
	if exit := s.End(); exit != problem.ExitDone {
		t.Errorf("serve ended with %d", exit)
	}
	if head := p.Head(n); head != "" {
		t.Errorf("the task is %s", head)
	}
	if bodies := p.BotComments(n); len(bodies) != 1 || !strings.Contains(bodies[0], "server.observe") {
		t.Errorf("writ wrote %q", bodies)
	}
	if labels := p.Issue(n).Labels; slices.Contains(labels, "writ:claimed") || p.Issue(n).State != forge.Open {
		t.Errorf("the issue is %s with %v", p.Issue(n).State, labels)
	}
	p.More = ""
	p.Serve()
	p.Until("the task completes", func() bool { return p.Head(n) == "completed" })
}

// TestServe_LinesNameTaskAndRun: each line of the log that concerns a task names
// its world and number, and its run once there is one.
func TestServe_LinesNameTaskAndRun(t *testing.T) {
	p := newServerPlace(t)
	p.More = ", log: json, log_level: debug"
	s := p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.Until("the issue is closed", func() bool { return p.Issue(n).State == forge.Closed })
	s.End()
	var run string
	lines, with := 0, 0
	for raw := range bytes.Lines([]byte(s.Log.String())) {
		var l map[string]any
		if err := json.Unmarshal(raw, &l); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		msg, _ := l["msg"].(string)
		concerns := strings.Contains(string(raw), fmt.Sprintf("refs/writ/task/%d", n)) || l["task"] != nil || run != "" && strings.Contains(string(raw), run)
		if !concerns {
			continue
		}
		lines++
		if l["world"] != p.World() || l["repository"] != "local/o/n" || l["task"] != float64(n) {
			t.Errorf("no world or task: %s", raw)
		}
		// What runs beside the builder may be told a moment late.
		if strings.HasPrefix(msg, "builder ended") {
			run, _ = l["run"].(string)
		}
		if run == "" {
			continue
		}
		with++
		if l["run"] != run {
			t.Errorf("no run, or another: %s", raw)
		}
	}
	if run == "" || lines < 10 || with < 5 {
		t.Errorf("of run %q there are %d lines, %d of them with it\n%s", run, lines, with, s.Log)
	}
}

// TestServe_EgressMetrics: each connection that a builder asks its gateway for is
// counted by what became of it, and what it carried by direction.
func TestServe_EgressMetrics(t *testing.T) {
	p := newServerPlace(t)
	p.Builders = `  calls:
    argv:
      - bash
      - -c
      - |
        echo hello > out.txt
        for host in api.example.invalid elsewhere.example.net elsewhere.example.net; do
          exec 3<>/dev/tcp/127.0.0.1/3128
          printf "GET http://$host/ HTTP/1.1\r\nHost: $host\r\n\r\n" >&3
          cat <&3
        done
    egress: [{host: api.example.invalid, ports: [80]}]
`
	s := p.Serve()
	n := p.File("calls")
	p.Approve(n)
	p.Until("the issue is closed", func() bool { return p.Issue(n).State == forge.Closed })
	for series, want := range map[string]float64{
		`{code="egress.host_denied",verdict="denied"}`: 2, `{code="egress.unreachable",verdict="failed"}`: 1,
	} {
		if got := p.Metric("writ_egress_connections_total" + series); got != want {
			t.Errorf("%v connections of %s", got, series)
		}
	}
	s.End()
	r := prometheus.NewRegistry()
	newServerMetrics(r, p.server()).connected(gateway.Record{Verdict: gateway.Allowed, Up: 3, Down: 5})
	all, err := r.Gather()
	must(t, err)
	carried := map[string]float64{}
	for _, family := range all {
		if family.GetName() == "writ_egress_bytes_total" {
			for _, m := range family.GetMetric() {
				carried[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if carried["out"] != 3 || carried["in"] != 5 {
		t.Errorf("carried %v", carried)
	}
}

// TestServe_MetricsOfTheDisk: a store that takes nothing and a reserve that isn't free are
// seen by who only scrapes.
func TestServe_MetricsOfTheDisk(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	db := filepath.Join(p.State(), store.FileName)
	must(t, os.Rename(db, db+".aside"))
	failed := gauge(t, s.registry, "writ_store_failed")
	must(t, os.Rename(db+".aside", db))
	if sound := gauge(t, s.registry, "writ_store_failed"); failed != 1 || sound != 0 {
		t.Errorf("a store that was moved away: %v, and put back: %v", failed, sound)
	}
	now := s.now()
	cfg := now.cfg
	cfg.Limits.DiskReserve = math.MaxInt64
	s.gen.Store(&generation{cfg: cfg})
	low := gauge(t, s.registry, "writ_disk_below_reserve")
	s.gen.Store(now)
	if enough := gauge(t, s.registry, "writ_disk_below_reserve"); low != 1 || enough != 0 {
		t.Errorf("a reserve that nobody has: %v, and one that is free: %v", low, enough)
	}
	if free := gauge(t, s.registry, "writ_disk_free_bytes"); free <= 0 {
		t.Errorf("%v bytes are free", free)
	}
}

// gauge is the least value that a gauge has.
func gauge(t *testing.T, r prometheus.Gatherer, name string) float64 {
	t.Helper()
	all, err := r.Gather()
	must(t, err)
	least := math.Inf(1)
	for _, family := range all {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				least = min(least, m.GetGauge().GetValue())
			}
		}
	}
	return least
}

// TestServe_Ready: every dependency has its name.
func TestServe_Ready(t *testing.T) {
	p := newServerPlace(t)
	p.Serve()
	var got struct {
		Ready  bool
		Checks []struct {
			Name string
			OK   bool
		}
	}
	p.Until("it is ready", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.Hook+"/readyz", nil)
		must(t, err)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return json.NewDecoder(res.Body).Decode(&got) == nil && got.Ready
	})
	var names []string
	for _, c := range got.Checks {
		names = append(names, c.Name)
	}
	for _, want := range []string{"store", "sandbox", "builder:default", "builder:strays", "git:local/o/n", "forge:local/o/n"} {
		if !slices.Contains(names, want) {
			t.Errorf("no check is %s: %v", want, names)
		}
	}
}

// TestServe_NotReadyHasACode: what the log says of a check has the code, and what to do. Once
// that is mended the check holds by itself.
func TestServe_NotReadyHasACode(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	dir := filepath.Join(p.State(), installation.Workspaces)
	must(t, os.RemoveAll(dir))
	must(t, os.WriteFile(dir, nil, 0o600))
	said := func(check string) (text string) {
		for _, c := range slices.Concat(s.checks(), s.parts()) {
			if err := c.Run(t.Context()); c.Name == check && err != nil {
				text = err.Error()
			}
		}
		return text
	}
	if text, info := said("sandbox"), kernel.CodeEnvWorkspace.Info(); !strings.HasPrefix(text, string(kernel.CodeEnvWorkspace)+": workspaces: ") || !strings.HasSuffix(text, info.Remedy) {
		t.Errorf("it says %q", text)
	}
	must(t, os.Remove(dir))
	if text := said("sandbox"); text != "" {
		t.Errorf("mended, it says %q", text)
	}
}

// TestServe_Traces: a delivery and what follows from it arrive at a collector,
// with their ids and without anybody's words.
func TestServe_Traces(t *testing.T) {
	c := tracingtest.New(t)
	p := newServerPlace(t)
	p.Env = append(p.Env, "COLLECTOR=X-Key=hush-collector")
	p.More = fmt.Sprintf(", traces: {endpoint: '%s', headers: COLLECTOR}", c.URL)
	s := p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.Until("the issue is closed", func() bool { return p.Issue(n).State == forge.Closed })
	s.End()
	if _, head := c.Request(); head.Get("X-Key") != "hush-collector" {
		t.Errorf("the collector was sent %v", head)
	}
	seen := map[string]bool{}
	for _, span := range c.Spans() {
		text := tracingtest.Text(span)
		seen[span.Name] = true
		for _, secret := range []string{localtest.Secret, "hush-collector", p.Token, p.Issue(n).Title, "out.txt"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in %s", secret, text)
			}
		}
		switch span.Name {
		case "delivery":
			if tracingtest.Get(span, "writ.delivery") == "" {
				t.Errorf("no delivery: %s", text)
			}
		case "task", "tick", "observe", "decide", "record", "act", "build", "git compare-and-swap":
			if tracingtest.Get(span, "writ.world") != p.World() || tracingtest.Get(span, "writ.task") != fmt.Sprint(n) {
				t.Errorf("no world or task: %s", text)
			}
		}
		if run := tracingtest.Get(span, "writ.run"); (span.Name == "build" || span.Name == "act") && run == "" {
			t.Errorf("no run: %s", text)
		}
	}
	for _, name := range []string{
		"delivery", "store", "task", "tick", "observe", "decide", "record", "act", "build",
		"forge issue", "forge set state", "git refs", "git compare-and-swap",
	} {
		if !seen[name] {
			t.Errorf("there is no span %s", name)
		}
	}
}

// TestServe_ACollectorThatHangs: it keeps nobody from anything.
func TestServe_ACollectorThatHangs(t *testing.T) {
	free := make(chan struct{})
	c := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-free }))
	t.Cleanup(func() { close(free); c.Close() })
	p := newServerPlace(t)
	p.More = fmt.Sprintf(", traces: {endpoint: '%s'}", c.URL)
	s := p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.Until("the task completes", func() bool { return p.Head(n) == "completed" })
	if exit := s.End(); exit != problem.ExitDone {
		t.Errorf("serve ended with %d", exit)
	}
}
