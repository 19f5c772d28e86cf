package wire

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
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/gitlab"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

// Host is a forge, as the account that writ acts as.
type Host interface {
	Find(ctx context.Context, owner, name string) (forge.Repository, error)
	Client(forge.Repo) forge.Client
	GitURL(forge.Repo) string
	GitAuth(forge.Repo) git.Auth
	// EditHistory says that the client's History lists every edit of an issue.
	EditHistory() bool
	Close()
}

// Forge is a forge of the configuration, and its worlds.
type Forge struct {
	Name         string // as in the configuration and in the path of its hook
	Host         Host
	Repositories []string // the allow-list
	Git          git.Options
	Identity     string                  // the forge's part of its worlds' identities
	Display      func(forge.Repo) string // what people call a repository; it decides nothing
	// World is the identity of a repository that the host found.
	World func(context.Context, forge.Repo) (string, error)
	// Hook makes what takes its webhooks.
	Hook func(self forge.User, of Whose) (webhook.Hook, error)
	// installURL is where a GitHub App is installed; "" elsewhere.
	installURL string
	// Access asks what writ was given for a repository; nil where a forge doesn't
	// say.
	Access func(context.Context, forge.Repo) (Access, error)
}

// Whose looks worlds up for a hook.
type Whose struct {
	World     func(repository int64) (string, bool)
	Installed func(installation int64, account string) []string
	Name      func(repository int64) string // as it is listed
	Change    func(world string, number int64) (task int64)
}

