package e2e

import (
	"fmt"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/forge/local/localtest"
)

// TestServe_GitLab: a project access token and a hook do the same, in a project
// of a subgroup; the hook is made as docs/install-gitlab.md says.
func TestServe_GitLab(t *testing.T) {
	t.Parallel()
	lab := gitlabtest.New(t, gitlabtest.Options{})
	id := lab.AddProject("acme/tools", "shop")
	maja, rita := lab.AddUser("max"), lab.AddUser("rita")
	lab.SetMember(id, maja.ID, gitlabtest.Maintainer)
	lab.SetMember(id, rita.ID, gitlabtest.Guest)
	bot, token := lab.ProjectToken(id, gitlabtest.Developer)
	maxToken, ritaToken := lab.Token(maja.ID), lab.Token(rita.ID)
	h, err := gitlab.New(t.Context(), gitlab.Config{URL: lab.URL, Token: maxToken, Proxy: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	s := &forgeSite{listen: localtest.FreeAddress(t), bot: bot.ID, repo: forge.Repo{ID: id, Owner: "acme/tools", Name: "shop"}}
	s.client = h.Client(s.repo)
	api := fmt.Sprintf("%s/api/v4/projects/%d", lab.URL, id)
	s.file = func(title, body string) int64 {
		var made struct{ IID int64 }
		post(t, api+"/issues", map[string]string{"PRIVATE-TOKEN": ritaToken}, map[string]any{"title": title, "description": body}, &made)
		return made.IID
	}
	post(t, api+"/labels", map[string]string{"PRIVATE-TOKEN": maxToken}, map[string]any{"name": localtest.Label, "color": "#0e8a16"}, nil)
	post(t, api+"/hooks", map[string]string{"PRIVATE-TOKEN": maxToken}, map[string]any{
		"url": "http://" + s.listen + "/hooks/gitlab", "token": hookSecret, "push_events": true, "issues_events": true,
		"note_events": true, "merge_requests_events": true,
	}, nil)
	s.forges = fmt.Sprintf("gitlab: {url: '%s', repositories: [acme/tools/shop], proxy: none}", lab.URL)
	s.env = []string{"WRIT_GITLAB_TOKEN=" + token, "WRIT_GITLAB_HOOK_SECRET=" + hookSecret}
	s.secrets = []string{token, hookSecret}
	s.loop(t)
}
