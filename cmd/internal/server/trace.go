package server

import (
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/writbot/writ/cmd/internal/tracing"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/webhook"
)

// traces make and send spans. The zero value makes none and wraps nothing.
type traces struct{ provider *tracing.Provider }

// tracer makes spans, or none.
func (t traces) tracer() trace.Tracer {
	if t.provider == nil {
		return noop.NewTracerProvider().Tracer("")
	}
	return t.provider.Tracer()
}

// The parts of a server, with spans where there are traces.

func (t traces) client(c forge.Client) forge.Client {
	if t.provider == nil {
		return c
	}
	return tracing.Client(c, t.tracer())
}

func (t traces) repo(r supervisor.Repo, world string) supervisor.Repo {
	if t.provider == nil {
		return r
	}
	return tracing.Repo(r, t.tracer(), world)
}

func (t traces) executor(x executor.Executor) executor.Executor {
	if t.provider == nil {
		return x
	}
	return tracing.Executor(x, t.tracer())
}

func (t traces) inbox(b webhook.Inbox) webhook.Inbox {
	if t.provider == nil {
		return b
	}
	return tracing.Inbox(b, t.tracer())
}

func (t traces) middleware() []echo.MiddlewareFunc {
	if t.provider == nil {
		return nil
	}
	return []echo.MiddlewareFunc{tracing.Deliveries(t.tracer())}
}

// register shows how many spans came through, where there are traces.
func (t traces) register(r *prometheus.Registry) {
	if t.provider == nil {
		return
	}
	for _, c := range []struct {
		name, help string
		value      func() int64
	}{
		{"writ_trace_spans_sent_total", "Spans that the collector took.", t.provider.Sent},
		{"writ_trace_spans_dropped_total", "Spans that found no room or could not be sent.", t.provider.Dropped},
	} {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help}, func() float64 { return float64(c.value()) }))
	}
}
