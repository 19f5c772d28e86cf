package gitlabtest

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git/smarthttp"
)

// Options are the settings of a Server. The zero value is usable.
type Options struct {
	Path string           // below which it is served, "/gitlab"; "": the root
	Now  func() time.Time // nil: time.Now
	// RateLimit is how many requests a token has before the limit is reset; 0:
	// very many.
	RateLimit int
	// Network is what happens to each delivery on its way: it returns what
	// arrives, in order. nil: each arrives once.
	Network func(Delivery) []Delivery
	// NoSigning leaves signing tokens out without a word, as a GitLab does that
	// can't sign.
	NoSigning bool
	TLS       bool // the certificate is the one of net/http/httptest
	// Unserved leaves the server off the network: Handler answers, and hooks are
	// told of nothing. Everything then happens in the caller's time.
	Unserved bool
}

// Server is a GitLab. It is safe for concurrent use.
type Server struct {
	URL  string // with Options.Path
	HTTP *httptest.Server

	t    testing.TB
	opts Options
	root string // of the repositories
	git  *smarthttp.Handler

	mu         sync.Mutex
	data       *data
	lies       []*lie
	replica    *data
	lag        int
	requests   []Request
	complaints []string
	executed   []string
	spent      map[string]int

	post postbox
}

// Request is what was asked of the server.
type Request struct {
	Method string
	Path   string // below /api/v4, with its query
	Body   string
	User   int64
	Status int // 0: the answer got lost
}

// New starts a server, and stops it when the test ends.
func New(t testing.TB, opts Options) *Server {
	t.Helper()
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Server{t: t, opts: opts, root: t.TempDir(), spent: map[string]int{}, data: &data{
		Users: map[int64]*User{}, Tokens: map[string]*token{}, Groups: map[string]*group{}, Projects: map[int64]*project{},
	}}
	s.serveGit()
	handler := s.mux()
	if opts.Path != "" {
		handler = http.StripPrefix(opts.Path, handler)
	}
	s.HTTP = httptest.NewUnstartedServer(handler)
	s.HTTP.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	switch {
	case opts.Unserved:
		s.HTTP.URL = unservedURL
	case opts.TLS:
		s.HTTP.StartTLS()
	default:
		s.HTTP.Start()
	}
	s.URL = s.HTTP.URL + opts.Path
	if !opts.Unserved {
		s.post.open(s)
	}
	t.Cleanup(func() {
		if !opts.Unserved {
			s.post.close()
		}
		s.HTTP.Close()
		for _, c := range s.Complaints() {
			t.Errorf("GitLab was asked for what it doesn't publish: %s", c)
		}
	})
	return s
}

// Complaints are the requests that were not as published, and takes them back.
func (s *Server) Complaints() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.complaints
	s.complaints = nil
	return out
}

// Executed are the quick actions that were executed, as "user: /close".
func (s *Server) Executed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.executed)
}

// Requests are those of the API so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// tick is the time of an act. The lock is held.
func (s *Server) tick() time.Time {
	now := s.opts.Now().UTC().Truncate(time.Millisecond)
	if !now.After(s.data.Last) {
		now = s.data.Last.Add(time.Millisecond)
	}
	s.data.Last = now
	return now
}

// mux serves the API, GraphQL and git.
func (s *Server) mux() http.Handler {
	m := http.NewServeMux()
	for _, r := range routes() {
		m.HandleFunc(r.method+" /api/v4"+r.pattern, func(w http.ResponseWriter, req *http.Request) { s.serve(w, req, r) })
	}
	m.HandleFunc("POST /api/graphql", func(w http.ResponseWriter, req *http.Request) { s.serve(w, req, graphQL()) })
	m.HandleFunc("/api/", func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		s.complaints = append(s.complaints, fmt.Sprintf("%s %s is no address of the API", req.Method, req.URL.Path))
		s.mu.Unlock()
		http.Error(w, `{"error":"404 Not Found"}`, http.StatusNotFound)
	})
	m.HandleFunc("/", s.git.ServeHTTP)
	return m
}

// aProject begins the address of what a project has.
const aProject = "/projects/{id}"

// routes are the addresses of the API, with the parameters that GitLab publishes
// for them and a client may need. What handles them is beside each group.
func routes() []route {
	all := [][]route{aboutPeople(), aboutIssues(), aboutMerges(), aboutNotes(anIssue), aboutNotes(aMerge), aboutHooks(), aboutProtection()}
	var out []route
	for _, some := range all {
		out = append(out, some...)
	}
	return out
}

func graphQL() route {
	return route{method: "POST", pattern: "/graphql", query: true, handle: askGraph, params: params{"query": text, "variables": object, "operationName": text}}
}
