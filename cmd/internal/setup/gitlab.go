package setup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab"
)

// The file of the token, and the variable by which the configuration names it, without
// _FILE. Those of the hooks are in gitlab_secret.go.
const (
	gitlabTokenFile = "gitlab.token"
	gitlabTokenVar  = "WRIT_GITLAB_TOKEN"
)

// GitLab makes the hooks of projects and the configuration, given a token.
type GitLab struct {
	// At is where GitLab is and how it is reached. Token is the one that writ is
	// to have.
	At gitlab.Config
	// TokenFile is the operator's own file of that token, which the configuration
	// then names; "" keeps the token in Dir.
	TokenFile string
	// Maintainer is another token, of who may make hooks; it is used now and not
	// kept. "": At.Token makes them, if it may.
	Maintainer string
	Projects   []string
	PublicURL  string // where GitLab reaches writ; "": writ asks by itself
	// KeepHooks leaves the hooks of an earlier set-up as they are; PublicURL isn't
	// looked at.
	KeepHooks bool
	// Ask asks a person for a secret; the answer "" is a no. nil: nobody is there.
	Ask func(ctx context.Context, question string) (string, error)
	Dir string // absolute; where everything is kept
	// Existing is the operator's own configuration, which is never written to; ""
	// makes one in Dir.
	Existing string
	Refs     string   // where state refs live, as the configuration has it; "": the default
	Builder  []string // the command of the builder; none leaves a place for it
	Rotate   bool     // make a new secret for the hooks
	Now      time.Time
	Say      func(format string, args ...any)

	host    *gitlab.Host // as writ
	admin   *gitlab.Host // who makes hooks; the same without Maintainer
	self    forge.User
	secrets []*hookSecret // of the hooks, as Projects are
}

func (g *GitLab) path(name string) string { return filepath.Join(g.Dir, name) }

// ConfigPath is the configuration that names what was made.
func (g *GitLab) ConfigPath() string {
	if g.Existing != "" {
		return g.Existing
	}
	return g.path(ConfigFile)
}

// EnvPath is the file of variables that goes with it.
func (g *GitLab) EnvPath() string { return g.path(EnvFile) }

// ready looks at everything that can be wrong before anything is asked or made.
func (g *GitLab) ready() error {
	if len(g.Projects) == 0 {
		return &Error{Usage: true, Text: "No project is named.", Remedy: "Give --repo GROUP/PROJECT for each one that writ is to govern; it touches no other."}
	}
	if g.PublicURL != "" && !public(g.PublicURL) {
		return &Error{Usage: true, Text: "--public-url must be an address such as https://writ.example.org.", Remedy: "It is where GitLab reaches your proxy. Without one, leave the flag out: writ then asks GitLab every minute."}
	}
	g.secrets = g.hookSecrets()
	if _, err := config.Parse(ConfigFile, g.config()); err != nil {
		return &Error{Usage: true, Text: "The configuration would be wrong: " + err.Error(), Remedy: "Mend what was given.", Err: err}
	}
	return MakeDir(g.Dir)
}

// public reports whether GitLab may be given an address: over TLS, or on this
// machine, where the two are tried together.
func public(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (ip != nil && ip.IsLoopback() || u.Hostname() == "localhost")
}

// hookSecrets are those of the projects, as they are kept.
func (g *GitLab) hookSecrets() (list []*hookSecret) {
	taken := map[string]bool{}
	for _, p := range g.Projects {
		plain := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '-'
		}, strings.ToLower(p))
		word := plain
		for n := 2; taken[word]; n++ {
			word = plain + "-" + strconv.Itoa(n)
		}
		taken[word] = true
		k := &hookSecret{g: g, project: p, word: word}
		k.signed = !Exists(k.path())
		list = append(list, k)
	}
	return list
}

// hooked reports whether GitLab tells writ, by hooks.
func (g *GitLab) hooked() bool { return g.PublicURL != "" || g.KeepHooks }

