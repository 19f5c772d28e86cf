package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local/localtest"
)

// forgeSite is a repository on some forge, as its maintainer has it, and what
// writ needs to serve it.
type forgeSite struct {
	client  forge.Client // the maintainer's
	repo    forge.Repo
	bot     int64 // the account that writ acts as
	file    func(title, body string) int64
	forges  string   // of the configuration
	server  string   // more keys of server:
	env     []string // secrets
	secrets []string
	listen  string
}

// running is a `writ serve` that a test ends and starts again.
type running struct {
	cmd *exec.Cmd
	out *answer
}

func (s *forgeSite) config(t *testing.T) string {
	t.Helper()
	return write(t, t.TempDir(), "writ.yaml", fmt.Sprintf(`server: {state_dir: %s/state, listen: '%s', sweep: 30s, drain: 20s%s}
forges: {%s}
builders: {default: {argv: [sh, -c, 'echo hello > out.txt']}}
`, t.TempDir(), s.listen, s.server, s.forges))
}

// serve starts writ and waits until it says that it is ready.
func (s *forgeSite) serve(t *testing.T, config string) *running {
	t.Helper()
	r := &running{}
	r.cmd, r.out = command(t, s.env, "serve", "--config", config)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.end(t) })
	localtest.Until(t, time.Minute, "writ is ready", func() bool { return s.get(t, "/readyz") == http.StatusOK })
	return r
}

// end ends writ, if it still runs.
func (r *running) end(t *testing.T) {
	t.Helper()
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	exit := ended(t, r.cmd.Wait())
	if r.cmd = nil; exit != 0 || t.Failed() {
		t.Errorf("writ serve ended with %d:\n%s", exit, r.out.stderr)
	}
}

// get asks writ's own listener; 0 where nobody answers.
func (s *forgeSite) get(t *testing.T, path string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+s.listen+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close() // nothing in it is wanted
	return res.StatusCode
}

// post is what a person does on a forge's page.
func post(t *testing.T, url string, header map[string]string, body, into any) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= http.StatusBadRequest {
		t.Fatalf("POST %s: %s %v: %s", url, res.Status, err, text)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
}

// approve files an issue and labels it.
func (s *forgeSite) approve(t *testing.T) int64 {
	t.Helper()
	n := s.file("Say hello", localtest.Asks("default"))
	if err := s.client.AddLabel(t.Context(), s.repo, n, localtest.Label); err != nil {
		t.Fatal(err)
	}
	return n
}

// done waits until an issue is closed and says so, and looks at what is there.
func (s *forgeSite) done(t *testing.T, n int64) {
	t.Helper()
	localtest.Until(t, 3*time.Minute, fmt.Sprintf("#%d is closed and labelled", n), func() bool {
		i, err := s.client.Issue(t.Context(), s.repo, n)
		return err == nil && i.State == forge.Closed && slices.Contains(i.Labels, "writ:completed")
	})
	change, err := s.client.FindChange(t.Context(), s.repo, fmt.Sprintf("writ/change/%d", n))
	if err != nil || change.State != forge.ChangeOpen || change.HeadOID == "" {
		t.Errorf("#%d has the change %+v, %v", n, change, err)
	}
	var said []string
	localtest.Until(t, time.Minute, fmt.Sprintf("#%d has its report", n), func() bool {
		comments, err := s.client.Comments(t.Context(), s.repo, n)
		said = nil
		for _, c := range comments {
			if c.Author.ID == s.bot && strings.Contains(c.Body, "<!--") {
				said = append(said, c.Body)
			}
		}
		return err == nil && len(said) > 0 && strings.Contains(said[0], "task_final_state: `completed`")
	})
	if len(said) != 1 {
		t.Errorf("#%d has %d status comments: %q", n, len(said), said)
	}
	history, err := s.client.History(t.Context(), s.repo, n)
	if err != nil {
		t.Fatal(err)
	}
	closings := 0
	for _, e := range history {
		if e.Kind == forge.EventClosed {
			closings++
		}
	}
	if closings != 1 {
		t.Errorf("#%d was closed %d times", n, closings)
	}
}

// loop is the whole of it: an issue that a maintainer approves by its label is
// done and closed; one that nobody approves is left alone; and a server that
// was started again does the next, and the first not twice.
func (s *forgeSite) loop(t *testing.T) {
	t.Helper()
	config := s.config(t)
	r := s.serve(t, config)
	other := s.file("Not this one", localtest.Asks("default"))
	first := s.approve(t)
	s.done(t, first)
	r.end(t)
	log := r.out.stderr
	r = s.serve(t, config)
	second := s.approve(t)
	s.done(t, second)
	s.done(t, first)
	if _, err := s.client.FindChange(t.Context(), s.repo, fmt.Sprintf("writ/change/%d", other)); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("the issue that nobody approved has a change: %v", err)
	}
	r.end(t)
	log += r.out.stderr
	for _, secret := range s.secrets {
		if strings.Contains(log, secret) {
			t.Error("a secret is in the log")
		}
	}
	state := stateOf(t, config)
	writ(t, nil, "verify", "--state-dir", state).want(t, 0)
	shown := writ(t, s.env, "task", "show", fmt.Sprint(second), "--state-dir", state, "--config", config).want(t, 0)
	if !strings.Contains(shown.stdout, "completed") {
		t.Errorf("the task is shown as %s", shown.stdout)
	}
}

// stateOf is the state directory that a configuration names.
func stateOf(t *testing.T, config string) string {
	t.Helper()
	out := writ(t, nil, "config", "print", config).want(t, 0)
	_, rest, _ := strings.Cut(out.stdout, "state_dir: ")
	dir, _, _ := strings.Cut(rest, "\n")
	return dir
}

// keyLines are the lines of a private key that say something.
func keyLines(key []byte) (lines []string) {
	block, _ := pem.Decode(key)
	for _, line := range strings.Split(strings.TrimSpace(string(pem.EncodeToMemory(block))), "\n") {
		if !strings.HasPrefix(line, "-----") {
			lines = append(lines, line)
		}
	}
	return lines
}
