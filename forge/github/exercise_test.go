package github_test

import (
	"testing"

	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

// TestExercise_GitHub: the suite over the emulator, and every request as GitHub
// describes it, for github.com and for an Enterprise Server.
func TestExercise_GitHub(t *testing.T) {
	e := githubtest.Start(t)
	for _, name := range []string{githubtest.Cloud, githubtest.Enterprise} {
		d, err := cloud()
		if name == githubtest.Enterprise {
			d, err = githubtest.Describe(name)
		}
		ok(t, err)
		t.Run(name, func(t *testing.T) {
			forgetest.Exercise(t, func(t *testing.T) *forgetest.Place {
				p := e.Place(t, githubtest.Options{Enterprise: name == githubtest.Enterprise})
				h := host(t, p.Config(), func(c *github.Config) { c.Wrap = d.Wrap(t) })
				return exercised(t, p, h.Client(p.Repo))
			})
		})
		if len(d.Seen()) < 15 {
			t.Errorf("only these operations were looked at: %v", d.Seen())
		}
	}
}
