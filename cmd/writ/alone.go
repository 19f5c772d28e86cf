package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
)

// actAlone records an act where no process runs.
func (a *app) actAlone(ctx context.Context, at where, r installation.Request) error {
	if err := at.settle(ctx); err != nil {
		return err
	}
	if r.Act == kernel.ActStop {
		a.print("nobody runs task %d here; nothing was stopped. `writ task halt %[1]d` keeps it from being started\n", r.Task)
		return nil
	}
	if at.place.URL == "" && r.Act == kernel.ActResume {
		return at.unknown()
	}
	in, err := a.openAlone(ctx, at, r.Task)
	if err != nil {
		return err
	}
	defer in.Close()
	sup, err := a.Supervise(ctx, in, nil, wire.Supervision{})
	if err != nil {
		return err
	}
	if r.Act == kernel.ActResume {
		if err := in.Resumable(ctx, sup, sup.View(r.Task)); err != nil {
			return at.explain(err, "; or start the server")
		}
	}
	if err := record(ctx, sup, r); err != nil {
		return at.explain(err, "; or start the server")
	}
	in.Checkpoint(ctx)
	return a.tellAlone(ctx, in, at, r)
}

func record(ctx context.Context, sup *supervisor.Supervisor, r installation.Request) error {
	if r.Act == kernel.ActHalt {
		return sup.Halt(ctx, r.Task, r.Actor, r.Reason)
	}
	return sup.Resume(ctx, r.Task, r.Actor, r.Reason)
}

// tellAlone says what is next. A server looks at a resumed task as it starts.
func (a *app) tellAlone(ctx context.Context, in *installation.Governed, at where, r installation.Request) error {
	switch {
	case r.Act == kernel.ActHalt:
		a.print("task %d is halted; `writ task resume %[1]d` goes on\n", r.Task)
	case at.use.Server:
		if err := inbox.New(in.DB).Mark(ctx, []inbox.Key{{World: in.World, Task: r.Task}}, time.Now().UnixMilli()); err != nil {
			return err
		}
		a.print("task %d may go on: the server takes it up when it starts\n", r.Task)
	default:
		a.print("task %d may go on: run it again\n", r.Task)
	}
	return nil
}

// openAlone opens the installation and the world of an act. The repository is
// nil where nothing says where it is: a halt needs none.
func (a *app) openAlone(ctx context.Context, at where, task int64) (*installation.Governed, error) {
	log := slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutTime}))
	if at.named && at.world == "" {
		if err := at.place.Identify(true); err != nil {
			return nil, err
		}
	}
	use := installation.Use{Task: task}
	if !at.use.Server {
		use.Repo, use.World, use.Names = at.place.URL, at.place.World, map[string]string{at.place.World: at.place.Display}
	}
	repo, err := a.Repository(ctx, at.cfg, at.place, log)
	if err != nil {
		return nil, err
	}
	in, err := installation.Open(ctx, at.cfg, at.state, use, log)
	if err != nil {
		installation.CloseRepo(repo)
		return nil, err
	}
	g, err := in.Govern(ctx, at.place.World, at.place.Display, repo)
	if err != nil {
		installation.CloseRepo(repo)
		in.Close()
		return nil, err
	}
	return g, nil
}

// explain adds what a server's directory can't know: secrets. or is what else
// would help, "" for nothing.
func (w *where) explain(err error, or string) error {
	var ge *git.Error
	if !w.use.Server || !errors.As(err, &ge) {
		return err
	}
	p := problem.Explain(err)
	p.Remedy = "HEAD of the task is read at " + w.place.URL + ". Give --config, and its secrets in the environment as the server has them" + or + "."
	return p
}

// known are the worlds that a state directory has records or word of, sorted.
func (w *where) known(ctx context.Context) ([]string, error) {
	dir, err := installation.OpenDir(w.state, false)
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Keys(dir.LastUse().Repos))
	if ledger.Recorded(dir.Path) {
		store, err := ledger.OpenReadOnly(ctx, dir.File(ledger.FileName), ledger.Options{})
		if err != nil {
			return nil, err
		}
		recorded, err := store.Worlds(ctx)
		if err = errors.Join(err, store.Close()); err != nil {
			return nil, err
		}
		names = append(names, recorded...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// only is the world that is meant: the named one, or the only one.
func (w *where) only(ctx context.Context) (string, error) {
	names, err := w.known(ctx)
	world := w.place.World
	switch {
	case err != nil:
		return "", err
	case slices.Contains(names, world):
		return world, nil
	case len(names) == 0:
		return "", problem.Usage("Nothing was recorded in the state directory %s: give --repo.", w.state)
	case world != "":
		return "", problem.Usage("The state directory has no world %s; it has %s.", world, w.names(names))
	case len(names) > 1:
		return "", problem.Usage("The state directory has several worlds: give --world, one of %s.", w.names(names))
	}
	return names[0], nil
}

// names are worlds as a person may name them.
func (w *where) names(worlds []string) string {
	called := make([]string, len(worlds))
	for i, world := range worlds {
		called[i] = w.use.Called(world)
	}
	return strings.Join(called, ", ")
}

// settle finds the world that is meant, and its repository where that is known.
func (w *where) settle(ctx context.Context) error {
	if w.named {
		return nil
	}
	world, err := w.only(ctx)
	if err != nil || world == w.place.World {
		return err
	}
	return w.at(world)
}

// unknown is the error of a world whose repository the state directory doesn't
// know.
func (w *where) unknown() error {
	p := problem.Usage("The state directory doesn't say where the repository of %s is.", w.place.Display)
	p.Remedy = "Give --repo and --world '" + w.place.World + "'; or start the server, which notes it."
	return p
}
