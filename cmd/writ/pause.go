package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
)

func (a *app) pauseCommand() *cobra.Command {
	return a.pausing(actPause, "Start nothing new, everywhere or in one repository; what runs goes on")
}

func (a *app) unpauseCommand() *cobra.Command {
	return a.pausing(actUnpause, "End a pause")
}

func (a *app) pausing(act, short string) *cobra.Command {
	var state, world, reason string
	cmd := &cobra.Command{
		Use: act + " --state-dir DIR", Short: short, Args: cobra.NoArgs,
		Example: "  writ " + act + " --state-dir /var/lib/writ/state --reason 'the disk is full'",
	}
	if cmd.Long = short + "."; act == actPause {
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
			return ans.problem("")
		case err == nil:
			return a.tellPause(r, ans)
		case !errors.Is(err, errUnheard):
			return err
		case busy():
			p := coded(kernel.CodeStateUnanswered, "The running process did not answer within %s.", answerTime)
			p.remedy = "Try again. To pause whatever happens, make the file `pause` in the state directory."
			return p
		}
	}
	cfg, err := a.load("")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutTime}))
	in, err := openInstallation(ctx, cfg, state, lastUse{Server: true}, log)
	if err != nil {
		return err
	}
	defer in.Close()
	meant, use := r, in.dir.lastUse()
	meant.World = use.meant(r.World)
	said, err := setPause(ctx, inbox.New(in.db), meant, use.called)
	if err != nil {
		return err
	}
	if said == "" {
		a.recordPauses(ctx, in, use, r)
	}
	return a.tellPause(r, answer{OK: true, Said: said})
}

// recordPauses has the kernel of each world record what of it is paused by now, where no
// server runs. A pause holds whether or not it can be recorded: the next start tries again.
func (a *app) recordPauses(ctx context.Context, in *installation, use lastUse, r request) {
	list, err := inbox.New(in.db).Pauses(ctx)
	names, err2 := in.store.Worlds(ctx)
	if err = errors.Join(err, err2); err != nil {
		in.log.Warn("the pause holds, and is recorded by the next start of the server", "error", err)
		return
	}
	for _, world := range names {
		if err := a.recordPausesIn(ctx, in, world, use, r, list); err != nil {
			in.log.Warn("the pause holds, and is recorded by the next start of the server", "world", world, "error", err)
		}
	}
}

func (a *app) recordPausesIn(ctx context.Context, in *installation, world string, use lastUse, r request, list []inbox.Pause) error {
	g, err := in.govern(ctx, world, use.called(world), nil)
	if err != nil {
		return err
	}
	sup, err := a.supervise(ctx, g, nil, supervision{})
	if err != nil {
		return err
	}
	if err := sup.Pauses(ctx, pausesOf(list, world, use.meant), r.Actor, r.Reason); err != nil {
		return err
	}
	g.checkpoint(ctx)
	return nil
}

func (a *app) tellPause(r request, ans answer) error {
	switch {
	case ans.Said != "":
		a.print("%s\n", ans.Said)
	case r.Act == actPause:
		a.print("%s is paused; %s on the same state directory goes on\n", r.paused(), r.unpause())
	default:
		a.print("the pause of %s is over\n", r.paused())
	}
	return nil
}
