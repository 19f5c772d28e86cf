// Package servertest is a repository on an embedded forge and a server of it, for tests.
package servertest

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

// Place is an embedded forge, and what writ needs to serve it.
type Place struct {
	*localtest.Place
	T        *testing.T
	Root     string
	Hook     string // where writ is to listen
	Env      []string
	More     string // keys of server: in the configuration
	Quiet    bool   // the log has what it has by default, and not each look at a task
	Builders string // more of them, a line each
	Others   string // more repositories, each after a comma
	start    func(ctx context.Context, log io.Writer, env []string, file string) int
	Sweep    string // how often the server looks by itself; 1s where it isn't set
}

// Patience bounds what would otherwise hang; nothing waits for it.
const Patience = 2 * time.Minute

// World is the identity of its repository.
func (p *Place) World() string {
	p.T.Helper()
	world, err := p.Store.World(p.T.Context(), p.Repo.ID)
	must(p.T, err)
	return world
}

// New makes one. start is `writ serve` with a configuration, until ctx ends; it
// logs there, and returns the exit status.
func New(t *testing.T, start func(ctx context.Context, log io.Writer, env []string, file string) int) *Place {
	t.Helper()
	p := &Place{T: t, start: start, Root: t.TempDir(), Hook: localtest.FreeAddress(t)}
	must(t, os.Mkdir(filepath.Dir(p.Gate()), 0o755)) //nolint:gosec // a builder of another user looks into it
	p.Place = localtest.New(t, "http://"+p.Hook+"/hooks/local")
	p.Env = []string{"WRIT_LOCAL_TOKEN=" + p.Token, "WRIT_LOCAL_HOOK_SECRET=" + localtest.Secret}
	return p
}

// State is the server's state directory.
func (p *Place) State() string { return filepath.Join(p.Root, "state") }

// Gate is the file that the builder "waits" waits for.
func (p *Place) Gate() string { return filepath.Join(p.Root, "gate", "open") }

// Head is the word at the state ref of a task, "" without one.
func (p *Place) Head(n int64) string {
	refs := gittest.Git(p.T, p.Store.GitDir(p.Repo.ID), "for-each-ref", "--format=%(trailers:key=aynig-state,valueonly)", fmt.Sprintf("refs/writ/task/%d", n))
	return strings.TrimSpace(refs)
}

// Until waits until something holds, and fails the test where it doesn't in time.
func (p *Place) Until(what string, holds func() bool) {
	p.T.Helper()
	localtest.Until(p.T, Patience, what, holds)
}

// Serving is a running `writ serve` in this process.
type Serving struct {
	Log    *Buffer
	cancel context.CancelFunc
	Exit   chan int
}

// Buffer is a buffer for many writers.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (s *Buffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// String is what was written so far.
func (s *Buffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// Config writes the configuration file, if it isn't as it should be, and returns its path.
func (p *Place) Config() string {
	more := p.More
	if !p.Quiet && !strings.Contains(more, "log_level") {
		more += ", log_level: debug"
	}
	text := fmt.Sprintf(`server: {state_dir: %[1]s/state, listen: '%[2]s', sweep: %[8]s, drain: 10s%[5]s}
forges: {local: {dir: %[4]s, url: '%[3]s', repositories: [o/n%[7]s]}}
builders:
  default: {argv: [sh, -c, 'echo hello > out.txt']}
  hangs: {argv: [sleep, '600']}
  strays: {argv: [sh, -c, 'echo hello > out.txt; echo hello > README']}
  waits: {argv: [sh, -c, 'until test -e /gate/open; do sleep 0.05; done; echo hello > out.txt'], ro: ['%[1]s/gate:/gate']}
%[6]s`, p.Root, p.Hook, p.URL, p.Dir, more, p.Builders, p.Others, cmp.Or(p.Sweep, "1s"))
	path := filepath.Join(p.Root, "writ.yaml")
	if now, err := os.ReadFile(path); err == nil && string(now) == text {
		return path
	}
	next, err := os.CreateTemp(p.Root, "writ.yaml.*") // a server that starts may read it meanwhile
	must(p.T, err)
	_, err = next.WriteString(text)
	must(p.T, errors.Join(err, next.Close()))
	must(p.T, os.Rename(next.Name(), path))
	return path
}

// UntilReady waits until a server can do everything, its first probe of the sandbox
// included.
func (p *Place) UntilReady() {
	p.T.Helper()
	p.Until("writ is ready", func() bool {
		req, err := http.NewRequestWithContext(p.T.Context(), http.MethodGet, "http://"+p.Hook+"/readyz", nil)
		must(p.T, err)
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

// Serve starts `writ serve`. It has ended when the test ends.
func (p *Place) Serve() *Serving {
	p.T.Helper()
	localtest.AwaitAddress(p.T, p.Hook)
	s := &Serving{Log: &Buffer{}, Exit: make(chan int, 1)}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	go func() { s.Exit <- p.start(ctx, s.Log, append(os.Environ(), p.Env...), p.Config()) }()
	p.T.Cleanup(func() {
		s.End()
		if p.T.Failed() {
			p.T.Logf("writ serve:\n%s", s.Log)
		}
	})
	return s
}

// End asks it to end and returns its exit status. A server that doesn't end ends the tests,
// with what each goroutine does: nothing that it uses could be closed.
func (s *Serving) End() int {
	s.cancel()
	select {
	case exit := <-s.Exit:
		s.Exit <- exit // whoever asks again
		return exit
	case <-time.After(2 * Patience):
		debug.SetTraceback("all")
		panic(fmt.Sprintf("writ serve doesn't end:\n%s", s.Log))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Readiness is what /readyz says.
type Readiness struct {
	Ready, Degraded bool
	Checks          []struct {
		Name, Reason string
		OK           bool
	}
}

// Readyz asks an address; zero where nobody answers.
func Readyz(t *testing.T, address string) (got Readiness) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+address+"/readyz", nil)
	must(t, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return got
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	must(t, err)
	must(t, json.Unmarshal(data, &got))
	return got
}

// Reason is why a check fails; "" if it doesn't, or isn't there.
func (r Readiness) Reason(check string) string {
	for _, c := range r.Checks {
		if c.Name == check {
			return c.Reason
		}
	}
	return ""
}

// Series is what /metrics says of one series, "" for nothing. A server that is too busy
// to say is asked again.
func (p *Place) Series(name string) (value string) {
	p.T.Helper()
	p.Until("/metrics answers", func() bool {
		req, err := http.NewRequestWithContext(p.T.Context(), http.MethodGet, "http://"+p.Hook+"/metrics", nil)
		must(p.T, err)
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

// Metric is the value of a line of /metrics, 0 if it isn't there yet.
func (p *Place) Metric(name string) float64 {
	p.T.Helper()
	said := p.Series(name)
	if said == "" {
		return 0
	}
	v, err := strconv.ParseFloat(said, 64)
	must(p.T, err)
	return v
}

// Asked is the status of a page of a server, 0 where nothing answers.
func (p *Place) Asked(path string) int {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.Hook+path, nil)
	must(p.T, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	must(p.T, res.Body.Close())
	return res.StatusCode
}
