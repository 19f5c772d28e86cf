package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/forge/local"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/forge/worldtest"

	"github.com/writbot/writ/forge"
)

// TestServe_ForgeAwayAtStart: a forge that doesn't answer closes its own worlds and
// no other; they open by themselves. What happened meanwhile in one that was never
// open is found by the sweep; of one that was, the webhooks are kept with what they
// prove, so that the approval counts.
func TestServe_ForgeAwayAtStart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	lab := gitlabtest.New(t, gitlabtest.Options{})
	w := worldtest.GitLab(t, lab, "http://"+s.hook+"/hooks/gitlab")
	behind, err := url.Parse(lab.URL)
	s.must(err)
	var up atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(behind)
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(rw, r)
	}))
	defer front.Close()
	file := write(t, s.dir, "writ.yaml", fmt.Sprintf(`server: {state_dir: %s, listen: '%s', sweep: 1s, drain: 20s}
forges:
  local: {dir: %s, url: '%s', repositories: [o/n]}
  %s
builders: {default: {argv: [sh, -c, 'echo hello > out.txt']}}
`, filepath.Join(s.dir, "state"), s.hook, s.Dir, s.URL, strings.Replace(w.Config, lab.URL, front.URL, 1)))
	world := "forge:" + strings.Replace(strings.TrimPrefix(front.URL, "http://"), ":", "-", 1) + "/" + w.Repo.String()
	start := func() *server {
		v := launch(t, program, file, append(s.env, w.Env...))
		s.until("the receiver is ready, and says why a world is closed", func() bool {
			ready, why := s.checks()
			return ready && strings.Contains(why[world], "forge.unreachable")
		})
		return v
	}
	ask := func() int64 {
		i, err := w.Reader.FileIssue(t.Context(), w.Repo, "Say hello", localtest.Asks("default"))
		s.must(err)
		s.must(w.Maintainer.AddLabel(t.Context(), w.Repo, i.Number, worldtest.Label))
		lab.Settle()
		return i.Number
	}
	state := func(n int64) string {
		return strings.TrimSpace(gittest.Git(t, w.GitDir, "for-each-ref", "--format=%(trailers:key=aynig-state,valueonly)", fmt.Sprintf("refs/writ/task/%d", n)))
	}

	v := start()
	here := s.File("default")
	s.Approve(here)
	s.until("the other world goes on", func() bool { return s.done(here) })
	missed := ask()
	up.Store(true)
	s.until("what was missed is found", func() bool {
		said, err := w.Maintainer.Comments(t.Context(), w.Repo, missed)
		s.must(err)
		return len(said) > 0
	})
	v.end()

	up.Store(false)
	v = start()
	kept := ask()
	if n := s.metric("writ_webhook_deliveries_total", `hook="gitlab"`, `outcome="accepted"`); n == 0 {
		t.Error("no webhook of the closed world was taken")
	}
	if got := state(kept); got != "" {
		t.Errorf("in the closed world a task is %s", got)
	}
	up.Store(true)
	s.until("what was kept is done", func() bool { return state(kept) == "completed" })
	s.until("the open world is said to be well", func() bool { _, why := s.checks(); return why[world] == "" })
	v.end()
}

