package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/gitlab"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

// host is a forge, as the account that writ acts as.
type host interface {
	Find(ctx context.Context, owner, name string) (forge.Repository, error)
	Client(forge.Repo) forge.Client
	GitURL(forge.Repo) string
	GitAuth(forge.Repo) git.Auth
	// EditHistory says that the client's History lists every edit of an issue.
	EditHistory() bool
	Close()
}

// connected is a forge of the configuration, and its worlds.
type connected struct {
	name         string // as in the configuration and in the path of its hook
	host         host
	repositories []string // the allow-list
	git          git.Options
	world        func(forge.Repo) string
	// hook makes what takes its webhooks.
	hook func(self forge.User, world func(int64) (string, bool)) (webhook.Hook, error)

	self forge.User
	byID map[int64]*served // by the forge's number of the repository
}

// connect prepares every forge of a configuration; a.readSecrets gives what it
// needs. No forge elsewhere is asked anything yet. Who calls it closes the host
// of each; of none after an error.
func (a *app) connect(ctx context.Context, cfg config.Config, given secrets, log *slog.Logger) (list []*connected, err error) {
	for _, one := range []struct {
		on   bool
		open func() (*connected, error)
	}{
		{cfg.Forges.GitHub.On(), func() (*connected, error) { return openGitHub(ctx, cfg.Forges.GitHub, given.github, log) }},
		{cfg.Forges.GitLab.On(), func() (*connected, error) { return openGitLab(ctx, cfg.Forges.GitLab, given.gitlab, log) }},
		{cfg.Forges.Local.On(), func() (*connected, error) { return openLocal(ctx, cfg.Forges.Local, given.local, log) }},
	} {
		if !one.on {
			continue
		}
		f, err := one.open()
		if err != nil {
			for _, f := range list {
				f.host.Close()
			}
			return nil, err
		}
		f.byID = map[int64]*served{}
		list = append(list, f)
	}
	return list, nil
}

// openGitHub prepares GitHub. It asks nothing yet.
func openGitHub(ctx context.Context, c config.GitHubForge, given forgeSecrets, log *slog.Logger) (*connected, error) {
	h, err := github.New(ctx, github.Config{
		URL: c.URL, API: c.API, App: github.App{ID: c.AppID, Key: []byte(given.key)}, Token: given.token,
		CAFile: c.CAFile, Proxy: c.Proxy, Logger: log,
	})
	if err != nil {
		return nil, badForge("github", err)
	}
	f := &connected{name: "github", host: h, repositories: c.Repositories, world: worldAt(h)}
	f.hook = func(self forge.User, world func(int64) (string, bool)) (webhook.Hook, error) {
		return webhook.NewGitHubHook(webhook.GitHubConfig{
			Secrets: given.hooks, Self: self.ID, Personal: self.Kind == forge.Person, World: world,
		})
	}
	f.git, err = gitOptions(c.CAFile, c.Proxy)
	return f, err
}

// openGitLab prepares GitLab. It asks nothing yet.
func openGitLab(ctx context.Context, c config.GitLabForge, given forgeSecrets, log *slog.Logger) (*connected, error) {
	h, err := gitlab.New(ctx, gitlab.Config{URL: c.URL, Token: given.token, CAFile: c.CAFile, Proxy: c.Proxy, UserAgent: "writ", Logger: log})
	if err != nil {
		return nil, badForge("gitlab", err)
	}
	f := &connected{name: "gitlab", host: h, repositories: c.Repositories, world: worldAt(h)}
	f.hook = func(self forge.User, world func(int64) (string, bool)) (webhook.Hook, error) {
		return webhook.NewGitLabHook(webhook.GitLabConfig{
			Keys: given.keys, Tokens: given.hooks, Self: self.ID, Personal: self.Kind == forge.Person, World: world,
		})
	}
	f.git, err = gitOptions(c.CAFile, c.Proxy)
	return f, err
}

func badForge(name string, err error) error {
	return &problem{code: kernel.CodeConfigInvalid, exit: exitUsage, text: "forges." + name + " can't be used: " + err.Error() + "."}
}

// worldAt names a world by where it is cloned from: host/owner/name, as
// `writ task run` does.
func worldAt(h interface{ GitURL(forge.Repo) string }) func(forge.Repo) string {
	return func(r forge.Repo) string { return remotePlace(h.GitURL(r)).world }
}

// worldOf is the governed world of a repository.
func (f *connected) worldOf(repository int64) (string, bool) {
	w, ok := f.byID[repository]
	if !ok {
		return "", false
	}
	return w.world, true
}

func (f *connected) allowed(owner, name string) bool {
	for _, r := range f.repositories {
		if strings.EqualFold(r, owner+"/"+name) {
			return true
		}
	}
	return false
}

// hooks are those of all forges; none where writ asks by itself.
func (s *server) hooks() (list []webhook.Hook, err error) {
	if s.cfg.Server.Intake == config.IntakePoll {
		return nil, nil
	}
	for _, f := range s.forges {
		h, err := f.hook(f.self, f.worldOf)
		if err != nil {
			return nil, fmt.Errorf("forges.%s: %w", f.name, err)
		}
		list = append(list, h)
	}
	return list, nil
}

// notFound explains a repository that a forge doesn't show.
func notFound(f *connected, name string, err error) error {
	var e *forge.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", name, err)
	}
	switch e.Reason {
	case forge.NotFound, forge.Forbidden:
		return coded(kernel.CodeTargetNotAllowed, "The repository %s is not at the forge, or writ's account may not see it (%s).", name, e.Error())
	case forge.Unauthorized:
		return &problem{exit: exitRefused, text: "The forge " + f.name + " doesn't take writ's credential: " + e.Error() + ".", remedy: "Check it, and that the App is installed on " + name + " or the token still counts."}
	}
	return fmt.Errorf("%s: %w", name, err)
}
