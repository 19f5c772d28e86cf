package github_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

// TestRules: those in force for a branch that isn't there, with who is let past,
// and more than a page of them.
func TestRules(t *testing.T) {
	e := githubtest.Start(t)
	p := e.Place(t, githubtest.Options{})
	h := host(t, p.Config(), held(t))
	if got := must[[]github.Rule](t)(h.Rules(t.Context(), p.Repo, "writ/change/1")); len(got) > 0 {
		t.Errorf("rules of nobody: %v", got)
	}
	p.AddRuleset(t, githubtest.Ruleset{Branch: "writ/**", Types: []string{"creation", "of_a_later_day"}})
	p.AddRuleset(t, githubtest.Ruleset{Branch: "writ/change/*", Types: []string{"pull_request"}, Bypass: "exempt"})
	p.AddRuleset(t, githubtest.Ruleset{Branch: "main", Types: []string{"update"}})
	source := p.Repo.String()
	want := []github.Rule{
		{Type: "creation", Ruleset: 1, Source: source}, {Type: "of_a_later_day", Ruleset: 1, Source: source},
		{Type: "pull_request", Ruleset: 2, Source: source, Bypass: true},
	}
	got := must[[]github.Rule](t)(h.Rules(t.Context(), p.Repo, "writ/change/1"))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rules (-want +got):\n%s", d)
	}
	many := make([]string, 150)
	for i := range many {
		many[i] = "deletion"
	}
	p.AddRuleset(t, githubtest.Ruleset{Branch: "many", Types: many})
	if got := must[[]github.Rule](t)(h.Rules(t.Context(), p.Repo, "many")); len(got) != len(many) {
		t.Errorf("%d of %d rules were read", len(got), len(many))
	}
	p.AddRuleset(t, githubtest.Ruleset{Branch: "tested", Types: []string{"required_status_checks"}, With: map[string]any{"do_not_enforce_on_create": true}})
	p.AddRuleset(t, githubtest.Ruleset{Branch: "tested", Types: []string{"branch_name_pattern"}, With: map[string]any{"operator": "ends_with", "pattern": "ed", "negate": true}, Bypass: "pull_requests_only"})
	want = []github.Rule{
		{Type: "required_status_checks", Ruleset: 5, Source: source, AfterCreation: true},
		{Type: "branch_name_pattern", Ruleset: 6, Source: source, Pattern: github.Pattern{Operator: "ends_with", Text: "ed", Negate: true}},
	}
	if d := cmp.Diff(want, must[[]github.Rule](t)(h.Rules(t.Context(), p.Repo, "tested"))); d != "" {
		t.Errorf("rules with parameters (-want +got):\n%s", d)
	}
	p.FreePlan(t)
	if got := must[[]github.Rule](t)(h.Rules(t.Context(), p.Repo, "tested")); len(got) > 0 {
		t.Errorf("a plan without rulesets has the rules %v", got)
	}
}

// TestPattern: what GitHub would take is told from what it would not, and from
// what can't be known.
func TestPattern(t *testing.T) {
	for _, c := range []struct {
		p             github.Pattern
		admits, known bool
	}{
		{github.Pattern{Operator: "starts_with", Text: "writ/"}, true, true},
		{github.Pattern{Operator: "starts_with", Text: "writ/", Negate: true}, false, true},
		{github.Pattern{Operator: "ends_with", Text: "/2"}, false, true},
		{github.Pattern{Operator: "contains", Text: "change"}, true, true},
		{github.Pattern{Operator: "regex", Text: "^[a-z]+/[a-z]+/[0-9]+$"}, true, true},
		{github.Pattern{Operator: "regex", Text: "("}, false, false},
		{github.Pattern{Operator: "sounds_like", Text: "writ"}, false, false},
	} {
		if admits, known := c.p.Admits("writ/change/1"); admits != c.admits || known != c.known {
			t.Errorf("%+v: %v, %v", c.p, admits, known)
		}
	}
}

// TestAppHook: where the webhooks go, in both forms of the switch.
func TestAppHook(t *testing.T) {
	e := githubtest.Start(t)
	p := e.Place(t, githubtest.Options{HookURL: "http://127.0.0.1:1/hooks/github"})
	h := host(t, p.Config(), held(t))
	for _, insecure := range []any{"0", 0, "1", 1} {
		p.SetHook(t, map[string]any{"insecure_ssl": insecure})
		want := github.AppHook{URL: "http://127.0.0.1:1/hooks/github", ContentType: "json", Insecure: insecure == "1" || insecure == 1}
		if got := must[github.AppHook](t)(h.AppHook(t.Context())); got != want {
			t.Errorf("with %v: %+v, want %+v", insecure, got, want)
		}
	}
	p.SetHook(t, map[string]any{"none": true})
	if got := must[github.AppHook](t)(h.AppHook(t.Context())); got != (github.AppHook{}) {
		t.Errorf("an App without a webhook: %+v", got)
	}
	personal := host(t, p.TokenConfig(p.Owner))
	if _, err := personal.AppHook(t.Context()); !forge.IsReason(err, forge.Unauthorized) {
		t.Errorf("a personal token has a hook: %v", err)
	}
}

// TestHeld_Events: what the App isn't told of is named.
func TestHeld_Events(t *testing.T) {
	e := githubtest.Start(t)
	p := e.Place(t, githubtest.Options{})
	h := host(t, p.Config(), held(t))
	p.Subscribe(t, "issues", "issue_comment", "push", "check_run", "repository", "star")
	got := must[github.Installation](t)(h.Held(t.Context(), p.Repo))
	if d := cmp.Diff([]string{"pull_request", "pull_request_review", "pull_request_review_comment"}, got.Unheard()); d != "" {
		t.Errorf("unheard (-want +got):\n%s", d)
	}
	got.Permissions["checks"] = "read"
	if d := cmp.Diff([]string{"check_suite", "pull_request", "pull_request_review", "pull_request_review_comment"}, got.Unheard()); d != "" {
		t.Errorf("unheard by who may only read checks (-want +got):\n%s", d)
	}
}
