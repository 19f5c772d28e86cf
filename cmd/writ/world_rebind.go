package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/worlds"
	"github.com/writbot/writ/compliance/report"
)

func (a *app) worldRebind() *cobra.Command {
	var f worldFlags
	var repo string
	var taken []int64
	cmd := &cobra.Command{
		Use:   "rebind OLD NEW --state-dir DIR --reason TEXT",
		Short: "Say that the world OLD goes on as NEW, after a migration",
		Long: `Rebind is the way on where a repository has another identity than before: moved to
another forge, imported, made again. It says, in the repository that is NEW, which
state commits of OLD count there: the very commit on each task's ref, and nothing
newer. OLD's own ledger stays as it is.

The text of each task's issue at NEW is held against what was approved; a task whose
issue isn't the same is left out and told, unless --task names it. Without --reason
it only shows. No process may use the state directory: stop the server first.
Whatever interrupts it, the same command finishes it.`,
		Example: "  writ world rebind 'git.example#7' 'github.com#1296269' --repo https://github.com/acme/shop.git \\\n    --state-dir /var/lib/writ/state --config writ.yaml --reason 'moved to GitHub'",
		Args:    cobra.ExactArgs(2),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&repo, "repo", "", "path or URL of the repository that is NEW (default: where it was last)")
	cmd.Flags().Int64SliceVar(&taken, "task", nil, "task that goes on although its issue has another text; may be repeated")
	cmd.RunE = a.acting(&f, false, func(ctx context.Context, by *worlds.Acting, args []string) error {
		use := by.Dir.LastUse()
		return a.rebind(ctx, by, use.Meant(args[0]), use.Meant(args[1]), repo, taken, f.reason)
	})
	return cmd
}

func (a *app) rebind(ctx context.Context, by *worlds.Acting, old, next, repo string, taken []int64, reason string) error {
	r, err := by.Rebinding(ctx, old, next, repo, taken)
	if err != nil {
		return err
	}
	defer r.Close()
	a.tellRebinding(r)
	if reason == "" {
		return unsaid(old + " goes on as " + next)
	}
	if err := r.Write(ctx, reason); err != nil {
		return err
	}
	a.print("rebound: %s goes on as %s (%s)\n", old, next, r.Display)
	return nil
}

// tellRebinding says which tasks go on, and which don't and why.
func (a *app) tellRebinding(r *worlds.Rebinding) {
	a.print("%s: of %s go on: %s\n", r.Display, r.Old, tasks(r.Marks, r.Prefix))
	if r.Own > 0 {
		a.print("  state of %s itself is kept: %s\n", r.World, report.Counted(r.Own, "task"))
	}
	for _, st := range r.Remarks {
		if st.Code != "" {
			a.tellMoved(r.Place, st)
		}
		if st.Left != "" {
			a.print("  left out: %s: %s\n", st.Ref, st.Left)
		}
	}
}
