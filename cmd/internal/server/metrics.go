package server

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/compliance/filesystem"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
)

// serverMetrics is what /metrics shows beside what the receiver counts. It
// implements scheduler.Metrics.
type serverMetrics struct {
	s       *server
	ticks   *prometheus.CounterVec
	took    *prometheus.HistogramVec
	running prometheus.Gauge
	slots   *prometheus.GaugeVec
	tries   *prometheus.CounterVec
	egress  *prometheus.CounterVec
	carried *prometheus.CounterVec
	tokens  *prometheus.CounterVec
	cost    *prometheus.CounterVec
	noPrice *prometheus.CounterVec
	ran     *prometheus.CounterVec

	mu   sync.Mutex
	held map[scheduler.Key]bool // whose lease this process has
}

// newServerMetrics registers everything; a name that is taken is a mistake of
// the program.
func newServerMetrics(r *prometheus.Registry, s *server) *serverMetrics {
	m := &serverMetrics{
		s: s, held: map[scheduler.Key]bool{},
		ticks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "writ_task_runs_total", Help: "Looks at a task, each until it stood still, by how it then stood.",
		}, []string{"outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "writ_task_run_seconds", Help: "How long a look at a task took, its build included.",
			Buckets: []float64{.05, .1, .25, .5, 1, 5, 15, 60, 300, 1800, 7200},
		}, []string{"outcome"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "writ_tasks_running", Help: "Tasks that are being looked at now."}),
		slots: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "writ_slots", Help: "Slots in use, and tasks that wait for a build slot.",
		}, []string{"kind"}),
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "writ_attempts_total", Help: "Attempts that ended, by the task's state after them and the finest failure code.",
		}, []string{"state", "code"}),
		egress: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "writ_egress_connections_total", Help: "Connections that sandboxes asked their gateway for, by what became of them.",
		}, []string{"verdict", "code"}),
		carried: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "writ_egress_bytes_total", Help: "Bytes that gateways carried out of sandboxes and into them.",
		}, []string{"direction"}),
	}
	m.meterBuilders()
	s.process.Connected = m.connected
	s.process.Used, s.process.Ran = m.used, m.builderRan
	r.MustRegister(m.ticks, m.took, m.running, m.slots, m.tries, m.egress, m.carried, m.tokens, m.cost, m.noPrice, m.ran)
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "writ_leases_held", Help: "Leases that this process holds."}, m.leases))
	for _, g := range []struct {
		name, help string
		value      func(inbox.Stats) float64
	}{
		{"writ_schedule_due", "Tasks that are due and not taken.", func(s inbox.Stats) float64 { return float64(s.Pending) }},
		{"writ_schedule_open", "Tasks with a next time.", func(s inbox.Stats) float64 { return float64(s.Scheduled) }},
		{"writ_schedule_lag_seconds", "Age of the oldest due time that nobody has taken up.", func(s inbox.Stats) float64 { return float64(s.LagMs) / 1000 }},
		{"writ_delivery_bytes", "Bytes that the bodies of kept deliveries take.", func(s inbox.Stats) float64 { return float64(s.BodyBytes) }},
	} {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help}, func() float64 { return g.value(m.stats()) }))
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "writ_pauses", Help: "Pauses in force; the log says of what, by whom and why."}, m.pauses))
	for state, count := range map[string]func() int{
		"open": func() int { return len(s.worlds.open()) }, "closed": s.worlds.countClosed,
	} {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "writ_repositories", Help: "Listed repositories, by whether anything is done in them.", ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(count()) }))
	}
	for why := range WaitWords {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "writ_tasks_waiting", Help: "Tasks that wait for anything but a person, by what they wait for.", ConstLabels: prometheus.Labels{"why": why},
		}, func() float64 { return float64(s.waitingFor(why)) }))
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "writ_ledger_records", Help: "Records of all ledgers."}, m.records))
	m.meterDisk(r)
	return m
}

// waitingFor counts those that wait for one reason.
func (s *server) waitingFor(why string) (n int) {
	for _, t := range s.waiting() {
		if t.Why == why {
			n++
		}
	}
	return n
}

// meterDisk registers what tells of the store and of the room that it and the workspaces have.
func (m *serverMetrics) meterDisk(r *prometheus.Registry) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "writ_store_failed", Help: "1 where the store takes nothing now, for the reason that /readyz logs; otherwise 0.",
	}, m.storeFailed))
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "writ_disk_below_reserve", Help: "1 where the file system of the workspaces has less free than limits.disk_reserve, so that nothing is claimed; otherwise 0.",
	}, m.belowReserve))
	for of, path := range map[string]func() string{
		"store":      func() string { return m.s.in.Dir.Path },
		"workspaces": m.workspaces,
	} {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "writ_disk_free_bytes", Help: "What is free on the file system of the store, and on that of the workspaces.", ConstLabels: prometheus.Labels{"of": of},
		}, func() float64 { return float64(filesystem.Free(path())) }))
	}
}

// workspaces is where they lie, or where they will: the first run makes the directory.
func (m *serverMetrics) workspaces() string {
	dir := m.s.in.Dir.File(installation.Workspaces)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	return m.s.in.Dir.Path
}

