package doctor

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// onGitHub is a repository of the emulator's in good health.
type onGitHub struct {
	*githubtest.Place
	host *github.Host
}

func newOnGitHub(t *testing.T, e *githubtest.Emulator, d *githubtest.Description, o githubtest.Options) *onGitHub {
	t.Helper()
	p := &onGitHub{Place: e.Place(t, o)}
	c := p.Config()
	c.Wrap = d.Wrap(t)
	p.host = p.hostOf(t, c)
	must(t, p.host.Client(p.Repo).EnsureLabels(t.Context(), p.Repo, []forge.Label{{Name: "Writ", Color: "ededed"}}))
	p.Commit(t, "main", "main", map[string]string{contractPath: goodContract})
	p.Subscribe(t, github.Events()...)
	return p
}

func (p *onGitHub) hostOf(t *testing.T, c github.Config) *github.Host {
	t.Helper()
	h, err := github.New(t.Context(), c)
	must(t, err)
	t.Cleanup(h.Close)
	return h
}

func (p *onGitHub) repository(t *testing.T, change ...func(*Target)) []Check {
	t.Helper()
	target := Target{Forge: "github", Host: p.host, Name: p.Repo.String(), Time: patience}
	for _, f := range change {
		f(&target)
	}
	return Repository(t.Context(), target)
}

func (p *onGitHub) forge(t *testing.T, change ...func(*Site)) []Check {
	t.Helper()
	site := Site{Forge: "github", Host: p.host, URL: p.host.API(), Time: patience}
	for _, f := range change {
		f(&site)
	}
	checks, _ := Forge(t.Context(), site)
	return checks
}

