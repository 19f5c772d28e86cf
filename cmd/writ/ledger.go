package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/ledgers"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/report"
)

func (a *app) ledgerCommand() *cobra.Command {
	cmd := group("ledger", "Back up an installation's store, archive old records, and go on with a restored one")
	cmd.AddCommand(a.ledgerBackup(), a.ledgerArchive(), a.ledgerAdopt())
	return cmd
}

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
		if err := ledgers.Archive(ctx, a.Process, f.state, f.world, day, args[0], a.tellArchived); err != nil {
			return err
		}
		a.print("the file of the store doesn't shrink: what is free in it is used again, and a back-up has none\n")
		return nil
	})
	return cmd
}

func (a *app) tellArchived(done ledger.Archived) {
	if done.Records == 0 {
		a.print("ledger of %s: nothing of it is old enough and compressed\n", done.World)
		return
	}
	a.print("ledger of %s: %s of %d archived in %s, %s written now\n",
		done.World, report.Counted(done.Records, "record"), done.Of, done.Dir, report.Counted(done.Files, "file"))
}

func (a *app) ledgerBackup() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "backup --state-dir DIR FILE",
		Short: "Copy the store to a new file, beside a running server",
		Long: `Backup writes one consistent copy of the store to FILE, while a server may go on
writing it, and the checkpoints that this copy fulfils to FILE.checkpoints/. Both
are for you alone (mode 0600 and 0700), and neither overwrites anything.

The signing key is not copied: keep key and key.pub once, somewhere else than the
back-ups. docs/operations.md says what a back-up is good for.`,
		Example: "  writ ledger backup --state-dir ~/.local/state/writ/project-1a2b3c4d /mnt/backup/writ-monday.db",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&state, "state-dir", "", "state directory whose store is copied")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if state == "" {
			return problem.Usage("--state-dir is missing: give that of the installation.")
		}
		if err := installation.PathFlag("state-dir", state); err != nil {
			return err
		}
		done, err := ledgers.Backup(ctx, state, args[0])
		if err != nil {
			return err
		}
		a.tellBackup(done, args[0])
		return nil
	})
	return cmd
}

func (a *app) tellBackup(done ledgers.Copied, path string) {
	a.print("the store was copied to %s\n", path)
	a.print("its checkpoints (%d) were copied to %s\n", done.Checkpoints, done.Beside)
	a.print("not copied, keep them once and elsewhere: %s (secret), %s\n", done.Dir.File(instancekey.PrivateFile), done.Dir.File(instancekey.PublicFile))
}
