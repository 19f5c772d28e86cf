package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/webhook/inbox"
)

// What a person asks of a server, beside kernel's acts on one task.
const (
	actPause   = "pause"
	actUnpause = "unpause"
)

func (a *app) pauseCommand() *cobra.Command {
	return a.pausing(actPause, "Start nothing new, everywhere or in one repository; what runs goes on")
}

func (a *app) unpauseCommand() *cobra.Command {
	return a.pausing(actUnpause, "End a pause")
}

func (a *app) pausing(act, short string) *cobra.Command {
	var state, world, reason string
	cmd := &cobra.Command{Use: act + " --state-dir DIR", Short: short, Args: cobra.NoArgs}
	cmd.Flags().StringVar(&state, "state-dir", "", "state directory of the server")
	cmd.Flags().StringVar(&world, "world", "", "one repository, by its name in records (default: all of them)")
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is kept with the pause")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) (err error) {
		if state == "" {
			return usage("--state-dir is missing: give the server's.")
		}
		if err := pathFlag("state-dir", state); err != nil {
			return err
		}
		if reason, err = shortReason(reason); err != nil {
			return err
		}
		return a.pause(ctx, state, request{Act: act, World: world, Actor: a.localActor(), Reason: reason, Time: time.Now().UnixMilli()})
	})
	return cmd
}

// pause asks the server that runs, or writes the pause down where none does.
func (a *app) pause(ctx context.Context, state string, r request) error {
	dir, err := openState(state, false)
	if err != nil {
		return err
	}
	busy := func() bool { return errors.As(dir.probe(), new(*problem)) }
	if busy() {
		ans, err := dir.ask(ctx, r, func() bool { return !busy() })
		switch {
		case err == nil && !ans.OK:
			return &problem{exit: exitOther, text: "The running process refused. " + ans.Detail}
		case err == nil:
			return a.tellPause(r)
		case !errors.Is(err, errUnheard):
			return err
		case busy():
			return &problem{exit: exitOther, text: "The running process did not answer within " + answerTime.String() + ".", remedy: "Try again, or make the file `pause` in the state directory."}
		}
	}
	cfg, err := a.load("")
	if err != nil {
		return err
	}
	in, err := openInstallation(ctx, cfg, state, lastUse{Server: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer in.Close()
	if err := inbox.New(in.db).SetPause(ctx, r.pause(), r.Act == actPause); err != nil {
		return err
	}
	return a.tellPause(r)
}

func (a *app) tellPause(r request) error {
	what, end := "everything", "`writ unpause`"
	if r.World != "" {
		what, end = r.World, "`writ unpause --world "+r.World+"`"
	}
	if r.Act == actPause {
		a.print("%s is paused; %s on the same state directory goes on\n", what, end)
	} else {
		a.print("the pause of %s is over\n", what)
	}
	return nil
}
