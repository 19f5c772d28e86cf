package setup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
)

// The files of a GitHub App.
const (
	githubKeyFile  = "github-app.pem"
	githubHookFile = "github-hook.secret"
	// githubMadeFile holds everything that GitHub gave until it stands in the
	// others: a code counts once.
	githubMadeFile = "github-app.json"
)

// The variables by which the configuration names them.
const (
	githubKeyVar  = "WRIT_GITHUB_PRIVATE_KEY_FILE"
	githubHookVar = "WRIT_GITHUB_HOOK_SECRET_FILE"
)

// GitHub makes an App on GitHub, or goes on with one.
type GitHub struct {
	// At is where GitHub is and how it is reached. App and Token are not looked at.
	At           github.Config
	Org          string // that the App is to belong to; "": whoever is signed in
	Name         string // of the App, to begin with; "": after the owner of the first repository
	Repositories []string
	Workflows    bool   // the App may change workflows, once a person accepted how
	PublicURL    string // where GitHub reaches writ; "": writ asks by itself
	Dir          string // absolute; where everything is kept
	// Existing is the operator's own configuration, which is never written to; ""
	// makes one in Dir.
	Existing string
	Refs     string   // where state refs live, as the configuration has it; "": the default
	Builder  []string // the command of the builder; none leaves a place for it
	Listen   string   // of the page: a loopback address with a port
	Say      func(format string, args ...any)

	// unkept is the App that GitHub has made, as long as it isn't in files.
	unkept atomic.Pointer[kept]
}

// kept is an App whose credentials are in files.
type kept struct {
	ID         int64  `json:"app_id"`
	Slug       string `json:"slug"`
	Page       string `json:"page"`
	Key        string `json:"private_key"`
	HookSecret string `json:"hook_secret"`
	Env        string `json:"env"`    // text of the file of variables
	Config     string `json:"config"` // of the configuration; "": the operator has his own
}

func (g *GitHub) path(name string) string { return filepath.Join(g.Dir, name) }

// Ready looks at everything that can be wrong before an App is made.
func (g *GitHub) Ready() error {
	if len(g.Repositories) == 0 {
		return &Error{Usage: true, Text: "No repository is named.", Remedy: "Give --repo OWNER/NAME for each one that writ is to govern; it touches no other."}
	}
	if err := g.oneOwner(); err != nil {
		return err
	}
	if g.PublicURL != "" {
		u, err := url.Parse(g.PublicURL)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return &Error{Usage: true, Text: "--public-url must be an address such as https://writ.example.org.", Remedy: "It is where GitHub reaches your proxy. Without one, leave the flag out: writ then asks GitHub every minute."}
		}
	}
	if _, err := github.NewAppURL(g.At, g.Org); err != nil {
		return &Error{Usage: true, Text: "--url can't be used: " + err.Error() + ".", Remedy: "Give the address of GitHub's pages, such as https://ghe.example.org.", Err: err}
	}
	if _, err := config.Parse(ConfigFile, g.config(1)); err != nil {
		return &Error{Usage: true, Text: "The configuration would be wrong: " + err.Error(), Remedy: "Mend what was given.", Err: err}
	}
	return MakeDir(g.Dir)
}

// oneOwner wants one owner of all repositories: an App that isn't public can be
// installed by its own account alone.
func (g *GitHub) oneOwner() error {
	for _, full := range g.Repositories {
		if owner, _, _ := strings.Cut(full, "/"); !strings.EqualFold(owner, g.owner()) {
			return &Error{Usage: true, Text: full + " doesn't belong to " + g.owner() + ", and the App can be installed only where it belongs.",
				Remedy: "Make an App for each owner, with a --dir of its own. For an organisation's repositories give --organization with its name."} //nolint:misspell // GitHub's word
		}
	}
	return nil
}

// owner is whose the App is.
func (g *GitHub) owner() string {
	if g.Org != "" {
		return g.Org
	}
	owner, _, _ := strings.Cut(g.Repositories[0], "/")
	return owner
}

// pageTime is how long the page stays open: as long as a code of GitHub's counts.
const pageTime = time.Hour

