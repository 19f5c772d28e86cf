package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/wizard"
	"github.com/writbot/writ/forge/gitlab"
)

// setupWrites is the time from one write of set-up to the next. It makes a few
// labels and hooks, of which nobody is told.
const setupWrites = 200 * time.Millisecond

func (a *app) setupGitLab() *cobra.Command {
	var f wizard.GitLab
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
	flags.StringVar(&f.Setup.At.URL, "url", "", "address of GitLab's pages, with its path (default "+gitlab.DefaultURL+")")
	flags.StringVar(&f.Setup.At.CAFile, "ca-file", "", "PEM file with authorities beside the system's")
	flags.StringVar(&f.Setup.At.Proxy, "proxy", "", "URL of a proxy; none for none (default: the environment's)")
	flags.StringArrayVar(&f.Setup.Projects, "repo", nil, "GROUP/PROJECT to govern, with all its groups; may be repeated")
	flags.StringVar(&f.TokenFile, "token-file", "", "file with writ's token, that only you can read; - is standard input")
	flags.StringVar(&f.MaintainerFile, "maintainer-token-file", "", "file with a Maintainer's token, which makes the hooks and is not kept")
	flags.StringVar(&f.Setup.PublicURL, "public-url", "", "https address at which GitLab reaches writ; without it writ asks GitLab every minute")
	flags.BoolVar(&f.Setup.Rotate, "rotate-hook-secret", false, "replace the secret of the hooks")
	a.addSetup(&f.Flags, cmd, "merge request", func(ctx context.Context, builder []string) error {
		f.Setup.Builder, f.Setup.Say, f.Setup.Now, f.Setup.At.Limits.WriteInterval = builder, a.print, time.Now(), setupWrites
		return a.wizard().RunGitLab(ctx, &f)
	})
	return cmd
}
