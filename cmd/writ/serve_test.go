package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
)

// forgePlace is an embedded forge, and what writ needs to serve it.
type forgePlace struct {
	*localtest.Place
	t        *testing.T
	dir      string
	hook     string // where writ is to listen
	env      []string
	more     string // keys of server: in the configuration
	quiet    bool   // the log has what it has by default, and not each look at a task
	builders string // more of them, a line each
	others   string // more repositories, each after a comma
	drain    string // how long a server that ends waits for its tasks; 10s where it isn't set
}

// patience bounds what would otherwise hang; nothing waits for it.
const patience = 2 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is the identity of its repository.
func (p *forgePlace) world() string {
	p.t.Helper()
	world, err := p.Store.World(p.t.Context(), p.Repo.ID)
	must(p.t, err)
	return world
}

func newForgePlace(t *testing.T) *forgePlace {
	t.Helper()
	p := &forgePlace{t: t, dir: t.TempDir(), hook: localtest.FreeAddress(t)}
	must(t, os.Mkdir(filepath.Dir(p.gate()), 0o755))
	p.Place = localtest.New(t, "http://"+p.hook+"/hooks/local")
	p.env = []string{"WRIT_LOCAL_TOKEN=" + p.Token, "WRIT_LOCAL_HOOK_SECRET=" + localtest.Secret}
	return p
}

func (p *forgePlace) state() string { return filepath.Join(p.dir, "state") }

// gate is the file that the builder "waits" waits for.
func (p *forgePlace) gate() string { return filepath.Join(p.dir, "gate", "open") }

// head is the word at the state ref of a task, "" without one.
func (p *forgePlace) head(n int64) string {
	refs := gittest.Git(p.t, p.Store.GitDir(p.Repo.ID), "for-each-ref", "--format=%(trailers:key=aynig-state,valueonly)", fmt.Sprintf("refs/writ/task/%d", n))
	return strings.TrimSpace(refs)
}

