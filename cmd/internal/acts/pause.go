package acts

import (
	"context"
	"errors"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
)

// Pause has the server that runs begin or end a pause, or writes it down where none does.
func Pause(ctx context.Context, proc *wire.Process, state string, r installation.Request) (installation.Answer, error) {
	dir, err := installation.OpenDir(state, false)
	if err != nil {
		return installation.Answer{}, err
	}
	ans, err := ask(ctx, dir, r)
	if p, ok := errors.AsType[*problem.Error](err); ok && p.Code == kernel.CodeStateUnanswered {
		p.Remedy = "Try again. To pause whatever happens, make the file `pause` in the state directory."
	}
	switch {
	case err != nil:
		return installation.Answer{}, err
	case ans != nil && !ans.OK:
		return *ans, ans.Problem("")
	case ans != nil:
		return *ans, nil
	}
	cfg, err := proc.Load("")
	if err != nil {
		return installation.Answer{}, err
	}
	said, err := pauseAlone(ctx, proc, cfg, state, r)
	return installation.Answer{OK: true, Said: said}, err
}

// pauseAlone writes a pause down where no server runs.
func pauseAlone(ctx context.Context, proc *wire.Process, cfg config.Config, state string, r installation.Request) (said string, err error) {
	in, err := installation.Open(ctx, cfg, state, installation.Use{Server: true}, proc.Warnings())
	if err != nil {
		return "", err
	}
	defer in.Close()
	meant, use := r, in.Dir.LastUse()
	meant.World = use.Meant(r.World)
	if said, err = installation.SetPause(ctx, inbox.New(in.DB), meant, use.Called); err == nil && said == "" {
		recordPauses(ctx, proc, in, use, r)
	}
	return said, err
}

// recordPauses has the kernel of each world record what of it is paused by now, where no
// server runs. A pause holds whether or not it can be recorded: the next start tries again.
func recordPauses(ctx context.Context, proc *wire.Process, in *installation.Installation, use installation.Use, r installation.Request) {
	list, err := inbox.New(in.DB).Pauses(ctx)
	names, err2 := in.Store.Worlds(ctx)
	if err = errors.Join(err, err2); err != nil {
		in.Log.Warn("the pause holds, and is recorded by the next start of the server", "error", err)
		return
	}
	for _, world := range names {
		if err := recordPausesIn(ctx, proc, in, world, use, r, list); err != nil {
			in.Log.Warn("the pause holds, and is recorded by the next start of the server", "world", world, "error", err)
		}
	}
}

func recordPausesIn(ctx context.Context, proc *wire.Process, in *installation.Installation, world string, use installation.Use, r installation.Request, list []inbox.Pause) error {
	g, err := in.Govern(ctx, world, use.Called(world), nil)
	if err != nil {
		return err
	}
	sup, err := proc.Supervise(ctx, g, nil, wire.Supervision{})
	if err != nil {
		return err
	}
	if err := sup.Pauses(ctx, installation.PausesOf(list, world, use.Meant), r.Actor, r.Reason); err != nil {
		return err
	}
	g.Checkpoint(ctx)
	return nil
}
