package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/server"
)

func (a *app) serveCommand() *cobra.Command {
	var file string
	var hosts map[string]string
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Govern the issues of whole repositories, driven by webhooks",
		Long: `Serve receives webhooks, looks at the tasks that they concern, and governs those
that a maintainer has approved. What webhooks missed, a sweep finds. The first
Ctrl-C or SIGTERM hands all leases back and ends; a second one kills. SIGHUP, or a
change of the file, has the configuration read again.`,
		Example: "  WRIT_LOCAL_TOKEN_FILE=token WRIT_LOCAL_HOOK_SECRET_FILE=secret writ serve --config writ.yaml",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration of this machine")
	cmd.Flags().StringToStringVar(&hosts, "resolve", nil, "HOST=ADDRESS: where a host of egress is, instead of what its name leads to; for trials")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop) // the second signal kills
		if a.Env["GOGC"] == "" {
			debug.SetGCPercent(100) // its heap is larger than a command's, and stays: see main
		}
		hups := make(chan os.Signal, 1)
		signal.Notify(hups, syscall.SIGHUP)
		defer signal.Stop(hups)
		if err := a.Resolve(hosts); err != nil {
			return err
		}
		return server.Serve(ctx, a.Process, file, hups)
	})
	return cmd
}
