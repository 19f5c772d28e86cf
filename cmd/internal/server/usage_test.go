package server

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/kernel"
)

// TestMetrics_Tokens: what builders used is counted by the model that the provider named. A
// name that the inside has chosen makes no row. So is the time that each builder took.
func TestMetrics_Tokens(t *testing.T) {
	proc, price := &wire.Process{}, kernel.Price{Currency: "USD", CacheRead: 500_000, Output: 2_000_000}
	m := newServerMetrics(prometheus.NewRegistry(), &server{process: proc})
	proc.Usage("w", "b", kernel.Usage{Model: "large", Input: 1, CacheRead: 20, CacheWrite: 300, Output: 4000}.Priced(&price))
	proc.Usage("w", "b", kernel.Usage{Model: "chosen", Reserved: 1, Output: 5})
	proc.Usage("w", "b", kernel.Usage{Model: "chosen", Unknown: 1, Output: 6})
	for range 2 {
		proc.BuilderRan("w", "b", 750*time.Millisecond)
	}
	proc.BuilderRan("w", "c", 0)
	r := prometheus.NewRegistry()
	r.MustRegister(m.tokens, m.cost, m.noPrice, m.ran)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`writ_builder_cost_micro_total{builder="b",currency="USD",model="large",world="w"} 8010`,
		`writ_builder_cost_unknown_total{builder="b",model="(unmeasured)",world="w"} 2`,
		`writ_builder_tokens_total{builder="b",kind="input",model="large",world="w"} 1`, `writ_builder_tokens_total{builder="b",kind="cache_read",model="large",world="w"} 20`,
		`writ_builder_tokens_total{builder="b",kind="cache_write",model="large",world="w"} 300`, `writ_builder_tokens_total{builder="b",kind="output",model="large",world="w"} 4000`,
		`writ_builder_tokens_total{builder="b",kind="output",model="(unmeasured)",world="w"} 11`,
		`writ_builder_seconds_total{builder="b",world="w"} 1.5`, `writ_builder_seconds_total{builder="c",world="w"} 0`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s is missing in %s", want, w.Body)
		}
	}
	if strings.Contains(w.Body.String(), "chosen") {
		t.Errorf("a row for what the inside has chosen: %s", w.Body)
	}
}
