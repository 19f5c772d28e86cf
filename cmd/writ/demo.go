package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var keep, once bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show writ at work on this machine: an embedded forge, four issues, four ends",
		Long: `Demo starts writ with the embedded forge and a sample repository, approves four
issues and shows what becomes of them: one completes, one is refused and blocked,
one survives a kill -9 of writ, one is changed after its approval and waits. It
needs git and bubblewrap, and no account and no network.

Exit status: 0 if all four ended as they should.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave server and page running until Ctrl-C")
	cmd.Flags().BoolVar(&once, "once", false, "end when the four issues have ended (the default)")
	cmd.MarkFlagsMutuallyExclusive("keep", "once")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return demo.Run(ctx, demo.Options{Writ: self, Out: a.stdout, Keep: keep})
	})
	return cmd
}
