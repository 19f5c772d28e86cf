package githubtest

import "testing"

// Ruleset is a ruleset for branches, active at once.
type Ruleset struct {
	Branch string         // a pattern: writ/**
	Types  []string       // of its rules, in GitHub's words
	Bypass string         // how the App is let past it: always, exempt, pull_requests_only; "": not
	With   map[string]any // parameters of its rules
}

// AddRuleset makes a ruleset of the repository.
func (p *Place) AddRuleset(t testing.TB, r Ruleset) {
	t.Helper()
	must(t, p.admin(t.Context(), "ruleset", map[string]any{"repo": p.Repo.ID, "branch": r.Branch, "types": r.Types, "bypass": r.Bypass, "parameters": r.With}, nil))
}

// FreePlan makes GitHub refuse to speak of rulesets, as it does of a private
// repository that nobody pays for.
func (p *Place) FreePlan(t testing.TB) {
	t.Helper()
	must(t, p.admin(t.Context(), "free", map[string]any{"repo": p.Repo.ID}, nil))
}

// Subscribe sets what the App's installation is told of.
func (p *Place) Subscribe(t testing.TB, events ...string) {
	t.Helper()
	must(t, p.admin(t.Context(), "events", map[string]any{"installation": p.Installation, "events": events}, nil))
}

// SetHook sets members of the App's webhook configuration: content_type,
// insecure_ssl; with none the App has no webhook at all.
func (p *Place) SetHook(t testing.TB, set map[string]any) {
	t.Helper()
	must(t, p.admin(t.Context(), "hookConfig", map[string]any{"app": p.App.ID, "set": set}, nil))
}

// SwitchIssuesOff does so in the repository's settings.
func (p *Place) SwitchIssuesOff(t testing.TB) {
	t.Helper()
	p.change(t, map[string]any{"has_issues": false})
}