// TestF6_AppLacksWhatItNeeds: what an App's installation lacks is named, and is no
// longer when GitHub tells that it was given. A stranger's installation of the App
// makes nothing due.
func TestF6_AppLacksWhatItNeeds(t *testing.T) {
	s := newSite(t)
	p := githubtest.Start(t).Place(t, githubtest.Options{HookURL: "http://" + s.hook + "/hooks/github", HookSecret: worldtest.HookSecret})
	given := github.Needed()
	lacking := maps.Clone(given)
	delete(lacking, "checks")
	p.Permit(t, lacking)
	file := write(t, s.dir, "writ.yaml", fmt.Sprintf(`server: {state_dir: %s, listen: '%s', drain: 20s}
forges: {github: {url: '%s', api: '%s', app_id: %d, repositories: [%s], proxy: none}}
builders: {default: {argv: ['true']}}
`, filepath.Join(s.dir, "state"), s.hook, p.GitURL, p.URL, p.App.ID, p.Repo))
	v := launch(t, program, file, append(s.env,
		"WRIT_GITHUB_PRIVATE_KEY_FILE="+write(t, s.dir, "app.pem", string(p.App.Key)), "WRIT_GITHUB_HOOK_SECRET="+worldtest.HookSecret))
	access := func() (ready bool, why string) {
		ready, all := s.checks()
		for name, reason := range all {
			if strings.HasPrefix(name, "access:") {
				return ready, reason
			}
		}
		return false, "no check"
	}
	s.until("it is named what is missing", func() bool {
		ready, why := access()
		return ready && strings.Contains(why, "lacks checks: write") && strings.Contains(why, "/settings/installations/")
	})
	p.Permit(t, given)
	tell := func(installation int64, account string) (r reply) {
		body := fmt.Appendf(nil, `{"action":"new_permissions_accepted","installation":{"id":%d,"account":{"login":%q}},"sender":{"id":1}}`, installation, account)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.hook+"/hooks/github", bytes.NewReader(body))
		s.must(err)
		req.Header = http.Header{
			"Content-Type": {"application/json"}, "X-Github-Event": {"installation"}, "X-Github-Delivery": {uuid.NewString()},
			local.HeaderSignature: {local.Sign([]byte(worldtest.HookSecret), body)},
		}
		got, err := http.DefaultClient.Do(req)
		s.must(err)
		defer got.Body.Close()
		r.status = got.StatusCode
		s.must(json.NewDecoder(got.Body).Decode(&r))
		return r
	}
	if got := tell(p.Installation+1, "mallory"); got.status != http.StatusOK || got.Outcome != "ignored" || got.Code != "target.not_allowed" {
		t.Errorf("a stranger's installation: %+v", got)
	}
	if got := tell(p.Installation, p.Repo.Owner); got.Outcome != "accepted" {
		t.Errorf("ours: %+v", got)
	}
	s.until("nothing is missing any more", func() bool { _, why := access(); return why == "" })
	v.end()
}

// TestI12_RenamedGoesOn: a renamed repository is refused by its new name until that
// is listed, and then goes on with the records that it has; another one that takes
// the old name gets none of them, and once it is listed beside the first it is a
// world of its own.
func TestI12_RenamedGoesOn(t *testing.T) {
	t.Parallel()
	r := newReloading(t)
	r.put("o/n", "done", "")
	v := launch(t, program, r.file, r.env)
	first := r.approvedAt(r.Repo, "default")
	r.until("the first task completes", func() bool { return r.stateAt(r.Repo, first) == "completed" })
	r.must(r.Store.RenameRepo(t.Context(), r.Repo.ID, "o", "renamed"))
	now := r.Repo
	now.Name = "renamed"
	taker := r.another("n")
	second := r.approvedAt(now, "default")
	r.until("its new name is told", func() bool { _, why := r.checks(); return strings.Contains(why["forge:local/o/n"], "o/renamed") })
	r.put("o/renamed", "done", "")
	r.hup(v, "applied")
	r.until("its tasks go on", func() bool { return r.stateAt(now, second) == "completed" })
	r.put("o/renamed, o/n", "done", "")
	r.hup(v, "applied")
	third := r.approvedAt(taker, "default")
	r.until("the one by the old name is served for itself", func() bool { return r.stateAt(taker, third) == "completed" })
	v.end()
	out := writ(t, r.env, "verify", "--state-dir", r.statePath()).want(t, 0)
	for _, one := range []forge.Repo{now, taker} {
		world, err := r.Store.World(t.Context(), one.ID)
		r.must(err)
		if strings.Count(out.stdout, "ledger of local/"+one.String()+" ("+world+")\n") != 1 {
			t.Errorf("%s is not the ledger of %s in\n%s", world, one, out.stdout)
		}
	}
}

// TestServe_DefaultBranchRenamed: after a rename of the default branch the world
// goes on, with the contract that is there.
func TestServe_DefaultBranchRenamed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.serve()
	first := s.File("default")
	s.Approve(first)
	s.until("a task completes before", func() bool { return s.done(first) })
	gittest.Git(t, s.bare(), "branch", "-m", "main", "trunk")
	gittest.Git(t, s.bare(), "symbolic-ref", "HEAD", "refs/heads/trunk")
	gittest.Commit(t, s.bare(), "refs/heads/trunk", gittest.RefOID(s.bare(), "refs/heads/trunk"),
		map[string]string{"README": "hi\n", ".writ/contract.yaml": "version: 1\nchecks: [{name: there, run: [test, -f, out.txt]}]\n"})
	second := s.File("default")
	s.Approve(second)
	s.until("a task completes after", func() bool { return s.done(second) })
	if bodies := s.BotComments(second); len(bodies) != 1 || !strings.Contains(bodies[0], "there") {
		t.Errorf("writ wrote %q", bodies)
	}
	v.end()
}
