package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/setup"
	"github.com/writbot/writ/cmd/internal/terminal"
	"github.com/writbot/writ/cmd/internal/wizard"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/gitlab"
)

func (a *app) setupCommand() *cobra.Command {
	cmd := group("setup", "Make what writ needs at a forge: credentials, configuration, checks")
	cmd.AddCommand(a.setupGitHub(), a.setupGitLab())
	return cmd
}

// addSetup gives a command the flags that all set-ups take, and what it does; a
// request is what the forge calls one. What follows -- is the builder.
func (a *app) addSetup(f *wizard.Flags, cmd *cobra.Command, request string, run func(ctx context.Context, builder []string) error) {
	flags := cmd.Flags()
	flags.StringVar(&f.Dir, "dir", "", "directory for secrets, configuration and state (default ./"+wizard.DefaultDir+")")
	flags.StringVar(&f.Config, "config", "", "configuration that is there already; it is never written to")
	flags.StringVar(&f.Refs, "refs", "", "where state refs live: hidden, or heads, as branches below writ/ that a ruleset can protect (default hidden)")
	flags.BoolVar(&f.Onboard, "onboard", false, "open the "+request+" with the contract without asking")
	flags.BoolVar(&f.NoOnboard, "no-onboard", false, "neither ask for it nor open it")
	cmd.MarkFlagsMutuallyExclusive("onboard", "no-onboard")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
			// It isn't repeated: it may be a secret that was pasted.
			return errors.New("an argument is not expected: the builder's command stands after --")
		}
		return nil
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		switch {
		case f.Refs != "" && f.Refs != config.RefsHidden && f.Refs != config.RefsHeads:
			return problem.Usage("--refs is hidden or heads.")
		case f.Refs != "" && f.Config != "":
			return problem.Usage("--refs is for a configuration that set-up writes. Write refs: %s into %s yourself, before the first task.", f.Refs, f.Config)
		}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop) // the second signal kills
		return badSetup(run(ctx, args))
	})
}

// badSetup explains an error of set-up.
func badSetup(err error) error {
	var e *setup.Error
	if !errors.As(err, &e) {
		if errors.Is(err, context.Canceled) {
			return &problem.Error{Exit: problem.ExitOther, Text: "Interrupted. What was made is kept.", Remedy: "Call it again when you like: it goes on where it stood."}
		}
		return err
	}
	p := &problem.Error{Exit: problem.ExitOther, Text: e.Text, Remedy: e.Remedy}
	if e.Usage {
		p.Exit = problem.ExitUsage
	}
	return p
}

func (a *app) wizard() *wizard.Wizard {
	return &wizard.Wizard{Process: a.Process, Asker: terminal.Asker{In: a.stdin, Print: a.print}, Stdout: a.stdout, Onboard: a.onboard}
}

// setupWait is how long an installation is waited for: a colleague may have to
// be asked.
const setupWait = 15 * time.Minute

func (a *app) setupGitHub() *cobra.Command {
	var f wizard.GitHub
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
	flags.StringVar(&f.Setup.At.URL, "url", "", "address of GitHub's pages (default "+github.DefaultURL+")")
	flags.StringVar(&f.Setup.At.API, "api", "", "address of its REST API, where it isn't the one that belongs to --url")
	flags.StringVar(&f.Setup.At.CAFile, "ca-file", "", "PEM file with authorities beside the system's")
	flags.StringVar(&f.Setup.At.Proxy, "proxy", "", "URL of a proxy; none for none (default: the environment's)")
	flags.StringVar(&f.Setup.Org, "organization", "", "organisation that the App is to belong to (default: whoever is signed in)") //nolint:misspell // GitHub's word
	flags.StringVar(&f.Setup.Name, "name", "", "name of the App to begin with; GitHub lets you change it (default: writ-OWNER)")
	flags.StringArrayVar(&f.Setup.Repositories, "repo", nil, "OWNER/NAME of a repository to govern; may be repeated")
	flags.BoolVar(&f.Setup.Workflows, "workflows", false, "have the App ask for the permission to change workflows; without it no task can, whoever accepts it")
	flags.StringVar(&f.Setup.PublicURL, "public-url", "", "https address at which GitHub reaches writ; without it writ asks GitHub every minute")
	flags.StringVar(&f.Setup.Listen, "listen", "127.0.0.1:0", "loopback address and port of the page; 0 is any port")
	flags.DurationVar(&f.Wait, "wait", setupWait, "how long to wait for the App to be installed; 0 looks once")
	flags.Int64Var(&f.AppID, "app-id", 0, "number of an App that is there already")
	flags.StringVar(&f.KeyFile, "private-key-file", "", "its private key, a .pem file that only you can read")
	flags.StringVar(&f.HookFile, "hook-secret-file", "", "its webhook secret, in a file that only you can read")
	a.addSetup(&f.Flags, cmd, "pull request", func(ctx context.Context, builder []string) error {
		f.Setup.Builder, f.Setup.Say = builder, a.print
		return a.wizard().RunGitHub(ctx, &f)
	})
	return cmd
}

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
