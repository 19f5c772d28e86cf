package githubtest

import "testing"

// Ruleset is a ruleset for branches, active at once.
type Ruleset struct {
	Branch string   // a pattern: writ/**
	Types  []string // of its rules, in GitHub's words
	Bypass bool     // the App is let past it
}

// AddRuleset makes a ruleset of the repository.
func (p *Place) AddRuleset(t testing.TB, r Ruleset) {
	t.Helper()
	must(t, p.admin(t.Context(), "ruleset", map[string]any{"repo": p.Repo.ID, "branch": r.Branch, "types": r.Types, "bypass": r.Bypass}, nil))
}

// Subscribe sets what the App's installation is told of.
func (p *Place) Subscribe(t testing.TB, events ...string) {
	t.Helper()
	must(t, p.admin(t.Context(), "events", map[string]any{"installation": p.Installation, "events": events}, nil))
}

// SetHook sets members of the App's webhook configuration: content_type,
// insecure_ssl.
func (p *Place) SetHook(t testing.TB, set map[string]any) {
	t.Helper()
	must(t, p.admin(t.Context(), "hookConfig", map[string]any{"app": p.App.ID, "set": set}, nil))
}

// SwitchIssuesOff does so in the repository's settings.
func (p *Place) SwitchIssuesOff(t testing.TB) {
	t.Helper()
	p.change(t, map[string]any{"has_issues": false})
}
