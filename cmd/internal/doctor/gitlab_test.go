package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/gitlab"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// onGitLab is a project of the fake's in good health.
type onGitLab struct {
	*gitlabtest.Server
	host  *gitlab.Host
	repo  forge.Repo
	bot   gitlabtest.User
	token string
	hook  gitlab.Hook
}

func newOnGitLab(t *testing.T, hookURL string) *onGitLab {
	t.Helper()
	p := &onGitLab{Server: gitlabtest.New(t, gitlabtest.Options{})}
	p.repo = forge.Repo{ID: p.AddProject("acme/tools", "shop"), Owner: "acme/tools", Name: "shop"}
	p.bot, p.token = p.ProjectToken(p.repo.ID, gitlabtest.Maintainer)
	p.host = p.hostOf(t, p.token)
	must(t, p.host.EnsureLabels(t.Context(), p.repo, []forge.Label{{Name: "writ", Color: "ededed"}}))
	gittest.Commit(t, p.GitDir(p.repo.ID), "refs/heads/main", "", map[string]string{contractPath: goodContract})
	if hookURL != "" {
		var err error
		p.hook, err = p.host.EnsureHook(t.Context(), p.repo, gitlab.HookSpec{URL: hookURL, Secret: strings.Repeat("secret", 6)})
		must(t, err)
	}
	return p
}

func (p *onGitLab) hostOf(t *testing.T, token string) *gitlab.Host {
	t.Helper()
	h, err := gitlab.New(t.Context(), gitlab.Config{
		URL: p.URL, Token: token, Proxy: "none", Limits: gitlab.Limits{WriteInterval: -1, Creates: -1, Edits: -1},
	})
	must(t, err)
	t.Cleanup(h.Close)
	return h
}

func (p *onGitLab) repository(t *testing.T, change ...func(*Target)) []Check {
	t.Helper()
	target := Target{Forge: "gitlab", Host: p.host, Name: p.repo.String(), Time: patience}
	for _, f := range change {
		f(&target)
	}
	return Repository(t.Context(), target)
}

// TestGitLab_Repository: a healthy project passes; then each thing that can be
// wrong is seen.
func TestGitLab_Repository(t *testing.T) {
	srv := receiver(t)
	p := newOnGitLab(t, srv.URL+"/hooks/gitlab")
	all := p.repository(t)
	for _, name := range []string{NameRepository, NamePermissions, NameHook, NameDeliveries, NameIssues, NameContract, NameLabel, NameStateRefs, NameAtomic, NameBranches} {
		wants(t, all, name, OK, "", "")
	}
	wants(t, p.repository(t, func(t *Target) { t.Poll = true }), NameHook, Skipped, "poll", "")
	wants(t, p.repository(t, func(t *Target) { t.Hook = "https://writ.example/hooks/gitlab" }), NameHook, Failed, "no hook to https://writ.example", "writ setup gitlab")

	p.DisableHook(p.repo.ID, p.hook.ID, "disabled")
	wants(t, p.repository(t), NameHook, Failed, "for good", "test delivery")
	p.DisableHook(p.repo.ID, p.hook.ID, "temporarily_disabled")
	wants(t, p.repository(t), NameHook, Failed, "leaves the hook alone", "test delivery")
	p.DisableHook(p.repo.ID, p.hook.ID, "")

	p.Protect(p.repo.ID, gitlabtest.Protected{Name: "writ/*"})
	wants(t, p.repository(t), NameBranches, Failed, "writ/change/1: the protection of writ/*", "Protected branches")
	p.Protect(p.repo.ID, gitlabtest.Protected{Name: "writ/change/*", User: p.bot.ID})
	wants(t, p.repository(t), NameBranches, OK, "", "")
	p.SetPushRule(p.repo.ID, gitlabtest.PushRule{Signed: true, Branch: "^release/"})
	all = p.repository(t, func(t *Target) { t.Refs = config.RefsHeads })
	wants(t, all, NameBranches, Failed, "unsigned commits are rejected", "Push rules")
	wants(t, all, NameBranches, Failed, "writ/task/1 doesn't match", "Push rules")

	p.SetPushRule(p.repo.ID, gitlabtest.PushRule{Members: true, Committer: true})
	wants(t, p.repository(t), NameBranches, Warning, "verified address of writ's account", "identity")

	p.SwitchIssuesOff(p.repo.ID)
	wants(t, p.repository(t), NameIssues, Failed, "switched off", "switch Issues on")
	p.SetMember(p.repo.ID, p.bot.ID, gitlabtest.Reporter)
	all = p.repository(t)
	wants(t, all, NamePermissions, Failed, "may not write", "role Developer")
	wants(t, all, NameStateRefs, Skipped, "may not push", "")
	p.ChangeProject(p.repo.ID, gitlabtest.ProjectChange{Archived: true})
	wants(t, p.repository(t), NameRepository, Failed, "archived", "Unarchive")
	wants(t, p.repository(t, func(t *Target) { t.Name = "acme/none" }), NameRepository, Failed, "can't be seen", "forges.gitlab.repositories")
}

// TestGitLab_Developer: what a Developer isn't shown is said to be unseen, not
// to be well.
func TestGitLab_Developer(t *testing.T) {
	p := newOnGitLab(t, "")
	p.SetMember(p.repo.ID, p.bot.ID, gitlabtest.Developer)
	all := p.repository(t)
	wants(t, all, NamePermissions, OK, "", "")
	wants(t, all, NameHook, Warning, "can't be seen", "Maintainer")
	wants(t, all, NameDeliveries, Skipped, "", "")
	wants(t, all, NameBranches, Warning, "can't be seen", "writ/change/*")
	p.SetMember(p.repo.ID, p.bot.ID, gitlabtest.Maintainer)
	wants(t, p.repository(t), NameHook, Failed, "no hook", "writ setup gitlab")
}

// TestGitLab_FailedDeliveries: those that were not taken are counted.
func TestGitLab_FailedDeliveries(t *testing.T) {
	srv := receiver(t)
	p := newOnGitLab(t, srv.URL+"/hooks/gitlab")
	srv.Close()
	p.FileIssue(p.repo.ID, p.bot.ID, "Add fails", "It fails.")
	p.Settle()
	wants(t, p.repository(t), NameDeliveries, Warning, "were not taken", "Resend request")
}

// TestGitLab_Token: scope, end, and whose it is.
func TestGitLab_Token(t *testing.T) {
	p := newOnGitLab(t, "")
	forge := func(change ...func(*Site)) []Check {
		site := Site{Forge: "gitlab", Host: p.host, URL: p.host.API(), Time: patience}
		for _, f := range change {
			f(&site)
		}
		checks, _ := Forge(t.Context(), site)
		return checks
	}
	all := forge()
	wants(t, all, NameReach, OK, "", "")
	wants(t, all, NameClock, OK, "", "")
	wants(t, all, NameAccount, OK, "scope api and never ends", "")
	p.Expire(p.token, time.Now().Add(3*24*time.Hour))
	wants(t, forge(), NameAccount, Warning, "ends on", "access token")
	p.Revoke(p.token)
	p.host = p.hostOf(t, p.token)
	wants(t, forge(), NameAccount, Failed, "isn't taken", "forges.gitlab.token")
	p.host = p.hostOf(t, p.Token(p.bot.ID, "read_api"))
	wants(t, forge(), NameAccount, Failed, "lacks the scope api", "scope api")
	ana := p.AddUser("ana")
	p.host = p.hostOf(t, p.Token(ana.ID))
	wants(t, forge(), NameAccount, Warning, "a person", "access token")
}
