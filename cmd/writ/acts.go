package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/acts"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/status"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
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

func (a *app) showCommand() *cobra.Command {
	var w whereFlags
	cmd := &cobra.Command{
		Use: "show N {--state-dir DIR | --repo DIR} [--diff]", Short: "How a task stands, from the repository", Args: cobra.ExactArgs(1),
		Long: `Show reads how task N stands from HEAD of its state ref, and from the ledger of this
installation whether it is halted. It changes nothing, and may be asked at any time.
Where reading needs the forge's token, give --config, and the secrets in the
environment as the server has them.

With --diff it shows, of work that waits for somebody to accept its guarded paths, what
these would hold, with everything spelled out that can't be seen, and the line that
accepts exactly that.`,
		Example: "  writ task show 12 --state-dir /var/lib/writ/state\n  writ task show 12 --repo ~/src/project --json",
	}
	w.add(cmd)
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	diff := cmd.Flags().Bool("diff", false, "show what waits for somebody to accept it")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		number, err := installation.ArgNumber(args[0])
		if err != nil {
			return err
		}
		at, err := a.Find(w.Where)
		if err != nil {
			return err
		}
		s, err := status.Look(ctx, a.Process, at, number)
		if err != nil {
			return err
		}
		if *diff {
			return a.showDiff(ctx, at, s)
		}
		if a.json {
			data, err := canon.Marshal(s)
			if err != nil {
				return err
			}
			a.printJSON(data)
			return nil
		}
		a.print("%s", taskPlain(s))
		return nil
	})
	return cmd
}

// showDiff prints what somebody is asked to accept.
func (a *app) showDiff(ctx context.Context, at wire.Found, s status.Task) error {
	held, err := status.Held(ctx, a.Process, at, s)
	if err != nil {
		return err
	}
	if a.json {
		data, err := canon.Marshal(struct {
			Kind   string               `json:"kind"`
			Task   int64                `json:"task_id"`
			Digest canon.Digest         `json:"digest"`
			Paths  []kernel.GuardedPath `json:"paths"`
			Diff   string               `json:"diff"`
		}{"guarded_paths", s.Number, held.Digest, held.Paths, held.Diff})
		if err != nil {
			return err
		}
		a.printJSON(data)
		return nil
	}
	a.print("%s\nThe first line of a comment on the issue that accepts exactly this:\n\n  /writ accept %s\n", held.Diff, held.Digest)
	return nil
}

// taskPlain is how a task stands, in words.
func taskPlain(s status.Task) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("task %d of %s %s", s.Number, s.Repository, standing(s))
	if s.Halted {
		line("  halted here by %s: %s", cmp.Or(s.HaltedBy, "its kernel"), cmp.Or(s.HaltReason, "no reason was given"))
		line("  nothing of it is done until `writ task resume %d`", s.Number)
	}
	if s.HaltAskedBy != "" && !s.Halted {
		line("  a halt by %s is stored; it is recorded when the look at the task that is under way ends", s.HaltAskedBy)
	}
	if s.StoppedAt != "" {
		line("  stopped on the issue at %s; the label set again, or `/writ run`, begins it anew", s.StoppedAt)
	}
	if s.StoppedBy != "" {
		line("  stopped by %s; that is carried out when the task is looked at next", s.StoppedBy)
	}
	if s.Head != "" {
		line("  HEAD %s of %s, signed by %s", s.Head, s.Since, orNone(s.Signer))
	}
	if s.Fault != "" {
		line("  not this task's state: %s", s.Fault)
	}
	if s.Attempt > 0 {
		line("  attempt %d, %s", s.Attempt, report.Counted(s.Interruptions, "interruption"))
	}
	if s.Change != "" {
		line("  change %s on writ/change/%d", s.Change, s.Number)
	}
	for _, c := range s.Codes {
		if c == kernel.CodeTaskHalted && !s.Halted {
			line("\n%s\n  It was halted when HEAD was written. This installation's ledger has no halt of it now.", c)
			continue
		}
		line("\n%s\n  %s\n  %s", c, c.Info().Meaning, c.Info().Remedy)
	}
	return b.String()
}

func standing(s status.Task) string {
	switch {
	case s.Repair != "":
		return "waits for repair: " + string(s.Repair) + ". Nothing is done until a person looked"
	case s.Head == "":
		return "has not been run"
	case s.State == "":
		return "has no state: HEAD isn't this task's"
	case s.State == lease.StateWorking && leaseOver(s):
		return fmt.Sprintf("was held by %s until %s; that lease is over, and whoever looks at the task next breaks it", orNone(s.Holder), s.HeldUntil)
	case s.State == lease.StateWorking:
		where := ""
		if s.RunningHere {
			where = ", this installation"
		}
		return fmt.Sprintf("is held by %s%s, until %s unless renewed", orNone(s.Holder), where, s.HeldUntil)
	case s.State == lease.StateStalled:
		return "was interrupted; nobody works on it" + due(s)
	case s.WaitingFor != "":
		return "waits for " + s.WaitingFor
	}
	return "is " + s.State + due(s)
}

// leaseOver reports whether the lease at HEAD has ended without being renewed, by this
// machine's clock.
func leaseOver(s status.Task) bool {
	until, err := time.Parse(time.RFC3339, s.HeldUntil)
	return err == nil && !until.After(time.Now())
}

// due is when the next attempt may begin, if that lies ahead.
func due(s status.Task) string {
	if t, err := time.Parse(time.RFC3339, s.NotBefore); err != nil || !t.After(time.Now()) {
		return ""
	}
	return ", due at " + s.NotBefore
}

func orNone(s string) string {
	if s == "" {
		return "nobody"
	}
	return s
}