// Connect prepares every forge of a configuration; a.readSecrets gives what it
// needs. No forge elsewhere is asked anything yet. Who calls it closes the host
// of each; of none after an error.
func (proc *Process) Connect(ctx context.Context, cfg config.Config, given Secrets, log *slog.Logger) (list []*Forge, err error) {
	for _, one := range []struct {
		on   bool
		open func() (*Forge, error)
	}{
		{cfg.Forges.GitHub.On(), func() (*Forge, error) { return proc.OpenGitHub(ctx, cfg.Forges.GitHub, given.Github, log) }},
		{cfg.Forges.GitLab.On(), func() (*Forge, error) { return proc.OpenGitLab(ctx, cfg.Forges.GitLab, given.gitlab, log) }},
		{cfg.Forges.Local.On(), func() (*Forge, error) { return openLocal(ctx, cfg.Forges.Local, given.local, log) }},
	} {
		if !one.on {
			continue
		}
		f, err := one.open()
		if err != nil {
			for _, f := range list {
				f.Host.Close()
			}
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// OpenGitHub prepares GitHub. It asks nothing yet.
func (proc *Process) OpenGitHub(ctx context.Context, c config.GitHubForge, given ForgeSecrets, log *slog.Logger) (*Forge, error) {
	h, err := github.New(ctx, github.Config{
		URL: c.URL, API: c.API, App: github.App{ID: c.AppID, Key: []byte(given.key)}, Token: given.Token,
		CAFile: c.CAFile, Proxy: c.Proxy, Limits: github.Limits{WriteInterval: proc.Writes}, Logger: log,
	})
	if err != nil {
		return nil, badForge("github", err)
	}
	f := &Forge{Name: "github", Host: h, Repositories: c.Repositories}
	f.Numbered(c.URL)
	if c.AppID != 0 {
		f.installURL, f.Access = "the App's page at "+c.URL, installed(h, c.URL)
	}
	f.Hook = func(self forge.User, of Whose) (webhook.Hook, error) {
		return webhook.NewGitHubHook(webhook.GitHubConfig{
			Secrets: given.hooks, Self: self.ID, Personal: self.Kind == forge.Person, World: of.World, Installed: of.Installed, Change: of.Change,
		})
	}
	f.Git, err = GitOptions(c.CAFile, c.Proxy)
	return f, err
}

// OpenGitLab prepares GitLab. It asks nothing yet.
func (proc *Process) OpenGitLab(ctx context.Context, c config.GitLabForge, given ForgeSecrets, log *slog.Logger) (*Forge, error) {
	h, err := gitlab.New(ctx, gitlab.Config{
		URL: c.URL, Token: given.Token, CAFile: c.CAFile, Proxy: c.Proxy, Limits: gitlab.Limits{WriteInterval: proc.Writes}, UserAgent: "writ", Logger: log,
	})
	if err != nil {
		return nil, badForge("gitlab", err)
	}
	f := &Forge{Name: "gitlab", Host: h, Repositories: c.Repositories, Access: tokenEnd(h, time.Now)}
	f.Numbered(c.URL)
	f.Hook = func(self forge.User, of Whose) (webhook.Hook, error) {
		return webhook.NewGitLabHook(webhook.GitLabConfig{
			Keys: given.keys, Tokens: given.hooks, Bound: boundHooks(c, given.bound, of.Name), Self: self.ID, Personal: self.Kind == forge.Person, World: of.World, Instance: c.URL,
		})
	}
	f.Git, err = GitOptions(c.CAFile, c.Proxy)
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
	return &problem.Error{Code: kernel.CodeConfigInvalid, Exit: problem.ExitUsage, Text: "forges." + name + " can't be used: " + err.Error() + "."}
}

// Numbered fills in what is known of the worlds of a forge elsewhere: it has an
// address, and gives each repository a number that it never gives again. People
// call one by where it is cloned from, as `writ task run` does.
func (f *Forge) Numbered(address string) {
	f.Identity = hostIdentity(address)
	f.Display = func(r forge.Repo) string { return installation.RemotePlace(f.Host.GitURL(r)).Display }
	f.World = func(_ context.Context, r forge.Repo) (string, error) {
		if r.ID <= 0 {
			return "", fmt.Errorf("the forge gives %s no number", r)
		}
		return f.Identity + "#" + strconv.FormatInt(r.ID, 10), nil
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

// CloneURL is where a repository is cloned from.
func (f *Forge) CloneURL(r forge.Repo) string {
	if f.Host == nil { // of a test
		return r.String()
	}
	return f.Host.GitURL(r)
}

// Allowed reports whether a repository is on the allow-list.
func (f *Forge) Allowed(owner, name string) bool {
	for _, r := range f.Repositories {
		if strings.EqualFold(r, owner+"/"+name) {
			return true
		}
	}
	return false
}

// NotFound explains why a forge doesn't show a repository.
func NotFound(f *Forge, name string, err error) error {
	var e *forge.Error
	if !errors.As(err, &e) {
		return Unanswered(f, name, err.Error())
	}
	switch e.Reason {
	case forge.NotFound, forge.Forbidden:
		p := problem.Coded(kernel.CodeEnvRepository, "The repository %s is not at the forge, or writ's account may not see it (%s).", name, e.Error())
		p.Remedy = "Check its name, and that writ's account is a member there. It is opened by itself then."
		if f.installURL != "" {
			p.Remedy = "Check its name, and install the App on it: " + f.installURL + ". It is opened by itself then."
		}
		return p
	case forge.Unauthorized:
		return &problem.Error{Code: kernel.CodeForgeCredential, Exit: problem.ExitRefused, Text: "The forge " + f.Name + " doesn't take writ's credential: " + e.Error() + ".", Remedy: "Check it, and that the App is installed on " + name + " or the token still counts."}
	}
	return Unanswered(f, name, e.Error())
}

// Unanswered is a forge that can't be asked about a repository.
func Unanswered(f *Forge, name, detail string) *problem.Error {
	p := problem.Coded(kernel.CodeForgeUnreachable, "The forge %s gives no answer about %s: %s.", f.Name, name, detail)
	p.Remedy = "It is asked again by itself. If the forge works for others, check url, proxy and ca_file under forges." + f.Name + "."
	return p
}

// installed asks what an App's installation has.
func installed(h *github.Host, url string) func(context.Context, forge.Repo) (Access, error) {
	return func(ctx context.Context, at forge.Repo) (Access, error) {
		held, err := h.Held(ctx, at)
		if err != nil {
			return Access{}, err
		}
		return Access{held.ID, Lacking(held, at, strings.TrimSuffix(url, "/"))}, nil
	}
}

// Lacking says what an installation lacks, and who gives it where.
func Lacking(held github.Installation, at forge.Repo, url string) *problem.Error {
	page := fmt.Sprintf("%s/settings/installations/%d, or %[1]s/organizations/%[3]s/settings/installations/%[2]d for an organisation", url, held.ID, at.Owner) //nolint:misspell // GitHub's address
	if held.Suspended {
		p := problem.Coded(kernel.CodeForgeRefused, "The App's installation on %s is suspended.", at)
		p.Remedy = "Its owner unsuspends it: " + page + "."
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
	p := problem.Coded(kernel.CodeForgeRefused, "The App's installation on %s lacks %s.", at, strings.Join(words, ", "))
	p.Remedy = "Its owner accepts the new permissions: " + page + ". If nothing is offered there, the App itself lacks them: add them on the App's page first."
	return p
}

// tokenWarning is how long before its end a token is warned of.
const tokenWarning = 14 * 24 * time.Hour

// tokenEnd asks when a GitLab token ends.
func tokenEnd(h *gitlab.Host, now func() time.Time) func(context.Context, forge.Repo) (Access, error) {
	return func(ctx context.Context, _ forge.Repo) (Access, error) {
		t, err := h.Token(ctx)
		if err != nil {
			return Access{}, err
		}
		return Access{Lacks: Ending(t, now())}, nil
	}
}

// Ending warns of a token whose last day is near.
func Ending(t gitlab.Token, now time.Time) *problem.Error {
	if t.Expires.IsZero() || t.Expires.Sub(now) > tokenWarning {
		return nil
	}
	p := problem.Coded(kernel.CodeForgeCredential, "GitLab's token %q ends on %s.", t.Name, t.Expires.Format(time.DateOnly))
	p.Remedy = "Make a new one, put it where this one is, and have writ reload: operations.md, \"Reload\"."
	return p
}

// Access is what a forge says that writ was given for a repository.
type Access struct {
	Installation int64          // of a GitHub App; 0 elsewhere
	Lacks        *problem.Error // nil: nothing
}

// ForgeNames are the forges, in the order in which they are checked.
func ForgeNames() []string { return []string{"github", "gitlab", "local"} }

// Asked is what is asked to see whether a forge answers.
func (f *Forge) Asked(cfg config.Config) string {
	if h, able := f.Host.(interface{ API() string }); able {
		return h.API()
	}
	return strings.TrimSuffix(cfg.Forges.Local.URL, "/") + "/"
}

// Named reads owner and name from a URL of this forge.
func (f *Forge) Named(url string) (forge.Repo, bool) {
	plain := func(s string) string { return strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(s, "/"), ".git")) }
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(url, "/"), ".git"), "/")
	for first := len(parts) - 2; first > 0; first-- {
		r := forge.Repo{Owner: strings.Join(parts[first:len(parts)-1], "/"), Name: parts[len(parts)-1]}
		if plain(f.Host.GitURL(r)) == plain(url) {
			return r, true
		}
	}
	return forge.Repo{}, false
}

// CutRepo divides a repository's name; its owner may hold slashes, on GitLab.
func CutRepo(full string) (owner, name string, ok bool) {
	at := strings.LastIndexByte(full, '/')
	if at < 1 || at == len(full)-1 || slices.Contains(strings.Split(full, "/"), "") {
		return "", "", false
	}
	return full[:at], full[at+1:], true
}
