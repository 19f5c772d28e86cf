package wire

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/forge/git"
)

// Where names an installation: by its repository, or by its directory.
type Where struct{ Repo, State, Config, World string }

// Found is an installation that was found, of which nothing is open.
type Found struct {
	Cfg   config.Config
	Place installation.Place // without a URL where none is known
	World string             // the repository, as the person named it
	State string
	// Use is what the state directory says, where it was named without a
	// repository.
	Use installation.Use
	// Named: the person named the repository.
	Named bool
}

// Find finds an installation. A state directory alone is enough where a run has left
// word in it.
func (proc *Process) Find(w Where) (out Found, err error) {
	for flag, path := range map[string]string{"state-dir": w.State, "config": w.Config} {
		if err := installation.PathFlag(flag, path); err != nil {
			return out, err
		}
	}
	if out.Cfg, err = proc.Load(w.Config); err != nil {
		return out, err
	}
	out.State = w.State
	if w.Repo == "" && w.State == "" {
		return out, problem.Usage("Give --repo, or --state-dir.")
	}
	if w.Repo != "" {
		if out.Place, err = installation.NewPlace(w.Repo); err != nil {
			return out, err
		}
		if err := out.Place.Identify(false); err != nil {
			return out, err
		}
		out.Named = true
	} else {
		dir, err := installation.OpenDir(w.State, false)
		if err != nil {
			return out, err
		}
		out.Use = dir.LastUse()
		if w.World = out.Use.Meant(w.World); w.World == "" && !out.Use.Server {
			err = out.at(out.Use.World)
		} else {
			err = out.at(w.World)
		}
		if err != nil {
			return out, err
		}
	}
	if out.Cfg.World != "" {
		out.Place.Display = out.Cfg.World
	}
	if out.State, err = proc.StateDir(out.State, out.Place); err != nil {
		return out, err
	}
	var use installation.Use
	if dir, err := installation.OpenDir(out.State, false); err == nil {
		use = dir.LastUse()
	}
	if w.Config == "" {
		out.Cfg.TrustedRunners = use.Trusted
	}
	if out.World = w.World; w.World != "" {
		out.Place.World = use.Meant(w.World)
	}
	return out, nil
}

// at takes the repository of the world from what the state directory says, which
// is checked like a flag. Where it says nothing, the place has no URL.
func (w *Found) at(world string) (err error) {
	if w.Use.Refs == config.RefsHeads {
		w.Cfg.Refs = w.Use.Refs
	}
	url := w.Use.Repos[world]
	if url == "" && world == w.Use.World {
		url = w.Use.Repo
	}
	if url != "" {
		if w.Place, err = installation.NewPlace(url); err != nil {
			return err
		}
	}
	if world != "" {
		w.Place.World, w.Place.Display = world, w.Use.Called(world)
	}
	return nil
}

// Explain adds what a server's directory can't know: secrets. or is what else
// would help, "" for nothing.
func (w *Found) Explain(err error, or string) error {
	var ge *git.Error
	if !w.Use.Server || !errors.As(err, &ge) {
		return err
	}
	p := problem.Explain(err)
	p.Remedy = "HEAD of the task is read at " + w.Place.URL + ". Give --config, and its secrets in the environment as the server has them" + or + "."
	return p
}

// known are the worlds that a state directory has records or word of, sorted.
func (w *Found) known(ctx context.Context) ([]string, error) {
	dir, err := installation.OpenDir(w.State, false)
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
func (w *Found) only(ctx context.Context) (string, error) {
	names, err := w.known(ctx)
	world := w.Place.World
	switch {
	case err != nil:
		return "", err
	case slices.Contains(names, world):
		return world, nil
	case len(names) == 0:
		return "", problem.Usage("Nothing was recorded in the state directory %s: give --repo.", w.State)
	case world != "":
		return "", problem.Usage("The state directory has no world %s; it has %s.", world, w.names(names))
	case len(names) > 1:
		return "", problem.Usage("The state directory has several worlds: give --world, one of %s.", w.names(names))
	}
	return names[0], nil
}

// names are worlds as a person may name them.
func (w *Found) names(worlds []string) string {
	called := make([]string, len(worlds))
	for i, world := range worlds {
		called[i] = w.Use.Called(world)
	}
	return strings.Join(called, ", ")
}

// Settle finds the world that is meant, and its repository where that is known.
func (w *Found) Settle(ctx context.Context) error {
	if w.Named {
		return nil
	}
	world, err := w.only(ctx)
	if err != nil || world == w.Place.World {
		return err
	}
	return w.at(world)
}

// Unknown is the error of a world whose repository the state directory doesn't
// know.
func (w *Found) Unknown() error {
	p := problem.Usage("The state directory doesn't say where the repository of %s is.", w.Place.Display)
	p.Remedy = "Give --repo and --world '" + w.Place.World + "'; or start the server, which notes it."
	return p
}
