package supervisor

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// span begins a part of what ctx's span is about. Without a span in ctx, which
// is so unless the operator wants traces, it does nothing.
func span(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer("github.com/writbot/writ")
	return tracer.Start(ctx, name, trace.WithAttributes(attrs...))
}

// endSpan ends it. An error's words may be somebody else's, so they stay out.
func endSpan(s trace.Span, err error) {
	if err != nil {
		s.SetStatus(codes.Error, "error")
	}
	s.End()
}

// ofRun names, at a span, the run that the task is about, if there ever was one.
func (t *Task) ofRun(c *cycle) []attribute.KeyValue {
	id := c.runID()
	if id == "" {
		id = t.lastRun // what follows from a result is its run's, too
	}
	if id == "" {
		return nil
	}
	return []attribute.KeyValue{attribute.String("writ.run", id)}
}

// log bears what a line about the task must: world, task, and the run once there
// is one.
func (t *Task) log() *slog.Logger {
	l := t.s.deps.Log.With("world", t.s.cfg.World, "task", t.number)
	if t.lastRun != "" {
		l = l.With("run", t.lastRun)
	}
	return l
}

// tellRun says which run the task is about.
func (t *Task) tellRun(id string) {
	if id != "" {
		t.lastRun = id
	}
	if t.onRun != nil {
		t.onRun(id, t.run != nil)
	}
}
