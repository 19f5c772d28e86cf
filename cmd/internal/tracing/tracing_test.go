package tracing_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/writbot/writ/cmd/internal/tracing"
	"github.com/writbot/writ/cmd/internal/tracing/tracingtest"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
)

func open(t *testing.T, o tracing.Options) *tracing.Provider {
	t.Helper()
	o.Log, o.Version = slog.New(slog.DiscardHandler), "v1"
	p, err := tracing.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTraces_ReachACollector: spans arrive as OTLP, with their ids, those that a
// span doesn't name itself taken from its parent, and with the headers asked for.
func TestTraces_ReachACollector(t *testing.T) {
	c := tracingtest.New(t)
	p := open(t, tracing.Options{Endpoint: c.URL, Headers: map[string]string{"X-Team": "a b"}})
	ctx, parent := p.Tracer().Start(t.Context(), "tick", trace.WithAttributes(tracing.World.String("w"), tracing.Task.Int64(3)))
	parent.SetAttributes(tracing.Run.String("r1"))
	_, child := p.Tracer().Start(ctx, "act", trace.WithAttributes(tracing.Run.String("r2")))
	tracing.End(child, "lease.lost")
	tracing.End(parent, "")
	p.Close(t.Context())

	var got []string
	for _, s := range c.Spans() {
		got = append(got, tracingtest.Text(s))
	}
	want := []string{
		"act error: lease.lost writ.code=lease.lost writ.run=r2 writ.task=3 writ.world=w",
		"tick writ.run=r1 writ.task=3 writ.world=w",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	spans := c.Spans()
	if string(spans[0].ParentSpanId) != string(spans[1].SpanId) || string(spans[0].TraceId) != string(spans[1].TraceId) {
		t.Error("the act is no part of its tick")
	}
	if c.Self("service.name") != "writ" || c.Self("service.version") != "v1" {
		t.Errorf("the process says that it is %s %s", c.Self("service.name"), c.Self("service.version"))
	}
	if path, head := c.Request(); path != "/v1/traces" || head.Get("Content-Type") != "application/x-protobuf" || head.Get("X-Team") != "a b" {
		t.Errorf("asked was %s with %v", path, head)
	}
	if p.Sent() != 2 || p.Dropped() != 0 {
		t.Errorf("%d sent, %d dropped", p.Sent(), p.Dropped())
	}
}

// TestTraces_ACollectorThatHangs: who makes spans never waits, what finds no
// room is counted, and the end isn't kept up.
func TestTraces_ACollectorThatHangs(t *testing.T) {
	free := make(chan struct{})
	c := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-free }))
	t.Cleanup(func() { close(free); c.Close() })
	p := open(t, tracing.Options{Endpoint: c.URL})
	const many = 10_000 // more than queue and requests hold
	for range many {
		_, s := p.Tracer().Start(context.Background(), "tick")
		s.End()
	}
	if p.Dropped() == 0 {
		t.Error("nothing was dropped, so that something is kept without bound")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	p.Close(ended)
	if p.Sent() != 0 || p.Dropped() != many {
		t.Errorf("of %d spans %d were sent and %d dropped", many, p.Sent(), p.Dropped())
	}
	_, late := p.Tracer().Start(context.Background(), "late")
	late.End() // does no harm
}

// TestTraces_ACollectorThatIsGone: its spans are counted as dropped.
func TestTraces_ACollectorThatIsGone(t *testing.T) {
	c := httptest.NewServer(http.NotFoundHandler())
	p := open(t, tracing.Options{Endpoint: c.URL})
	_, s := p.Tracer().Start(context.Background(), "refused")
	s.End()
	p.Close(t.Context())
	c.Close()
	if p.Dropped() != 1 {
		t.Errorf("%d dropped", p.Dropped())
	}
	p = open(t, tracing.Options{Endpoint: c.URL})
	_, s = p.Tracer().Start(context.Background(), "unheard")
	s.End()
	p.Close(t.Context())
	if p.Dropped() != 1 {
		t.Errorf("%d dropped", p.Dropped())
	}
}

// TestF3_TracesHoldCodesOnly: neither what was sent to a forge nor what it
// answered is in a span.
func TestF3_TracesHoldCodesOnly(t *testing.T) {
	c := tracingtest.New(t)
	p := open(t, tracing.Options{Endpoint: c.URL})
	scene := forgetest.NewScene(time.Now)
	scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Invalid, Err: errors.New("hush, a secret")})
	client := tracing.Client(scene.Bot, p.Tracer())
	if _, err := client.AddComment(t.Context(), scene.Repo, 1, "hush, a body"); !forge.IsReason(err, forge.Invalid) {
		t.Fatalf("the wrapper changed the error to %v", err)
	}
	p.Close(t.Context())
	if spans := c.Spans(); len(spans) != 1 || tracingtest.Text(spans[0]) != "forge add comment error: forge: invalid forge.number=1 writ.code=forge: invalid" {
		t.Fatalf("%v", spans)
	}
}

// TestTraces_Environment: a standard variable is obeyed or named, whatever it is.
func TestTraces_Environment(t *testing.T) {
	got := tracing.CheckEnvironment(map[string]string{
		"OTEL_SERVICE_NAME": "a", "OTEL_RESOURCE_ATTRIBUTES": "b=c", "OTEL_METRICS_EXPORTER": "none",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "k=v", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://x",
		"OTEL_TRACES_SAMPLER": "always_off", "OTEL_SDK_DISABLED": "true", "OTEL_BSP_MAX_QUEUE_SIZE": "", "PATH": "/bin",
	})
	want := []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_SDK_DISABLED", "OTEL_TRACES_SAMPLER"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
