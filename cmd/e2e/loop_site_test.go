package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/github/githubtest"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/forge/worldtest"
	"github.com/writbot/writ/kernel"
)

// forgeSite is a world on some forge, and one installation after another that
// serves it.
type forgeSite struct {
	*worldtest.World
	t        *testing.T
	dir      string // state directories and configurations
	listen   string
	state    string   // name of the state directory
	shipped  bool     // the program as people have it, which leaves a second between its writes to a forge
	server   string   // YAML, more keys of server:
	builders string   // YAML, by name
	more     string   // YAML, any further keys
	env      []string // beside the world's
	started  func() int
}

// forges are what a test of all forges runs on, by their names.
var forges = map[string]func(t *testing.T, hook string) *worldtest.World{
	"github": func(t *testing.T, hook string) *worldtest.World {
		t.Helper()
		return worldtest.GitHub(t, githubtest.Start(t), hook)
	},
	"gitlab": func(t *testing.T, hook string) *worldtest.World {
		t.Helper()
		return worldtest.GitLab(t, gitlabtest.New(t, gitlabtest.Options{}), hook)
	},
	"local": func(t *testing.T, hook string) *worldtest.World { t.Helper(); return worldtest.Local(t, hook) },
}

// onForges runs a test at the same time on each of the forges that are named, all
// if none is.
func onForges(t *testing.T, test func(*testing.T, *forgeSite), names ...string) {
	t.Helper()
	t.Parallel()
	for name, world := range forges {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listen := localtest.FreeAddress(t)
			s := newForgeSite(t, world(t, "http://"+listen+"/hooks/"+name))
			s.listen = listen
			test(t, s)
		})
	}
}

func newForgeSite(t *testing.T, w *worldtest.World) *forgeSite {
	t.Helper()
	s := &forgeSite{World: w, t: t, dir: t.TempDir(), listen: localtest.FreeAddress(t), state: "state"}
	s.builders = "default: {argv: [sh, -c, 'echo hello > out.txt']}"
	s.env, s.started = countingSandbox(t)
	return s
}

