package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/localforge"
	"github.com/writbot/writ/forge/local"
)

// forgeFlags are those of all commands of the embedded forge.
type forgeFlags struct{ localforge.Dir }

func (a *app) forgeCommand() *cobra.Command {
	var f forgeFlags
	cmd := group("forge", "Set up and serve the embedded forge of this machine")
	cmd.Long = `Forge is a small forge in a directory: accounts, repositories over git, issues,
pull requests and signed webhooks, for this machine alone. With it writ serve can
be tried without an account anywhere. Whoever can write to the directory is its
administrator.`
	cmd.PersistentFlags().StringVar(&f.Path, "dir", "forge", "directory of the forge")
	cmd.AddCommand(a.forgeInit(&f), a.forgeUser(&f), a.forgeToken(&f), a.forgeRepo(&f), a.forgeHook(&f),
		a.forgeServe(&f), a.forgeIssue(&f), a.forgeEdit(&f), a.forgeLabel(&f), a.forgeUnlabel(&f), a.forgeComment(&f), a.forgeShow(&f))
	return cmd
}

func (a *app) forgeInit(f *forgeFlags) *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Make an empty forge", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			err := f.Init(ctx)
			if err == nil {
				a.print("made an empty forge in %s\n", f.Path)
			}
			return err
		}),
	}
}

func (a *app) forgeServe(f *forgeFlags) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve its git and its page, and send its webhooks", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return f.Serve(ctx, a.Process, listen, func(url string, hooks []local.Hook) {
				a.print("The forge is at %s until Ctrl-C. It tells %s.\n", url, toldNames(hooks))
			})
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", localforge.DefaultListen, "address and port, of this machine's own loopback")
	return cmd
}

func toldNames(hooks []local.Hook) string {
	if len(hooks) == 0 {
		return "nobody: there is no hook yet"
	}
	names := make([]string, len(hooks))
	for i, h := range hooks {
		names[i] = h.URL
	}
	return strings.Join(names, ", ")
}
