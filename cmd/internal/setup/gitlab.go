package setup

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
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

// hook makes the hook of a project, or sets the one that is there.
func (k *hookSecret) hook(ctx context.Context, p project) error {
	g := k.g
	if g.PublicURL == "" || g.KeepHooks {
		return nil
	}
	if err := k.have(); err != nil {
		return err
	}
	if !p.hooks {
		return k.byHand(p)
	}
	all, err := g.admin.Hooks(ctx, p.Repo)
	if forge.IsReason(err, forge.Forbidden) {
		return k.byHand(p)
	}
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(h gitlab.Hook) bool { return h.URL == g.hookURL() })
	if at >= 0 && (all[at].Secret || all[at].Signed) && k.fresh && !g.Rotate {
		return wrong("If no other writ listens there, have it set anew: --rotate-hook-secret. Otherwise name the directory of that set-up with --dir.",
			"%s has a hook to %s already, and its secret isn't in %s.", p.Repo, g.hookURL(), g.Dir)
	}
	made, err := k.ensure(ctx, p)
	if err != nil {
		return err
	}
	how := "with a secret token"
	if k.signed {
		how = "signed"
	}
	g.Say("  hook: %s, %s\n", made.URL, how)
	g.try(ctx, p, made)
	return nil
}

// ensure sets the hook with the secret that is kept. A new secret shows whether this
// GitLab signs.
func (k *hookSecret) ensure(ctx context.Context, p project) (gitlab.Hook, error) {
	if k.g.Rotate && !k.fresh {
		if err := k.rotate(); err != nil {
			return gitlab.Hook{}, err
		}
	}
	spec, err := k.spec()
	if err != nil {
		return gitlab.Hook{}, err
	}
	made, err := k.g.admin.EnsureHook(ctx, p.Repo, spec)
	if !k.signed || !forge.IsReason(err, forge.Conflict) {
		return made, err
	}
	if err := k.unsigned(); err != nil {
		return made, err
	}
	if spec, err = k.spec(); err != nil {
		return made, err
	}
	return k.g.admin.EnsureHook(ctx, p.Repo, spec)
}

// byHand says exactly what a Maintainer has to do.
func (k *hookSecret) byHand(p project) error {
	if k.signed && k.fresh { // nobody has asked this GitLab whether it signs
		if err := k.unsigned(); err != nil {
			return err
		}
	}
	field := "Secret token"
	if k.signed {
		field = "Signing token"
	}
	k.g.Say("  hook: making one needs the role Maintainer. Somebody who has it does this once, or give his token with --maintainer-token-file:\n"+
		"    open           %s/-/hooks, Add new webhook\n"+
		"    URL            %s\n"+
		"    %-14s what %s holds\n"+
		"    Trigger        Push events, Issues events, Confidential issues events, Comments, Confidential comments, Merge request events\n"+
		"    SSL            leave the verification on\n", p.page, k.g.hookURL(), field, k.path())
	return nil
}

// Bounds of looking whether a hook arrives.
const (
	answerTime  = 5 * time.Second
	resultEvery = 500 * time.Millisecond
	resultTries = 20
)

