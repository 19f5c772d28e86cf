package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local"
	"github.com/writbot/writ/forge/local/localtest"
)

// patience bounds what would otherwise hang; nothing waits for it.
const patience = 2 * time.Minute

// site is an embedded forge, and one installation after another that serves it.
type site struct {
	*localtest.Place
	t        *testing.T
	dir      string // state directories and configurations
	hook     string // where writ listens
	env      []string
	started  func() int // builders, so far
	state    string     // name of the state directory
	builders string     // YAML, by name
	more     string     // YAML, any further keys
}

// newSite makes a forge that tells writ of everything, and further URLs too.
func newSite(t *testing.T, others ...string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), hook: localtest.FreeAddress(t), state: "state"}
	s.builders = "default: {argv: [sh, -c, 'echo hello > out.txt']}"
	s.Place = localtest.New(t, append(others, s.hookURL())...)
	s.env, s.started = countingSandbox(t)
	s.env = append(s.env, "WRIT_LOCAL_TOKEN="+s.Token, "WRIT_LOCAL_HOOK_SECRET="+localtest.Secret)
	return s
}

func (s *site) hookURL() string { return "http://" + s.hook + "/hooks/local" }

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) bare() string { return s.Store.GitDir(s.Repo.ID) }

// contract puts one on main.
func (s *site) contract(text string) {
	s.t.Helper()
	gittest.Commit(s.t, s.bare(), "refs/heads/main", gittest.RefOID(s.bare(), "refs/heads/main"),
		map[string]string{"README": "hi\n", ".writ/contract.yaml": text})
}

// statePath is the state directory.
func (s *site) statePath() string { return filepath.Join(s.dir, s.state) }

// trailer is a word at the state ref of a task, "" without one.
func (s *site) trailer(n int64, key string) string {
	s.t.Helper()
	return strings.TrimSpace(gittest.Git(s.t, s.bare(), "for-each-ref", "--format=%(trailers:key="+key+",valueonly)", fmt.Sprintf("refs/writ/task/%d", n)))
}

func (s *site) head(n int64) string { s.t.Helper(); return s.trailer(n, "aynig-state") }

// states are the states that a task went through, the newest first.
func (s *site) states(n int64) []string {
	s.t.Helper()
	return strings.Fields(gittest.Git(s.t, s.bare(), "log", "--format=%(trailers:key=aynig-state,valueonly)", fmt.Sprintf("refs/writ/task/%d", n)))
}

func (s *site) until(what string, holds func() bool) {
	s.t.Helper()
	localtest.Until(s.t, patience, what, holds)
}

// done reports whether an issue shows a completed task whole: closed, and by its
// label.
func (s *site) done(n int64) bool {
	i := s.Issue(n)
	return i.State == forge.Closed && strings.Contains(strings.Join(i.Labels, " "), "writ:completed")
}

// wantDone fails unless a task was completed exactly once: one accepted result,
// one report, one closing.
func (s *site) wantDone(n int64) {
	s.t.Helper()
	if got := strings.Count(strings.Join(s.states(n), " "), "completed"); got != 1 {
		s.t.Errorf("#%d has %d accepted results", n, got)
	}
	if got := s.Closings(n); got != 1 {
		s.t.Errorf("#%d was closed %d times", n, got)
	}
	if bodies := s.BotComments(n); len(bodies) != 1 || !strings.Contains(bodies[0], "task_final_state: `completed`") {
		s.t.Errorf("#%d has %d comments of writ: %q", n, len(bodies), bodies)
	}
}

// wantNothing fails if anything of a task was claimed or begun.
func (s *site) wantNothing(n int64) {
	s.t.Helper()
	if h := s.head(n); h != "" || s.started() != 0 {
		s.t.Errorf("#%d is %q, and %d builders were started", n, h, s.started())
	}
}

// server is a running `writ serve`.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *bytes.Buffer // read it once the process has ended
	over bool
	hung atomic.Bool // it was killed for not ending
}

// crashing is the program with fault points, which the shipped one doesn't have.
var crashing = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(program), "crashing")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-trimpath", "-ldflags=-s -w", "-o", path, "github.com/writbot/writ/cmd/writ")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return path, nil
})

// serve starts the installation. It has ended when the test ends.
func (s *site) serve() *server { s.t.Helper(); return s.run(program) }

// serveUntil starts the installation with a fault point, at which it kills itself.
func (s *site) serveUntil(point string, env ...string) *server {
	s.t.Helper()
	path, err := crashing()
	s.must(err)
	return s.run(path, append(env, "WRIT_TEST_MAIN=1", "WRIT_TEST_FAULT="+point)...)
}

func (s *site) config() string {
	return write(s.t, s.dir, s.state+".yaml", fmt.Sprintf(`server: {state_dir: %s, listen: '%s', sweep: 1s, drain: 20s, builds: 8, builds_per_world: 8}
forges: {local: {dir: %s, url: '%s', repositories: [o/n]}}
builders:
  %s
%s
`, s.statePath(), s.hook, s.Dir, s.URL, s.builders, s.more))
}

func (s *site) run(path string, env ...string) *server {
	s.t.Helper()
	return launch(s.t, path, s.config(), append(slices.Clone(s.env), env...))
}