func (s *forgeSite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// all is the environment of writ.
func (s *forgeSite) all() []string { return append(slices.Clone(s.Env), s.env...) }

// statePath is the state directory.
func (s *forgeSite) statePath() string { return filepath.Join(s.dir, s.state) }

func (s *forgeSite) config() string {
	s.t.Helper()
	return write(s.t, s.dir, s.state+".yaml", fmt.Sprintf(`server: {state_dir: %s, listen: '%s', sweep: 2s, drain: 20s%s}
forges: {%s}
builders:
  %s
%s
`, s.statePath(), s.listen, s.server, s.Config, s.builders, s.more))
}

// unpaced makes the binary of cmd/writ's tests the program, with a twentieth of a second
// between its writes to a forge.
var unpaced = []string{"WRIT_TEST_MAIN=1", "WRIT_TEST_WRITES=50ms"}

// serve starts the installation and waits until it says that it is ready.
func (s *forgeSite) serve() *server {
	s.t.Helper()
	path, env := program, s.all()
	if !s.shipped {
		var err error
		path, err = crashing()
		s.must(err)
		env = append(env, unpaced...)
	}
	v := launch(s.t, path, s.config(), env)
	s.until("writ is ready", func() bool { return s.get("/readyz") == http.StatusOK })
	return v
}

// serveUntil starts the installation with a fault point, and waits until it has
// killed itself there.
func (s *forgeSite) serveUntil(point string, env ...string) {
	s.t.Helper()
	path, err := crashing()
	s.must(err)
	launch(s.t, path, s.config(), slices.Concat(s.all(), env, unpaced, []string{"WRIT_TEST_FAULT=" + point})).dies(point)
}

// get asks writ's own listener; 0 where nobody answers.
func (s *forgeSite) get(path string) int {
	res, err := http.Get("http://" + s.listen + path)
	if err != nil {
		return 0
	}
	_ = res.Body.Close() // nothing in it is wanted
	return res.StatusCode
}

// until looks every sixth time that another test would: GitHub counts requests,
// and the emulator does, too.
func (s *forgeSite) until(what string, holds func() bool) {
	s.t.Helper()
	const every = 6
	looks := 0
	localtest.Until(s.t, patience, what, func() bool { looks++; return looks%every == 1 && holds() })
}

// contract puts one on main.
func (s *forgeSite) contract(text string) {
	s.t.Helper()
	s.Commit(s.t, map[string]string{"README": "hi\n", ".writ/contract.yaml": text})
}

// file files an issue, as the reader.
func (s *forgeSite) file(title, body string) int64 {
	s.t.Helper()
	i, err := s.Reader.FileIssue(s.t.Context(), s.Repo, title, body)
	s.must(err)
	return i.Number
}

// approve sets the label, as the maintainer.
func (s *forgeSite) approve(n int64) {
	s.t.Helper()
	s.must(s.Maintainer.AddLabel(s.t.Context(), s.Repo, n, worldtest.Label))
}

// asks files an issue that asks a builder for out.txt, and approves it, before writ
// is there to be told: where the forge shows no former text, by its digest.
func (s *forgeSite) asks(builder string) int64 {
	s.t.Helper()
	n := s.file("Say hello", localtest.Asks(builder))
	if s.EditHistory {
		s.approve(n)
		return n
	}
	i := s.issue(n)
	digest, err := kernel.ApprovalDigest(i.Title, i.Body)
	s.must(err)
	s.approve(n)
	s.says(n, "/writ approve "+string(digest))
	return n
}

// says comments on an issue, as the maintainer.
func (s *forgeSite) says(n int64, body string) {
	s.t.Helper()
	_, err := s.Maintainer.AddComment(s.t.Context(), s.Repo, n, body)
	s.must(err)
}

func (s *forgeSite) issue(n int64) forge.Issue {
	s.t.Helper()
	i, err := s.Maintainer.Issue(s.t.Context(), s.Repo, n)
	s.must(err)
	return i
}

// ours are the labels of an issue that writ sets.
func (s *forgeSite) ours(n int64) (labels []string) {
	s.t.Helper()
	for _, l := range s.issue(n).Labels {
		if strings.HasPrefix(l, "writ:") {
			labels = append(labels, l)
		}
	}
	return labels
}

// said are the comments of writ's account of a kind: task, alert, answer.
func (s *forgeSite) said(n int64, kind string) (bodies []string) {
	s.t.Helper()
	all, err := s.Maintainer.Comments(s.t.Context(), s.Repo, n)
	s.must(err)
	for _, c := range all {
		if c.Author.ID == s.Bot && strings.HasPrefix(c.Body, "<!-- writ:"+kind) {
			bodies = append(bodies, c.Body)
		}
	}
	return bodies
}

// tells reports whether something of writ's on an issue has a word.
func (s *forgeSite) tells(n int64, word string) bool {
	s.t.Helper()
	return strings.Contains(strings.Join(s.said(n, ""), "\n"), word)
}

// closings is how often an issue was closed.
func (s *forgeSite) closings(n int64) (count int) {
	s.t.Helper()
	events, err := s.Maintainer.History(s.t.Context(), s.Repo, n)
	s.must(err)
	for _, e := range events {
		if e.Kind == forge.EventClosed {
			count++
		}
	}
	return count
}

func stateRef(n int64) string { return fmt.Sprintf("refs/writ/task/%d", n) }

func (s *forgeSite) ref(n int64) string { return gittest.RefOID(s.GitDir, stateRef(n)) }

// trailer is a word at the state ref of a task, "" without one.
func (s *forgeSite) trailer(n int64, key string) string {
	s.t.Helper()
	return strings.TrimSpace(gittest.Git(s.t, s.GitDir, "for-each-ref", "--format=%(trailers:key="+key+",valueonly)", stateRef(n)))
}

func (s *forgeSite) head(n int64) string { s.t.Helper(); return s.trailer(n, "aynig-state") }

// states are the states that a task went through, the newest first.
func (s *forgeSite) states(n int64) []string {
	s.t.Helper()
	return strings.Fields(gittest.Git(s.t, s.GitDir, "log", "--format=%(trailers:key=aynig-state,valueonly)", stateRef(n)))
}

// count is how many of some words are a given one.
func count(words []string, word string) (n int) {
	for _, w := range words {
		if w == word {
			n++
		}
	}
	return n
}

// done reports whether an issue shows a completed task whole: closed, by its
// label, by its report, and by the check on its change.
func (s *forgeSite) done(n int64) bool {
	s.t.Helper()
	if s.head(n) != "completed" {
		return false
	}
	i := s.issue(n)
	shown := i.State == forge.Closed && slices.Contains(i.Labels, "writ:completed") && s.tells(n, "task_final_state: `completed`")
	if !shown {
		return false
	}
	change := s.trailer(n, "writ-change")
	if change == "" {
		return false // it was gone on with meanwhile
	}
	checks := s.Checks(s.t, change)
	return len(checks) > 0 && checks[0].State != forge.CheckRunning
}

// wantDone fails unless a task was completed exactly once: one accepted result,
// one report, one closing, one label, one open change whose commit is checked; and
// the repository alone vouches for it.
func (s *forgeSite) wantDone(n int64) { s.t.Helper(); s.wantDoneOf(n, 1) }

// wantDoneOf is wantDone where the forge tells of so many closings.
func (s *forgeSite) wantDoneOf(n int64, closings int) {
	s.t.Helper()
	if got := count(s.states(n), "completed"); got != 1 {
		s.t.Errorf("#%d has %d accepted results", n, got)
	}
	if got := s.closings(n); got != closings {
		s.t.Errorf("#%d was closed %d times", n, got)
	}
	if said := s.said(n, "task:"); len(said) != 1 || !strings.Contains(said[0], "task_final_state: `completed`") {
		s.t.Errorf("#%d has %d status comments: %q", n, len(said), said)
	}
	if labels := s.ours(n); !slices.Equal(labels, []string{"writ:completed"}) || !slices.Contains(s.issue(n).Labels, worldtest.Label) {
		s.t.Errorf("#%d is labelled %v", n, s.issue(n).Labels)
	}
	change, err := s.findChange(n)
	if err != nil || change.State != forge.ChangeOpen || change.HeadOID != s.trailer(n, "writ-change") {
		s.t.Errorf("#%d has the change %+v, %v", n, change, err)
		return
	}
	if checks := s.Checks(s.t, change.HeadOID); len(checks) != 1 || checks[0].State != forge.CheckPassed {
		s.t.Errorf("#%d has the checks %+v", n, checks)
	}
	s.replays(n)
}

// replays fails unless the repository alone vouches for a task.
func (s *forgeSite) replays(n int64) {
	s.t.Helper()
	writ(s.t, nil, "verify", s.GitDir, "--task", fmt.Sprint(n)).want(s.t, 0)
}

// wantNothing fails if anything of a task was claimed or shown.
func (s *forgeSite) wantNothing(n int64) {
	s.t.Helper()
	_, err := s.findChange(n)
	if s.ref(n) != "" || len(s.said(n, "")) > 0 || len(s.ours(n)) > 0 || !forge.IsReason(err, forge.NotFound) {
		s.t.Errorf("#%d is at %q, says %q, is labelled %v, and its change: %v", n, s.head(n), s.said(n, ""), s.ours(n), err)
	}
}

// wantNoSecret fails if a secret is in a log, in the state directory or in any
// object of the repository.
func (s *forgeSite) wantNoSecret(logs ...string) {
	s.t.Helper()
	places := map[string]string{"a log": strings.Join(logs, "\n"), "the repository": gittest.Git(s.t, s.GitDir, "cat-file", "--batch", "--batch-all-objects")}
	files, err := filepath.Glob(filepath.Join(s.statePath(), "*"))
	s.must(err)
	for _, path := range files {
		if data, err := os.ReadFile(path); err == nil { // directories aren't read
			places[path] = string(data)
		}
	}
	for where, text := range places {
		for _, secret := range s.Secrets {
			if strings.Contains(text, secret) {
				s.t.Errorf("a secret is in %s", where)
			}
		}
	}
}
