package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the receiver's own. Labels have few values: names of hooks,
// outcomes, and codes of the one table.
type metrics struct {
	deliveries *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	evicted    *prometheus.CounterVec
}

// durations are bucket bounds in seconds, around the promise of one second.
var durations = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}

func newMetrics(r prometheus.Registerer, b *budget) (*metrics, error) {
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "writ_webhook_deliveries_total",
			Help: "Deliveries by hook, outcome (accepted, duplicate, ignored, refused, failed) and code.",
		}, []string{"hook", "outcome", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "writ_webhook_duration_seconds", Help: "Time from a delivery's head to its answer.", Buckets: durations,
		}, []string{"hook"}),
		evicted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "writ_webhook_gave_way_total", Help: "Connections and deliveries evicted while there was no room, and connections of an address that had as many as it may.",
		}, []string{"what"}),
	}
	all := []prometheus.Collector{m.deliveries, m.duration, m.evicted,
		gauge("writ_webhook_in_flight", "Deliveries in flight.", func() float64 { return float64(b.usage().deliveries) }),
		gauge("writ_webhook_body_bytes", "Bytes of bodies in flight.", func() float64 { return float64(b.usage().bytes) }),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func gauge(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
}

func (m *metrics) delivery(n *note, took time.Duration) {
	m.deliveries.WithLabelValues(n.hook, n.outcome, string(n.code)).Inc()
	m.duration.WithLabelValues(n.hook).Observe(took.Seconds())
}

func (m *metrics) evictions(what string) func() { return m.evicted.WithLabelValues(what).Inc }