// hookURL is where GitLab's webhooks go.
func (g *GitLab) hookURL() string { return strings.TrimSuffix(g.PublicURL, "/") + "/hooks/gitlab" }

// Run does all of it. Doing it again changes nothing that is as it should be, and
// goes on where something is missing. Errors are *Error, or what GitLab says.
func (g *GitLab) Run(ctx context.Context) error {
	if err := g.ready(); err != nil {
		return err
	}
	if err := g.connect(ctx); err != nil {
		return err
	}
	defer g.close()
	if err := g.checkToken(ctx); err != nil {
		return err
	}
	projects, err := g.find(ctx)
	if err != nil {
		return err
	}
	if err := g.keepToken(); err != nil {
		return err
	}
	if !g.hooked() {
		g.Say("without --public-url writ asks GitLab every minute, and no hook is made. GitLab shows no former text of an issue, so each approval then needs /writ approve DIGEST\n")
	}
	for i, p := range projects {
		g.Say("%s\n", p.Repo)
		if err := g.secrets[i].hook(ctx, p); err != nil {
			return err
		}
	}
	return g.write()
}

// checkToken asks GitLab whose the token is and what it may.
func (g *GitLab) checkToken(ctx context.Context) (err error) {
	if g.self, err = g.host.Self(ctx); err != nil {
		return refusedToken(err, "the token")
	}
	about, err := g.host.Token(ctx)
	if err != nil {
		return refusedToken(err, "the token")
	}
	if !slices.Contains(about.Scopes, scopeAPI) {
		return wrong("Make one with the scope api: GitLab can't change those of a token.", "The token %q has the scopes %s, and writ needs api.", about.Name, strings.Join(about.Scopes, ", "))
	}
	until := "and has no end"
	if !about.Expires.IsZero() {
		until = "and ends on " + about.Expires.Format(time.DateOnly)
	}
	g.Say("the token acts as %s, has the scope %s %s\n", g.self.Login, scopeAPI, until)
	if !about.Expires.IsZero() && about.Expires.Sub(g.Now) < soon {
		g.Say("  soon: replace it before. Writ stands still when it has ended\n")
	}
	for _, warning := range g.host.Warnings() {
		g.Say("  mind: %s\n", warning)
	}
	return nil
}

func (g *GitLab) connect(ctx context.Context) (err error) {
	if g.host, err = gitlab.New(ctx, g.At); err != nil {
		return &Error{Usage: true, Text: "GitLab can't be used: " + err.Error() + ".", Remedy: "Mend --url, --ca-file, --proxy or the token.", Err: err}
	}
	g.admin = g.host
	if g.Maintainer == "" {
		return nil
	}
	if err = g.borrow(ctx, g.Maintainer); err != nil {
		g.close()
	}
	return err
}

// borrow makes hooks with somebody else's token from now on.
func (g *GitLab) borrow(ctx context.Context, token string) error {
	at := g.At
	at.Token = token
	admin, err := gitlab.New(ctx, at)
	if err != nil {
		return &Error{Usage: true, Text: "The Maintainer's token can't be used: " + err.Error() + ".", Remedy: "Look whether it is whole.", Err: err}
	}
	who, err := admin.Self(ctx)
	if err != nil {
		admin.Close()
		return refusedToken(err, "the Maintainer's token")
	}
	g.admin = admin
	g.Say("the hooks are made as %s; that token is not kept\n", who.Login)
	return nil
}

func (g *GitLab) close() {
	g.host.Close()
	if g.admin != g.host {
		g.admin.Close()
	}
}

// forgeText is the forge's part of a configuration.
func (g *GitLab) forgeText() string {
	var b strings.Builder
	b.WriteString("forges:\n  gitlab:\n")
	for _, kv := range []struct{ key, value string }{{"url", g.url()}, {"ca_file", g.At.CAFile}, {"proxy", g.At.Proxy}} {
		if kv.value != "" {
			fmt.Fprintf(&b, "    %s: %s\n", kv.key, yamlWord(kv.value))
		}
	}
	if g.hooked() {
		b.WriteString("    hooks:\n")
		for _, k := range g.secrets {
			fmt.Fprintf(&b, "      - {%s: %s, projects: %s}\n", k.kind(), k.variable(), yamlList([]string{k.project}))
		}
	}
	fmt.Fprintf(&b, "    repositories: %s\n", yamlList(g.Projects))
	return b.String()
}

