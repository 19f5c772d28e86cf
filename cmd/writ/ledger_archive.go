package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/report"
)

type archiveFlags struct{ state, before, world string }

func (a *app) ledgerArchive() *cobra.Command {
	var f archiveFlags
	cmd := &cobra.Command{
		Use:   "archive --state-dir DIR --before DATE ARCHIVE",
		Short: "Move old, compressed records out of the store, and still verify them",
		Long: `Archive moves the compressed records that are older than DATE, 512 to a file, to the
directory ARCHIVE, which must be there, and leaves in the store what the rest is
verified and proven with: their hashes, and a mark signed with the installation's key.
All ledgers are verified first; no process may use the state directory.

The files may then be moved anywhere: writ verify --archive DIR reads archive and
store as one chain, and without the archive verifies what is there and says what isn't.
While ARCHIVE is where it was put, everything works as before. Say the same with another
ARCHIVE, once the files were copied there, to say where they lie now. docs/operations.md
says what needs archived records.`,
		Example: "  writ ledger archive --state-dir /var/lib/writ/state --before 2026-01-01 /mnt/archive/writ",
		Args:    cobra.ExactArgs(1),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.state, "state-dir", "", "state directory whose store is relieved")
	fl.StringVar(&f.before, "before", "", "day, as 2026-01-31: what was recorded before it begins (UTC) is archived")
	fl.StringVar(&f.world, "world", "", "one repository, by its identity (default: all)")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		for flag, path := range map[string]string{"state-dir": f.state, "before": f.before} {
			if path == "" {
				return problem.Usage("--%s is missing.", flag)
			}
		}
		if err := installation.PathFlag("state-dir", f.state); err != nil {
			return err
		}
		day, err := time.Parse(time.DateOnly, f.before)
		if err != nil {
			return problem.Usage("--before is no day: write it as 2026-01-31.")
		}
		return a.archive(ctx, f, day, args[0])
	})
	return cmd
}

func (a *app) archive(ctx context.Context, f archiveFlags, before time.Time, dir string) error {
	in, err := a.openRestored(ctx, f.state)
	if err != nil {
		return err
	}
	defer in.Close()
	worlds, err := in.Store.Worlds(ctx)
	if err != nil {
		return err
	}
	if f.world != "" {
		worlds = []string{in.Dir.LastUse().Meant(f.world)}
	}
	for _, w := range worlds {
		l, err := in.Store.World(ctx, w)
		if err != nil {
			return err
		}
		done, err := l.Archive(ctx, dir, before.UnixMilli())
		if err != nil {
			return err
		}
		a.tellArchived(done)
	}
	a.print("the file of the store doesn't shrink: what is free in it is used again, and a back-up has none\n")
	return nil
}

func (a *app) tellArchived(done ledger.Archived) {
	if done.Records == 0 {
		a.print("ledger of %s: nothing of it is old enough and compressed\n", done.World)
		return
	}
	a.print("ledger of %s: %s of %d archived in %s, %s written now\n",
		done.World, report.Counted(done.Records, "record"), done.Of, done.Dir, report.Counted(done.Files, "file"))
}
