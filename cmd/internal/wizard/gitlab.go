package wizard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/setup"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/forge/gitlab"
)

// GitLab is what is said of `writ setup gitlab`.
type GitLab struct {
	Setup setup.GitLab
	Flags
	TokenFile, MaintainerFile string
}

// RunGitLab makes everything, and then uses it as writ serve will.
func (w *Wizard) RunGitLab(ctx context.Context, f *GitLab) error {
	if err := f.places(); err != nil {
		return err
	}
	if err := w.goOn(f); err != nil {
		return err
	}
	if err := w.askGitLab(ctx, f); err != nil {
		return err
	}
	if err := f.Setup.Run(ctx); err != nil {
		return err
	}
	cfg, err := w.Load(f.Setup.ConfigPath())
	if err != nil {
		return err
	}
	if f.Config != "" {
		f.onto(&cfg)
	}
	at, err := w.OpenGitLab(ctx, cfg.Forges.GitLab, wire.ForgeSecrets{Token: f.Setup.At.Token}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer at.Host.Close()
	good := w.check(ctx, cfg, at)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, name := range at.Repositories {
		if f.Onboard || !f.NoOnboard && w.YesNo(ctx, "Open a merge request in "+name+" with the contract, an issue template and a guide?") {
			if err := w.Onboard(ctx, at, name, cfg.Identity); err != nil {
				return err
			}
		}
	}
	w.sayStart(f.Setup.EnvPath(), f.Setup.ConfigPath(), cfg)
	if !good {
		return &problem.Error{Exit: problem.ExitRefused, Text: "Something is missing; the lines with an x say what.", Remedy: "Then call this again; it checks again."}
	}
	return nil
}

// fileSuffix ends the name of a variable that names a file.
const fileSuffix = "_FILE"

// places makes the paths absolute.
func (f *GitLab) places() (err error) {
	dir := f.Dir
	if f.Config != "" {
		if f.Setup.Existing, err = filepath.Abs(f.Config); err != nil {
			return err
		}
		if dir == "" {
			dir = filepath.Dir(f.Setup.Existing)
		}
	}
	if dir == "" {
		dir = DefaultDir
	}
	for flag, path := range map[string]*string{
		"config": &f.Config, "dir": &f.Dir, "token-file": &f.TokenFile, "maintainer-token-file": &f.MaintainerFile, "ca-file": &f.Setup.At.CAFile,
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
	f.Setup.Refs = f.Refs
	f.Setup.Dir, err = filepath.Abs(dir)
	return err
}

// goOn takes what was not given from the configuration of an earlier set-up.
func (w *Wizard) goOn(f *GitLab) error {
	if !setup.Exists(f.Setup.ConfigPath()) {
		return nil
	}
	cfg, err := w.Load(f.Setup.ConfigPath())
	if err != nil || !cfg.Forges.GitLab.On() {
		return err
	}
	have := cfg.Forges.GitLab
	for to, value := range map[*string]string{&f.Setup.At.URL: have.URL, &f.Setup.At.CAFile: have.CAFile, &f.Setup.At.Proxy: have.Proxy} {
		if *to == "" {
			*to = value
		}
	}
	if len(f.Setup.Projects) == 0 {
		f.Setup.Projects = have.Repositories
	}
	f.Setup.KeepHooks = f.Setup.PublicURL == "" && cfg.Server.Intake != config.IntakePoll
	return nil
}

// onto is what the operator still has to write into his configuration.
func (f *GitLab) onto(cfg *config.Config) {
	to := &cfg.Forges.GitLab
	to.Repositories = f.Setup.Projects
	for value, at := range map[string]*string{f.Setup.At.URL: &to.URL, f.Setup.At.CAFile: &to.CAFile, f.Setup.At.Proxy: &to.Proxy} {
		if value != "" {
			*at = value
		}
	}
	if f.Setup.PublicURL == "" && !f.Setup.KeepHooks {
		cfg.Server.Intake = config.IntakePoll
	}
}

// standardInput is the name of a file that is none.
const standardInput = "-"

// askGitLab finds the tokens, and asks at a terminal for what was not given.
func (w *Wizard) askGitLab(ctx context.Context, f *GitLab) error {
	value, from, err := w.givenToken(ctx, f)
	if err != nil {
		return err
	}
	if len(f.Setup.Projects) == 0 && w.AtTerminal() {
		if err := w.askProject(ctx, f); err != nil {
			return err
		}
	}
	if value == "" && w.AtTerminal() {
		if value, err = w.Secret(ctx, "The token (project or group access token, scope api; it isn't shown): "); err != nil {
			return err
		}
	}
	if value == "" {
		return problem.Usage("No token is given: name its file with --token-file, or set WRIT_GITLAB_TOKEN.")
	}
	f.Setup.At.Token, f.Setup.TokenFile = value, from
	if w.AtTerminal() {
		f.Setup.Ask = w.askSecret
	}
	if f.MaintainerFile != "" {
		data, err := setup.ReadKept(f.MaintainerFile)
		if err != nil {
			return unreadable(f.MaintainerFile, err)
		}
		f.Setup.Maintainer = strings.TrimSpace(string(data))
		w.HideValues([]string{f.Setup.Maintainer})
	}
	w.HideValues([]string{value})
	return nil
}

// givenToken is the token that was given, and the file of the operator's that
// holds it, if there is one.
func (w *Wizard) givenToken(ctx context.Context, f *GitLab) (value, file string, err error) {
	const variable = "WRIT_GITLAB_TOKEN"
	kept := filepath.Join(f.Setup.Dir, "gitlab.token")
	env, err := setup.ReadEnv(filepath.Join(f.Setup.Dir, setup.EnvFile))
	if err != nil {
		return "", "", err
	}
	switch {
	case f.TokenFile == standardInput && w.AtTerminal():
		value, err = w.Secret(ctx, "The token (it isn't shown): ")
		return value, "", err
	case f.TokenFile == standardInput:
		value, err = w.Line(ctx)
		return value, "", err
	case f.TokenFile != "":
		file = f.TokenFile
	case w.Env[variable] != "":
		return w.Env[variable], "", nil
	case w.Env[variable+fileSuffix] != "":
		file, err = filepath.Abs(w.Env[variable+fileSuffix])
	case env[variable+fileSuffix] != "":
		file = env[variable+fileSuffix]
	case setup.Exists(kept):
		file = kept
	}
	if err != nil || file == "" {
		return "", "", err
	}
	data, err := setup.ReadKept(file)
	if err != nil {
		return "", "", unreadable(file, err)
	}
	if file == kept {
		file = ""
	}
	return strings.TrimSpace(string(data)), file, nil
}

// unreadable explains why a file of secrets isn't read.
func unreadable(path string, err error) error {
	var known *setup.Error
	if errors.As(err, &known) {
		return err
	}
	return &problem.Error{Exit: problem.ExitUsage, Text: fmt.Sprintf("%s can't be read: %s.", path, problem.Cause(err)), Remedy: "Name a file that holds the token and nothing else."}
}

// askProject asks where GitLab and the project are.
func (w *Wizard) askProject(ctx context.Context, f *GitLab) error {
	for _, q := range []struct {
		question string
		to       *string
		or       string
	}{
		{"GitLab's address", &f.Setup.At.URL, gitlab.DefaultURL},
		{"The project, with its groups (group/project)", new(string), ""},
		{"The https address at which GitLab reaches writ; empty if there is none", &f.Setup.PublicURL, ""},
	} {
		if *q.to != "" {
			continue
		}
		text := q.question
		if q.or != "" {
			text += " [" + q.or + "]"
		}
		w.Print("%s: ", text)
		said, err := w.Line(ctx)
		if err != nil {
			return err
		}
		if said == "" {
			said = q.or
		}
		*q.to = said
		if strings.HasPrefix(q.question, "The project") && said != "" {
			f.Setup.Projects = []string{said}
		}
	}
	return nil
}

// askSecret asks for a secret, and hides it from everything that is shown.
func (w *Wizard) askSecret(ctx context.Context, question string) (string, error) {
	value, err := w.Secret(ctx, question)
	if value != "" {
		w.HideValues([]string{value})
	}
	return value, err
}