func (g *GitLab) url() string {
	if g.At.URL == "" {
		return gitlab.DefaultURL
	}
	return g.At.URL
}

func (g *GitLab) config() []byte {
	return configText(g.Dir, g.forgeText(), g.Refs, !g.hooked(), g.Builder)
}

// variables are what the configuration needs.
func (g *GitLab) variables() []variable {
	token := g.TokenFile
	if token == "" {
		token = g.path(gitlabTokenFile)
	}
	env := []variable{{gitlabTokenVar + "_FILE", token}}
	if g.PublicURL != "" {
		for _, k := range g.secrets {
			env = append(env, variable{k.variable() + "_FILE", k.path()})
		}
	}
	return env
}

// write writes the two files that name everything. One that is there is left, and
// what it lacks is said.
func (g *GitLab) write() error {
	env, err := envText(g.variables())
	if err != nil {
		return err
	}
	if Exists(g.EnvPath()) {
		err = g.compareEnv()
	} else if err = Keep(g.EnvPath(), env); err == nil {
		g.Say("wrote %s, the variables that name the files of secrets\n", g.EnvPath())
	}
	if err != nil {
		return err
	}
	if g.Existing == "" && !Exists(g.ConfigPath()) {
		if err := Keep(g.ConfigPath(), g.config()); err != nil {
			return err
		}
		g.Say("wrote %s\n", g.ConfigPath())
		return nil
	}
	return g.compareConfig()
}

func (g *GitLab) compareEnv() error {
	have, err := ReadEnv(g.EnvPath())
	if err != nil {
		return err
	}
	var lacks []string
	for _, v := range g.variables() {
		if have[v.name] != v.path {
			lacks = append(lacks, v.name+"="+v.path)
		}
	}
	g.Say("left %s as it is\n", g.EnvPath())
	if len(lacks) > 0 {
		g.Say("  it should have: %s\n", strings.Join(lacks, " "))
	}
	return nil
}

func (g *GitLab) compareConfig() error {
	g.Say("left %s as it is\n", g.ConfigPath())
	c, err := config.Load(g.ConfigPath())
	if err != nil {
		return err
	}
	have := c.Forges.GitLab
	lacks := !strings.EqualFold(strings.TrimSuffix(have.URL, "/"), strings.TrimSuffix(g.url(), "/")) || have.CAFile != g.At.CAFile || have.Proxy != g.At.Proxy ||
		(c.Server.Intake == config.IntakePoll) == g.hooked()
	if g.PublicURL != "" {
		lacks = lacks || slices.ContainsFunc(g.secrets, func(k *hookSecret) bool { return !slices.ContainsFunc(have.Hooks, k.is) })
	}
	for _, p := range g.Projects {
		lacks = lacks || !slices.ContainsFunc(have.Repositories, func(r string) bool { return strings.EqualFold(r, p) })
	}
	if lacks {
		g.Say("  it should have:\n%s", g.forgeText())
		if !g.hooked() {
			g.Say("  and under server: intake: poll\n")
		}
	}
	return nil
}

// keepToken keeps the token where the operator has no file of his own for it.
func (g *GitLab) keepToken() error {
	if g.TokenFile != "" {
		_, err := ReadKept(g.TokenFile) // its rights
		return err
	}
	err := Keep(g.path(gitlabTokenFile), []byte(g.At.Token+"\n"))
	var e *Error
	if errors.As(err, &e) && Exists(g.path(gitlabTokenFile)) {
		return wrong("To replace it: put the new one into that file. A running writ takes it in within seconds.", "%s holds another token, and was left as it is.", g.path(gitlabTokenFile))
	}
	return err
}