// Make has a person make the App in a browser, and keeps it. It returns the App's
// number. When the context ends first, that is the error, or an *Error that names
// an App which was made and couldn't be kept.
func (g *GitHub) Make(ctx context.Context) (int64, error) {
	if id, err := g.App(); err == nil && id == 0 && Exists(g.path(EnvFile)) {
		return 0, wrong("Name a directory for GitHub's with --dir. For one writ with both forges, name its configuration with --config, too.", "%s is of another forge.", g.path(EnvFile))
	}
	for _, name := range []string{githubKeyFile, githubHookFile, EnvFile} {
		if Exists(g.path(name)) {
			return 0, wrong("To go on with its App: writ setup github --config "+g.configPath()+". For a new one, name another directory with --dir.",
				"%s is there already, of an earlier set-up.", g.path(name))
		}
	}
	ln, err := listen(ctx, g.Listen)
	if err != nil {
		return 0, err
	}
	g.findOrg(ctx)
	made := make(chan kept, 1)
	p, err := g.page(ln.Addr().String(), made)
	if err != nil {
		return 0, errors.Join(err, ln.Close())
	}
	g.Say("Open this link in a browser on this machine, and sign in to GitHub there first:\n\n  %s\n\n", p.link())
	g.Say("On another machine: ssh -L %s:%s THIS-MACHINE, and then the same link.\n", portOf(p.host), p.host)
	within, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	if err := serve(within, ln, p); err != nil {
		if lost := g.lost(); lost != nil {
			return 0, lost
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return 0, wrong("Call this again where somebody has a browser; or give it an App that is there, with --app-id and --private-key-file.", "Nobody has made the App within an hour, and the page is closed.")
		}
		return 0, err
	}
	app := <-made
	g.Say("The App %s is made, and its credentials are in %s.\n", app.Slug, g.Dir)
	return app.ID, nil
}

// listen opens a loopback address and no other.
func listen(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	if err != nil || ip == nil || !ip.IsLoopback() {
		return nil, &Error{Usage: true, Text: "--listen must be a loopback address with a port, such as 127.0.0.1:0.", Remedy: "The page receives the App's key, so it is for this machine alone; from another, use ssh -L."}
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &Error{Text: "The page can't be served at " + address + ": " + err.Error() + ".", Remedy: "Give another port with --listen, or 127.0.0.1:0 for any.", Err: err}
	}
	return ln, nil
}

// The limits of the page's server. A browser on this machine is quick.
const (
	headerTime  = 10 * time.Second
	closeTime   = 40 * time.Second // a code may be being traded, and counts once
	doneTime    = time.Second      // the last page has been sent
	headerBytes = 64 << 10
)

// serve serves the page until the App is kept, and closes it.
func serve(ctx context.Context, ln net.Listener, p *page) error {
	srv := &http.Server{Handler: p, ReadHeaderTimeout: headerTime, MaxHeaderBytes: headerBytes}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	var err error
	select {
	case <-p.done:
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-failed:
		return err
	}
	patience := closeTime
	if p.isLocked() {
		patience = doneTime
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if shut := srv.Shutdown(last); shut != nil {
		_ = srv.Close() // nobody is waiting any more
	}
	if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if p.isLocked() {
		return nil
	}
	return err
}

// findOrg looks whether the owner of the repositories is an organisation: an App
// of the person who is signed in could not be installed there. A GitHub that
// doesn't say leaves it to the flag.
func (g *GitHub) findOrg(ctx context.Context) {
	if g.Org != "" {
		return
	}
	within, cancel := context.WithTimeout(ctx, orgTime)
	defer cancel()
	if is, err := github.IsOrg(within, g.At, g.owner()); err == nil && is {
		g.Org = g.owner()
		g.Say("%s is an organisation; the App is to be its own.\n", g.Org)
	}
}

// orgTime is how long that may take.
const orgTime = 10 * time.Second

func portOf(host string) string {
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		return host
	}
	return port
}

// page prepares what is served on a host. Made is told of the App that is kept.
func (g *GitHub) page(host string, made chan<- kept) (*page, error) {
	to, err := github.NewAppURL(g.At, g.Org)
	if err != nil {
		return nil, err
	}
	name := g.Name
	if name == "" {
		name = appName(g.owner())
	}
	m := newManifest(name, g.PublicURL, "http://"+host+pathMade, g.Workflows)
	text, err := m.text()
	if err != nil {
		return nil, err
	}
	p := &page{host: host, token: newSecret(), cookie: newSecret(), action: to, done: make(chan struct{})}
	p.ask = asking{
		Owner: "the account " + g.owner(), As: "as " + g.owner(), Writes: m.may("write"), Reads: m.may("read"), Events: strings.ReplaceAll(strings.Join(m.Events, ", "), "_", " "),
		Dir: g.Dir, Host: to.Host, Manifest: text,
	}
	if p.ask.Events == "" {
		p.ask.Events = "nothing"
	}
	if m.Hook != nil {
		p.ask.Hook = m.Hook.URL
	}
	if g.Org != "" {
		p.ask.Owner, p.ask.As = "the organisation "+g.Org, "as an owner of "+g.Org
	}
	p.accept = g.acceptor(func(ctx context.Context, code string) (github.Made, error) { return github.Convert(ctx, g.At, code) }, made)
	return p, nil
}

