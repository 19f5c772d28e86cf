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

// ofRun names a run at a span.
func ofRun(id string) attribute.KeyValue { return attribute.String("writ.run", id) }

// log bears what a line about the task must: world, task, and the run once there
// is one.
func (t *Task) log() *slog.Logger {
	l := t.s.deps.Log.With("world", t.s.cfg.World, "task", t.number)
	if t.run != nil {
		l = l.With("run", t.run.id)
	}
	return l
}

// tellRun says which run the task is about.
func (t *Task) tellRun(id string) {
	if t.onRun != nil {
		t.onRun(id, t.run != nil)
	}
}
