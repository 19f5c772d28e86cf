package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

var (
	builderName = lazyregexp.New(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	envName     = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	repoName    = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}/[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	worldName   = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*){1,9}$`)
)

// maxWorld bounds a world's name, in bytes: host, owner and repository.
const maxWorld = 512

const noLoopback = "The level landlock has no loopback interface to give. Take it out, or set sandbox: bubblewrap."

// check looks at what a type alone can't say, and at what two keys say together.
func (r *reader) check(c *Config) {
	bad := func(when bool, key, detail string) {
		if when {
			r.doubt(key, detail)
		}
	}
	r.withoutLoopback(c)
	for name, b := range c.Builders {
		key := join("builders", name)
		bad(!builderName().MatchString(name), key, "A builder's name has small letters, digits, - and _.")
		bad(len(b.Argv) == 0 || b.Argv[0] == "", key, "It needs a command, such as argv: [gofmt, -w, .].")
		r.environment(join(key, "env"), b.Env)
		r.keys(join(key, "env"), b.Env)
		bad(slices.ContainsFunc(b.Argv, modelKey().MatchString), join(key, "argv"), noModelKey)
		bad(b.Kind == KindCommand && b.Model != "", join(key, "model"), "It is for the kinds of which writ knows how to say it; take it out, or give a kind.")
		bad(b.RepositoryInstructions && !builder.Instructs(b.Kind, b.Argv), join(key, "repository_instructions"), noInstructions)
		host, api := providerFor(b.Kind)
		bad(b.Kind != KindCommand && !slices.ContainsFunc(b.Egress, func(e Egress) bool { return e.Credential.API == api || api == anyAPI && e.Credential.API != "" }), key,
			"It needs its provider: egress: [{host: "+host+", credential: {secret: NAME, api: "+api+"}}], with the name of the variable that has the key.")
		bad(b.Loopback && c.Sandbox == SandboxLandlock, join(key, "loopback"), noLoopback)
	}
	r.prices(c.Prices)
	r.budgets(c)
	r.egress(c)
	r.environment("checks.env", c.Checks.Env)
	r.keys("checks.env", c.Checks.Env)
	bad(c.Checks.Loopback && c.Sandbox == SandboxLandlock, "checks.loopback", noLoopback)
	for _, l := range []struct {
		key string
		d   time.Duration
	}{{"lease.grace", c.Lease.Grace}, {"lease.max", c.Lease.Max}, {"lease.margin", c.Lease.Margin}, {"lease.skew", c.Lease.Skew}} {
		bad(l.d%time.Second != 0, l.key, "It must be whole seconds.")
	}
	bad(seconds(c.Lease.Margin) >= c.Lease.Seconds, "lease.margin", "It must be shorter than lease.seconds, or nothing could ever run.")
	r.lockSources(c.LockSources, bad)
	for i, k := range c.TrustedRunners {
		_, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(k))
		bad(err != nil || len(rest) > 0, join("trusted_runners", itoa(i)), "It must be one OpenSSH public key, as `writ key` prints it.")
	}
	bad(c.Base != "" && git.ValidateRef("refs/heads/"+c.Base) != nil, "base", "It must be the plain name of a branch, such as main.")
	bad(c.World != "" && (!worldName().MatchString(c.World) || len(c.World) > maxWorld), "world", "It must be a name such as host/owner/repository, of letters, digits, . _ and -.")
	for key, text := range map[string]string{"identity.name": c.Identity.Name, "identity.email": c.Identity.Email} {
		bad(strings.TrimSpace(text) == "" || strings.ContainsAny(text, "<>") || strings.ContainsFunc(text, unicode.IsControl), key, "It must be one line without < and >.")
	}
	r.server(c, bad)
	for i, name := range c.Redact {
		bad(!envName().MatchString(name), join("redact", itoa(i)), "It must be the name of an environment variable, never a value.")
	}
}

const noInstructions = "It would do nothing: writ knows only of the kinds claude-code and codex, and of acp with the program opencode, how they are told so. Take it out, and tell the program by argv or env."

const noEgress = "The level %s has no network namespace, so nothing could hold a program to the gateway. Take it out, or set sandbox: bubblewrap."

// egress looks at each list of hosts.
func (r *reader) egress(c *Config) {
	lists := map[string][]Egress{"checks.egress": c.Checks.Egress}
	for name, b := range c.Builders {
		lists[join(join("builders", name), "egress")] = b.Egress
	}
	for name, w := range c.Worlds {
		lists[join(join("worlds", name), "egress")] = w.Egress
		if !worldName().MatchString(name) || len(name) > maxWorld {
			r.doubt(join("worlds", name), "It must be the name of a repository as reports have it, such as git.example/acme/shop.")
		}
	}
	for key, list := range lists {
		if len(list) > 0 && c.Sandbox != SandboxBubblewrap {
			r.doubt(key, fmt.Sprintf(noEgress, c.Sandbox))
		}
		for i, e := range list {
			rule, err := e.Rule()
			c := e.Credential
			_, badRow := c.table()
			switch {
			case reflect.DeepEqual(c, Credential{}):
			case strings.HasPrefix(key, "worlds."):
				r.doubt(join(join(key, itoa(i)), "credential"), "It is given to a builder or to checks; take it out here.")
			case !envName().MatchString(c.Secret), c.API != "" && c.Secret != strings.ToUpper(c.Secret): // some keys have letters and digits alone
				r.doubt(join(join(key, itoa(i)), "credential.secret"), "It must be the name of an environment variable, never a value.")
			case c.API != "" && gateway.APIs()[c.API] == nil:
				r.doubt(join(join(key, itoa(i)), "credential.api"), "There is no table for it; there are: "+strings.Join(slices.Sorted(maps.Keys(gateway.APIs())), ", ")+".")
			case c.API != "" && c.Prefix != "":
				r.doubt(join(join(key, itoa(i)), "credential.prefix"), "The table of the interface says what stands there; take it out.")
			case badRow != nil:
				r.doubt(join(join(key, itoa(i)), "credential.allow"), strings.ToUpper(badRow.Error()[:1])+badRow.Error()[1:]+".")
			case c.API == "" && len(c.Allow) > 0:
				r.doubt(join(join(key, itoa(i)), "credential.allow"), "There is no table without an api, and anything may be sent; give an api, or take it out.")
			default:
				rule.Credential = c.Of("secret")
			}
			if provider := providerOf(rule); provider != "" && badRow == nil && !strings.HasPrefix(key, "worlds.") {
				r.doubt(join(key, itoa(i)), provider+" is a provider of models, to which anything can be sent: give it alone, with a credential whose api is the provider's.")
			}
			if err == nil {
				_, err = gateway.NewDecider(gateway.Lists{Builder: []gateway.Rule{rule}})
			}
			if err != nil {
				r.doubt(join(key, itoa(i)), strings.TrimPrefix(err.Error(), "egress of the builder, ")+".")
			}
		}
	}
}

// anyAPI stands for the interface of a provider, where a kind of builder speaks any.
const anyAPI = "API"

// providerFor is the host of the provider that a kind of builder speaks to, and its
// interface.
func providerFor(kind string) (host, api string) {
	if a := gateway.APIs()[builder.KindAPI(kind)]; a != nil {
		return a.Host, a.Name
	}
	return "HOST", anyAPI
}

// providerOf is a provider's own host that a rule opens without its table; "" for none.
func providerOf(rule gateway.Rule) string {
	if rule.Credential != nil && rule.Credential.API != nil {
		return ""
	}
	for _, api := range gateway.APIs() {
		below, pattern := strings.CutPrefix(strings.ToLower(rule.Host), "*")
		if api.Host == strings.TrimSuffix(strings.ToLower(rule.Host), ".") || pattern && strings.HasSuffix(api.Host, below) {
			return api.Host
		}
	}
	return ""
}

// modelKeyNames are how the names of variables end in which agents look for the key of a
// model's provider, such as OPENAI_API_KEY and CLAUDE_CODE_OAUTH_TOKEN.
var modelKeyNames = []string{"_API_KEY", "_AUTH_TOKEN", "_OAUTH_TOKEN"}

func isModelKey(name string) bool {
	return slices.ContainsFunc(modelKeyNames, func(end string) bool { return strings.HasSuffix(strings.ToUpper(name), end) })
}

// modelKey is how such keys look: those of Anthropic, OpenAI and many others, and Google's.
var modelKey = lazyregexp.New(`\bsk-[A-Za-z0-9_-]{16}|\bAIza[A-Za-z0-9_-]{35}`)

// noModelKey is the cause of a key in plain text.
const noModelKey = "A provider's key never stands here: name its variable in egress, as credential.secret. For a program that wants one, write " + builder.Placeholder + "."

// keys refuses the key of a provider in plain text, by the name of its variable and by how
// it looks: the gateway sets it, and no builder has it.
func (r *reader) keys(key string, env map[string]string) {
	for name, value := range env {
		named := isModelKey(name)
		if named && value != builder.Placeholder || modelKey().MatchString(value) {
			r.doubt(join(key, name), noModelKey)
		}
	}
}

// withoutLoopback takes the default back that the level landlock can't give. What the
// operator asked for stays, and is refused.
func (r *reader) withoutLoopback(c *Config) {
	if c.Sandbox != SandboxLandlock {
		return
	}
	_, given := r.lines["checks.loopback"]
	c.Checks.Loopback = c.Checks.Loopback && given
	for name, b := range c.Builders {
		_, given := r.lines[join(join("builders", name), "loopback")]
		b.Loopback = b.Loopback && given
		c.Builders[name] = b
	}
}

var hostName = lazyregexp.New(`^[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?$`)

// lockSource is what package scope calls a source, where that isn't a place of one
// repository alone: with a scheme only if that isn't https.
var lockSource = lazyregexp.New(`^([a-z][a-z0-9+.-]*://)?[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?(:[0-9]{1,5})?(/[A-Za-z0-9._~-]+)*$`)

// lockSources looks at what lock files may name.
func (r *reader) lockSources(list []string, bad func(bool, string, string)) {
	for i, s := range list {
		bad(!lockSource().MatchString(s) || strings.HasPrefix(s, "https://") || strings.HasSuffix(s, ".git"), join("lock_sources", itoa(i)),
			"It must be a host in lower case, such as proxy.example.com, or a repository, such as github.com/owner/name, without https:// before it and .git behind it.")
	}
}

// server looks at what writ serve needs.
func (r *reader) server(c *Config, bad func(bool, string, string)) {
	for key, address := range map[string]string{"server.listen": c.Server.Listen, "server.probes": c.Server.Probes} {
		_, port, err := net.SplitHostPort(address)
		bad((err != nil || port == "") && (address != "" || key == "server.listen"), key, "It must be an address and a port, such as 127.0.0.1:8714.")
	}
	for i, name := range c.Server.Hosts {
		bad(!hostName().MatchString(name), join("server.hosts", itoa(i)), "It must be the name of a host, in lower case and without a port.")
	}
	for i, text := range c.Server.TrustedProxies {
		_, err := network(text)
		bad(err != nil, join("server.trusted_proxies", itoa(i)), "It must be an address or a network, such as 10.0.0.5 or 10.0.0.0/8.")
	}
	for key, path := range map[string]string{
		"server.state_dir": c.Server.StateDir, "server.pause_file": c.Server.PauseFile, "forges.local.dir": c.Forges.Local.Dir,
	} {
		bad(path != "" && !filepath.IsAbs(path), key, wantPath(path))
	}
	if _, given := r.lines["server.builds_per_world"]; !given {
		c.Server.BuildsPerWorld = min(c.Server.BuildsPerWorld, c.Server.Builds)
	}
	bad(c.Server.BuildsPerWorld > c.Server.Builds, "server.builds_per_world", "It must not be more than server.builds.")
	r.traces(c.Server.Traces, bad)
	r.forges(c)
}

// traces looks at where traces go.
func (r *reader) traces(t Traces, bad func(bool, string, string)) {
	bad(t.Headers != "" && !envName().MatchString(t.Headers), "server.traces.headers", "It must be the name of an environment variable, never a value.")
	if t.Endpoint == "" {
		bad(t.Headers != "", "server.traces.headers", "There is no endpoint that they could be sent to: give server.traces.endpoint, or take them out.")
		return
	}
	u, err := url.Parse(t.Endpoint)
	wrong := err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != ""
	bad(wrong, "server.traces.endpoint", "It must be the collector's address, such as http://127.0.0.1:4318, without a password or a query in it.")
	bad(!wrong && t.Headers != "" && u.Scheme == "http" && !onThisMachine(u.Hostname()), "server.traces.endpoint",
		"Headers go over https, or to this machine; anybody on the way could read them.")
}

func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (r *reader) environment(key string, env map[string]string) {
	for name := range env {
		switch at := join(key, name); {
		case !envName().MatchString(name):
			r.fail(r.lines[at], at, "It must be the name of an environment variable.")
		case name == "WRIT_DISPATCH" || name == "WRIT_RESULT":
			r.fail(r.lines[at], at, "Writ sets it itself; take it out.")
		}
	}
}

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

// Prices are what models cost.
type Prices struct {
	Currency string           `key:"currency" doc:"The currency's name, such as USD. It is yours: nothing is converted. Needed with models."`
	Models   map[string]Price `key:"models" doc:"Prices, by the name of a model, or by what its name begins with and a star: claude-sonnet-*. The whole name wins, then the longest beginning. The name is the one that the provider answers with. What a model that is not here used is told with its tokens and without a cost."`
}

// Price is what a million tokens of each kind cost.
type Price struct {
	Input      int64 `key:"input" max:"1000000000000" doc:"Millionths of the currency for a million tokens of input that were neither read from the provider's cache nor written to it. 3000000 is 3 for a million. Each of the four must be given."`
	CacheRead  int64 `key:"cache_read" max:"1000000000000" doc:"The same for those that were read from the provider's cache."`
	CacheWrite int64 `key:"cache_write" max:"1000000000000" doc:"The same for those that were written to it."`
	Output     int64 `key:"output" max:"1000000000000" doc:"The same for those of the answer."`
}

// Spend is a limit of what is used of models.
type Spend struct {
	Tokens int64 `key:"tokens" max:"1000000000000" doc:"Tokens, of input, cache and output together. 0: no limit."`
	Cost   int64 `key:"cost" max:"1000000000000" doc:"Cost by prices, in millionths of their currency: 5000000 is 5. Models without a price are refused then. 0: no limit."`
}

// Kernel is the limit as the kernel has it.
func (s Spend) Kernel() kernel.Spend { return kernel.Spend{Tokens: s.Tokens, Cost: s.Cost} }

// Shared is a limit of what several attempts use together.
type Shared struct {
	Tokens int64         `key:"tokens" max:"1000000000000" doc:"Tokens, of input, cache and output together. 0: no limit."`
	Cost   int64         `key:"cost" max:"1000000000000" doc:"Cost by prices, in millionths of their currency: 5000000 is 5. Models without a price are refused then. 0: no limit."`
	Time   time.Duration `key:"time" max:"87600h" doc:"How long builders run, of every kind: budgets.build_timeout of the contract is reserved before an attempt, and what it took counts after it. 0: no limit."`
}

// Kernel is the limit as the kernel has it.
func (s Shared) Kernel() kernel.Spend {
	return kernel.Spend{Tokens: s.Tokens, Cost: s.Cost, Time: s.Time.Milliseconds()}
}

// Budgets are limits that several attempts share.
type Budgets struct {
	Task  Shared `key:"task" doc:"All attempts of one task, for good."`
	World Shared `key:"world" doc:"All tasks of one repository, for good."`
	Day   Shared `key:"day" doc:"All tasks of one repository that are claimed on one day (UTC)."`
}

// Attempts are the limits of one attempt of those builders that have any.
func (c Config) Attempts() map[string]kernel.Spend {
	out := map[string]kernel.Spend{}
	for name, b := range c.Builders {
		if b.Budget != (Spend{}) {
			out[name] = b.Budget.Kernel()
		}
	}
	return out
}

// Warnings say, in a sentence for each, where prices, budgets or tables don't hold as their
// reader may think: it is no fault, since a price may be left out, and a budget for some.
func (c Config) Warnings() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Builders)) {
		b, key := c.Builders[name], join("builders", name)
		if len(c.Prices.Models) > 0 && b.Model != "" && c.Prices.Of(b.Model) == nil {
			text := "prices.models has no price for " + b.Model + ", the model of " + key + ": what it costs isn't known"
			if b.Budget.Cost > 0 {
				text += ", and with " + key + ".budget.cost nothing is claimed for it"
			}
			list = append(list, text+".")
		}
		if text := c.Unmetered(name); text != "" {
			list = append(list, text)
		}
	}
	return list
}

