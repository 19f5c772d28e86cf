package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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
	identity     string                  // the forge's part of its worlds' identities
	display      func(forge.Repo) string // what people call a repository; it decides nothing
	// world is the identity of a repository that the host found.
	world func(context.Context, forge.Repo) (string, error)
	// hook makes what takes its webhooks.
	hook func(self forge.User, of whose) (webhook.Hook, error)
	// installURL is where a GitHub App is installed; "" elsewhere.
	installURL string
	// access asks what writ was given for a repository; nil where a forge doesn't
	// say.
	access func(context.Context, forge.Repo) (access, error)
}

// whose looks worlds up for a hook.
type whose struct {
	world     func(repository int64) (string, bool)
	installed func(installation int64, account string) []string
	name      func(repository int64) string // as it is listed
	change    func(world string, number int64) (task int64)
}

// connect prepares every forge of a configuration; a.readSecrets gives what it
// needs. No forge elsewhere is asked anything yet. Who calls it closes the host
// of each; of none after an error.
func (a *process) connect(ctx context.Context, cfg config.Config, given secrets, log *slog.Logger) (list []*connected, err error) {
	for _, one := range []struct {
		on   bool
		open func() (*connected, error)
	}{
		{cfg.Forges.GitHub.On(), func() (*connected, error) { return a.openGitHub(ctx, cfg.Forges.GitHub, given.github, log) }},
		{cfg.Forges.GitLab.On(), func() (*connected, error) { return a.openGitLab(ctx, cfg.Forges.GitLab, given.gitlab, log) }},
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
		list = append(list, f)
	}
	return list, nil
}

// openGitHub prepares GitHub. It asks nothing yet.
func (a *process) openGitHub(ctx context.Context, c config.GitHubForge, given forgeSecrets, log *slog.Logger) (*connected, error) {
	h, err := github.New(ctx, github.Config{
		URL: c.URL, API: c.API, App: github.App{ID: c.AppID, Key: []byte(given.key)}, Token: given.token,
		CAFile: c.CAFile, Proxy: c.Proxy, Limits: github.Limits{WriteInterval: a.writes}, Logger: log,
	})
	if err != nil {
		return nil, badForge("github", err)
	}
	f := &connected{name: "github", host: h, repositories: c.Repositories}
	f.numbered(c.URL)
	if c.AppID != 0 {
		f.installURL, f.access = "the App's page at "+c.URL, installed(h, c.URL)
	}
	f.hook = func(self forge.User, of whose) (webhook.Hook, error) {
		return webhook.NewGitHubHook(webhook.GitHubConfig{
			Secrets: given.hooks, Self: self.ID, Personal: self.Kind == forge.Person, World: of.world, Installed: of.installed, Change: of.change,
		})
	}
	f.git, err = gitOptions(c.CAFile, c.Proxy)
	return f, err
}

// openGitLab prepares GitLab. It asks nothing yet.
func (a *process) openGitLab(ctx context.Context, c config.GitLabForge, given forgeSecrets, log *slog.Logger) (*connected, error) {
	h, err := gitlab.New(ctx, gitlab.Config{
		URL: c.URL, Token: given.token, CAFile: c.CAFile, Proxy: c.Proxy, Limits: gitlab.Limits{WriteInterval: a.writes}, UserAgent: "writ", Logger: log,
	})
	if err != nil {
		return nil, badForge("gitlab", err)
	}
	f := &connected{name: "gitlab", host: h, repositories: c.Repositories, access: tokenEnd(h, time.Now)}
	f.numbered(c.URL)
	f.hook = func(self forge.User, of whose) (webhook.Hook, error) {
		return webhook.NewGitLabHook(webhook.GitLabConfig{
			Keys: given.keys, Tokens: given.hooks, Bound: boundHooks(c, given.bound, of.name), Self: self.ID, Personal: self.Kind == forge.Person, World: of.world, Instance: c.URL,
		})
	}
	f.git, err = gitOptions(c.CAFile, c.Proxy)
	return f, err
}

// boundHooks are the hooks that speak for some projects only, by the names that the
// configuration lists.
func boundHooks(c config.GitLabForge, secrets []string, name func(int64) string) (list []webhook.GitLabBound) {
	for i, value := range secrets {
		h := c.Hooks[i]
		b := webhook.GitLabBound{Token: value, Covers: func(project int64) bool { return h.Covers(name(project)) }}
		if h.Key != "" {
			b.Key, b.Token = value, ""
		}
		list = append(list, b)
	}
	return list
}

func badForge(name string, err error) error {
	return &problem{code: kernel.CodeConfigInvalid, exit: exitUsage, text: "forges." + name + " can't be used: " + err.Error() + "."}
}

// numbered fills in what is known of the worlds of a forge elsewhere: it has an
// address, and gives each repository a number that it never gives again. People
// call one by where it is cloned from, as `writ task run` does.
func (f *connected) numbered(address string) {
	f.identity = hostIdentity(address)
	f.display = func(r forge.Repo) string { return remotePlace(f.host.GitURL(r)).display }
	f.world = func(_ context.Context, r forge.Repo) (string, error) {
		if r.ID <= 0 {
			return "", fmt.Errorf("the forge gives %s no number", r)
		}
		return f.identity + "#" + strconv.FormatInt(r.ID, 10), nil
	}
}

