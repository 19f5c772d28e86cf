// Package tracingtest is a collector of traces, for tests: a real HTTP server
// that takes OTLP.
package tracingtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector takes traces as any collector does.
type Collector struct {
	*httptest.Server

	mu    sync.Mutex
	heads []http.Header
	paths []string
	spans []*tracepb.Span
	self  map[string]string
}

// New starts one, which ends with the test.
func New(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{self: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(c.Close)
	return c
}

func (c *Collector) take(w http.ResponseWriter, r *http.Request) {
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
			c.self[a.Key] = Value(a)
		}
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

// Spans are those that came, in the order of their ends.
func (c *Collector) Spans() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Request is how the first request asked: its path and its headers.
func (c *Collector) Request() (string, http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.paths) == 0 {
		return "", http.Header{}
	}
	return c.paths[0], c.heads[0]
}

// Self is what the process said of itself.
func (c *Collector) Self(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.self[key]
}

// Value is an attribute's value as text.
func Value(a *commonpb.KeyValue) string {
	switch v := a.Value.Value.(type) {
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *commonpb.AnyValue_ArrayValue:
		var words []string
		for _, one := range v.ArrayValue.Values {
			words = append(words, Value(&commonpb.KeyValue{Value: one}))
		}
		return strings.Join(words, " ")
	}
	return "?"
}

// Get is the value of one attribute of a span, "" for none.
func Get(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return Value(a)
		}
	}
	return ""
}

// Text is a span on one line: its name, its attributes in order, its error.
func Text(s *tracepb.Span) string {
	words := []string{s.Name}
	for _, a := range s.Attributes {
		words = append(words, a.Key+"="+Value(a))
	}
	if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		words = append(words, "error: "+s.Status.Message)
	}
	slices.Sort(words[1:])
	return strings.Join(words, " ")
}
