package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
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
		return a.pause(ctx, state, installation.Request{Act: act, World: world, Actor: a.LocalActor(), Reason: reason, Time: time.Now().UnixMilli()})
	})
	return cmd
}

// pause asks the server that runs, or writes the pause down where none does.
func (a *app) pause(ctx context.Context, state string, r installation.Request) error {
	dir, err := installation.OpenDir(state, false)
	if err != nil {
		return err
	}
	busy := func() bool { return errors.As(dir.Probe(), new(*problem.Error)) }
	if busy() {
		ans, err := dir.Ask(ctx, r, func() bool { return !busy() })
		switch {
		case err == nil && !ans.OK:
			return ans.Problem("")
		case err == nil:
			return a.tellPause(r, ans)
		case !errors.Is(err, installation.ErrUnheard):
			return err
		case busy():
			p := problem.Coded(kernel.CodeStateUnanswered, "The running process did not answer within %s.", installation.AnswerTime)
			p.Remedy = "Try again. To pause whatever happens, make the file `pause` in the state directory."
			return p
		}
	}
	cfg, err := a.Load("")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutTime}))
	in, err := installation.Open(ctx, cfg, state, installation.Use{Server: true}, log)
	if err != nil {
		return err
	}
	defer in.Close()
	meant, use := r, in.Dir.LastUse()
	meant.World = use.Meant(r.World)
	said, err := installation.SetPause(ctx, inbox.New(in.DB), meant, use.Called)
	if err != nil {
		return err
	}
	if said == "" {
		a.recordPauses(ctx, in, use, r)
	}
	return a.tellPause(r, installation.Answer{OK: true, Said: said})
}

// recordPauses has the kernel of each world record what of it is paused by now, where no
// server runs. A pause holds whether or not it can be recorded: the next start tries again.
func (a *app) recordPauses(ctx context.Context, in *installation.Installation, use installation.Use, r installation.Request) {
	list, err := inbox.New(in.DB).Pauses(ctx)
	names, err2 := in.Store.Worlds(ctx)
	if err = errors.Join(err, err2); err != nil {
		in.Log.Warn("the pause holds, and is recorded by the next start of the server", "error", err)
		return
	}
	for _, world := range names {
		if err := a.recordPausesIn(ctx, in, world, use, r, list); err != nil {
			in.Log.Warn("the pause holds, and is recorded by the next start of the server", "world", world, "error", err)
		}
	}
}

func (a *app) recordPausesIn(ctx context.Context, in *installation.Installation, world string, use installation.Use, r installation.Request, list []inbox.Pause) error {
	g, err := in.Govern(ctx, world, use.Called(world), nil)
	if err != nil {
		return err
	}
	sup, err := a.Supervise(ctx, g, nil, wire.Supervision{})
	if err != nil {
		return err
	}
	if err := sup.Pauses(ctx, installation.PausesOf(list, world, use.Meant), r.Actor, r.Reason); err != nil {
		return err
	}
	g.Checkpoint(ctx)
	return nil
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