// Unmetered says in one sentence that a builder asks a host with a credential and without a
// table, where that matters: what is sent there looks like the key of a model's provider, or
// budgets are shared, which don't hold what nobody meters. "" where neither is so.
func (c Config) Unmetered(name string) string {
	key, egress := join("builders", name), c.Builders[name].Egress
	bare := func(e Egress) bool { return e.Credential.Secret != "" && e.Credential.API == "" }
	i := slices.IndexFunc(egress, func(e Egress) bool { return bare(e) && isModelKey(e.Credential.Secret) })
	switch budgets := c.Budgets.ofModels(); {
	case i >= 0 && budgets:
		return fmt.Sprintf(untabled, key, egress[i].Credential.Secret, egress[i].Host) + ", so that budgets don't hold it."
	case i >= 0:
		return fmt.Sprintf(untabled, key, egress[i].Credential.Secret, egress[i].Host) + "."
	case budgets && slices.ContainsFunc(egress, bare):
		return key + " has a credential without an api, so that nobody meters what it uses by that: budgets don't hold it."
	}
	return ""
}

const untabled = "%s sends %s to %s, a host without an api: what is asked there is held to no table, and metered by nobody"

// budgets looks at the limits: one that is shared is kept only if each attempt has one to
// reserve, and money only if there are prices.
func (r *reader) budgets(c *Config) {
	priced := func(key string, cost int64) {
		if cost > 0 && len(c.Prices.Models) == 0 {
			r.doubt(join(key, "cost"), "There are no prices, so nothing could be paid: give prices.models, or take it out.")
		}
	}
	for name, b := range c.Builders {
		key := join(join("builders", name), "budget")
		priced(key, b.Budget.Cost)
		provided := b.AsksModels()
		if b.Budget != (Spend{}) && !provided {
			r.doubt(key, "It has no provider that the gateway meters: give egress a credential with its api, or take it out.")
		}
		for scope, s := range c.Budgets.scopes() {
			for _, n := range []struct {
				kind       string
				limit, own int64
			}{{"tokens", s.Tokens, b.Budget.Tokens}, {"cost", s.Cost, b.Budget.Cost}} {
				if provided && n.limit > 0 && n.own == 0 {
					r.doubt(join(key, n.kind), "It must be given since "+join(join("budgets", scope), n.kind)+" is: it is what an attempt reserves of that.")
				} else if provided && n.limit > 0 && n.own > n.limit {
					r.doubt(join(key, n.kind), "It is more than "+join(join("budgets", scope), n.kind)+", so nothing could ever be claimed.")
				}
			}
		}
	}
	for scope, s := range c.Budgets.scopes() {
		priced(join("budgets", scope), s.Cost)
	}
}

