package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local"
	"github.com/writbot/writ/forge/local/localtest"
)

// checks is what /readyz says: each check's reason, "" where it is well.
func (s *site) checks() (ready bool, reasons map[string]string) {
	s.t.Helper()
	got, err := http.Get("http://" + s.hook + "/readyz")
	if err != nil {
		return false, nil
	}
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	s.must(err)
	var body struct {
		Ready  bool
		Checks []struct {
			Name, Reason string
			OK           bool
		}
	}
	s.must(json.Unmarshal(data, &body))
	reasons = map[string]string{}
	for _, c := range body.Checks {
		if reasons[c.Name] = c.Reason; !c.OK && c.Reason == "" {
			reasons[c.Name] = "fails"
		}
	}
	return body.Ready, reasons
}

// another makes a further repository of the forge, with the same people.
func (s *site) another(name string) forge.Repo {
	s.t.Helper()
	self, err := s.Maintainer.Self(s.t.Context())
	s.must(err)
	r, err := s.Store.CreateRepo(s.t.Context(), local.RepoSpec{Owner: "o", Name: name, Author: self, Files: map[string][]byte{"README": []byte("hi\n")}})
	s.must(err)
	s.must(s.Store.Grant(s.t.Context(), r.ID, self.ID, forge.Maintain))
	s.must(s.Store.Grant(s.t.Context(), r.ID, s.Bot.ID, forge.Write))
	s.must(s.Maintainer.EnsureLabels(s.t.Context(), r.Repo, []forge.Label{{Name: localtest.Label, Color: "ffffff"}}))
	return r.Repo
}

// approvedAt files an issue in a repository and approves it.
func (s *site) approvedAt(r forge.Repo, builder string) int64 {
	s.t.Helper()
	i, err := s.Maintainer.FileIssue(s.t.Context(), r, "Say hello", localtest.Asks(builder))
	s.must(err)
	s.must(s.Maintainer.AddLabel(s.t.Context(), r, i.Number, localtest.Label))
	return i.Number
}

// stateAt is the word at the state ref of a task of a repository.
func (s *site) stateAt(r forge.Repo, n int64) string {
	s.t.Helper()
	return strings.TrimSpace(gittest.Git(s.t, s.Store.GitDir(r.ID), "for-each-ref", "--format=%(trailers:key=aynig-state,valueonly)", fmt.Sprintf("refs/writ/task/%d", n)))
}

// reloading is a site whose configuration changes while writ runs.
type reloading struct {
	*site
	file, secret string // paths
	gate         string // the file that the builder "gated" waits for
}

func newReloading(t *testing.T) *reloading {
	r := &reloading{site: newSite(t)}
	r.gate = filepath.Join(r.dir, "gate")
	r.must(os.Mkdir(r.gate, 0o755))
	r.secret = write(t, r.dir, "secret", localtest.Secret)
	for i, kv := range r.env {
		if strings.HasPrefix(kv, "WRIT_LOCAL_HOOK_SECRET=") {
			r.env[i] = "WRIT_LOCAL_HOOK_SECRET_FILE=" + r.secret
		}
	}
	return r
}

// put writes the configuration.
func (r *reloading) put(repositories, says, server string) {
	r.t.Helper()
	text := fmt.Sprintf(`server: {state_dir: %s, listen: '%s', sweep: 1s, drain: 20s%s}
forges: {local: {dir: %s, url: '%s', repositories: [%s]}}
builders:
  default: {argv: [sh, -c, 'echo hello > out.txt']}
  gated: {argv: [sh, -c, 'until test -e /gate/open; do sleep 0.05; done; echo %s > out.txt'], ro: ['%s:/gate']}
`, r.statePath(), r.hook, server, r.Dir, r.URL, repositories, says, r.gate)
	r.file = filepath.Join(r.dir, r.state+".yaml")
	r.must(os.Rename(write(r.t, r.dir, "new.yaml", text), r.file))
}

// reloads counts the readings so far, by their outcome.
func (r *reloading) reloads(result string) float64 {
	r.t.Helper()
	return r.metric("writ_config_reload_total", `result="`+result+`"`)
}

