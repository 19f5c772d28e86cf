package wizard

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/setup"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/forge/github"
)

// GitHub is what is said of `writ setup github`.
type GitHub struct {
	Setup setup.GitHub
	Flags
	KeyFile, HookFile string
	AppID             int64
	Wait              time.Duration
}

// RunGitHub finds out where set-up stands and goes on from there.
func (w *Wizard) RunGitHub(ctx context.Context, f *GitHub) error {
	cfg, err := w.setupConfig(f)
	if err != nil {
		return err
	}
	f.takes(cfg)
	if recovered, err := f.Setup.Recover(); err != nil {
		return err
	} else if recovered {
		w.Print("An earlier set-up was interrupted; what GitHub gave it is kept now.\n")
	}
	if f.Setup.Existing == "" && setup.Exists(f.configFile()) {
		if cfg, err = w.Load(f.configFile()); err != nil {
			return err
		}
	}
	if cfg.Forges.GitHub.AppID == 0 {
		cfg, err = w.newApp(ctx, f, cfg)
	} else if err = f.fits(cfg); err == nil {
		f.Setup.Repositories = cfg.Forges.GitHub.Repositories
	}
	if err != nil {
		return err
	}
	return w.finishGitHub(ctx, f, cfg)
}

// takes takes what was not given from the operator's own configuration.
func (f *GitHub) takes(cfg config.Config) {
	have := cfg.Forges.GitHub
	for to, value := range map[*string]string{&f.Setup.At.URL: have.URL, &f.Setup.At.API: have.API, &f.Setup.At.CAFile: have.CAFile, &f.Setup.At.Proxy: have.Proxy} {
		if *to == "" {
			*to = value
		}
	}
	if f.Setup.Existing != "" && have.AppID == 0 && len(f.Setup.Repositories) == 0 {
		f.Setup.Repositories = have.Repositories
	}
}

// fits refuses flags that say something else than the configuration with which
// set-up goes on.
func (f *GitHub) fits(cfg config.Config) error {
	g := cfg.Forges.GitHub
	if f.AppID != 0 && f.AppID != g.AppID {
		return problem.Usage("%s has the App %d already; name another directory with --dir.", f.configFile(), g.AppID)
	}
	for _, name := range f.Setup.Repositories {
		if !listed(&wire.Forge{Repositories: g.Repositories}, name) {
			return &problem.Error{Exit: problem.ExitUsage, Text: name + " is not among the repositories of " + f.configFile() + ".", Remedy: "Add it there, under forges.github, to repositories; then call this again without --repo."}
		}
	}
	if len(f.Setup.Builder) > 0 {
		return &problem.Error{Exit: problem.ExitUsage, Text: f.configFile() + " is there already, and is never written to.", Remedy: "Write the builder there; then call this again without it."}
	}
	return nil
}

// setupConfig reads the flags that say where everything is.
func (w *Wizard) setupConfig(f *GitHub) (cfg config.Config, err error) {
	for flag, path := range map[string]string{"config": f.Config, "dir": f.Dir, "private-key-file": f.KeyFile, "hook-secret-file": f.HookFile} {
		if err := installation.PathFlag(flag, path); err != nil {
			return cfg, err
		}
	}
	if f.AppID < 0 || (f.AppID == 0) != (f.KeyFile == "") || f.HookFile != "" && f.AppID == 0 {
		return cfg, problem.Usage("--app-id and --private-key-file go together, and --hook-secret-file with them.")
	}
	dir := f.Dir
	if f.Config != "" {
		if cfg, err = w.Load(f.Config); err != nil {
			return cfg, err
		}
		if f.Setup.Existing, err = filepath.Abs(f.Config); err != nil {
			return cfg, err
		}
		if f.Dir == "" {
			dir = filepath.Dir(f.Setup.Existing)
		}
	}
	if dir == "" {
		dir = DefaultDir
	}
	f.Setup.Refs = f.Refs
	f.Setup.Dir, err = filepath.Abs(dir)
	return cfg, err
}

func (f *GitHub) configFile() string {
	if f.Setup.Existing != "" {
		return f.Setup.Existing
	}
	return filepath.Join(f.Setup.Dir, setup.ConfigFile)
}

// newApp makes an App, or takes the given one, and returns the configuration
// with it.
func (w *Wizard) newApp(ctx context.Context, f *GitHub, cfg config.Config) (config.Config, error) {
	if err := f.Setup.Ready(); err != nil {
		return cfg, err
	}
	id, err := f.Setup.App()
	switch {
	case err != nil:
	case f.AppID != 0:
		id, f.Wait = f.AppID, 0
		err = f.Setup.Link(ctx, id, f.KeyFile, f.HookFile)
	case id == 0 || f.Setup.Existing == "":
		id, err = f.Setup.Make(ctx)
	}
	if errors.Is(err, context.Canceled) {
		return cfg, &setup.Error{Text: "Ended before GitHub made an App; nothing is left over.", Remedy: "Call it again when you like."}
	}
	if err != nil {
		return cfg, err
	}
	if f.Setup.Existing == "" {
		return w.Load(f.configFile())
	}
	w.Print("Add this to %s:\n\n%s\n", f.Setup.Existing, f.Setup.Lines(id))
	cfg.Forges.GitHub.AppID, cfg.Forges.GitHub.Repositories = id, f.Setup.Repositories
	for value, to := range map[string]*string{f.Setup.At.URL: &cfg.Forges.GitHub.URL, f.Setup.At.API: &cfg.Forges.GitHub.API, f.Setup.At.CAFile: &cfg.Forges.GitHub.CAFile, f.Setup.At.Proxy: &cfg.Forges.GitHub.Proxy} {
		if value != "" {
			*to = value
		}
	}
	return cfg, nil
}