func (m *serverMetrics) storeFailed() float64 { return oneIf(m.s.in.DB.Ready() != nil) }

func (m *serverMetrics) belowReserve() float64 {
	g := m.s.now()
	return oneIf(g != nil && sandbox.DiskLow(m.workspaces(), int64(g.cfg.Limits.DiskReserve)))
}

func oneIf(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// meterBuilders makes what tells of the use of models, and of the time that builders take.
func (m *serverMetrics) meterBuilders() {
	m.ran = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "writ_builder_seconds_total", Help: "How long builders ran, in seconds, each counted at its end.",
	}, []string{"world", "builder"})
	m.tokens = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "writ_builder_tokens_total", Help: "Tokens that builders used of models, as their gateways metered them.",
	}, []string{"world", "builder", "model", "kind"})
	m.cost = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "writ_builder_cost_micro_total", Help: "What that comes to by the configured prices, in millionths of their currency, each request rounded up.",
	}, []string{"world", "builder", "model", "currency"})
	m.noPrice = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "writ_builder_cost_unknown_total", Help: "Requests of builders to models that have no price in the configuration.",
	}, []string{"world", "builder", "model"})
}

// connected counts a connection through a gateway.
func (m *serverMetrics) connected(r gateway.Record) {
	m.egress.WithLabelValues(string(r.Verdict), r.Code).Inc()
	m.carried.WithLabelValues("out").Add(float64(r.Up))
	m.carried.WithLabelValues("in").Add(float64(r.Down))
}

// used counts what a request to a provider used. A model that the provider didn't name is
// one that the inside has asked for, which may be any, and has no row of its own.
func (m *serverMetrics) used(world, builder string, one kernel.Usage) {
	model := one.Model
	if one.Reserved+one.Unknown > 0 {
		model = "(unmeasured)"
	}
	for kind, n := range map[string]int64{"input": one.Input, "cache_read": one.CacheRead, "cache_write": one.CacheWrite, "output": one.Output} {
		m.tokens.WithLabelValues(world, builder, model, kind).Add(float64(n))
	}
	if one.Price == nil {
		m.noPrice.WithLabelValues(world, builder, model).Inc()
		return
	}
	m.cost.WithLabelValues(world, builder, model, one.Price.Currency).Add(float64(one.Cost))
}

// builderRan counts how long a builder ran.
func (m *serverMetrics) builderRan(world, builder string, took time.Duration) {
	m.ran.WithLabelValues(world, builder).Add(took.Seconds())
}

// stats asks the store, within the time that a scrape has.
func (m *serverMetrics) stats() inbox.Stats {
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	st, err := m.s.inbox.Stats(ctx, time.Now().UnixMilli())
	if err != nil {
		return inbox.Stats{}
	}
	return st
}

// pauses counts those that can be read; one that can't be is one.
func (m *serverMetrics) pauses() float64 {
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	list, err := m.s.pausesNow(ctx)
	if err != nil {
		return 1
	}
	return float64(len(list))
}

func (m *serverMetrics) records() float64 {
	var n int64
	for _, w := range m.s.worlds.open() {
		n += w.Ledger.Chain().Head.Seq + 1
	}
	return float64(n)
}

// lease notes whether this process holds a task's lease.
func (m *serverMetrics) lease(k scheduler.Key, held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if held {
		m.held[k] = true
	} else {
		delete(m.held, k)
	}
}

// holds reports whether this process holds a task's lease.
func (m *serverMetrics) holds(k scheduler.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[k]
}

func (m *serverMetrics) leases() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(len(m.held))
}

// attempt counts one that ended. The last of a report's codes is the finest.
func (m *serverMetrics) attempt(c supervisor.EndedRun) {
	var r struct {
		State string          `json:"task_final_state"`
		Codes []string        `json:"codes"`
		Waits string          `json:"waiting_for"`
		Merge json.RawMessage `json:"merge"`
	}
	if json.Unmarshal(c.Report, &r) != nil || r.Merge != nil {
		return // the report is ours, and can be read; a merge ends no attempt
	}
	if r.State == "" && r.Waits == kernel.WaitMerge {
		r.State = string(kernel.TaskWaiting)
	}
	code := ""
	if n := len(r.Codes); n > 0 {
		code = r.Codes[n-1]
	}
	m.tries.WithLabelValues(r.State, code).Inc()
}

// Started implements scheduler.Metrics.
func (m *serverMetrics) Started(scheduler.Key) { m.running.Inc() }

// Ended implements scheduler.Metrics.
func (m *serverMetrics) Ended(_ scheduler.Key, outcome string, took time.Duration) {
	m.running.Dec()
	m.ticks.WithLabelValues(outcome).Inc()
	m.took.WithLabelValues(outcome).Observe(took.Seconds())
}

// Load implements scheduler.Metrics.
func (m *serverMetrics) Load(l scheduler.Load) {
	m.slots.WithLabelValues("tick").Set(float64(l.DriveSlots))
	m.slots.WithLabelValues("build").Set(float64(l.BuildSlots))
	m.slots.WithLabelValues("waiting").Set(float64(l.Waiting))
}
