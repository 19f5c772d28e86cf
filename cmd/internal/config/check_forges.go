package config

import (
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/lazyregexp"
)

var (
	githubName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/[A-Za-z0-9._-]{1,100}$`)
	gitlabName = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_.][A-Za-z0-9._-]*){1,20}$`)
)

// forgeCheck collects the faults of one forge.
type forgeCheck struct {
	r    *reader
	name string // github
}

func (f forgeCheck) bad(when bool, key, detail string) {
	if when {
		f.r.doubt("forges."+f.name+"."+key, detail)
	}
}

// forges looks at each forge that the file speaks of.
func (r *reader) forges(c *Config) {
	poll := c.Server.Intake == IntakePoll
	if c.Forges.GitHub.On() {
		r.github(c.Forges.GitHub, poll)
	}
	if g := &c.Forges.GitLab; g.On() {
		if _, given := r.lines["forges.gitlab.hook_secrets"]; len(g.HookKeys)+len(g.Hooks) > 0 && !given {
			g.HookSecrets = []string{}
		}
		r.gitlab(*g, poll)
	}
	if c.Forges.Local.On() {
		r.local(c.Forges.Local, poll)
	} else if !reflect.DeepEqual(c.Forges.Local, Default().Forges.Local) {
		r.doubt("forges.local.dir", "Without it there is no such forge, and nothing here is governed: give the forge's directory, or take the section out.")
	}
}

func (r *reader) github(g GitHubForge, poll bool) {
	f := forgeCheck{r, "github"}
	f.bad(!address(g.URL), "url", wantAddress)
	f.bad(g.API != "" && !address(g.API), "api", wantAddress)
	f.bad(g.AppID == 0 && g.Token == "", "app_id", "Give the App's id, or in token the name of the variable with a personal token.")
	f.bad(g.AppID != 0 && g.Token != "", "token", "There is an App already, by app_id; take out one of the two.")
	f.bad(g.AppID != 0 && !envName().MatchString(g.PrivateKey), "private_key", wantName)
	f.bad(g.Token != "" && !envName().MatchString(g.Token), "token", wantName)
	f.bad(g.AppID == 0 && g.PrivateKey != Default().Forges.GitHub.PrivateKey, "private_key", "It is an App's, and there is no app_id: give the App's id, or take the key out.")
	f.names("hook_secrets", g.HookSecrets)
	f.bad(len(g.HookSecrets) == 0 && !poll, "hook_secrets", wantSecrets)
	f.repositories(g.Repositories, githubName, "owner/name")
	f.network(g.CAFile, g.Proxy)
}

func (r *reader) gitlab(g GitLabForge, poll bool) {
	f := forgeCheck{r, "gitlab"}
	f.bad(!address(g.URL), "url", wantAddress)
	f.bad(!envName().MatchString(g.Token), "token", wantName)
	f.names("hook_secrets", g.HookSecrets)
	f.names("hook_keys", g.HookKeys)
	f.bad(len(g.HookKeys) > 0 && len(g.HookSecrets) > 0, "hook_keys", "Give hook_keys or hook_secrets: with keys no delivery is taken for its secret token.")
	f.bad(len(g.HookKeys)+len(g.HookSecrets)+len(g.Hooks) == 0 && !poll, "hook_secrets", wantSecrets)
	f.bad(len(g.Hooks) > 0 && len(g.HookKeys)+len(g.HookSecrets) > 0, "hooks", "Give hooks, or hook_keys or hook_secrets: those speak for every project.")
	f.bound(g)
	f.repositories(g.Repositories, gitlabName, "group/name or group/subgroup/name")
	f.network(g.CAFile, g.Proxy)
}

