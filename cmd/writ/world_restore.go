package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/worlds"
	"github.com/writbot/writ/compliance/report"
)

func (a *app) worldRestore() *cobra.Command {
	var f worldFlags
	cmd := &cobra.Command{
		Use:   "restore WORLD --state-dir DIR --reason TEXT",
		Short: "Put tasks' state back after a forge was restored or failed over",
		Long: `Restore is the way on where a forge lost what was pushed to it last: it was restored
from a back-up, or failed over to a copy that lagged. All tasks that moved since then
wait with state.rollback. It puts the commit that this installation saw last back onto
each task's ref, with the change branch that came with it, where

  - the store still has all that was pushed since (14 days, 64 MiB of each task),
  - what the ref has now is an earlier commit of the same task, or nothing, and
  - the issue is the same one, made at the same time, with the text that was approved.

Every other task is named with the reason, and is left as it is. Nothing is forced over
anybody's commit. WORLD is the repository, by its name or its identity. Without --reason
it only shows. No process may use the state directory: stop the server first. Whatever
interrupts it, the same command finishes it. If several installations share the
repository, run it for each.`,
		Example: "  writ world restore github.com/acme/shop --state-dir /var/lib/writ/state --config writ.yaml\n" +
			"  writ world restore github.com/acme/shop --state-dir /var/lib/writ/state --config writ.yaml --reason 'the forge was restored from Monday'",
		Args: cobra.ExactArgs(1),
	}
	f.add(cmd)
	cmd.RunE = a.acting(&f, false, func(ctx context.Context, by *worlds.Acting, args []string) error {
		return a.restoreWorld(ctx, by, args[0], f.reason)
	})
	return cmd
}

func (a *app) restoreWorld(ctx context.Context, by *worlds.Acting, name, reason string) error {
	r, err := by.Restoring(ctx, name)
	if err != nil {
		return err
	}
	defer r.Close()
	back := slices.DeleteFunc(slices.Clone(r.Lost), func(t worlds.LostTask) bool { return t.Left != "" })
	a.showLost(r, back)
	switch {
	case len(back) == 0:
		a.print("nothing is to be put back\n")
		return nil
	case reason == "":
		return unsaid("the state of these tasks is put back")
	}
	return r.PutBack(ctx, back, reason, func(task int64, why string) {
		if why != "" {
			a.print("not back: task %d: %s\n", task, why)
			return
		}
		a.print("back: task %d\n", task)
	})
}

// showLost says which tasks are put back, and which aren't and why.
func (a *app) showLost(r *worlds.Restoring, back []worlds.LostTask) {
	are := "are"
	if len(r.Lost) == 1 {
		are = "is"
	}
	a.print("%s: %s %s behind what was seen, %d of them can be put back\n", r.Display, report.Counted(len(r.Lost), "task"), are, len(back))
	for _, t := range r.Lost {
		now := cmp.Or(string(t.Head), "nothing")
		if t.Left != "" {
			a.print("  left: task %d: %s\n    the ref has %s; seen last was %s\n", t.Task, t.Left, now, t.Seen)
			continue
		}
		a.print("  back: task %d: from %s to %s\n", t.Task, now, t.Seen)
	}
	if len(back) < len(r.Lost) {
		a.print("A task that is left waits for repair: put the commit back from a clone, or move on with `writ task resume N`.\n")
	}
}
