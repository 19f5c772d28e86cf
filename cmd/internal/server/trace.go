package server

import (
	"context"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/tracing"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

// traces make and send spans. The zero value makes none and wraps nothing.
type traces struct{ provider *tracing.Provider }

// openTraces prepares the way to the collector that the configuration names.
func (s *server) openTraces(secrets wire.Secrets) error {
	t := s.cfg.Server.Traces
	ignored := tracing.CheckEnvironment(s.process.Env)
	if t.Endpoint == "" {
		if len(ignored) > 0 {
			s.log.Info("there are no traces: server.traces.endpoint names no collector", "variables", strings.Join(ignored, " "))
		}
		return nil
	}
	if len(ignored) > 0 {
		return &problem.Error{
			Code: kernel.CodeConfigInvalid, Exit: problem.ExitUsage,
			Text:   "Writ doesn't obey " + strings.Join(ignored, ", ") + ".",
			Remedy: "Unset what is named; server.traces says where traces go.",
		}
	}
	p, err := tracing.Open(tracing.Options{Endpoint: t.Endpoint, Headers: secrets.Traces, Version: s.process.Version, Log: s.log})
	if err != nil {
		return err
	}
	s.traces.provider = p
	s.later(func() { p.Close(context.Background()) }) // bounds itself
	return nil
}

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