// bound are the hooks with projects of their own.
func (f forgeCheck) bound(g GitLabForge) {
	for i, h := range g.Hooks {
		key := join("hooks", itoa(i))
		f.bad((h.Key == "") == (h.Secret == ""), key, "It must have a key or a secret, one of them.")
		f.bad(h.Key != "" && !envName().MatchString(h.Key), join(key, "key"), wantName)
		f.bad(h.Secret != "" && !envName().MatchString(h.Secret), join(key, "secret"), wantName)
		f.bad(len(h.Projects) == 0, join(key, "projects"), "It must list the projects that the hook speaks for: [acme/shop].")
		for j, p := range h.Projects {
			known := slices.ContainsFunc(g.Repositories, GitLabHook{Projects: []string{p}}.Covers)
			f.bad(!known, join(join(key, "projects"), itoa(j)), "It must be one of repositories, or a group of one.")
		}
	}
	for i, name := range g.Repositories {
		covered := len(g.Hooks) == 0 || slices.ContainsFunc(g.Hooks, func(h GitLabHook) bool { return h.Covers(name) })
		f.bad(!covered, join("repositories", itoa(i)), "No hook speaks for it: name it, or its group, in projects of one of hooks.")
	}
}

func (r *reader) local(l LocalForge, poll bool) {
	f := forgeCheck{r, "local"}
	u, err := url.Parse(l.URL)
	f.bad(err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil, "url",
		"It must be the forge's address, such as http://127.0.0.1:8715, without a name or password in it.")
	f.bad(!envName().MatchString(l.Token), "token", wantName)
	f.names("hook_secrets", l.HookSecrets)
	f.bad(len(l.HookSecrets) == 0 && !poll, "hook_secrets", wantSecrets)
	f.repositories(l.Repositories, repoName, "owner/name")
}

// What is said in several places.
const (
	wantName    = "It must be the name of an environment variable, never a value: write a name such as WRIT_TOKEN, and give the value in that variable, or in a file that WRIT_TOKEN_FILE names."
	wantSecrets = "It needs the name of at least one variable."
	wantAddress = "It must be the forge's address, such as https://git.example.org, without a name, password or query in it; plain http goes to this machine only."
)

func (f forgeCheck) names(key string, list []string) {
	for i, name := range list {
		f.bad(!envName().MatchString(name), join(key, itoa(i)), wantName)
	}
}

// repositories are the allow-list. Forges don't tell names apart by their case.
func (f forgeCheck) repositories(list []string, form lazyregexp.Regexp, words string) {
	const key = "repositories"
	f.bad(len(list) == 0, key, "It must list the repositories that writ may touch: [acme/shop].")
	for i, name := range list {
		parts := strings.Split(name, "/")
		dots := slices.Contains(parts, ".") || slices.Contains(parts, "..") || strings.HasSuffix(name, ".git")
		f.bad(!form().MatchString(name) || dots || len(name) > maxWorld, join(key, itoa(i)), wantRepository(name, words))
		twice := slices.ContainsFunc(list[:i], func(other string) bool { return strings.EqualFold(name, other) })
		f.bad(twice, join(key, itoa(i)), "It is there twice, whatever its upper and lower case; delete one.")
	}
}

// wantRepository is what is said of what is no repository's name.
func wantRepository(name, form string) string {
	u, err := url.Parse(name)
	if err == nil && u.Host != "" && u.Scheme != "" {
		return "It must be " + form + ", not an address: " + join("", strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")) + "."
	}
	if strings.HasSuffix(name, ".git") {
		return "It must be " + form + ", without .git at its end."
	}
	return "It must be " + form + ", such as acme/shop."
}

func (f forgeCheck) network(ca, proxy string) {
	f.bad(ca != "" && !filepath.IsAbs(ca), "ca_file", wantPath(ca))
	if proxy == "" || proxy == "none" {
		return
	}
	u, err := url.Parse(proxy)
	f.bad(err != nil || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) || u.Host == "" || u.User != nil, "proxy",
		"It must be none, or the proxy's address, such as http://proxy:3128, without a name or password in it.")
}

// address reports whether a forge can be there: over https, or on this machine.
func address(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && onThisMachine(u.Hostname())
}
