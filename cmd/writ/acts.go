package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/acts"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/kernel"
)

func (a *app) taskCommand() *cobra.Command {
	cmd := group("task", "Run a task, see how it stands, act on it")
	cmd.AddCommand(a.runCommand(), a.showCommand(), a.stopCommand(), a.haltCommand(), a.resumeCommand())
	return cmd
}

// whereFlags name an installation: by its repository, or by its directory.
type whereFlags struct{ wire.Where }

func (w *whereFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.Repo, "repo", "", "path or URL of the repository")
	cmd.Flags().StringVar(&w.State, "state-dir", "", "state directory (default: that of the repository)")
	cmd.Flags().StringVar(&w.Config, "config", "", "configuration of this machine")
	cmd.Flags().StringVar(&w.World, "world", "", "the repository, by its name or its identity, for a server with several")
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
		at, err := a.Find(w.Where)
		if err != nil {
			return err
		}
		r := installation.Request{Act: act, World: at.World, Task: number, Actor: a.LocalActor(), Reason: reason}
		done, err := acts.Do(ctx, a.Process, at, r)
		if err != nil {
			return err
		}
		return a.tellAct(r, done)
	})
	return cmd
}

// tellAct says what came of an act, and what is next. A server looks at a resumed task as it
// starts.
func (a *app) tellAct(r installation.Request, done acts.Done) error {
	switch {
	case done.Answer != nil:
		return a.tellAnswer(r, *done.Answer)
	case r.Act == kernel.ActStop:
		a.print("nobody runs task %d here; nothing was stopped. `writ task halt %[1]d` keeps it from being started\n", r.Task)
	case r.Act == kernel.ActHalt:
		a.print("task %d is halted; `writ task resume %[1]d` goes on\n", r.Task)
	case done.Server:
		a.print("task %d may go on: the server takes it up when it starts\n", r.Task)
	default:
		a.print("task %d may go on: run it again\n", r.Task)
	}
	return nil
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
