package wire

import (
	"context"
	"log/slog"
	"net/url"
	"strings"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/github"
)

// Repository is the repository of a place, nil where none is known. Nothing is asked of it
// yet.
func (proc *Process) Repository(ctx context.Context, cfg config.Config, at installation.Place, log *slog.Logger) (*git.Repo, error) {
	if at.URL == "" {
		return nil, nil
	}
	auth, options, err := proc.Access(ctx, cfg, at.URL)
	if err != nil {
		return nil, err
	}
	options.Logger = log
	return git.Open(ctx, git.Endpoint{URL: at.URL, Auth: auth}, options)
}

// Access is what the configuration has for a repository of one of its forges:
// nothing without --config, and for any other URL.
func (proc *Process) Access(ctx context.Context, cfg config.Config, repo string) (git.Auth, git.Options, error) {
	read := &secretReader{getenv: func(name string) string { return proc.Env[name] }}
	below := func(base string) bool { return strings.HasPrefix(repo, strings.TrimSuffix(base, "/")+"/") }
	var auth git.Auth
	var o git.Options
	var err error
	switch f := cfg.Forges; {
	case f.Local.On() && below(f.Local.URL):
		auth = git.Auth{Username: "writ", Password: read.read(f.Local.Token), AllowPlaintext: strings.HasPrefix(f.Local.URL, "http://")}
	case f.GitLab.On() && below(f.GitLab.URL):
		auth = git.Auth{Username: "oauth2", Password: read.read(f.GitLab.Token)}
		o, err = GitOptions(f.GitLab.CAFile, f.GitLab.Proxy)
	case f.GitHub.On() && below(f.GitHub.URL):
		c := github.Config{URL: f.GitHub.URL, API: f.GitHub.API, CAFile: f.GitHub.CAFile, Proxy: f.GitHub.Proxy, Token: read.read(f.GitHub.Token)}
		if f.GitHub.AppID != 0 {
			c.App = github.App{ID: f.GitHub.AppID, Key: []byte(read.pem(f.GitHub.PrivateKey))}
		}
		if read.err == nil {
			proc.HideValues(read.values)
			auth, err = githubAuth(ctx, c, repo)
		}
		if err == nil {
			o, err = GitOptions(f.GitHub.CAFile, f.GitHub.Proxy)
		}
	}
	if read.err != nil {
		return auth, o, &problem.Error{Code: "config.secret.empty", Exit: problem.ExitUsage, Text: read.err.Error() + "."}
	}
	proc.HideValues(read.values)
	return auth, o, err
}

// githubAuth has git ask for a token of the one repository at an address.
func githubAuth(ctx context.Context, c github.Config, repo string) (git.Auth, error) {
	c.Logger = slog.New(slog.DiscardHandler)
	h, err := github.New(ctx, c)
	if err != nil {
		return git.Auth{}, badForge("github", err)
	}
	u, err := url.Parse(repo)
	if err != nil {
		return git.Auth{}, err
	}
	parts := strings.Split(strings.TrimSuffix(u.Path, ".git"), "/")
	if len(parts) < 3 {
		return git.Auth{}, nil // no repository of GitHub's
	}
	found, err := h.Find(ctx, parts[len(parts)-2], parts[len(parts)-1])
	return h.GitAuth(found.Repo), err
}
