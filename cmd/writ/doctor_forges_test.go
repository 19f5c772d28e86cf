package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/doctor"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server/servertest"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
	"github.com/writbot/writ/forge/gitlab"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/forge/local/localtest"
)

const (
	hookSecretA = "0123456789abcdef0123456789abcdef"
	hookSecretB = "fedcba9876543210fedcba9876543210"
)

// clinic is a GitHub, a GitLab, and a configuration for both.
type clinic struct {
	dir, file, listen string
	github            *githubtest.Place
	gitlab            *gitlabtest.Server
	project           forge.Repo
	env               []string
}

func newClinic(t *testing.T) *clinic {
	t.Helper()
	c := &clinic{dir: t.TempDir(), listen: localtest.FreeAddress(t)}
	c.github = githubtest.Start(t).Place(t, githubtest.Options{HookURL: "http://" + c.listen + "/hooks/github", HookSecret: hookSecretA})
	c.github.Subscribe(t, github.Events()...)
	c.github.Commit(t, "main", "main", map[string]string{contract.Path: string(contract.Template())})
	c.gitlab = gitlabtest.New(t, gitlabtest.Options{})
	c.project = forge.Repo{ID: c.gitlab.AddProject("acme", "shop"), Owner: "acme", Name: "shop"}
	_, token := c.gitlab.ProjectToken(c.project.ID, gitlabtest.Maintainer)
	gittest.Commit(t, c.gitlab.GitDir(c.project.ID), "refs/heads/main", "", map[string]string{contract.Path: string(contract.Template())})
	c.prepare(t, token)
	key := filepath.Join(c.dir, "app.pem")
	must(t, os.WriteFile(key, c.github.App.Key, 0o600))
	c.env = append(os.Environ(), "WRIT_GITHUB_PRIVATE_KEY_FILE="+key, "WRIT_GITHUB_HOOK_SECRET="+hookSecretA,
		"WRIT_GITLAB_TOKEN="+token, "WRIT_GITLAB_HOOK_SECRET="+hookSecretB)
	c.file = filepath.Join(c.dir, "writ.yaml")
	must(t, os.WriteFile(c.file, fmt.Appendf(nil, `server: {state_dir: %s/state, listen: '%s', sweep: 1h}
forges:
  github: {url: '%s', api: '%s', app_id: %d, proxy: none, repositories: ['%s']}
  gitlab: {url: '%s', proxy: none, repositories: ['%s']}
builders: {default: {argv: ["true"]}}
`, c.dir, c.listen, c.github.GitURL, c.github.URL, c.github.App.ID, c.github.Repo, c.gitlab.URL, c.project), 0o600))
	return c
}

// prepare makes what an operator makes: labels, and the hook of the project.
func (c *clinic) prepare(t *testing.T, token string) {
	t.Helper()
	labels := []forge.Label{{Name: contract.Default().Trigger.Label, Color: "ededed"}}
	hub, err := github.New(t.Context(), c.github.Config())
	must(t, err)
	defer hub.Close()
	must(t, hub.Client(c.github.Repo).EnsureLabels(t.Context(), c.github.Repo, labels))
	lab, err := gitlab.New(t.Context(), gitlab.Config{URL: c.gitlab.URL, Token: token, Proxy: "none", Limits: gitlab.Limits{WriteInterval: -1}})
	must(t, err)
	defer lab.Close()
	must(t, lab.EnsureLabels(t.Context(), c.project, labels))
	_, err = lab.EnsureHook(t.Context(), c.project, gitlab.HookSpec{URL: "http://" + c.listen + "/hooks/gitlab", Secret: hookSecretB})
	must(t, err)
}

func (c *clinic) doctor(t *testing.T, want int, args ...string) (out examined) {
	t.Helper()
	var text bytes.Buffer
	exit := Main(append([]string{"doctor", "--json", "--time", servertest.Patience.String(), "--config", c.file}, args...), strings.NewReader(""), &text, &text, c.env)
	if err := json.Unmarshal(text.Bytes(), &out); err != nil || exit != want {
		t.Fatalf("writ doctor ends with %d (%v), want %d:\n%s", exit, err, want, text.String())
	}
	return out
}

// TestDoctor_ForgesBesideAServer: GitHub and GitLab are looked at while writ
// serves both. Nothing fails, no ref is left, and what then breaks is seen.
func TestDoctor_ForgesBesideAServer(t *testing.T) {
	t.Parallel()
	c := newClinic(t)
	log := &servertest.Buffer{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- newApp(strings.NewReader(""), log, log, c.env).main(ctx, []string{"serve", "--config", c.file})
	}()
	defer func() {
		cancel()
		<-ended
		if t.Failed() {
			t.Logf("writ serve:\n%s", log)
		}
	}()
	localtest.Until(t, servertest.Patience, "the server to be ready", func() bool {
		return strings.Contains(log.String(), "msg=listening") && servertest.Readyz(t, c.listen).Ready
	})
	all := c.doctor(t, problem.ExitDone)
	for _, check := range all.Checks {
		if check.Status == doctor.Failed {
			t.Errorf("%s %s failed: %s", check.Name, check.Subject, check.Detail)
		}
	}
	for _, dir := range []string{c.github.GitDir, c.gitlab.GitDir(c.project.ID)} {
		if left := gittest.Git(t, dir, "for-each-ref", "refs/writ/"); left != "" {
			t.Errorf("left is %s", left)
		}
	}
	if n := len(c.doctor(t, problem.ExitDone, "--forge", "gitlab", "--no-probe").Checks); n >= len(all.Checks) {
		t.Errorf("one forge has %d checks, both %d", n, len(all.Checks))
	}
	c.github.AddRuleset(t, githubtest.Ruleset{Branch: "writ/**", Types: []string{"creation"}})
	if check := c.doctor(t, problem.ExitRefused, "--repo", c.github.Repo.String()).find(t, doctor.NameBranches); check.Status != doctor.Failed {
		t.Errorf("a ruleset: %s: %s", check.Status, check.Detail)
	}
}
