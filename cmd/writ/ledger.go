package main

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/store"
)

// checkpointsSuffix is what the directory of a back-up's checkpoints adds to
// the back-up's name.
const checkpointsSuffix = ".checkpoints"

func (a *app) ledgerCommand() *cobra.Command {
	cmd := group("ledger", "Back up an installation's store, archive old records, and go on with a restored one")
	cmd.AddCommand(a.ledgerBackup(), a.ledgerArchive(), a.ledgerAdopt())
	return cmd
}

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
		return a.backup(ctx, state, args[0])
	})
	return cmd
}

// backup copies checkpoints first and the store last. So no checkpoint is newer
// than the copy, which would make it a rollback, and a FILE that is there is a
// back-up that is whole.
func (a *app) backup(ctx context.Context, state, path string) (err error) {
	dir, err := installation.OpenDir(state, false)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return alreadyThere(path)
	}
	db, err := openForBackup(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	checkpoints, err := dir.Checkpoints()
	if err != nil {
		return err
	}
	beside := path + checkpointsSuffix
	if err := writeCheckpoints(beside, checkpoints); err != nil {
		return err
	}
	if err := db.Backup(ctx, path); err != nil {
		_ = os.RemoveAll(beside) // made above; the error that matters is the other one
		if errors.Is(err, fs.ErrExist) {
			return alreadyThere(path)
		}
		return err
	}
	a.tellBackup(dir, path, len(checkpoints))
	return nil
}

// openForBackup opens the store beside its writer.
func openForBackup(ctx context.Context, dir *installation.Dir) (*store.DB, error) {
	if !ledger.Recorded(dir.Path) {
		p := installation.BadState(dir.Path, "has no store: nothing was recorded there")
		p.Remedy = "Give the --state-dir of an installation that ran."
		return nil, p
	}
	return store.OpenReadOnly(ctx, dir.File(store.FileName), store.Options{})
}

// writeCheckpoints makes a directory that isn't there with these files in it, all of it
// durable, or nothing.
func writeCheckpoints(dir string, files map[string][]byte) (err error) {
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return alreadyThere(dir)
	} else if err != nil {
		return notWritten(dir, err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // made above; the error that matters is the other one
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeDurable(filepath.Join(dir, name), files[name]); err != nil {
			return notWritten(dir, err)
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		return notWritten(dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return notWritten(dir, err)
	}
	return nil
}

func writeDurable(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func alreadyThere(path string) *problem.Error {
	return &problem.Error{Exit: problem.ExitOther, Text: path + " is there already, and a back-up overwrites nothing.", Remedy: "Give another name, or remove it first."}
}

func notWritten(path string, err error) *problem.Error {
	return &problem.Error{Exit: problem.ExitOther, Text: "The back-up can't write " + path + ": " + problem.Cause(err) + ".", Remedy: "Give a FILE in a directory that is there, is yours, and has room."}
}

func (a *app) tellBackup(dir *installation.Dir, path string, checkpoints int) {
	a.print("the store was copied to %s\n", path)
	a.print("its checkpoints (%d) were copied to %s\n", checkpoints, path+checkpointsSuffix)
	a.print("not copied, keep them once and elsewhere: %s (secret), %s\n", dir.File(instancekey.PrivateFile), dir.File(instancekey.PublicFile))
}
