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
	p.AddRuleset(t, githubtest.Ruleset{Branch: "writ/change/*", Types: []string{"pull_request"}, Bypass: true})
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
	if protected := must[bool](t)(h.Protected(t.Context(), p.Repo, "main")); protected {
		t.Error("main is said to be protected")
	}
	if _, err := h.Protected(t.Context(), p.Repo, "nowhere"); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("a branch that isn't there: %v", err)
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
	p.Subscribe(t, "issues", "issue_comment", "push", "pull_request", "check_run", "repository", "star")
	got := must[github.Installation](t)(h.Held(t.Context(), p.Repo))
	if d := cmp.Diff([]string{"check_suite"}, got.Unheard()); d != "" {
		t.Errorf("unheard (-want +got):\n%s", d)
	}
}
