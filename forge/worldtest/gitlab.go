package worldtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// GitLab is a project of a subgroup, with a project access token, and with a hook,
// made as docs/install-gitlab.md says, that goes to hook; "" for none.
func GitLab(t testing.TB, lab *gitlabtest.Server, hook string) *World {
	t.Helper()
	id := lab.AddProject("acme/tools", fmt.Sprintf("shop-%d", len(lab.Requests())))
	repo := lab.Repo(id)
	human := func(name string, level int) *labHuman {
		u := lab.AddUser(fmt.Sprintf("%s-%d", name, id))
		lab.SetMember(id, u.ID, level)
		token := lab.Token(u.ID)
		return &labHuman{Client: labClient(t, lab, repo, token, Wiring{}), lab: lab, user: u.ID, token: token}
	}
	maintainer, reader := human("max", gitlabtest.Maintainer), human("rita", gitlabtest.Guest)
	bot, token := lab.ProjectToken(id, gitlabtest.Developer)
	w := &World{
		Forge: "gitlab", Repo: repo, Maintainer: maintainer, Reader: reader, Bot: bot.ID, GitDir: lab.GitDir(id),
		Config:           fmt.Sprintf("gitlab: {url: '%s', repositories: [%s], proxy: none}", lab.URL, repo),
		Env:              []string{"WRIT_GITLAB_TOKEN=" + token, "WRIT_GITLAB_HOOK_SECRET=" + HookSecret},
		Secrets:          []string{token, HookSecret},
		Client:           func(t testing.TB, o Wiring) forge.Client { t.Helper(); return labClient(t, lab, repo, token, o) },
		Reactions:        func(_ testing.TB, number int64) []string { return lab.IssueAwards(id, number, bot.ID) },
		CommentReactions: func(_ testing.TB, _, comment int64) []string { return lab.Awards(id, comment, bot.ID) },
		Trouble: func(_ testing.TB, refused bool) {
			lab.SetUserState(bot.ID, map[bool]string{true: "blocked", false: "active"}[refused])
		},
		told:   func(_ testing.TB, ref, old, oid string) { lab.Moved(id, bot.ID, ref, old, oid) },
		toldBy: func(_ testing.TB, ref, old, oid string) { lab.Moved(id, maintainer.user, ref, old, oid) },
	}
	api := fmt.Sprintf("%s/api/v4/projects/%d", lab.URL, id)
	w.People = &labPeople{w, lab, maintainer, api}
	w.Checks = func(t testing.TB, oid string) (out []forge.Check) {
		t.Helper()
		var all []struct{ Name, Description, Status string }
		maintainer.call(t, http.MethodGet, api+"/repository/commits/"+oid+"/statuses", nil, &all)
		for _, st := range all {
			state := map[string]forge.CheckState{"running": forge.CheckRunning, "success": forge.CheckPassed, "failed": forge.CheckFailed}[st.Status]
			out = append(out, forge.Check{Name: st.Name, Summary: st.Description, State: state})
		}
		return out
	}
	maintainer.call(t, http.MethodPost, api+"/labels", map[string]any{"name": Label, "color": "#0e8a16"}, nil)
	if hook != "" {
		maintainer.call(t, http.MethodPost, api+"/hooks", map[string]any{
			"url": hook, "token": HookSecret, "push_events": true, "issues_events": true, "note_events": true, "merge_requests_events": true,
		}, nil)
	}
	return w
}

func labClient(t testing.TB, lab *gitlabtest.Server, repo forge.Repo, token string, o Wiring) forge.Client {
	t.Helper()
	h, err := gitlab.New(t.Context(), gitlab.Config{
		URL: lab.URL, Token: token, Proxy: "none", Limits: gitlab.Limits{WriteInterval: -1, Creates: -1, Edits: -1}, Wrap: o.Wrap, Now: o.Now,
	})
	must(t, err)
	t.Cleanup(h.Close)
	return h.Client(repo)
}

// labHuman is somebody with a personal token.
type labHuman struct {
	forge.Client
	lab   *gitlabtest.Server
	user  int64
	token string
}

// FileIssue is forgetest.Human.
func (h *labHuman) FileIssue(ctx context.Context, r forge.Repo, title, body string) (forge.Issue, error) {
	return h.Issue(ctx, r, h.lab.FileIssue(r.ID, h.user, title, body))
}

// EditIssue is forgetest.Human.
func (h *labHuman) EditIssue(_ context.Context, r forge.Repo, number int64, title, body string) error {
	h.lab.Edit(r.ID, h.user, number, title, body)
	return nil
}

// ReviewAt is forgetest.Human.
func (h *labHuman) ReviewAt(_ context.Context, r forge.Repo, change int64, at forge.ReviewPlace, body string) error {
	h.lab.Review(r.ID, h.user, change-forge.MergeRequests, &at, body)
	return nil
}

// EditReview is forgetest.Human.
func (h *labHuman) EditReview(_ context.Context, r forge.Repo, change, id int64, body string) error {
	h.lab.EditReview(r.ID, h.user, change-forge.MergeRequests, id, body)
	return nil
}

// AddComment is forge.Comments as a person does it: quick actions are his.
func (h *labHuman) AddComment(_ context.Context, r forge.Repo, number int64, body string) (forge.Comment, error) {
	if number > forge.MergeRequests {
		return forge.Comment{ID: h.lab.Review(r.ID, h.user, number-forge.MergeRequests, nil, body), Author: forge.User{ID: h.user}, Body: body}, nil
	}
	return forge.Comment{ID: h.lab.Comment(r.ID, h.user, number, body), Author: forge.User{ID: h.user}, Body: body}, nil
}

// call makes a request as GitLab's page would.
func (h *labHuman) call(t testing.TB, method, url string, body, into any) {
	t.Helper()
	b, err := json.Marshal(body)
	must(t, err)
	if body == nil {
		b = nil
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(b))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Private-Token", h.token)
	res, err := h.lab.HTTP.Client().Do(req)
	must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s %v: %s", method, url, res.Status, err, text)
	}
	if into != nil {
		must(t, json.Unmarshal(text, into))
	}
}

// Faked makes worlds on a GitLab of their own with that clock, which nobody is told
// of.
func Faked() func(t testing.TB, now func() time.Time) *World {
	return func(t testing.TB, now func() time.Time) *World {
		t.Helper()
		return GitLab(t, gitlabtest.New(t, gitlabtest.Options{Now: now}), "")
	}
}