func (b Budgets) scopes() map[string]Shared {
	return map[string]Shared{"task": b.Task, "world": b.World, "day": b.Day}
}

// ofModels reports whether any of them limits what is used of models.
func (b Budgets) ofModels() bool {
	for _, s := range b.scopes() {
		if s.Tokens > 0 || s.Cost > 0 {
			return true
		}
	}
	return false
}

var (
	currencyForm = lazyregexp.New(`^[A-Za-z]{1,16}$`)
	modelForm    = lazyregexp.New(`^[A-Za-z0-9._:/-]{0,255}(\*|[A-Za-z0-9._:/-])$`)
)

// ByModel is Of, or nil where no model has a price.
func (p Prices) ByModel() func(model string) *kernel.Price {
	if len(p.Models) == 0 {
		return nil
	}
	return p.Of
}

// Of is the price of a model, nil where there is none.
func (p Prices) Of(model string) *kernel.Price {
	best, found := "", false
	for name := range p.Models {
		begins, pattern := strings.CutSuffix(name, "*")
		switch {
		case !pattern && name == model:
			best, found = name, true
		case !pattern || !strings.HasPrefix(model, begins):
			continue
		case !found || strings.HasSuffix(best, "*") && len(name) > len(best):
			best, found = name, true
		}
	}
	if !found {
		return nil
	}
	one := p.Models[best]
	return &kernel.Price{Currency: p.Currency, Input: one.Input, CacheRead: one.CacheRead, CacheWrite: one.CacheWrite, Output: one.Output}
}

// prices looks at the price list. A kind without a price would count as nothing.
func (r *reader) prices(p Prices) {
	if (len(p.Models) > 0 || p.Currency != "") && !currencyForm().MatchString(p.Currency) {
		r.doubt("prices.currency", "It must be the currency's name, of 1 to 16 letters, such as USD.")
	}
	for name := range p.Models {
		key := join("prices.models", name)
		if !modelForm().MatchString(name) {
			r.doubt(key, "It must be the name of a model, or its beginning and a star at the end, such as claude-sonnet-*.")
		}
		missing := slices.DeleteFunc([]string{"input", "cache_read", "cache_write", "output"}, func(kind string) bool { _, given := r.lines[join(key, kind)]; return given })
		if len(missing) > 0 {
			r.doubt(key, "It has no price for "+strings.Join(missing, ", ")+". Give each of the four; 0 is for what costs nothing.")
		}
	}
}
