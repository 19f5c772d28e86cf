package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
)

// servePlace is an embedded forge, and what writ needs to serve it.
type servePlace struct {
	*localtest.Place
	t        *testing.T
	dir      string
	hook     string // where writ is to listen
	env      []string
	more     string // keys of server: in the configuration
	quiet    bool   // the log has what it has by default, and not each look at a task
	builders string // more of them, a line each
	others   string // more repositories, each after a comma
	start    func(ctx context.Context, log io.Writer, env []string, file string) int
	drain    string // how long a server that ends waits for its tasks; 10s where it isn't set
}

// patience bounds what would otherwise hang; nothing waits for it.
const patience = 2 * time.Minute

// world is the identity of its repository.
func (p *servePlace) world() string {
	p.t.Helper()
	world, err := p.Store.World(p.t.Context(), p.Repo.ID)
	mustDo(p.t, err)
	return world
}

// newServePlace makes one. start is `writ serve` with a configuration, until ctx ends; it
// logs there, and returns the exit status.
func newServePlace(t *testing.T, start func(ctx context.Context, log io.Writer, env []string, file string) int) *servePlace {
	t.Helper()
	p := &servePlace{t: t, start: start, dir: t.TempDir(), hook: localtest.FreeAddress(t)}
	mustDo(t, os.Mkdir(filepath.Dir(p.gate()), 0o755))
	p.Place = localtest.New(t, "http://"+p.hook+"/hooks/local")
	p.env = []string{"WRIT_LOCAL_TOKEN=" + p.Token, "WRIT_LOCAL_HOOK_SECRET=" + localtest.Secret}
	return p
}

func (p *servePlace) state() string { return filepath.Join(p.dir, "state") }

// gate is the file that the builder "waits" waits for.
func (p *servePlace) gate() string { return filepath.Join(p.dir, "gate", "open") }

// head is the word at the state ref of a task, "" without one.
func (p *servePlace) head(n int64) string {
	refs := gittest.Git(p.t, p.Store.GitDir(p.Repo.ID), "for-each-ref", "--format=%(trailers:key=aynig-state,valueonly)", fmt.Sprintf("refs/writ/task/%d", n))
	return strings.TrimSpace(refs)
}

func (p *servePlace) until(what string, holds func() bool) {
	p.t.Helper()
	localtest.Until(p.t, patience, what, holds)
}

// serving is a running `writ serve` in this process.
type serving struct {
	log    *syncBuffer
	cancel context.CancelFunc
	exit   chan int
}

// syncBuffer is a buffer for many writers.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (p *servePlace) config() string {
	more := p.more
	if !p.quiet && !strings.Contains(more, "log_level") {
		more += ", log_level: debug"
	}
	text := fmt.Sprintf(`server: {state_dir: %[1]s/state, listen: '%[2]s', sweep: 1s, drain: %[7]s%[5]s}
forges: {local: {dir: %[4]s, url: '%[3]s', repositories: [o/n%[8]s]}}
builders:
  default: {argv: [sh, -c, 'echo hello > out.txt']}
  hangs: {argv: [sleep, '600']}
  strays: {argv: [sh, -c, 'echo hello > out.txt; echo hello > README']}
  waits: {argv: [sh, -c, 'until test -e /gate/open; do sleep 0.05; done; echo hello > out.txt'], ro: ['%[1]s/gate:/gate']}
%[6]s`, p.dir, p.hook, p.URL, p.Dir, more, p.builders, cmp.Or(p.drain, "10s"), p.others)
	path := filepath.Join(p.dir, "writ.yaml")
	if now, err := os.ReadFile(path); err == nil && string(now) == text {
		return path
	}
	next, err := os.CreateTemp(p.dir, "writ.yaml.*") // a server that starts may read it meanwhile
	mustDo(p.t, err)
	_, err = next.WriteString(text)
	mustDo(p.t, errors.Join(err, next.Close()))
	mustDo(p.t, os.Rename(next.Name(), path))
	return path
}

// untilReady waits until a server can do everything, its first probe of the sandbox
// included.
func (p *servePlace) untilReady() {
	p.t.Helper()
	p.until("writ is ready", func() bool {
		r, err := http.Get("http://" + p.hook + "/readyz")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

// serve starts `writ serve`. It has ended when the test ends.
func (p *servePlace) serve() *serving {
	p.t.Helper()
	s := &serving{log: &syncBuffer{}, exit: make(chan int, 1)}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	go func() { s.exit <- p.start(ctx, s.log, append(os.Environ(), p.env...), p.config()) }()
	p.t.Cleanup(func() {
		s.end()
		if p.t.Failed() {
			p.t.Logf("writ serve:\n%s", s.log)
		}
	})
	return s
}

// end asks it to end and returns its exit status. A server that doesn't end ends the tests,
// with what each goroutine does: nothing that it uses could be closed.
func (s *serving) end() int {
	s.cancel()
	select {
	case exit := <-s.exit:
		s.exit <- exit // whoever asks again
		return exit
	case <-time.After(2 * patience):
		debug.SetTraceback("all")
		panic(fmt.Sprintf("writ serve doesn't end:\n%s", s.log))
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readyAnswer is what /readyz says.
type readyAnswer struct {
	Ready, Degraded bool
	Checks          []struct {
		Name, Reason string
		OK           bool
	}
}

// readyz asks an address; zero where nobody answers.
func readyz(t *testing.T, address string) (got readyAnswer) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+address+"/readyz", nil)
	mustDo(t, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return got
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	mustDo(t, err)
	mustDo(t, json.Unmarshal(data, &got))
	return got
}

// reason is why a check fails; "" if it doesn't, or isn't there.
func (r readyAnswer) reason(check string) string {
	for _, c := range r.Checks {
		if c.Name == check {
			return c.Reason
		}
	}
	return ""
}

// series is what /metrics says of one series, "" for nothing. A server that is too busy
// to say is asked again.
func (p *servePlace) series(name string) (value string) {
	p.t.Helper()
	p.until("/metrics answers", func() bool {
		req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.hook+"/metrics", nil)
		mustDo(p.t, err)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		for line := range strings.Lines(string(body)) {
			if v, ok := strings.CutPrefix(line, name+" "); ok {
				value = strings.TrimSpace(v)
			}
		}
		return err == nil && res.StatusCode == http.StatusOK
	})
	return value
}

// metric is the value of a line of /metrics, 0 if it isn't there yet.
func (p *servePlace) metric(name string) float64 {
	p.t.Helper()
	said := p.series(name)
	if said == "" {
		return 0
	}
	v, err := strconv.ParseFloat(said, 64)
	mustDo(p.t, err)
	return v
}

// asked is the status of a page of a server, 0 where nothing answers.
func (p *servePlace) asked(path string) int {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.hook+path, nil)
	mustDo(p.t, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	mustDo(p.t, res.Body.Close())
	return res.StatusCode
}
