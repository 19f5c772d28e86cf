package github_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(out T, err error) T {
		t.Helper()
		ok(t, err)
		return out
	}
}

// cloud is what GitHub publishes of github.com, read once.
var cloud = sync.OnceValues(func() (*githubtest.Description, error) { return githubtest.Describe(githubtest.Cloud) })

// held makes a Host's requests be held to it.
func held(t *testing.T) func(*github.Config) {
	t.Helper()
	d := must[*githubtest.Description](t)(cloud())
	return func(c *github.Config) { c.Wrap = d.Wrap(t) }
}

// host makes a Host, with changes to its configuration.
func host(t *testing.T, c github.Config, change ...func(*github.Config)) *github.Host {
	t.Helper()
	for _, f := range change {
		f(&c)
	}
	h, err := github.New(t.Context(), c)
	ok(t, err)
	t.Cleanup(h.Close)
	return h
}

// exercised makes a place for the suite.
func exercised(t *testing.T, p *githubtest.Place, bot forge.Client) *forgetest.Place {
	t.Helper()
	commits := 0
	return &forgetest.Place{
		Repo: p.Repo, Bot: bot, Owner: p.As(t, p.Owner), Reader: p.As(t, p.Reader),
		Grant: func(t *testing.T, user int64, may forge.Permission) { p.Grant(t, user, may) },
		Branch: func(t *testing.T, name string) string {
			commits++
			return p.Commit(t, name, "main", map[string]string{"work.txt": string(rune('a' + commits))})
		},
		Merge: func(t *testing.T, number int64) {
			t.Helper()
			c := must[forge.Change](t)(bot.FindChange(t.Context(), p.Repo, "writ/change/3", ""))
			if c.Number != number {
				t.Fatalf("change %d isn't the one to merge, %d", c.Number, number)
			}
			p.Merge(t, c, githubtest.ByMerge)
		},
		Checks: func(t *testing.T, oid string) []forge.Check { return p.Checks(t, oid) },
	}
}

func idText(id int64) string { return strconv.FormatInt(id, 10) }