// receiver answers as writ's own does.
func receiver(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

// TestGitHub_Repository: a healthy repository passes, with every request as
// GitHub describes it; then each thing that can be wrong is seen.
func TestGitHub_Repository(t *testing.T) {
	d, err := githubtest.Describe(githubtest.Cloud)
	must(t, err)
	e := githubtest.Start(t)
	p := newOnGitHub(t, e, d, githubtest.Options{})
	all := p.repository(t)
	for _, name := range []string{NameRepository, NamePermissions, NameEvents, NameIssues, NameContract, NameLabel, NameStateRefs, NameAtomic, NameBranches} {
		wants(t, all, name, OK, "", "")
	}
	wants(t, all, NameBranches, OK, "can't be seen", "")
	wants(t, p.repository(t, func(t *Target) { t.Poll = true }), NameEvents, Skipped, "poll", "")

	p.Subscribe(t, "issues", "push")
	wants(t, p.repository(t), NameEvents, Failed, "told of: issue_comment, pull_request, pull_request_review, pull_request_review_comment, repository", "Subscribe to events")
	p.Subscribe(t, github.Events()...)

	less := maps.Clone(github.Needed())
	less["contents"] = "read"
	p.Permit(t, less)
	all = p.repository(t)
	wants(t, all, NamePermissions, Failed, "contents: write", "Permissions & events")
	wants(t, all, NameEvents, Skipped, "", "")
	wants(t, all, NameStateRefs, Skipped, "may not push", "")
	more := maps.Clone(github.Needed())
	more["administration"], more["workflows"] = "write", "write" // the second is for who wants it
	p.Permit(t, more)
	wants(t, p.repository(t), NamePermissions, Warning, "administration: write", "Take it away")
	p.Permit(t, github.Needed())

	p.AddRuleset(t, githubtest.Ruleset{Branch: "**", Types: []string{"required_signatures", "deletion"}})
	wants(t, p.repository(t), NameBranches, Failed, "writ/change/1: commits must be signed", "bypass list")
	p.SwitchIssuesOff(t)
	wants(t, p.repository(t), NameIssues, Failed, "switched off", "tick Issues")

	wants(t, p.repository(t, func(t *Target) { t.Name += "x" }), NameRepository, Failed, "can't be seen", "Install the App on")
	p.Suspend(t, true)
	wants(t, p.repository(t), NameRepository, Failed, "", "")
}

// TestGitHub_Rules: with `refs: heads` the state branches count, too; a rule that
// lets the App past stops nothing, and one for the base neither.
func TestGitHub_Rules(t *testing.T) {
	d, err := githubtest.Describe(githubtest.Cloud)
	must(t, err)
	e := githubtest.Start(t)
	p := newOnGitHub(t, e, d, githubtest.Options{})
	p.AddRuleset(t, githubtest.Ruleset{Branch: "writ/task/*", Types: []string{"creation"}})
	p.AddRuleset(t, githubtest.Ruleset{Branch: "main", Types: []string{"pull_request"}})
	p.AddRuleset(t, githubtest.Ruleset{Branch: "writ/change/*", Types: []string{"creation"}, Bypass: "always"})
	p.AddRuleset(t, githubtest.Ruleset{Branch: "writ/change/*", Types: []string{"update", "non_fast_forward", "deletion"}})
	wants(t, p.repository(t), NameBranches, OK, "", "")
	heads := func(t *Target) { t.Refs = config.RefsHeads }
	wants(t, p.repository(t, heads), NameBranches, Failed, "writ/task/1: new branches are restricted", "writ/**")
	p.Commit(t, "main", "main", map[string]string{contractPath: "version: 2\n"})
	wants(t, p.repository(t), NameContract, Failed, "version", "writ contract lint")
	p.Commit(t, "main", "main", map[string]string{contractPath: goodContract + "trigger: {label: go}\n"})
	wants(t, p.repository(t), NameLabel, Failed, "no label go", "trigger.label")
	p.Archive(t)
	all := p.repository(t)
	wants(t, all, NameRepository, Failed, "archived", "Unarchive")
	wants(t, all, NameStateRefs, Skipped, "", "")
}

// TestGitHub_RulesThatWritKeeps: a rule about texts stops writ only where its own
// texts don't fit; what GitHub may or may not apply to a new branch is a doubt;
// and a plan without rulesets is no fault.
func TestGitHub_RulesThatWritKeeps(t *testing.T) {
	d, err := githubtest.Describe(githubtest.Cloud)
	must(t, err)
	e := githubtest.Start(t)
	p := newOnGitHub(t, e, d, githubtest.Options{})
	p.AddRuleset(t, githubtest.Ruleset{Branch: "main", Types: []string{"creation", "branch_name_pattern"}, With: map[string]any{"operator": "starts_with", "pattern": "writ/"}})
	p.AddRuleset(t, githubtest.Ruleset{Branch: "**", Types: []string{"commit_author_email_pattern", "committer_email_pattern"}, With: map[string]any{"operator": "ends_with", "pattern": "@acme.example"}})
	p.AddRuleset(t, githubtest.Ruleset{Branch: "writ/**", Types: []string{"branch_name_pattern"}, With: map[string]any{"operator": "regex", "pattern": "^[a-z]+/"}})
	p.AddRuleset(t, githubtest.Ruleset{Branch: "writ/change/*", Types: []string{"required_status_checks"}, With: map[string]any{"do_not_enforce_on_create": true}})
	ours := func(t *Target) { t.Identity = Identity{"Writ", "writ@acme.example"} }
	wants(t, p.repository(t, ours), NameBranches, OK, "No ruleset stops writ", "")
	wants(t, p.repository(t), NameBranches, Failed, "identity.email writ@localhost", "bypass list")

	p.AddRuleset(t, githubtest.Ruleset{Branch: "writ/change/*", Types: []string{"pull_request", "commit_message_pattern"}, With: map[string]any{"operator": "contains", "pattern": "JIRA-"}})
	all := p.repository(t, ours)
	wants(t, all, NameBranches, Warning, "writ/change/1: changes must come by pull request", "leave writ/** out")
	wants(t, all, NameBranches, Warning, "commit.template", "")
	p.AddRuleset(t, githubtest.Ruleset{Branch: "writ/task/*", Types: []string{"commit_message_pattern"}, With: map[string]any{"operator": "starts_with", "pattern": "writ: ", "negate": true}})
	wants(t, p.repository(t, ours, func(t *Target) { t.Refs = config.RefsHeads }), NameBranches, Failed, "writ/task/1: it doesn't take the message", "")

	p.FreePlan(t)
	wants(t, p.repository(t), NameBranches, OK, "No ruleset stops writ", "")
}

// TestGitHub_Forge: account, hook, its deliveries and its address, healthy and
// not.
func TestGitHub_Forge(t *testing.T) {
	d, err := githubtest.Describe(githubtest.Cloud)
	must(t, err)
	e := githubtest.Start(t)
	srv := receiver(t)
	p := newOnGitHub(t, e, d, githubtest.Options{HookURL: srv.URL + "/hooks/github"})
	all := p.forge(t)
	wants(t, all, NameReach, OK, "answers", "")
	wants(t, all, NameClock, OK, "agree", "")
	wants(t, all, NameAccount, OK, p.Slug, "")
	wants(t, all, NameHook, Warning, "without TLS", "https")
	wants(t, all, NameDeliveries, OK, "", "")
	wants(t, all, NameAddress, OK, "receiver", "")

	for hours, want := range map[int]Status{0: OK, 1: Failed, -1: Failed} {
		all := p.forge(t, func(s *Site) {
			s.Now = func() time.Time { return time.Now().Add(time.Duration(hours) * time.Hour) }
		})
		if c := find(t, all, NameClock); c.Status != want {
			t.Errorf("a clock off by %d hours is %s: %s", hours, c.Status, c.Detail)
		}
	}
	p.SetHook(t, map[string]any{"content_type": "form"})
	wants(t, p.forge(t), NameHook, Failed, "form", "application/json")
	wants(t, p.forge(t, func(s *Site) { s.Poll = true }), NameHook, Skipped, "poll", "")

	srv.Close()
	p.Commit(t, "other", "main", map[string]string{"a": "b"}) // a push that nobody is told of
	all = p.forge(t)
	wants(t, all, NameDeliveries, Warning, "not taken", "Redeliver")
	wants(t, all, NameAddress, Warning, "nobody listens", "DNS, firewall")

	nowhere := newOnGitHub(t, e, d, githubtest.Options{})
	all = nowhere.forge(t)
	wants(t, all, NameHook, Failed, "no webhook", "intake: poll")
	wants(t, all, NameAddress, Skipped, "", "")
	nowhere.SetHook(t, map[string]any{"none": true}) // the other way in which GitHub says so
	wants(t, nowhere.forge(t), NameHook, Failed, "no webhook", "intake: poll")
	elsewhere := newOnGitHub(t, e, d, githubtest.Options{HookURL: "https://127.0.0.1:1/other"})
	wants(t, elsewhere.forge(t), NameHook, Failed, "no address of writ's", "/hooks/github")

	c := p.Config()
	c.App.ID++
	p.host = p.hostOf(t, c)
	wants(t, p.forge(t), NameAccount, Failed, "key isn't taken", "app_id")
}

// TestGitHub_PersonalToken: it works, is warned of, and has no App to look at.
func TestGitHub_PersonalToken(t *testing.T) {
	e := githubtest.Start(t)
	d, err := githubtest.Describe(githubtest.Cloud)
	must(t, err)
	p := newOnGitHub(t, e, d, githubtest.Options{})
	p.host = p.hostOf(t, p.TokenConfig(p.Owner))
	all := p.forge(t)
	wants(t, all, NameAccount, Warning, p.Owner.Login, "writ setup github")
	wants(t, all, NameHook, Skipped, "", "")
	all = p.repository(t)
	wants(t, all, NamePermissions, OK, p.Owner.Login, "")
	wants(t, all, NameEvents, Skipped, "personal", "")
	p.host = p.hostOf(t, p.TokenConfig(p.Reader))
	wants(t, p.repository(t), NamePermissions, Failed, "may not write", "role Write")
}
