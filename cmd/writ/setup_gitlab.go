package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/setup"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/forge/gitlab"
)

// setupWrites is the time from one write of set-up to the next. It makes a few
// labels and hooks, of which nobody is told.
const setupWrites = 200 * time.Millisecond

// gitlabFlags are those of `writ setup gitlab`.
type gitlabFlags struct {
	g setup.GitLab
	setupFlags
	token, maintainer string // files
}

func (a *app) setupGitLab() *cobra.Command {
	var f gitlabFlags
	cmd := &cobra.Command{
		Use:   "gitlab --repo GROUP/PROJECT [flags] [-- BUILDER ARG...]",
		Short: "Make hook, labels and configuration for a GitLab from a token, and check them",
		Long: `Setup asks GitLab what the token is and may, makes the webhook and the labels, keeps
the secrets in files that only you can read, writes a configuration for writ serve,
and checks everything by using it. Called again it changes nothing that is as it
should be, and tries the webhook once writ answers.

The token is that of a project or group: the scope api and the role Developer, or
Maintainer, who alone may make hooks. It is read from --token-file, from standard
input (--token-file -), or from WRIT_GITLAB_TOKEN; never from an argument. At a
terminal what is missing is asked for. What follows -- is the command of the builder.`,
		Example: "  writ setup gitlab --url https://gitlab.example.org --repo acme/tools/shop --token-file token --public-url https://writ.example.org -- gofmt -w .",
	}
	flags := cmd.Flags()
	flags.StringVar(&f.g.At.URL, "url", "", "address of GitLab's pages, with its path (default "+gitlab.DefaultURL+")")
	flags.StringVar(&f.g.At.CAFile, "ca-file", "", "PEM file with authorities beside the system's")
	flags.StringVar(&f.g.At.Proxy, "proxy", "", "URL of a proxy; none for none (default: the environment's)")
	flags.StringArrayVar(&f.g.Projects, "repo", nil, "GROUP/PROJECT to govern, with all its groups; may be repeated")
	flags.StringVar(&f.token, "token-file", "", "file with writ's token, that only you can read; - is standard input")
	flags.StringVar(&f.maintainer, "maintainer-token-file", "", "file with a Maintainer's token, which makes the hooks and is not kept")
	flags.StringVar(&f.g.PublicURL, "public-url", "", "https address at which GitLab reaches writ; without it writ asks GitLab every minute")
	flags.BoolVar(&f.g.Rotate, "rotate-hook-secret", false, "replace the secret of the hooks")
	f.add(a, cmd, "merge request", func(ctx context.Context, builder []string) error {
		f.g.Builder, f.g.Say, f.g.Now, f.g.At.Limits.WriteInterval = builder, a.print, time.Now(), setupWrites
		return a.runSetupGitLab(ctx, &f)
	})
	return cmd
}

// runSetupGitLab makes everything, and then uses it as writ serve will.
func (a *app) runSetupGitLab(ctx context.Context, f *gitlabFlags) error {
	if err := f.places(); err != nil {
		return err
	}
	if err := a.goOn(f); err != nil {
		return err
	}
	if err := a.askGitLab(ctx, f); err != nil {
		return err
	}
	if err := f.g.Run(ctx); err != nil {
		return err
	}
	cfg, err := a.Load(f.g.ConfigPath())
	if err != nil {
		return err
	}
	if f.config != "" {
		f.onto(&cfg)
	}
	at, err := a.OpenGitLab(ctx, cfg.Forges.GitLab, wire.ForgeSecrets{Token: f.g.At.Token}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer at.Host.Close()
	good := a.checkSetup(ctx, cfg, at)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, name := range at.Repositories {
		if f.onboard || !f.noOnboard && a.asker().YesNo(ctx, "Open a merge request in "+name+" with the contract, an issue template and a guide?") {
			if err := a.onboard(ctx, at, name, cfg.Identity); err != nil {
				return err
			}
		}
	}
	a.sayStart(f.g.EnvPath(), f.g.ConfigPath(), cfg)
	if !good {
		return &problem.Error{Exit: problem.ExitRefused, Text: "Something is missing; the lines with an x say what.", Remedy: "Then call this again; it checks again."}
	}
	return nil
}

// fileSuffix ends the name of a variable that names a file.
const fileSuffix = "_FILE"

// places makes the paths absolute.
func (f *gitlabFlags) places() (err error) {
	dir := f.dir
	if f.config != "" {
		if f.g.Existing, err = filepath.Abs(f.config); err != nil {
			return err
		}
		if dir == "" {
			dir = filepath.Dir(f.g.Existing)
		}
	}
	if dir == "" {
		dir = setupDir
	}
	for flag, path := range map[string]*string{
		"config": &f.config, "dir": &f.dir, "token-file": &f.token, "maintainer-token-file": &f.maintainer, "ca-file": &f.g.At.CAFile,
	} {
		if *path == "" || *path == standardInput && flag == "token-file" {
			continue
		}
		if err := installation.PathFlag(flag, *path); err != nil {
			return err
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	f.g.Refs = f.refs
	f.g.Dir, err = filepath.Abs(dir)
	return err
}

// goOn takes what was not given from the configuration of an earlier set-up.
func (a *app) goOn(f *gitlabFlags) error {
	if !setup.Exists(f.g.ConfigPath()) {
		return nil
	}
	cfg, err := a.Load(f.g.ConfigPath())
	if err != nil || !cfg.Forges.GitLab.On() {
		return err
	}
	have := cfg.Forges.GitLab
	for to, value := range map[*string]string{&f.g.At.URL: have.URL, &f.g.At.CAFile: have.CAFile, &f.g.At.Proxy: have.Proxy} {
		if *to == "" {
			*to = value
		}
	}
	if len(f.g.Projects) == 0 {
		f.g.Projects = have.Repositories
	}
	f.g.KeepHooks = f.g.PublicURL == "" && cfg.Server.Intake != config.IntakePoll
	return nil
}

// onto is what the operator still has to write into his configuration.
func (f *gitlabFlags) onto(cfg *config.Config) {
	to := &cfg.Forges.GitLab
	to.Repositories = f.g.Projects
	for value, at := range map[string]*string{f.g.At.URL: &to.URL, f.g.At.CAFile: &to.CAFile, f.g.At.Proxy: &to.Proxy} {
		if value != "" {
			*at = value
		}
	}
	if f.g.PublicURL == "" && !f.g.KeepHooks {
		cfg.Server.Intake = config.IntakePoll
	}
}

// sayStart says what is left to do.
func (a *app) sayStart(env, file string, cfg config.Config) {
	a.print("\nStart writ:\n\n  set -a; . %s; set +a\n  writ serve --config %s\n", shellWord(env), shellWord(file))
	if cfg.Server.Intake != config.IntakePoll {
		a.print("\nYour proxy passes /hooks/ at the public address on to http://%s, and nothing else.\n", cfg.Server.Listen)
	}
	if cfg.Refs == config.RefsHidden {
		a.print("\nWhoever may push can set a task's state back; writ sees it, and waits for a person. Where\nsuch people aren't trusted, write refs: heads into %s before the first task, and let\na ruleset keep writ/task/** and writ/world for writ's account.\n", file)
	} else {
		a.print("\nState refs are branches: let a ruleset keep writ/task/** and writ/world for writ's account.\n")
	}
	if len(cfg.Builders) == 0 {
		a.print("\nNo builder is named yet: %s has a place for one.\n", file)
	}
}
