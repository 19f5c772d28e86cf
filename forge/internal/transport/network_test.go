package transport

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
)

// over makes a Transport to a server, with its certificate if it has one.
func over(t *testing.T, s *httptest.Server, change ...func(*Config)) *Transport {
	t.Helper()
	u, err := url.Parse(s.URL)
	ok(t, err)
	c := Config{Hosts: []string{u.Host}, Proxy: NoProxy, UserAgent: "writ-test", Limits: Limits{Interval: -1}}
	if cert := s.Certificate(); cert != nil {
		c.CAFile = filepath.Join(t.TempDir(), "ca.pem")
		ok(t, os.WriteFile(c.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o600))
	}
	for _, f := range change {
		f(&c)
	}
	tr, err := New(c)
	ok(t, err)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func serve(t *testing.T, tls bool, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func TestTransport_CustomAuthority(t *testing.T) {
	s := serve(t, true, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.UserAgent()) })
	r, err := ask(t.Context(), over(t, s), http.MethodGet, s.URL+"/x", Call{})
	if err != nil || r.body != "writ-test" {
		t.Fatalf("%q, %v", r.body, err)
	}
	_, err = ask(t.Context(), over(t, s, func(c *Config) { c.CAFile = "" }), http.MethodGet, s.URL+"/x", Call{})
	refused(t, err, forge.Unavailable)
	bad := filepath.Join(t.TempDir(), "none.pem")
	ok(t, os.WriteFile(bad, []byte("no certificate"), 0o600))
	for _, c := range []Config{{}, {Hosts: []string{"h"}, CAFile: bad}, {Hosts: []string{"h"}, CAFile: bad + "x"}, {Hosts: []string{"h"}, Proxy: "::"}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestTransport_Proxy(t *testing.T) {
	var asked atomic.Value
	proxy := serve(t, false, func(_ http.ResponseWriter, r *http.Request) { asked.Store(r.URL.String()) })
	tr := over(t, proxy, func(c *Config) { c.Proxy, c.Hosts = proxy.URL, []string{"forge.example"} })
	_, err := ask(t.Context(), tr, http.MethodGet, "http://forge.example/x", Call{})
	if err != nil || asked.Load() != "http://forge.example/x" {
		t.Errorf("the proxy was asked for %v: %v", asked.Load(), err)
	}
}

// TestG3_RedirectsAreNotFollowed: neither the request nor its credential goes
// where an answer points to, nor to a host that isn't the configured one.
func TestG3_RedirectsAreNotFollowed(t *testing.T) {
	var elsewhere atomic.Int64
	other := serve(t, false, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := serve(t, false, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/y", status) })
		tr := over(t, s)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			_, err := ask(t.Context(), tr, method, s.URL+"/x", Call{}, "Authorization", "Bearer canary-of-g3")
			refused(t, err, forge.NotFound)
			var e *StatusError
			if !errors.As(err, &e) || e.Status != status {
				t.Errorf("%d: %v", status, err)
			}
		}
		_, err := ask(t.Context(), tr, http.MethodGet, other.URL+"/x", Call{}, "Authorization", "Bearer canary-of-g3")
		refused(t, err, forge.Invalid)
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d requests reached another host", n)
	}
}

// TestF5_AppliedIsSaid: a write may have been done unless the forge refused it or
// never saw it; nothing is sent twice.
func TestF5_AppliedIsSaid(t *testing.T) {
	var seen atomic.Int64
	cut := func(w http.ResponseWriter) {
		conn, _, err := w.(http.Hijacker).Hijack()
		ok(t, err)
		_ = conn.Close()
	}
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		reason  forge.Reason
		applied bool
	}{
		"502":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, forge.Unavailable, true},
		"500":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, forge.Unavailable, true},
		"reply lost": {func(w http.ResponseWriter, _ *http.Request) { cut(w) }, forge.Unavailable, true},
		"body cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			w.WriteHeader(201)
		}, forge.Unavailable, true},
		"too long": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2000)) }, forge.Invalid, true},
		"401":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, forge.Unauthorized, false},
		"404":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, forge.NotFound, false},
		"409":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(409) }, forge.Conflict, false},
		"422":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(422) }, forge.Invalid, false},
		"429":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, forge.Limited, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, false, func(w http.ResponseWriter, r *http.Request) { seen.Add(1); c.answer(w, r) })
			seen.Store(0)
			tr := over(t, s, func(c *Config) { c.MaxResponse = 1000 })
			_, err := ask(t.Context(), tr, http.MethodPost, s.URL+"/x", Call{Op: "comment on o/n#3"})
			e := failed(t, err, c.reason)
			if e.Applied != c.applied || e.Op != "comment on o/n#3" || seen.Load() != 1 {
				t.Errorf("%v: applied %v, sent %d times", e, e.Applied, seen.Load())
			}
			_, err = ask(t.Context(), over(t, s, func(c *Config) { c.MaxResponse = 1000 }), http.MethodPost, s.URL+"/x", Call{Lane: Read})
			if e := failed(t, err, c.reason); e.Applied {
				t.Error("a read is said to have been applied")
			}
		})
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	ok(t, err)
	s := &httptest.Server{URL: "http://" + l.Addr().String()}
	ok(t, l.Close())
	_, err = ask(t.Context(), over(t, s), http.MethodPost, s.URL+"/x", Call{})
	if e := failed(t, err, forge.Unavailable); e.Applied {
		t.Error("what was never sent is said to have been applied")
	}
}