// appName is a name to begin with; whoever makes the App may change it.
func appName(owner string) string {
	name := "writ-" + owner
	return strings.TrimRight(name[:min(len(name), maxName)], "-")
}

func (g *GitHub) configPath() string {
	if g.Existing != "" {
		return g.Existing
	}
	return g.path(ConfigFile)
}

// forgeText is the forge's part of a configuration.
func (g *GitHub) forgeText(id int64) string {
	var b strings.Builder
	b.WriteString("forges:\n  github:\n")
	for _, kv := range []struct{ key, value string }{{"url", g.At.URL}, {"api", g.At.API}, {"ca_file", g.At.CAFile}, {"proxy", g.At.Proxy}} {
		if kv.value != "" && kv.value != github.DefaultURL {
			fmt.Fprintf(&b, "    %s: %s\n", kv.key, yamlWord(kv.value))
		}
	}
	fmt.Fprintf(&b, "    app_id: %d\n    repositories: %s\n", id, yamlList(g.Repositories))
	return b.String()
}

func (g *GitHub) config(id int64) []byte {
	return configText(g.Dir, g.forgeText(id), g.Refs, g.PublicURL == "", g.Builder)
}

// Link takes an App that was made elsewhere, once GitHub knows its key. Its files
// stay where they are.
func (g *GitHub) Link(ctx context.Context, id int64, keyFile, hookFile string) error {
	env, key := []variable{}, []byte(nil)
	for _, one := range []struct{ name, path, what string }{{githubKeyVar, keyFile, "private key"}, {githubHookVar, hookFile, "webhook secret"}} {
		if one.path == "" {
			continue
		}
		path, err := filepath.Abs(one.path)
		if err != nil {
			return err
		}
		data, err := ReadKept(path)
		if err != nil {
			var e *Error
			if errors.As(err, &e) {
				return e
			}
			return &Error{Usage: true, Text: "The " + one.what + " " + path + " can't be read: " + cause(err) + ".", Remedy: "Name the file that GitHub gave.", Err: err}
		}
		if one.name == githubKeyVar {
			key = data
		}
		env = append(env, variable{one.name, path})
	}
	if hookFile == "" && g.PublicURL != "" {
		return &Error{Usage: true, Text: "--hook-secret-file is missing.", Remedy: "Webhooks are signed with a secret: put the App's into a file, or leave --public-url out."}
	}
	text, err := appEnv(id, env)
	if err == nil {
		err = g.known(ctx, github.App{ID: id, Key: key})
	}
	if err != nil {
		return err
	}
	if err := Keep(g.path(EnvFile), text); err != nil {
		return err
	}
	if g.Existing != "" {
		return nil
	}
	return Keep(g.configPath(), g.config(id))
}

// known asks GitHub whether number and key are of one App, before either is
// written down.
func (g *GitHub) known(ctx context.Context, app github.App) error {
	at := g.At
	at.App = app
	h, err := github.New(ctx, at)
	if err != nil {
		return &Error{Usage: true, Text: "The App can't be used: " + err.Error() + ".", Remedy: "Mend --app-id, --private-key-file, --url or --api. Nothing was written.", Err: err}
	}
	defer h.Close()
	_, err = h.About(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
		return ctx.Err()
	case forge.IsReason(err, forge.Unauthorized), forge.IsReason(err, forge.NotFound):
		return &Error{Text: fmt.Sprintf("GitHub doesn't take the key as one of the App %d: %s.", app.ID, err), Remedy: "The App's page, General, has its number and makes keys. Look at --url, too, and whether this machine's clock is right. Nothing was written.", Err: err}
	}
	return &Error{Text: "GitHub can't be asked for the App: " + err.Error() + ".", Remedy: "See to the network, --url, --api, --ca-file and --proxy, and call this again. Nothing was written.", Err: err}
}

// Lines are what an operator adds to a configuration of his own.
func (g *GitHub) Lines(id int64) string { return g.forgeText(id) }
