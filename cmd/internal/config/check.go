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
