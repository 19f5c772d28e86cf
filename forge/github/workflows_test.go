package github_test

import (
	"testing"
	"time"

	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

// TestF6_Workflows: whether an App may change workflows is asked for, believed for some
// minutes, and no trouble of a personal token.
func TestF6_Workflows(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	now := time.Now()
	c := p.Config()
	c.Now = func() time.Time { return now }
	h := host(t, c, held(t))
	wants := func(want bool) {
		t.Helper()
		if got, err := h.Workflows(t.Context(), p.Repo); err != nil || got != want {
			t.Errorf("it may: %v (%v), want %v", got, err, want)
		}
	}
	wants(false)
	more := github.Needed()
	more["workflows"] = "write"
	p.Permit(t, more)
	wants(false) // believed
	now = now.Add(11 * time.Minute)
	wants(true)
	if got, err := host(t, p.TokenConfig(p.Owner)).Workflows(t.Context(), p.Repo); err != nil || !got {
		t.Errorf("with a token: %v, %v", got, err)
	}
}