func (p *forgePlace) until(what string, holds func() bool) {
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

func (p *forgePlace) config() string {
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
	must(p.t, err)
	_, err = next.WriteString(text)
	must(p.t, errors.Join(err, next.Close()))
	must(p.t, os.Rename(next.Name(), path))
	return path
}

// server is one that nothing drives; it is closed when the test ends.
func (p *forgePlace) server() *server {
	p.t.Helper()
	a := newApp(strings.NewReader(""), io.Discard, io.Discard, append(os.Environ(), p.env...))
	cfg, err := a.load(p.config())
	must(p.t, err)
	s, err := a.newServer(p.t.Context(), cfg)
	must(p.t, err)
	p.t.Cleanup(s.close)
	return s
}

// serve starts `writ serve`. It has ended when the test ends.
func (p *forgePlace) serve() *serving {
	p.t.Helper()
	s := &serving{log: &syncBuffer{}, exit: make(chan int, 1)}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	a := newApp(strings.NewReader(""), s.log, s.log, append(os.Environ(), p.env...))
	go func() { s.exit <- a.main(ctx, []string{"serve", "--config", p.config()}) }()
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

// cli runs a command beside the server.
func (p *forgePlace) cli(args ...string) (int, string) {
	var out bytes.Buffer
	exit := Main(args, strings.NewReader(""), &out, &out, append(os.Environ(), p.env...))
	return exit, out.String()
}

// TestServe_DoesWhatIsApproved: an approved issue is done once, one that nobody
// approved is left alone, and the records verify.
func TestServe_DoesWhatIsApproved(t *testing.T) {
	p := newForgePlace(t)
	s := p.serve()
	approved, other := p.File("default"), p.File("default")
	p.Approve(approved)
	p.until("the approved task completes", func() bool { return p.head(approved) == "completed" })
	bare := p.Store.GitDir(p.Repo.ID)
	if names := gittest.Git(t, bare, "diff", "--name-only", "main", fmt.Sprintf("writ/change/%d", approved)); strings.TrimSpace(names) != "out.txt" {
		t.Errorf("the change has %s", names)
	}
	p.until("the issue is closed", func() bool { return p.Issue(approved).State == forge.Closed })
	p.until("the label says so", func() bool { return slices.Contains(p.Issue(approved).Labels, "writ:completed") })
	if bodies := p.BotComments(approved); len(bodies) != 1 || !strings.Contains(bodies[0], "task_final_state: `completed`") {
		t.Errorf("writ wrote %q", bodies)
	}
	if head := p.head(other); head != "" {
		t.Errorf("the task that nobody approved is %s", head)
	}
	if exit := s.end(); exit != exitDone {
		t.Errorf("serve ended with %d", exit)
	}
	if exit, out := p.cli("verify", "--state-dir", p.state()); exit != exitDone {
		t.Errorf("verify ended with %d: %s", exit, out)
	}
	if exit, out := p.cli("verify", bare, "--task", fmt.Sprint(approved)); exit != exitDone {
		t.Errorf("verify of the task ended with %d: %s", exit, out)
	}
}

// TestW12_TheSweepFindsWhatWasLost: an issue that was approved while nobody
// listened, and whose deliveries are gone, is done all the same, once.
func TestW12_TheSweepFindsWhatWasLost(t *testing.T) {
	p := newForgePlace(t)
	must(t, p.Store.ForgetHook(t.Context(), "http://"+p.hook+"/hooks/local"))
	n := p.File("default")
	p.Approve(n)
	p.serve()
	p.until("the sweep finds the task", func() bool { return p.head(n) == "completed" })
	p.until("one dispatch", func() bool {
		return strings.Count(gittest.Git(t, p.Store.GitDir(p.Repo.ID), "log", "--format=%(trailers:key=aynig-state,valueonly)", fmt.Sprintf("refs/writ/task/%d", n)), "working") == 1
	})
}

// TestX5_StopReachesTheBuilder: a stop from the command line ends a builder that
// a server runs, and a pause keeps new ones from being started.
func TestX5_StopReachesTheBuilder(t *testing.T) {
	p := newForgePlace(t)
	p.serve()
	n := p.File("hangs")
	p.Approve(n)
	p.until("the task is claimed", func() bool { return p.head(n) == "working" })
	if exit, out := p.cli("pause", "--state-dir", p.state(), "--reason", "a look"); exit != exitDone {
		t.Fatalf("pause: %d %s", exit, out)
	}
	later := p.File("default")
	p.Approve(later)
	if exit, out := p.cli("task", "stop", fmt.Sprint(n), "--state-dir", p.state()); exit != exitDone {
		t.Fatalf("stop: %d %s", exit, out)
	}
	p.until("the stopped task waits", func() bool { return p.head(n) == "waiting" })
	if head := p.head(later); head != "" {
		t.Errorf("while paused, a task became %s", head)
	}
	if exit, out := p.cli("unpause", "--state-dir", p.state()); exit != exitDone {
		t.Fatalf("unpause: %d %s", exit, out)
	}
	p.until("the other task completes", func() bool { return p.head(later) == "completed" })
}

// TestP10_StopInAPause: a stop of approved work that hasn't begun is written to git also
// where nothing is to be started, so that it holds for every installation.
func TestP10_StopInAPause(t *testing.T) {
	p := newForgePlace(t)
	p.serve()
	p.untilReady()
	p.want(exitDone, "everything is paused", "pause", "--state-dir", p.state(), "--reason", "a look")
	byHand, byComment := p.File("default"), p.File("default")
	p.Approve(byHand)
	p.Approve(byComment)
	p.want(exitDone, "waits for another approval now", "task", "stop", fmt.Sprint(byHand), "--state-dir", p.state(), "--reason", "no")
	_, err := p.Maintainer.AddComment(t.Context(), p.Repo, byComment, "/writ stop")
	must(t, err)
	for _, n := range []int64{byHand, byComment} {
		p.until("the stopped task waits", func() bool { return p.head(n) == "waiting" })
	}
	p.want(exitDone, "over", "unpause", "--state-dir", p.state())
	p.Approve(p.File("default")) // one after the other
	p.until("another task completes", func() bool { return p.head(byComment+1) == "completed" })
	if a, b := p.head(byHand), p.head(byComment); a != "waiting" || b != "waiting" {
		t.Errorf("after the pause they are %s and %s", a, b)
	}
}

// TestF3_ServeShowsNoSecret: token and hook secret are in nothing that a server
// writes.
func TestF3_ServeShowsNoSecret(t *testing.T) {
	p := newForgePlace(t)
	s := p.serve()
	n := p.File("strays")
	p.Approve(n)
	p.until("the task is refused", func() bool { return slices.Contains([]string{"retry_pending", "blocked"}, p.head(n)) })
	s.end()
	secrets := []string{localtest.Secret, strings.TrimPrefix(p.env[0], "WRIT_LOCAL_TOKEN=")}
	hold := func(where, text string) {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("a secret is in %s", where)
			}
		}
	}
	hold("the log", s.log.String())
	must(t, filepath.WalkDir(p.state(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		hold(path, string(data))
		return err
	}))
}

// TestW12_Cursor: a cursor reads back, and a spoilt one means everything.
func TestW12_Cursor(t *testing.T) {
	c := swept{until: time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC), seen: []int64{3, 12}}
	got := parseSwept(c.String())
	if !got.until.Equal(c.until) || !slices.Equal(got.seen, c.seen) {
		t.Errorf("%v came back as %v", c, got)
	}
	for _, text := range []string{"", "yesterday 3", " 3"} {
		if !parseSwept(text).until.IsZero() {
			t.Errorf("%q is a time", text)
		}
	}
}
