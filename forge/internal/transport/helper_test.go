package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/writbot/writ/forge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake answers in the order of its list; the last answer stays.
type fake struct {
	mu       sync.Mutex
	answers  []answer
	requests []*http.Request
	times    []time.Time
}

type answer struct {
	status int
	header string // "Name: value" lines
	body   string
	err    error
}

func (f *fake) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.answers[min(len(f.requests), len(f.answers)-1)]
	f.requests, f.times = append(f.requests, req), append(f.times, time.Now())
	if a.err != nil {
		return nil, a.err
	}
	h := http.Header{}
	for line := range strings.SplitSeq(a.header, "\n") {
		if name, value, found := strings.Cut(line, ": "); found {
			h.Set(name, value)
		}
	}
	return &http.Response{StatusCode: a.status, Header: h, Body: io.NopCloser(strings.NewReader(a.body)), Request: req}, nil
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

func newFake(t *testing.T, l Limits, answers ...answer) (*fake, *Transport) {
	t.Helper()
	f := &fake{answers: answers}
	tr, err := New(Config{Hosts: []string{"forge.example"}, Base: f, Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	return f, tr
}

// reply is an answer, read.
type reply struct {
	body   string
	status int
	header http.Header
}

// ask makes a request and reads the answer.
func ask(ctx context.Context, tr http.RoundTripper, method, url string, c Call, headers ...string) (reply, error) {
	req, err := http.NewRequestWithContext(With(ctx, c), method, url, nil)
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{string(b), res.StatusCode, res.Header}, err
}

func get(t *testing.T, tr http.RoundTripper, c Call, headers ...string) (string, error) {
	t.Helper()
	r, err := ask(t.Context(), tr, http.MethodGet, "https://forge.example/x", c, headers...)
	return r.body, err
}

func post(t *testing.T, tr http.RoundTripper, c Call, headers ...string) error {
	t.Helper()
	_, err := ask(t.Context(), tr, http.MethodPost, "https://forge.example/x", c, headers...)
	return err
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// failed demands a forge.Error of a reason.
func failed(t *testing.T, err error, want forge.Reason) *forge.Error {
	t.Helper()
	var e *forge.Error
	if !errors.As(err, &e) || e.Reason != want {
		t.Fatalf("error %v, want a forge.Error: %q", err, want)
	}
	return e
}

// refused is failed for those who want no more of it.
func refused(t *testing.T, err error, want forge.Reason) {
	t.Helper()
	_ = failed(t, err, want)
}

// pass lets a bubble's time pass.
func pass(d time.Duration) { <-time.After(d) }
