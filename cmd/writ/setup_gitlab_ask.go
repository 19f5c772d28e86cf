package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/setup"
	"github.com/writbot/writ/forge/gitlab"
)

// standardInput is the name of a file that is none.
const standardInput = "-"

// askGitLab finds the tokens, and asks at a terminal for what was not given.
func (a *app) askGitLab(ctx context.Context, f *gitlabFlags) error {
	value, from, err := a.givenToken(ctx, f)
	if err != nil {
		return err
	}
	if len(f.g.Projects) == 0 && a.asker().AtTerminal() {
		if err := a.askProject(ctx, f); err != nil {
			return err
		}
	}
	if value == "" && a.asker().AtTerminal() {
		if value, err = a.asker().Secret(ctx, "The token (project or group access token, scope api; it isn't shown): "); err != nil {
			return err
		}
	}
	if value == "" {
		return problem.Usage("No token is given: name its file with --token-file, or set WRIT_GITLAB_TOKEN.")
	}
	f.g.At.Token, f.g.TokenFile = value, from
	if a.asker().AtTerminal() {
		f.g.Ask = a.askSecret
	}
	if f.maintainer != "" {
		data, err := setup.ReadKept(f.maintainer)
		if err != nil {
			return unreadable(f.maintainer, err)
		}
		f.g.Maintainer = strings.TrimSpace(string(data))
		a.HideValues([]string{f.g.Maintainer})
	}
	a.HideValues([]string{value})
	return nil
}

// givenToken is the token that was given, and the file of the operator's that
// holds it, if there is one.
func (a *app) givenToken(ctx context.Context, f *gitlabFlags) (value, file string, err error) {
	const variable = "WRIT_GITLAB_TOKEN"
	kept := filepath.Join(f.g.Dir, "gitlab.token")
	env, err := setup.ReadEnv(filepath.Join(f.g.Dir, setup.EnvFile))
	if err != nil {
		return "", "", err
	}
	switch {
	case f.token == standardInput && a.asker().AtTerminal():
		value, err = a.asker().Secret(ctx, "The token (it isn't shown): ")
		return value, "", err
	case f.token == standardInput:
		value, err = a.asker().Line(ctx)
		return value, "", err
	case f.token != "":
		file = f.token
	case a.Env[variable] != "":
		return a.Env[variable], "", nil
	case a.Env[variable+fileSuffix] != "":
		file, err = filepath.Abs(a.Env[variable+fileSuffix])
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
func (a *app) askProject(ctx context.Context, f *gitlabFlags) error {
	for _, q := range []struct {
		question string
		to       *string
		or       string
	}{
		{"GitLab's address", &f.g.At.URL, gitlab.DefaultURL},
		{"The project, with its groups (group/project)", new(string), ""},
		{"The https address at which GitLab reaches writ; empty if there is none", &f.g.PublicURL, ""},
	} {
		if *q.to != "" {
			continue
		}
		text := q.question
		if q.or != "" {
			text += " [" + q.or + "]"
		}
		a.print("%s: ", text)
		said, err := a.asker().Line(ctx)
		if err != nil {
			return err
		}
		if said == "" {
			said = q.or
		}
		*q.to = said
		if strings.HasPrefix(q.question, "The project") && said != "" {
			f.g.Projects = []string{said}
		}
	}
	return nil
}

// askSecret asks for a secret, and hides it from everything that is shown.
func (a *app) askSecret(ctx context.Context, question string) (string, error) {
	value, err := a.asker().Secret(ctx, question)
	if value != "" {
		a.HideValues([]string{value})
	}
	return value, err
}
