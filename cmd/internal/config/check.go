package config

import (
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/lazyregexp"
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
	for name, b := range c.Builders {
		key := join("builders", name)
		bad(!builderName().MatchString(name), key, "A builder's name has small letters, digits, - and _.")
		bad(len(b.Argv) == 0 || b.Argv[0] == "", key, "It needs a command, such as argv: [gofmt, -w, .].")
		r.environment(join(key, "env"), b.Env)
		bad(b.Loopback && c.Sandbox == SandboxLandlock, join(key, "loopback"), noLoopback)
	}
	r.environment("checks.env", c.Checks.Env)
	bad(c.Checks.Loopback && c.Sandbox == SandboxLandlock, "checks.loopback", noLoopback)
	for _, l := range []struct {
		key string
		d   time.Duration
	}{{"lease.grace", c.Lease.Grace}, {"lease.max", c.Lease.Max}, {"lease.margin", c.Lease.Margin}, {"lease.skew", c.Lease.Skew}} {
		bad(l.d%time.Second != 0, l.key, "It must be whole seconds.")
	}
	bad(seconds(c.Lease.Margin) >= c.Lease.Seconds, "lease.margin", "It must be shorter than lease.seconds, or nothing could ever run.")
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

var hostName = lazyregexp.New(`^[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?$`)

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
