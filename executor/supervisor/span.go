package supervisor

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/writbot/writ/compliance/marker"
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
func (sj *subject) ofRun(c *cycle) []attribute.KeyValue {
	id := c.runID()
	if id == "" {
		id = sj.lastRun // what follows from a result is its run's, too
	}
	if id == "" {
		return nil
	}
	return []attribute.KeyValue{attribute.String("writ.run", id)}
}

// log bears what a line about the task must: world, task, and the run once there
// is one.
func (sj *subject) log() *slog.Logger {
	l := sj.s.deps.Log.With("world", sj.s.cfg.World, "task", sj.number)
	if sj.lastRun != "" {
		l = l.With("run", sj.lastRun)
	}
	return l
}

// tellRun says which run the task is about, and whether it is held here.
func (sj *subject) tellRun(id string, held bool) {
	if id != "" {
		sj.lastRun = id
	}
	if sj.onRun != nil {
		sj.onRun(id, held)
	}
}

// marker is that of writ's own texts about the task.
func (sj *subject) marker() marker.Marker {
	return marker.Marker{World: sj.s.cfg.World, Task: sj.number}
}
