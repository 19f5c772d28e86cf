package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
	"github.com/writbot/writ/forge/local/localtest"
)

const hookSecret = "a-secret-of-the-tests"

// githubSite is a repository on the emulator. The client is the maintainer's.
func githubSite(t *testing.T, o githubtest.Options) (*githubtest.Place, *forgeSite) {
	t.Helper()
	s := &forgeSite{listen: localtest.FreeAddress(t)}
	if o.HookSecret != "" {
		o.HookURL = "http://" + s.listen + "/hooks/github"
	}
	p := githubtest.Start(t).Place(t, o)
	s.client, s.repo = p.As(t, p.Maintainer), p.Repo
	s.file = func(title, body string) int64 {
		i, err := p.As(t, p.Reader).FileIssue(t.Context(), p.Repo, title, body)
		if err != nil {
			t.Fatal(err)
		}
		return i.Number
	}
	return p, s
}

// TestServe_GitHub: an installed App does what is approved, told by its webhook.
func TestServe_GitHub(t *testing.T) {
	t.Parallel()
	p, s := githubSite(t, githubtest.Options{HookSecret: hookSecret})
	s.bot = selfOf(t, p)
	s.forges = fmt.Sprintf("github: {url: '%s', api: '%s', app_id: %d, repositories: [%s], proxy: none}", p.GitURL, p.URL, p.App.ID, p.Repo)
	s.env = []string{"WRIT_GITHUB_PRIVATE_KEY_FILE=" + write(t, t.TempDir(), "app.pem", string(p.App.Key)), "WRIT_GITHUB_HOOK_SECRET=" + hookSecret}
	s.secrets = append(keyLines(p.App.Key), hookSecret)
	s.loop(t)
}

// selfOf is the App's bot.
func selfOf(t *testing.T, p *githubtest.Place) int64 {
	t.Helper()
	h, err := github.New(t.Context(), p.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	self, err := h.Client(p.Repo).Self(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return self.ID
}

// TestServe_GitHubPolls: the same with a personal token and without any webhook.
// The owner's own label counts.
func TestServe_GitHubPolls(t *testing.T) {
	t.Parallel()
	p, s := githubSite(t, githubtest.Options{})
	s.bot = p.Maintainer.ID
	s.forges = fmt.Sprintf("github: {url: '%s', api: '%s', token: MINE, repositories: [%s], proxy: none}", p.GitURL, p.URL, p.Repo)
	s.server, s.env, s.secrets = ", intake: poll, poll: 1s", []string{"MINE=" + p.Maintainer.Token}, []string{p.Maintainer.Token}
	s.serve(t, s.config(t))
	if status := s.get(t, "/hooks/github"); status != http.StatusNotFound {
		t.Errorf("without webhooks /hooks/github answers %d", status)
	}
	s.done(t, s.approve(t))
}
