package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/setup"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/forge/github"
)

// setupWait is how long an installation is waited for: a colleague may have to
// be asked.
const setupWait = 15 * time.Minute

// githubFlags are those of `writ setup github`.
type githubFlags struct {
	g setup.GitHub
	setupFlags
	keyFile, hookFile string
	appID             int64
	wait              time.Duration
}

func (a *app) setupGitHub() *cobra.Command {
	var f githubFlags
	cmd := &cobra.Command{
		Use:   "github --repo OWNER/NAME [flags] [-- BUILDER ARG...]",
		Short: "Make a GitHub App for writ in the browser, keep its credentials, and check it",
		Long: `Setup serves a page on this machine's loopback. On it a person sends the description
of the App to GitHub, which asks once more and makes it. Its private key and webhook
secret come back to this machine alone, into files that only you can read, beside a
configuration for writ serve. Then it waits until the App is installed, checks what
it was given by using it, and offers the pull request with the contract.

What follows -- is the command of the builder. Called again with --dir or --config
it goes on where it stood. With --app-id it takes an App that is there already,
without a page and without waiting.`,
		Example: "  writ setup github --repo acme/shop --public-url https://writ.example.org -- sh -c 'echo hello > out.txt'\n" +
			"  writ setup github --repo acme/shop --app-id 12345 --private-key-file app.pem --hook-secret-file hook",
	}
	flags := cmd.Flags()
	flags.StringVar(&f.g.At.URL, "url", "", "address of GitHub's pages (default "+github.DefaultURL+")")
	flags.StringVar(&f.g.At.API, "api", "", "address of its REST API, where it isn't the one that belongs to --url")
	flags.StringVar(&f.g.At.CAFile, "ca-file", "", "PEM file with authorities beside the system's")
	flags.StringVar(&f.g.At.Proxy, "proxy", "", "URL of a proxy; none for none (default: the environment's)")
	flags.StringVar(&f.g.Org, "organization", "", "organisation that the App is to belong to (default: whoever is signed in)") //nolint:misspell // GitHub's word
	flags.StringVar(&f.g.Name, "name", "", "name of the App to begin with; GitHub lets you change it (default: writ-OWNER)")
	flags.StringArrayVar(&f.g.Repositories, "repo", nil, "OWNER/NAME of a repository to govern; may be repeated")
	flags.BoolVar(&f.g.Workflows, "workflows", false, "have the App ask for the permission to change workflows; without it no task can, whoever accepts it")
	flags.StringVar(&f.g.PublicURL, "public-url", "", "https address at which GitHub reaches writ; without it writ asks GitHub every minute")
	flags.StringVar(&f.g.Listen, "listen", "127.0.0.1:0", "loopback address and port of the page; 0 is any port")
	flags.DurationVar(&f.wait, "wait", setupWait, "how long to wait for the App to be installed; 0 looks once")
	flags.Int64Var(&f.appID, "app-id", 0, "number of an App that is there already")
	flags.StringVar(&f.keyFile, "private-key-file", "", "its private key, a .pem file that only you can read")
	flags.StringVar(&f.hookFile, "hook-secret-file", "", "its webhook secret, in a file that only you can read")
	f.add(a, cmd, "pull request", func(ctx context.Context, builder []string) error {
		f.g.Builder, f.g.Say = builder, a.print
		return a.runSetupGitHub(ctx, &f)
	})
	return cmd
}

// runSetupGitHub finds out where set-up stands and goes on from there.
func (a *app) runSetupGitHub(ctx context.Context, f *githubFlags) error {
	cfg, err := a.setupConfig(f)
	if err != nil {
		return err
	}
	f.takes(cfg)
	if recovered, err := f.g.Recover(); err != nil {
		return err
	} else if recovered {
		a.print("An earlier set-up was interrupted; what GitHub gave it is kept now.\n")
	}
	if f.g.Existing == "" && setup.Exists(f.configFile()) {
		if cfg, err = a.Load(f.configFile()); err != nil {
			return err
		}
	}
	if cfg.Forges.GitHub.AppID == 0 {
		cfg, err = a.newApp(ctx, f, cfg)
	} else if err = f.fits(cfg); err == nil {
		f.g.Repositories = cfg.Forges.GitHub.Repositories
	}
	if err != nil {
		return err
	}
	return a.finishGitHub(ctx, f, cfg)
}