// try has GitLab send a sample, if writ answers at its public address, and says
// what became of it. Nothing of it stops the set-up.
func (g *GitLab) try(ctx context.Context, p project, h gitlab.Hook) {
	if !g.listens(ctx) {
		g.Say("  no writ answers at %s yet. Once it does, run this again to try the hook\n", g.PublicURL)
		return
	}
	before, err := g.admin.LastDelivery(ctx, p.Repo, h.ID)
	if err != nil {
		g.Say("  the hook was not tried: %s\n", err.Error())
		return
	}
	if err := g.admin.TryHook(ctx, p.Repo, h.ID); err != nil {
		g.Say("  the hook could not be tried: %s\n", err.Error())
		return
	}
	tick := time.NewTicker(resultEvery)
	defer tick.Stop()
	for range resultTries {
		last, err := g.admin.LastDelivery(ctx, p.Repo, h.ID)
		switch {
		case err != nil:
			g.Say("  what became of a sample can't be seen: %s\n", err.Error())
			return
		case last.ID == before.ID:
		case strings.HasPrefix(last.Status, "2"):
			g.Say("  tried: GitLab sent a sample, and writ took it\n")
			return
		default:
			g.Say("  tried: GitLab sent a sample, and was answered %s. Look whether writ runs with %s, and at its log\n", last.Status, g.EnvPath())
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	g.Say("  GitLab shows no result of a sample yet; see %s/-/hooks, Edit, Recent events\n", p.page)
}

// listens reports whether a writ answers at the public address: it takes no GET.
func (g *GitLab) listens(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.hookURL(), nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close() // the status is all
	return res.StatusCode == http.StatusMethodNotAllowed
}

// signingPrefix begins a signing token: 32 bytes in base64 follow.
const signingPrefix = "whsec_"

func newSigningToken() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // it never fails
	return signingPrefix + base64.StdEncoding.EncodeToString(key[:])
}

func newSecretToken() string { return rand.Text() + rand.Text() }

// hookSecret is what the hook of one project signs with, or is known by. Each has its
// own: who manages a project sees it, and could tell writ of the others with theirs.
type hookSecret struct {
	g       *GitLab
	project string
	word    string // the project's, in names of files
	signed  bool   // the hook signs
	fresh   bool   // it was made just now
}

// kind is the key that names it in a configuration.
func (k *hookSecret) kind() string {
	if k.signed {
		return "key"
	}
	return "secret"
}

// path is its file.
func (k *hookSecret) path() string { return k.g.path("gitlab-hook-" + k.word + "." + k.kind()) }

// variable is that by which the configuration names it, without _FILE.
func (k *hookSecret) variable() string {
	return "WRIT_GITLAB_HOOK_" + strings.ToUpper(k.kind()+"_"+strings.ReplaceAll(k.word, "-", "_"))
}

// is reports whether a configuration's hook is this one.
func (k *hookSecret) is(h config.GitLabHook) bool {
	name := h.Secret
	if k.signed {
		name = h.Key
	}
	return name == k.variable() && h.Covers(k.project)
}

// have makes a signing token where there is neither one nor a secret token:
// [hookSecret.hook] sees whether this GitLab signs.
func (k *hookSecret) have() error {
	if Exists(k.path()) {
		_, err := ReadKept(k.path())
		return err
	}
	k.fresh = true
	return Keep(k.path(), []byte(newSigningToken()+"\n"))
}

// unsigned puts a secret token in the place of a signing token.
func (k *hookSecret) unsigned() error {
	signing := k.path()
	k.signed = false
	if err := Keep(k.path(), []byte(newSecretToken()+"\n")); err != nil {
		return err
	}
	return os.Remove(signing)
}

func (k *hookSecret) spec() (gitlab.HookSpec, error) {
	data, err := ReadKept(k.path())
	spec := gitlab.HookSpec{URL: k.g.hookURL()}
	if value := strings.TrimSpace(string(data)); k.signed {
		spec.Signing = value
	} else {
		spec.Secret = value
	}
	return spec, err
}

// rotate puts a new secret in the old one's place. What GitLab sends until a running
// writ has taken it in is refused, and found by the sweep.
func (k *hookSecret) rotate() error {
	path, value := k.path(), newSigningToken()
	if !k.signed {
		value = newSecretToken()
	}
	if err := os.Rename(path, path+".old"); err != nil {
		return &Error{Text: path + " can't be replaced: " + cause(err) + ".", Remedy: "Change its directory's rights, and try again.", Err: err}
	}
	if err := Keep(path, []byte(value+"\n")); err != nil {
		return errors.Join(err, os.Rename(path+".old", path))
	}
	k.g.Say("  made a new secret for the hook; the old one is %s. A running writ takes the new one in within seconds; what it refuses until then it finds later\n", path+".old")
	return nil
}

// GitLab's access levels, as far as they matter here.
const (
	levelReporter   = 20
	levelDeveloper  = 30
	levelMaintainer = 40
	levelOwner      = 50
)

// role is what GitLab calls a level.
func role(level int) string {
	switch {
	case level >= levelOwner:
		return "Owner"
	case level >= levelMaintainer:
		return "Maintainer"
	case level >= levelDeveloper:
		return "Developer"
	case level >= levelReporter:
		return "Reporter"
	case level > 0:
		return "Guest"
	}
	return "no role"
}

// scopeAPI is the scope that git, issues and merge requests need together.
const scopeAPI = "api"

// soon is when the end of a token is near.
const soon = 30 * 24 * time.Hour

// refusedToken explains why GitLab doesn't say who a token is.
func refusedToken(err error, which string) error {
	switch {
	case forge.IsReason(err, forge.Unauthorized):
		return &Error{Text: "GitLab doesn't know " + which + ": " + err.Error() + ".", Remedy: "Look whether it was copied whole, has ended, or was revoked; and whether --url is its GitLab.", Err: err}
	case forge.IsReason(err, forge.Forbidden):
		return &Error{Text: "GitLab doesn't let " + which + " say what it is: " + err.Error() + ".", Remedy: "Make one with the scope api.", Err: err}
	case forge.IsReason(err, forge.NotFound):
		return &Error{Text: "There is no GitLab at that address, or one before 16.0: " + err.Error() + ".", Remedy: "Give the address of its pages with --url, with the path that it may have.", Err: err}
	case forge.Passing(err):
		return &Error{Text: "GitLab can't be reached: " + err.Error() + ".", Remedy: "See to the network, --url, --ca-file and --proxy, and try again.", Err: err}
	}
	return err
}

// project is one that is to be governed.
type project struct {
	forge.Repository
	page  string
	hooks bool // whoever makes hooks may make them here
}

// find finds each project and asks what the token may there.
func (g *GitLab) find(ctx context.Context) ([]project, error) {
	var out []project
	for _, name := range g.Projects {
		at := strings.LastIndexByte(name, '/')
		repo, err := g.host.Find(ctx, name[:at], name[at+1:])
		if forge.IsReason(err, forge.NotFound) {
			return nil, &Error{Text: "The project " + name + " isn't there, or the token may not see it.", Remedy: "Look at the name, with all its groups. A project token sees its own project alone; for several, use a group's.", Err: err}
		}
		if err != nil {
			return nil, err
		}
		if repo.Archived {
			return nil, wrong("Bring it back in its settings, or leave it out.", "The project %s is archived.", name)
		}
		level, err := g.host.Level(ctx, repo.Repo, g.self.ID)
		if err != nil {
			return nil, err
		}
		if level < levelDeveloper {
			return nil, wrong("Make the token with the role Developer.", "In %s the token has %s. Writ pushes branches and opens merge requests: that needs the role Developer.", name, role(level))
		}
		g.Say("%s: the token has the role %s\n", name, role(level))
		if level >= levelMaintainer && g.self.Kind == forge.Bot {
			g.Say("  mind: Developer is enough once the hook is there; %s may change settings, too\n", role(level))
		}
		if level < levelMaintainer {
			if err := g.askMaintainer(ctx, name); err != nil {
				return nil, err
			}
		}
		p := project{Repository: repo, page: strings.TrimSuffix(repo.URL, "/"), hooks: level >= levelMaintainer || g.admin != g.host}
		out = append(out, p)
	}
	return out, nil
}

// askMaintainer asks, once, for a token that may make hooks.
func (g *GitLab) askMaintainer(ctx context.Context, name string) error {
	if g.Ask == nil || g.admin != g.host || g.PublicURL == "" || g.KeepHooks {
		return nil
	}
	token, err := g.Ask(ctx, "The webhook of "+name+" needs a Maintainer. A token of his with the scope api makes it now and is not kept; empty: by hand. It isn't shown: ")
	g.Ask = nil
	if err != nil || token == "" {
		return err
	}
	return g.borrow(ctx, token)
}