// hostIdentity is what identities of a forge at an address begin with: its host,
// the port where that isn't the usual one, and the path where it doesn't have the
// host to itself.
func hostIdentity(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "" // the adapter refuses such an address
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return host + strings.TrimSuffix(u.EscapedPath(), "/")
}

// cloneURL is where a repository is cloned from.
func (f *connected) cloneURL(r forge.Repo) string {
	if f.host == nil { // of a test
		return r.String()
	}
	return f.host.GitURL(r)
}

func (f *connected) allowed(owner, name string) bool {
	for _, r := range f.repositories {
		if strings.EqualFold(r, owner+"/"+name) {
			return true
		}
	}
	return false
}

// notFound explains why a forge doesn't show a repository.
func notFound(f *connected, name string, err error) error {
	var e *forge.Error
	if !errors.As(err, &e) {
		return unanswered(f, name, err.Error())
	}
	switch e.Reason {
	case forge.NotFound, forge.Forbidden:
		p := coded(kernel.CodeEnvRepository, "The repository %s is not at the forge, or writ's account may not see it (%s).", name, e.Error())
		p.remedy = "Check its name, and that writ's account is a member there. It is opened by itself then."
		if f.installURL != "" {
			p.remedy = "Check its name, and install the App on it: " + f.installURL + ". It is opened by itself then."
		}
		return p
	case forge.Unauthorized:
		return &problem{code: kernel.CodeForgeCredential, exit: exitRefused, text: "The forge " + f.name + " doesn't take writ's credential: " + e.Error() + ".", remedy: "Check it, and that the App is installed on " + name + " or the token still counts."}
	}
	return unanswered(f, name, e.Error())
}

// unanswered is a forge that can't be asked about a repository.
func unanswered(f *connected, name, detail string) *problem {
	p := coded(kernel.CodeForgeUnreachable, "The forge %s gives no answer about %s: %s.", f.name, name, detail)
	p.remedy = "It is asked again by itself. If the forge works for others, check url, proxy and ca_file under forges." + f.name + "."
	return p
}

// installed asks what an App's installation has.
func installed(h *github.Host, url string) func(context.Context, forge.Repo) (access, error) {
	return func(ctx context.Context, at forge.Repo) (access, error) {
		held, err := h.Held(ctx, at)
		if err != nil {
			return access{}, err
		}
		return access{held.ID, lacking(held, at, strings.TrimSuffix(url, "/"))}, nil
	}
}

// lacking says what an installation lacks, and who gives it where.
func lacking(held github.Installation, at forge.Repo, url string) *problem {
	page := fmt.Sprintf("%s/settings/installations/%d, or %[1]s/organizations/%[3]s/settings/installations/%[2]d for an organisation", url, held.ID, at.Owner) //nolint:misspell // GitHub's address
	if held.Suspended {
		p := coded(kernel.CodeForgeRefused, "The App's installation on %s is suspended.", at)
		p.remedy = "Its owner unsuspends it: " + page + "."
		return p
	}
	missing := held.Missing()
	if len(missing) == 0 {
		return nil
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		words = append(words, name+": "+missing[name])
	}
	p := coded(kernel.CodeForgeRefused, "The App's installation on %s lacks %s.", at, strings.Join(words, ", "))
	p.remedy = "Its owner accepts the new permissions: " + page + ". If nothing is offered there, the App itself lacks them: add them on the App's page first."
	return p
}

// tokenWarning is how long before its end a token is warned of.
const tokenWarning = 14 * 24 * time.Hour

// tokenEnd asks when a GitLab token ends.
func tokenEnd(h *gitlab.Host, now func() time.Time) func(context.Context, forge.Repo) (access, error) {
	return func(ctx context.Context, _ forge.Repo) (access, error) {
		t, err := h.Token(ctx)
		if err != nil {
			return access{}, err
		}
		return access{lacks: ending(t, now())}, nil
	}
}

// ending warns of a token whose last day is near.
func ending(t gitlab.Token, now time.Time) *problem {
	if t.Expires.IsZero() || t.Expires.Sub(now) > tokenWarning {
		return nil
	}
	p := coded(kernel.CodeForgeCredential, "GitLab's token %q ends on %s.", t.Name, t.Expires.Format(time.DateOnly))
	p.remedy = "Make a new one, put it where this one is, and have writ reload: operations.md, \"Reload\"."
	return p
}

// access is what a forge says that writ was given for a repository.
type access struct {
	installation int64    // of a GitHub App; 0 elsewhere
	lacks        *problem // nil: nothing
}

// forgeNames are the forges, in the order in which they are checked.
func forgeNames() []string { return []string{"github", "gitlab", "local"} }

// asked is what is asked to see whether a forge answers.
func (f *connected) asked(cfg config.Config) string {
	if h, able := f.host.(interface{ API() string }); able {
		return h.API()
	}
	return strings.TrimSuffix(cfg.Forges.Local.URL, "/") + "/"
}

// named reads owner and name from a URL of this forge.
func (f *connected) named(url string) (forge.Repo, bool) {
	plain := func(s string) string { return strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(s, "/"), ".git")) }
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(url, "/"), ".git"), "/")
	for first := len(parts) - 2; first > 0; first-- {
		r := forge.Repo{Owner: strings.Join(parts[first:len(parts)-1], "/"), Name: parts[len(parts)-1]}
		if plain(f.host.GitURL(r)) == plain(url) {
			return r, true
		}
	}
	return forge.Repo{}, false
}
