package tracing

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Limits of what is kept and of how long is waited for a collector.
const (
	queueSize   = 2048 // spans; about 4 MiB
	batchSize   = 256  // spans in one request
	batchEvery  = 2 * time.Second
	exportTime  = 5 * time.Second // for one request
	closingTime = 3 * time.Second // for all that waits when the process ends
)

// Options say where traces go.
type Options struct {
	// Endpoint is the collector's URL. One without a path gets /v1/traces.
	Endpoint string
	// Headers go with each request; they may hold a secret.
	Headers map[string]string
	// Version is writ's own.
	Version string
	Log     *slog.Logger
	// Client is whose transport is used; nil for one of our own.
	Client *http.Client
}

// Provider makes spans and sends them.
type Provider struct {
	provider *sdktrace.TracerProvider
	queue    *queue
}

// Open makes a provider. It doesn't talk to the collector. The process's
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES describe it to the collector;
// see [CheckEnvironment] for the others.
func Open(o Options) (*Provider, error) {
	client, err := newSender(o)
	if err != nil {
		return nil, err
	}
	ours := resource.NewSchemaless(attribute.String("service.name", "writ"), attribute.String("service.version", o.Version))
	self, err := resource.Merge(ours, resource.Environment())
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(context.Background(), client)
	if err != nil {
		return nil, err
	}
	q := newQueue(exporter, o.Log)
	return &Provider{queue: q, provider: sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithResource(self), sdktrace.WithSpanProcessor(q),
	)}, nil
}

// Tracer is what spans are made with.
func (p *Provider) Tracer() trace.Tracer { return p.provider.Tracer("github.com/writbot/writ") }

// Sent counts the spans that the collector took.
func (p *Provider) Sent() int64 { return p.queue.sent.Load() }

// Dropped counts the spans that found no room or could not be delivered.
func (p *Provider) Dropped() int64 { return p.queue.dropped.Load() }

// Close sends what waits, until ctx ends or a few seconds are over. What isn't
// sent by then is lost, and counted.
func (p *Provider) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closingTime)
	defer cancel()
	_ = p.queue.Shutdown(ctx) // its error only says that time was up
	_ = p.provider.Shutdown(ctx)
}
