package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/kernel"
)

// whereFlags name an installation: by its repository, or by its directory.
type whereFlags struct {
	repo, state, config, world string
}

func (w *whereFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.repo, "repo", "", "path or URL of the repository")
	cmd.Flags().StringVar(&w.state, "state-dir", "", "state directory (default: that of the repository)")
	cmd.Flags().StringVar(&w.config, "config", "", "configuration of this machine")
	cmd.Flags().StringVar(&w.world, "world", "", "the repository, by its name or its identity, for a server with several")
}

// where is a found installation, of which nothing is open.
type where struct {
	cfg   config.Config
	place installation.Place // without a URL where none is known
	world string
	state string
	// use is what the state directory says, where it was named without a
	// repository.
	use installation.Use
	// named: the person named the repository.
	named bool
}

// find reads the flags. A state directory alone is enough where a run has left
// word in it.
func (a *app) find(w whereFlags) (out where, err error) {
	for flag, path := range map[string]string{"state-dir": w.state, "config": w.config} {
		if err := installation.PathFlag(flag, path); err != nil {
			return out, err
		}
	}
	if out.cfg, err = a.Load(w.config); err != nil {
		return out, err
	}
	out.state = w.state
	if w.repo == "" && w.state == "" {
		return out, problem.Usage("Give --repo, or --state-dir.")
	}
	if w.repo != "" {
		if out.place, err = installation.NewPlace(w.repo); err != nil {
			return out, err
		}
		if err := out.place.Identify(false); err != nil {
			return out, err
		}
		out.named = true
	} else {
		dir, err := installation.OpenDir(w.state, false)
		if err != nil {
			return out, err
		}
		out.use = dir.LastUse()
		if w.world = out.use.Meant(w.world); w.world == "" && !out.use.Server {
			err = out.at(out.use.World)
		} else {
			err = out.at(w.world)
		}
		if err != nil {
			return out, err
		}
	}
	if out.cfg.World != "" {
		out.place.Display = out.cfg.World
	}
	if out.state, err = a.stateOr(out.state, out.place); err != nil {
		return out, err
	}
	var use installation.Use
	if dir, err := installation.OpenDir(out.state, false); err == nil {
		use = dir.LastUse()
	}
	if w.config == "" {
		out.cfg.TrustedRunners = use.Trusted
	}
	if out.world = w.world; w.world != "" {
		out.place.World = use.Meant(w.world)
	}
	return out, nil
}

// at takes the repository of the world from what the state directory says, which
// is checked like a flag. Where it says nothing, the place has no URL.
func (w *where) at(world string) (err error) {
	if w.use.Refs == config.RefsHeads {
		w.cfg.Refs = w.use.Refs
	}
	url := w.use.Repos[world]
	if url == "" && world == w.use.World {
		url = w.use.Repo
	}
	if url != "" {
		if w.place, err = installation.NewPlace(url); err != nil {
			return err
		}
	}
	if world != "" {
		w.place.World, w.place.Display = world, w.use.Called(world)
	}
	return nil
}

// actPlaces says how the three acts are told where the task is.
const actPlaces = `
N is the number of the issue. Say where with --state-dir, that of the server, or
with --repo, as at writ task run; with --world too where a server has several
repositories.`

func (a *app) stopCommand() *cobra.Command {
	cmd := a.actCommand(kernel.ActStop, "stop N", "Stop a running task: its builder is killed, the task waits")
	cmd.Long = `Stop kills the builder of task N and hands the lease back; the task then waits for
another approval. The attempt isn't counted. A task that nobody runs here is not
stopped by it: halt keeps it from starting.
` + actPlaces
	return cmd
}

func (a *app) haltCommand() *cobra.Command {
	cmd := a.actCommand(kernel.ActHalt, "halt N", "Halt a task for good, running or not; only resume goes on")
	cmd.Long = `Halt kills the builder of task N, if there is one, and keeps the task from being
looked at again, whatever is said on its issue, until writ task resume. It works
while a server runs, while everything is paused, and while nothing runs.
` + actPlaces
	return cmd
}

func (a *app) resumeCommand() *cobra.Command {
	cmd := a.actCommand(kernel.ActResume, "resume N", "Go on after a halt, a blocked task or somebody else's commit, as a recorded act")
	cmd.Long = `Resume lets task N go on: after a halt, from where it is blocked, or over a commit
on its ref that isn't writ's. Look at why it stands still first (writ task show N).
Where there is nothing to resume it says so: task.not_resumable. State that
was made for another task or repository and copied here is never gone on with: the
task begins anew.
` + actPlaces
	return cmd
}

// actCommand makes the command of one of a person's three acts.
func (a *app) actCommand(act, use, short string) *cobra.Command {
	var w whereFlags
	var reason string
	cmd := &cobra.Command{
		Use: use + " {--state-dir DIR | --repo DIR}", Short: short, Args: cobra.ExactArgs(1),
		Example: "  writ task " + act + " 12 --state-dir /var/lib/writ/state --reason 'it looks wrong'",
	}
	w.add(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is recorded")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		number, err := installation.ArgNumber(args[0])
		if err != nil {
			return err
		}
		if reason, err = installation.ShortReason(reason); err != nil {
			return err
		}
		at, err := a.find(w)
		if err != nil {
			return err
		}
		return a.act(ctx, at, installation.Request{Act: act, World: at.world, Task: number, Actor: a.LocalActor(), Reason: reason})
	})
	return cmd
}

// act asks the process that runs, or does it itself where none does.
func (a *app) act(ctx context.Context, at where, r installation.Request) error {
	dir, err := installation.OpenDir(at.state, r.Act == kernel.ActHalt)
	if err != nil {
		return err
	}
	busy := func() bool { return errors.As(dir.Probe(), new(*problem.Error)) }
	if busy() {
		r.Time = time.Now().UnixMilli()
		ans, err := dir.Ask(ctx, r, func() bool { return !busy() })
		if err == nil {
			return a.tellAnswer(r, ans)
		}
		if !errors.Is(err, installation.ErrUnheard) {
			return err
		}
		if busy() {
			return problem.Coded(kernel.CodeStateUnanswered, "The running process did not answer within %s.", installation.AnswerTime)
		}
	}
	return a.actAlone(ctx, at, r)
}

func (a *app) tellAnswer(r installation.Request, ans installation.Answer) error {
	if !ans.OK {
		return ans.Problem("`writ task show` says how the task stands.")
	}
	if ans.Said != "" {
		a.print("%s\n", ans.Said)
		return nil
	}
	switch r.Act {
	case kernel.ActHalt:
		a.print("task %d is halted; `writ task resume %d` goes on\n", r.Task, r.Task)
	case kernel.ActResume:
		a.print("task %d may go on\n", r.Task)
	default:
		a.print("task %d was stopped; to go on, run it again or say `/writ run` on its issue\n", r.Task)
	}
	return nil
}