// takes takes what was not given from the operator's own configuration.
func (f *githubFlags) takes(cfg config.Config) {
	have := cfg.Forges.GitHub
	for to, value := range map[*string]string{&f.g.At.URL: have.URL, &f.g.At.API: have.API, &f.g.At.CAFile: have.CAFile, &f.g.At.Proxy: have.Proxy} {
		if *to == "" {
			*to = value
		}
	}
	if f.g.Existing != "" && have.AppID == 0 && len(f.g.Repositories) == 0 {
		f.g.Repositories = have.Repositories
	}
}

// fits refuses flags that say something else than the configuration with which
// set-up goes on.
func (f *githubFlags) fits(cfg config.Config) error {
	g := cfg.Forges.GitHub
	if f.appID != 0 && f.appID != g.AppID {
		return problem.Usage("%s has the App %d already; name another directory with --dir.", f.configFile(), g.AppID)
	}
	for _, name := range f.g.Repositories {
		if !listed(&wire.Forge{Repositories: g.Repositories}, name) {
			return &problem.Error{Exit: problem.ExitUsage, Text: name + " is not among the repositories of " + f.configFile() + ".", Remedy: "Add it there, under forges.github, to repositories; then call this again without --repo."}
		}
	}
	if len(f.g.Builder) > 0 {
		return &problem.Error{Exit: problem.ExitUsage, Text: f.configFile() + " is there already, and is never written to.", Remedy: "Write the builder there; then call this again without it."}
	}
	return nil
}

// setupConfig reads the flags that say where everything is.
func (a *app) setupConfig(f *githubFlags) (cfg config.Config, err error) {
	for flag, path := range map[string]string{"config": f.config, "dir": f.dir, "private-key-file": f.keyFile, "hook-secret-file": f.hookFile} {
		if err := installation.PathFlag(flag, path); err != nil {
			return cfg, err
		}
	}
	if f.appID < 0 || (f.appID == 0) != (f.keyFile == "") || f.hookFile != "" && f.appID == 0 {
		return cfg, problem.Usage("--app-id and --private-key-file go together, and --hook-secret-file with them.")
	}
	dir := f.dir
	if f.config != "" {
		if cfg, err = a.Load(f.config); err != nil {
			return cfg, err
		}
		if f.g.Existing, err = filepath.Abs(f.config); err != nil {
			return cfg, err
		}
		if f.dir == "" {
			dir = filepath.Dir(f.g.Existing)
		}
	}
	if dir == "" {
		dir = setupDir
	}
	f.g.Refs = f.refs
	f.g.Dir, err = filepath.Abs(dir)
	return cfg, err
}

func (f *githubFlags) configFile() string {
	if f.g.Existing != "" {
		return f.g.Existing
	}
	return filepath.Join(f.g.Dir, setup.ConfigFile)
}

// newApp makes an App, or takes the given one, and returns the configuration
// with it.
func (a *app) newApp(ctx context.Context, f *githubFlags, cfg config.Config) (config.Config, error) {
	if err := f.g.Ready(); err != nil {
		return cfg, err
	}
	id, err := f.g.App()
	switch {
	case err != nil:
	case f.appID != 0:
		id, f.wait = f.appID, 0
		err = f.g.Link(ctx, id, f.keyFile, f.hookFile)
	case id == 0 || f.g.Existing == "":
		id, err = f.g.Make(ctx)
	}
	if errors.Is(err, context.Canceled) {
		return cfg, &setup.Error{Text: "Ended before GitHub made an App; nothing is left over.", Remedy: "Call it again when you like."}
	}
	if err != nil {
		return cfg, err
	}
	if f.g.Existing == "" {
		return a.Load(f.configFile())
	}
	a.print("Add this to %s:\n\n%s\n", f.g.Existing, f.g.Lines(id))
	cfg.Forges.GitHub.AppID, cfg.Forges.GitHub.Repositories = id, f.g.Repositories
	for value, to := range map[string]*string{f.g.At.URL: &cfg.Forges.GitHub.URL, f.g.At.API: &cfg.Forges.GitHub.API, f.g.At.CAFile: &cfg.Forges.GitHub.CAFile, f.g.At.Proxy: &cfg.Forges.GitHub.Proxy} {
		if value != "" {
			*to = value
		}
	}
	return cfg, nil
}

