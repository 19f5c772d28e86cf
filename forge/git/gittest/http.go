package gittest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writbot/writ/forge/git/smarthttp"
)

// HTTP is a smart HTTP server of one repository.
type HTTP struct {
	URL string // of the repository

	mu       sync.Mutex
	fault    Fault
	requests []Request
}

// Request is what the server was asked.
type Request struct {
	Method string
	Path   string
	Header http.Header
}

// Fault wraps the server's handler while it is set.
type Fault func(next http.Handler) http.Handler

// ServeHTTP serves the bare repository at dir until the test ends, to everybody
// as the user tester.
func ServeHTTP(t testing.TB, dir string) *HTTP {
	t.Helper()
	return serveHTTP(t, dir, "")
}

// serveHTTP serves with another git program, "" for the usual one.
func serveHTTP(t testing.TB, dir, program string) *HTTP {
	t.Helper()
	backend, err := smarthttp.New(smarthttp.Options{
		Root: filepath.Dir(dir), Env: Env(), GitBinary: program,
		Authorize: func(*http.Request, string, bool) (string, error) { return "tester", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &HTTP{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.requests = append(h.requests, Request{r.Method, r.URL.Path, r.Header.Clone()})
		fault := h.fault
		h.mu.Unlock()
		if fault != nil {
			fault(backend).ServeHTTP(w, r)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	h.URL = srv.URL + "/" + filepath.Base(dir)
	return h
}

// Set makes every further request go through f; nil ends that.
func (h *HTTP) Set(f Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = f
}

// Requests returns what was asked so far, and forgets it.
func (h *HTTP) Requests() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.requests
	h.requests = nil
	return out
}

// OnPush applies f to pushes only, not to their discovery.
func OnPush(f Fault) Fault {
	return func(next http.Handler) http.Handler {
		faulty := f(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
				faulty.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// TakesOnly is a server that sends no object once something was pushed to it. Its refs it
// shows. Each call makes one of its own.
func TakesOnly() Fault {
	var pushed atomic.Bool
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				cut(w)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			if strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
				pushed.Store(true)
			} else if pushed.Load() && bytes.Contains(body, []byte("command=fetch")) {
				http.Error(w, "no", http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// DropResponse lets the server act and cuts the connection instead of answering.
func DropResponse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		cut(w)
	})
}

// cut closes the connection without an answer.
func cut(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack() // HTTP/1 servers can
	if err == nil {
		_ = c.Close()
	}
}

// Status answers with a code and words, without acting.
func Status(code int, words string) Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, words)
		})
	}
}

// Redirect answers every request with a redirect to the same path at another base URL.
func Redirect(base string) Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, base+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		})
	}
}

// RequireBasic wants this name and password.
func RequireBasic(user, password string) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
				w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Delay waits until go is closed before the server acts.
func Delay(proceed <-chan struct{}) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-proceed:
			case <-r.Context().Done():
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Held is a request that was taken, whose connection was cut, and that acts
// only when it is released: a push that is applied after its sender gave up.
type Held struct {
	proceed chan struct{}
	done    chan struct{}
}

// NewHeld makes one; its Fault takes a single request.
func NewHeld() *Held { return &Held{make(chan struct{}), make(chan struct{})} }

// Fault is the fault to set.
func (h *Held) Fault(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		late := r.Clone(context.WithoutCancel(r.Context()))
		cut(w)
		go func() {
			defer close(h.done)
			<-h.proceed
			if err == nil {
				late.Body = io.NopCloser(bytes.NewReader(body))
				next.ServeHTTP(httptest.NewRecorder(), late)
			}
		}()
	})
}

// Release lets the request act and waits until it has.
func (h *Held) Release() {
	close(h.proceed)
	<-h.done
}

// Before calls f before the server acts.
func Before(f func()) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f()
			next.ServeHTTP(w, r)
		})
	}
}