// TestTransport_TimeOut: an answer whose body never ends is given up.
func TestTransport_TimeOut(t *testing.T) {
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "the beginning")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	_, err := ask(t.Context(), over(t, s, func(c *Config) { c.Timeout = 50 * time.Millisecond }), http.MethodPost, s.URL+"/x", Call{})
	if e := failed(t, err, forge.Unavailable); !errors.Is(err, context.DeadlineExceeded) || !e.Applied {
		t.Errorf("%v, applied %v", err, e.Applied)
	}
}

// TestF3_NoCredentialInErrors: whatever the server repeats, the error and the log
// have none of it.
func TestF3_NoCredentialInErrors(t *testing.T) {
	const secret = "canary-of-f3-0123456789"
	var log bytes.Buffer
	for name, h := range map[string][2]string{
		"bearer":  {"Authorization", "Bearer " + secret},
		"basic":   {"Authorization", "Basic d3JpdDpjYW5hcnktb2YtZjMtMDEyMzQ1Njc4OQ=="},
		"private": {"Private-Token", secret},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(400)
				_, _ = io.WriteString(w, `{"message":"bad token `+secret+`\u001b[31m`+"\u202e, header "+r.Header.Get(h[0])+`"}`)
			})
			tr := over(t, s, func(c *Config) {
				c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			_, err := ask(t.Context(), tr, http.MethodGet, s.URL+"/x", Call{}, h[0], h[1])
			var e *StatusError
			if !errors.As(err, &e) || !strings.Contains(err.Error(), "bad token") {
				t.Fatalf("%v", err)
			}
			for _, text := range []string{err.Error(), string(e.Body), log.String()} {
				_, value, _ := strings.Cut(h[1], " ")
				if strings.Contains(text, secret) || value != "" && strings.Contains(text, value) {
					t.Errorf("the credential is in %q", text)
				}
			}
			if strings.ContainsAny(err.Error(), "\x1b\u202e") {
				t.Errorf("controls are in %q", err)
			}
		})
	}
}

func TestBaseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://ghe.example/api/v3": "https://ghe.example/api/v3/",
		"https://gitlab.example":     "https://gitlab.example/",
		"http://127.0.0.1:8080/":     "http://127.0.0.1:8080/",
		"http://localhost":           "http://localhost/",
	} {
		if u, err := BaseURL(raw, false); err != nil || u.String() != want {
			t.Errorf("%s: %v, %v", raw, u, err)
		}
	}
	for _, raw := range []string{"", "ghe.example", "http://ghe.example", "https://user:canary@ghe.example", "https://h/?q", "https://h/#f", "ftp://h/", "https://h:canary/"} {
		if _, err := BaseURL(raw, false); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", raw, err)
		}
	}
	if _, err := BaseURL("http://ghe.example", true); err != nil {
		t.Error(err)
	}
}
