package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/acts"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
)

func (a *app) pauseCommand() *cobra.Command {
	return a.pausing(installation.ActPause, "Start nothing new, everywhere or in one repository; what runs goes on")
}

func (a *app) unpauseCommand() *cobra.Command {
	return a.pausing(installation.ActUnpause, "End a pause")
}

func (a *app) pausing(act, short string) *cobra.Command {
	var state, world, reason string
	cmd := &cobra.Command{
		Use: act + " --state-dir DIR", Short: short, Args: cobra.NoArgs,
		Example: "  writ " + act + " --state-dir /var/lib/writ/state --reason 'the disk is full'",
	}
	if cmd.Long = short + "."; act == installation.ActPause {
		cmd.Long += `

A pause is kept in the state directory and outlives restarts; writ unpause ends it.
It works with and without a running server. To end what runs as well: writ task
stop, or stop the server. A file named pause in the state directory does the same.`
	}
	cmd.Flags().StringVar(&state, "state-dir", "", "state directory of the server")
	cmd.Flags().StringVar(&world, "world", "", "one repository, by its name or its identity (default: all of them)")
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is kept with the pause")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) (err error) {
		if state == "" {
			return problem.Usage("--state-dir is missing: give the server's.")
		}
		if err := installation.PathFlag("state-dir", state); err != nil {
			return err
		}
		if reason, err = installation.ShortReason(reason); err != nil {
			return err
		}
		r := installation.Request{Act: act, World: world, Actor: a.LocalActor(), Reason: reason, Time: time.Now().UnixMilli()}
		ans, err := acts.Pause(ctx, a.Process, state, r)
		if err != nil {
			return err
		}
		return a.tellPause(r, ans)
	})
	return cmd
}

func (a *app) tellPause(r installation.Request, ans installation.Answer) error {
	switch {
	case ans.Said != "":
		a.print("%s\n", ans.Said)
	case r.Act == installation.ActPause:
		a.print("%s is paused; %s on the same state directory goes on\n", r.Paused(), r.Unpause())
	default:
		a.print("the pause of %s is over\n", r.Paused())
	}
	return nil
}