// finishGitHub waits for the installation, checks it, and says how to go on.
func (a *app) finishGitHub(ctx context.Context, f *githubFlags, cfg config.Config) error {
	env, err := setup.ReadEnv(filepath.Join(f.g.Dir, setup.EnvFile))
	if err != nil {
		return err
	}
	for name, value := range env { // this directory's, whatever another set-up left in the shell
		delete(a.Env, strings.TrimSuffix(name, "_FILE"))
		a.Env[name] = value
	}
	given, err := a.ReadSecrets(withoutHooks(cfg))
	if err != nil {
		return err
	}
	at, err := a.OpenGitHub(ctx, cfg.Forges.GitHub, given.Github, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer at.Host.Close()
	if err := a.awaitGitHub(ctx, f, at); err != nil {
		return err
	}
	good := a.checkSetup(ctx, cfg, at)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := a.offerOnboarding(ctx, f, cfg, at); err != nil {
		return err
	}
	a.sayStart(filepath.Join(f.g.Dir, setup.EnvFile), f.configFile(), cfg)
	if !good {
		return &problem.Error{Exit: problem.ExitRefused, Text: "Something is missing; the lines with an x say what.", Remedy: "Then call `" + f.again() + "`; it checks again."}
	}
	return nil
}

// again is the command that goes on.
func (f *githubFlags) again() string {
	words := []string{"writ", "setup", "github"}
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag, shellWord(value))
		}
	}
	add("--config", f.config)
	add("--dir", f.dir)
	add("--refs", f.refs)
	if f.g.Existing != "" { // which may not say it yet
		for _, name := range f.g.Repositories {
			add("--repo", name)
		}
		if f.g.At.URL != github.DefaultURL {
			add("--url", f.g.At.URL)
		}
		add("--api", f.g.At.API)
		add("--ca-file", f.g.At.CAFile)
		add("--proxy", f.g.At.Proxy)
	}
	return strings.Join(words, " ")
}

// awaitGitHub waits until the App is installed on every repository.
func (a *app) awaitGitHub(ctx context.Context, f *githubFlags, at *wire.Forge) error {
	app, err := at.Host.(*github.Host).About(ctx) // openGitHub made it
	if err != nil {
		return &setup.Error{Text: "GitHub doesn't know the App: " + err.Error() + ".", Remedy: "See that the App's number and key belong together, that GitHub can be reached, and that this machine's clock is right.", Err: err}
	}
	link := app.Page + "/installations/new"
	told := func(name string) { a.print("The App %s is installed on %s.\n", app.Slug, name) }
	missing, err := setup.Await(ctx, at.Host, at.Repositories, 0, told)
	if err == nil && len(missing) > 0 {
		a.print("Install the App %s on %s:\n\n  %s\n\n", app.Slug, strings.Join(missing, ", "), link)
		if f.wait > 0 {
			a.print("Waiting for that, %s at most. Ctrl-C ends the waiting and loses nothing: `%s` goes on.\n", f.wait, f.again())
			missing, err = setup.Await(ctx, at.Host, missing, f.wait, told)
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if len(missing) > 0 {
		return &problem.Error{Exit: problem.ExitWaiting, Text: "The App isn't installed on " + strings.Join(missing, ", ") + " yet. Everything is kept in " + f.g.Dir + ".", Remedy: "Install it there: " + link + ". Then call `" + f.again() + "`; it goes on."}
	}
	return nil
}

// offerOnboarding opens the pull request with the contract where that is wanted.
func (a *app) offerOnboarding(ctx context.Context, f *githubFlags, cfg config.Config, at *wire.Forge) error {
	if f.noOnboard {
		return nil
	}
	for _, name := range at.Repositories {
		if f.onboard || a.asker().YesNo(ctx, "Open a pull request in "+name+" with the contract, an issue form and a guide?") {
			if err := a.onboard(ctx, at, name, cfg.Identity); err != nil {
				return err
			}
		}
	}
	return nil
}

// listed says whether a repository is on the allow-list.
func listed(f *wire.Forge, full string) bool {
	owner, name, ok := cutRepo(full)
	return ok && f.Allowed(owner, name)
}
