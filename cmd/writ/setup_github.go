package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/wizard"
	"github.com/writbot/writ/forge/github"
)

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
