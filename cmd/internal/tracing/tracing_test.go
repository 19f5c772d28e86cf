package tracing_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/writbot/writ/cmd/internal/tracing"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
)

// collector takes traces as any collector does.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	heads []http.Header
	paths []string
	spans []*tracepb.Span
	self  map[string]string // attributes of the resource
}

func newCollector(t *testing.T) *collector {
	c := &collector{self: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.heads, c.paths = append(c.heads, r.Header), append(c.paths, r.URL.Path)
		for _, rs := range data.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				c.self[a.Key] = a.Value.GetStringValue()
			}
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func open(t *testing.T, o tracing.Options) *tracing.Provider {
	t.Helper()
	o.Log, o.Version = slog.New(slog.DiscardHandler), "v1"
	p, err := tracing.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// text is a span on one line: name, attributes, status.
func text(s *tracepb.Span) string {
	words := []string{s.Name}
	for _, a := range s.Attributes {
		value := a.Value.GetStringValue()
		if _, ok := a.Value.Value.(*commonpb.AnyValue_IntValue); ok {
			value = strconv.FormatInt(a.Value.GetIntValue(), 10)
		}
		words = append(words, a.Key+"="+value)
	}
	if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		words = append(words, "error: "+s.Status.Message)
	}
	slices.Sort(words[1:])
	return strings.Join(words, " ")
}

// TestTraces_ReachACollector: spans arrive as OTLP, with their ids, those that a
// span doesn't name itself taken from its parent, and with the headers asked for.
func TestTraces_ReachACollector(t *testing.T) {
	c := newCollector(t)
	p := open(t, tracing.Options{Endpoint: c.URL, Headers: map[string]string{"X-Team": "a b"}})
	ctx, parent := p.Tracer().Start(t.Context(), "tick", trace.WithAttributes(tracing.World.String("w"), tracing.Task.Int64(3)))
	parent.SetAttributes(tracing.Run.String("r1"))
	_, child := p.Tracer().Start(ctx, "act", trace.WithAttributes(tracing.Run.String("r2")))
	tracing.End(child, "lease.lost")
	tracing.End(parent, "")
	p.Close(t.Context())

	var got []string
	for _, s := range c.spans {
		got = append(got, text(s))
	}
	want := []string{
		"act error: lease.lost writ.code=lease.lost writ.run=r2 writ.task=3 writ.world=w",
		"tick writ.run=r1 writ.task=3 writ.world=w",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if string(c.spans[0].ParentSpanId) != string(c.spans[1].SpanId) || string(c.spans[0].TraceId) != string(c.spans[1].TraceId) {
		t.Error("the act is no part of its tick")
	}
	if c.self["service.name"] != "writ" || c.self["service.version"] != "v1" {
		t.Errorf("the process says that it is %v", c.self)
	}
	if c.paths[0] != "/v1/traces" || c.heads[0].Get("Content-Type") != "application/x-protobuf" || c.heads[0].Get("X-Team") != "a b" {
		t.Errorf("asked was %s with %v", c.paths[0], c.heads[0])
	}
	if p.Sent() != 2 || p.Dropped() != 0 {
		t.Errorf("%d sent, %d dropped", p.Sent(), p.Dropped())
	}
}

// TestTraces_ACollectorThatHangs: who makes spans never waits, what finds no
// room is counted, and the end isn't kept up.
func TestTraces_ACollectorThatHangs(t *testing.T) {
	free := make(chan struct{})
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-free:
		}
	}))
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
	c := newCollector(t)
	p := open(t, tracing.Options{Endpoint: c.URL})
	scene := forgetest.NewScene(time.Now)
	scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Invalid, Err: errors.New("hush, a secret")})
	client := tracing.Client(scene.Bot, p.Tracer())
	if _, err := client.AddComment(t.Context(), scene.Repo, 1, "hush, a body"); !forge.IsReason(err, forge.Invalid) {
		t.Fatalf("the wrapper changed the error to %v", err)
	}
	p.Close(t.Context())
	if len(c.spans) != 1 || text(c.spans[0]) != "forge add comment error: forge: invalid forge.number=1 writ.code=forge: invalid" {
		t.Fatalf("%v", c.spans)
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