// launch starts an installation. It has ended when the test ends.
func launch(t *testing.T, path, config string, env []string) *server {
	t.Helper()
	v := &server{t: t, log: &bytes.Buffer{}}
	err := dependOnSources()
	if err == nil {
		v.cmd = exec.Command(path, "serve", "--config", config)
		v.cmd.Env = append(os.Environ(), env...)
		v.cmd.Stdout, v.cmd.Stderr = v.log, v.log
		err = v.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !v.over {
			v.kill()
		}
		if t.Failed() {
			t.Logf("writ serve:\n%s", v.log)
		}
	})
	return v
}

// wait waits for the end of the process.
func (v *server) wait() {
	v.over = true
	timer := time.AfterFunc(patience, func() {
		v.hung.Store(true)
		_ = v.cmd.Process.Kill() // then the wait below ends
	})
	defer timer.Stop()
	_ = v.cmd.Wait() // the state says how it ended
}

// kill is kill -9.
func (v *server) kill() {
	_ = v.cmd.Process.Kill() // it may have ended
	v.wait()
}

// end is a deploy: the process hands its leases back and ends.
func (v *server) end() {
	v.t.Helper()
	if err := v.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		v.t.Fatal(err)
	}
	if v.wait(); !v.cmd.ProcessState.Success() {
		v.t.Errorf("writ serve ended with %s", v.cmd.ProcessState)
	}
}

// dies waits until the process has killed itself.
func (v *server) dies(at string) {
	v.t.Helper()
	v.wait()
	if ws, ok := v.cmd.ProcessState.Sys().(syscall.WaitStatus); v.hung.Load() || !ok || ws.Signal() != syscall.SIGKILL {
		v.t.Fatalf("%s was not reached: %s", at, v.cmd.ProcessState)
	}
}

// reply is what the receiver answers.
type reply struct {
	status                  int
	Delivery, Outcome, Code string
}

// post sends a delivery as the forge would, signed, under an id of its own.
func (s *site) post(event string, body []byte) reply {
	s.t.Helper()
	return s.send(event, body, map[string]string{local.HeaderSignature: local.Sign([]byte(localtest.Secret), body)})
}

func (s *site) send(event string, body []byte, head map[string]string) reply {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.hookURL(), bytes.NewReader(body))
	s.must(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(local.HeaderEvent, event)
	req.Header.Set(local.HeaderDelivery, uuid.NewString())
	for k, v := range head {
		req.Header.Set(k, v)
	}
	client := http.Client{Timeout: patience}
	got, err := client.Do(req)
	s.must(err)
	defer got.Body.Close()
	r := reply{status: got.StatusCode}
	s.must(json.NewDecoder(got.Body).Decode(&r))
	return r
}

// listens waits until the receiver answers: before that /healthz alone does.
func (s *site) listens() { s.t.Helper(); s.scrape() }

// scrape is what /metrics says. A server that isn't there yet, or is too busy to say, is
// asked again.
func (s *site) scrape() (said string) {
	s.t.Helper()
	s.until("/metrics answers", func() bool {
		got, err := http.Get("http://" + s.hook + "/metrics")
		if err != nil {
			return false
		}
		body, err := io.ReadAll(got.Body)
		said = string(body)
		return errors.Join(err, got.Body.Close()) == nil && got.StatusCode == http.StatusOK
	})
	return said
}

// metric sums a counter or gauge over those of its lines that have all parts.
func (s *site) metric(name string, parts ...string) (sum float64) {
	s.t.Helper()
lines:
	for line := range strings.Lines(s.scrape()) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		for _, p := range parts {
			if !strings.Contains(series, p) {
				continue lines
			}
		}
		n, err := strconv.ParseFloat(value, 64)
		s.must(err)
		sum += n
	}
	return sum
}

// looksAgain has act happen, and waits until tasks were looked at at least so
// many more times, and nothing is due.
func (s *site) looksAgain(times float64, act func()) {
	s.t.Helper()
	before := s.metric("writ_task_runs_total")
	act()
	s.until("the tasks were looked at", func() bool {
		return s.metric("writ_task_runs_total") >= before+times && s.idle()
	})
}

func (s *site) idle() bool {
	return s.metric("writ_schedule_due") == 0 && s.metric("writ_tasks_running") == 0
}

// told is the body of the newest delivery about an issue that is not of writ's own
// doing, by event and action.
func (s *site) told(n int64, event, action string) []byte {
	s.t.Helper()
	all, err := s.Store.Deliveries(s.t.Context())
	s.must(err)
	for i := len(all) - 1; i >= 0; i-- {
		p, err := forge.ParsePayload(all[i].Body)
		s.must(err)
		if string(p.Event) == event && p.Action == action && p.Issue != nil && p.Issue.Number == n && p.Sender.ID != s.Bot.ID {
			return all[i].Body
		}
	}
	s.t.Fatalf("nobody was told of %s %s of #%d", event, action, n)
	return nil
}

// ref is the commit at the state ref of a task, "" without one.
func (s *site) ref(n int64) string {
	return gittest.RefOID(s.bare(), fmt.Sprintf("refs/writ/task/%d", n))
}
