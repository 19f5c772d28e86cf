package tracing

import (
	"context"
	"strings"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/writbot/writ/webhook"
)

// Deliveries makes a span of each delivery, from its head to its answer. What a
// sender says of a trace of its own is not believed. Other pages make none.
func Deliveries(tracer trace.Tracer) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			hook, ok := strings.CutPrefix(c.Path(), "/hooks/")
			if !ok {
				return next(c)
			}
			r := c.Request()
			ctx, span := tracer.Start(r.Context(), "delivery", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(Hook.String(hook)))
			c.SetRequest(r.WithContext(ctx))
			err := next(c)
			if err == nil {
				span.SetAttributes(attribute.Int("http.response.status_code", c.Response().Status))
			}
			End(span, CodeOf(err))
			return err
		}
	}
}

// inbox makes a span of the hand-over to the store, and says at the delivery's
// span which delivery it is.
type inbox struct {
	to     webhook.Inbox
	tracer trace.Tracer
}

// Inbox wraps the inbox of a receiver.
func Inbox(to webhook.Inbox, tracer trace.Tracer) webhook.Inbox { return &inbox{to, tracer} }

// Accept implements webhook.Inbox.
func (b *inbox) Accept(ctx context.Context, d webhook.Delivery) (bool, error) {
	attrs := []attribute.KeyValue{Delivery.String(d.ID), Event.String(d.Event.Kind)}
	if len(d.Event.Keys) > 0 { // a delivery concerns one task, or several of one push
		attrs = append(attrs, World.String(d.Event.Keys[0].World), Task.Int64(d.Event.Keys[0].Task))
	}
	if code := d.Event.Ignored; code != "" {
		attrs = append(attrs, Code.String(string(code)))
	}
	trace.SpanFromContext(ctx).SetAttributes(attrs...)
	ctx, span := b.tracer.Start(ctx, "store")
	duplicate, err := b.to.Accept(ctx, d)
	span.SetAttributes(attribute.Bool("writ.duplicate", duplicate))
	End(span, CodeOf(err))
	return duplicate, err
}