// finishGitHub waits for the installation, checks it, and says how to go on.
func (w *Wizard) finishGitHub(ctx context.Context, f *GitHub, cfg config.Config) error {
	env, err := setup.ReadEnv(filepath.Join(f.Setup.Dir, setup.EnvFile))
	if err != nil {
		return err
	}
	for name, value := range env { // this directory's, whatever another set-up left in the shell
		delete(w.Env, strings.TrimSuffix(name, "_FILE"))
		w.Env[name] = value
	}
	given, err := w.ReadSecrets(wire.WithoutHooks(cfg))
	if err != nil {
		return err
	}
	at, err := w.OpenGitHub(ctx, cfg.Forges.GitHub, given.Github, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer at.Host.Close()
	if err := w.awaitGitHub(ctx, f, at); err != nil {
		return err
	}
	good := w.check(ctx, cfg, at)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := w.offerOnboarding(ctx, f, cfg, at); err != nil {
		return err
	}
	w.sayStart(filepath.Join(f.Setup.Dir, setup.EnvFile), f.configFile(), cfg)
	if !good {
		return &problem.Error{Exit: problem.ExitRefused, Text: "Something is missing; the lines with an x say what.", Remedy: "Then call `" + f.again() + "`; it checks again."}
	}
	return nil
}

// again is the command that goes on.
func (f *GitHub) again() string {
	words := []string{"writ", "setup", "github"}
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag, shellWord(value))
		}
	}
	add("--config", f.Config)
	add("--dir", f.Dir)
	add("--refs", f.Refs)
	if f.Setup.Existing != "" { // which may not say it yet
		for _, name := range f.Setup.Repositories {
			add("--repo", name)
		}
		if f.Setup.At.URL != github.DefaultURL {
			add("--url", f.Setup.At.URL)
		}
		add("--api", f.Setup.At.API)
		add("--ca-file", f.Setup.At.CAFile)
		add("--proxy", f.Setup.At.Proxy)
	}
	return strings.Join(words, " ")
}

// awaitGitHub waits until the App is installed on every repository.
func (w *Wizard) awaitGitHub(ctx context.Context, f *GitHub, at *wire.Forge) error {
	app, err := at.Host.(*github.Host).About(ctx) // openGitHub made it
	if err != nil {
		return &setup.Error{Text: "GitHub doesn't know the App: " + err.Error() + ".", Remedy: "See that the App's number and key belong together, that GitHub can be reached, and that this machine's clock is right.", Err: err}
	}
	link := app.Page + "/installations/new"
	told := func(name string) { w.Print("The App %s is installed on %s.\n", app.Slug, name) }
	missing, err := setup.Await(ctx, at.Host, at.Repositories, 0, told)
	if err == nil && len(missing) > 0 {
		w.Print("Install the App %s on %s:\n\n  %s\n\n", app.Slug, strings.Join(missing, ", "), link)
		if f.Wait > 0 {
			w.Print("Waiting for that, %s at most. Ctrl-C ends the waiting and loses nothing: `%s` goes on.\n", f.Wait, f.again())
			missing, err = setup.Await(ctx, at.Host, missing, f.Wait, told)
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if len(missing) > 0 {
		return &problem.Error{Exit: problem.ExitWaiting, Text: "The App isn't installed on " + strings.Join(missing, ", ") + " yet. Everything is kept in " + f.Setup.Dir + ".", Remedy: "Install it there: " + link + ". Then call `" + f.again() + "`; it goes on."}
	}
	return nil
}

// offerOnboarding opens the pull request with the contract where that is wanted.
func (w *Wizard) offerOnboarding(ctx context.Context, f *GitHub, cfg config.Config, at *wire.Forge) error {
	if f.NoOnboard {
		return nil
	}
	for _, name := range at.Repositories {
		if f.Onboard || w.YesNo(ctx, "Open a pull request in "+name+" with the contract, an issue form and a guide?") {
			if err := w.Onboard(ctx, at, name, cfg.Identity); err != nil {
				return err
			}
		}
	}
	return nil
}

// listed says whether a repository is on the allow-list.
func listed(f *wire.Forge, full string) bool {
	owner, name, ok := wire.CutRepo(full)
	return ok && f.Allowed(owner, name)
}
