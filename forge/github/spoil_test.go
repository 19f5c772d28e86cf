package github_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

// TestJ1_GitHub: a lie at any position of any answer of GitHub's is refused or does
// nothing.
func TestJ1_GitHub(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	c := host(t, p.Config()).Client(p.Repo)
	ctx, r, owner := t.Context(), p.Repo, p.As(t, p.Owner)
	i := must[forge.Issue](t)(owner.FileIssue(ctx, r, "One", "text"))
	ok(t, owner.AddLabel(ctx, r, i.Number, "bug"))
	ok(t, owner.EditIssue(ctx, r, i.Number, "Two", "other text"))
	must[forge.Comment](t)(owner.AddComment(ctx, r, i.Number, "a comment"))
	p.Commit(t, "work", "main", map[string]string{"a": "b"})
	must[forge.Change](t)(c.OpenChange(ctx, r, forge.Change{Title: "x", Head: "work", Base: "main"}))
	about := forgetest.Spoiled{Repo: r, Number: i.Number, Person: p.Maintainer.ID, Head: "work"}
	through := func(config github.Config) func(*testing.T, func(http.RoundTripper) http.RoundTripper) forge.Client {
		return func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) forge.Client {
			t.Helper()
			config.Wrap = wrap
			return must[*github.Host](t)(github.New(ctx, config)).Client(r)
		}
	}
	about.Client = through(p.TokenConfig(p.Owner))
	if n := forgetest.Spoil(t, about); n < 2000 {
		t.Errorf("only %d lies were told", n)
	}
	// How an App finds its installation, and a token of it, is the same for each call.
	about.Client, about.Only = through(p.Config()), []string{"Repository"}
	if n := forgetest.Spoil(t, about); n < 200 {
		t.Errorf("only %d lies were told to an App", n)
	}
}

// TestJ4_GitHub: pages that lead back or repeat themselves, and such as are huge,
// end a list soon.
func TestJ4_GitHub(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	w := &wire{}
	c := host(t, p.TokenConfig(p.Owner), func(c *github.Config) { c.Wrap = w.wrap }).Client(p.Repo)
	must[forge.User](t)(c.Self(t.Context()))
	must[forge.Repository](t)(c.Repository(t.Context(), p.Repo.ID))
	one := `{"id":7,"number":7,"state":"open","title":"x","created_at":"2026-05-04T09:00:00Z","updated_at":"2026-05-04T09:00:00Z"}`
	issues := "[" + strings.Repeat(one+",", 99) + one + "]"
	lists := map[string]func() error{
		"/comments": func() error { _, err := c.Comments(t.Context(), p.Repo, 1); return err },
		"/labels":   func() error { return c.EnsureLabels(t.Context(), p.Repo, []forge.Label{{Name: "x", Color: "ededed"}}) },
		"/issues": func() error {
			return c.ListIssues(t.Context(), p.Repo, time.Time{}, func(forge.Issue) error { return nil })
		},
	}
	huge := `[{"id":1,"name":"x","created_at":"2026-05-04T09:00:00Z","updated_at":"2026-05-04T09:00:00Z","body":"` + strings.Repeat("x", 30<<20) + `"}]`
	for path, list := range lists {
		for what, lie := range map[string]struct {
			body string
			most int
			next func(n int) int
		}{
			"leads back": {"[]", 3, func(int) int { return 1 }},
			"is huge":    {huge, 6, func(n int) int { return n + 1 }},
		} {
			body := lie.body
			if path == "/issues" {
				if what == "is huge" {
					continue // nothing of it is kept
				}
				body = issues
			}
			n := 0
			w.set(func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
				if !strings.HasSuffix(req.URL.Path, path) {
					return do()
				}
				n++
				link := fmt.Sprintf(`<https://api.example/x?page=%d>; rel="next"`, lie.next(n))
				return answered(200, body, "Link", link)
			})
			err := list()
			if most := lie.most + 4; !forge.IsReason(err, forge.Invalid) || n > most {
				t.Errorf("%s %s: %v after %d pages", path, what, err, n)
			}
		}
	}
}