// hup asks for a reload and waits for its outcome.
func (r *reloading) hup(v *server, result string) {
	r.t.Helper()
	before := r.reloads(result)
	r.must(v.cmd.Process.Signal(syscall.SIGHUP))
	r.until("the configuration is "+result, func() bool { return r.reloads(result) > before })
}

// TestServe_Reload: a running server takes a changed configuration over, whole or
// not at all. What runs goes on by what it was opened with; a repository that is
// no longer listed is left as if the server had ended, and taken up again when it
// is listed again.
func TestServe_Reload(t *testing.T) {
	t.Parallel()
	r := newReloading(t)
	other := r.another("m")
	r.put("o/n", "old", "")
	v := launch(t, program, r.file, r.env)
	r.listens()
	running := r.approvedAt(r.Repo, "gated")
	r.until("a builder waits", func() bool { return r.started() == 1 })

	// Refused, with the reason, and nothing is taken over.
	write(t, r.dir, r.state+".yaml", "server: {\n")
	r.hup(v, "refused")
	if _, why := r.checks(); !strings.Contains(why["configuration"], "config.invalid") {
		t.Errorf("/readyz says %q of a broken file", why["configuration"])
	}
	r.put("o/n, o/m", "new", ", pause_file: /nowhere")
	r.hup(v, "refused")
	ready, why := r.checks()
	if !ready || !strings.Contains(why["configuration"], "server.pause_file") || why["forge:local/o/m"] != "" {
		t.Errorf("/readyz says %v %v", ready, why)
	}
	if n := r.approvedAt(other, "default"); r.stateAt(other, n) != "" {
		t.Error("a repository of a refused file is governed")
	}

	// Taken over: another repository, another secret, another builder.
	const next = "the-next-secret-of-the-tests"
	write(t, r.dir, "secret", next)
	r.put("o/n, o/m", "new", "")
	r.hup(v, "applied")
	if _, why := r.checks(); why["configuration"] != "" {
		t.Errorf("/readyz says %v", why)
	}
	if got := r.post("issues", []byte("{}")); got.status != http.StatusUnauthorized {
		t.Errorf("the old secret is answered %d", got.status)
	}
	r.until("the sweep finds what was approved in the new repository", func() bool { return r.stateAt(other, 1) == "completed" })
	write(t, r.gate, "open", "")
	r.until("the running task completes", func() bool { return r.stateAt(r.Repo, running) == "completed" })
	if said := gittest.Git(t, r.bare(), "show", fmt.Sprintf("writ/change/%d:out.txt", running)); strings.TrimSpace(said) != "old" {
		t.Errorf("the builder that was running said %q", said)
	}
	v.end()
	if r.started() != 2 {
		t.Errorf("%d builders were started", r.started())
	}
}

// TestServe_ReloadTakesAway: a repository that is no longer listed is handed over
// as in a shutdown, and the file is noticed without a signal.
func TestServe_ReloadTakesAway(t *testing.T) {
	t.Parallel()
	r := newReloading(t)
	other := r.another("m")
	r.put("o/n, o/m", "done", "")
	v := launch(t, program, r.file, r.env)
	r.listens()
	running := r.approvedAt(r.Repo, "gated")
	r.until("a builder waits", func() bool { return r.stateAt(r.Repo, running) == "working" && r.started() == 1 })
	applied := r.reloads("applied")
	r.put("o/m", "done", "")
	r.until("the change is noticed", func() bool { return r.reloads("applied") > applied })
	r.until("the lease is handed back", func() bool { return r.stateAt(r.Repo, running) != "working" })
	left := gittest.RefOID(r.bare(), fmt.Sprintf("refs/writ/task/%d", running))
	elsewhere := r.approvedAt(other, "default")
	r.until("the other repository goes on", func() bool { return r.stateAt(other, elsewhere) == "completed" })
	if now := gittest.RefOID(r.bare(), fmt.Sprintf("refs/writ/task/%d", running)); now != left || left == "" {
		t.Errorf("what isn't listed was written to: %s, then %s", left, now)
	}
	write(t, r.gate, "open", "")
	r.put("o/n, o/m", "done", "")
	r.hup(v, "applied")
	r.until("it is taken up again", func() bool { return r.stateAt(r.Repo, running) == "completed" })
	v.end()
	writ(t, r.env, "verify", "--state-dir", r.statePath()).want(t, 0)
}
