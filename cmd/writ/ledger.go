package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/ledgers"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
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

type adoptFlags struct {
	state, config, reason, world string

	checkpoints, heads []string
}

func (a *app) ledgerAdopt() *cobra.Command {
	var f adoptFlags
	cmd := &cobra.Command{
		Use:   "adopt --state-dir DIR --reason TEXT",
		Short: "Go on with a restored, older store, and say so for all time",
		Long: `Adopt is the way on where a store is older than what its key has signed, after a
back-up was restored, or where its checkpoint is gone. It shows what is lost, and, if you give a reason, writes a
record that names you, the reason and the checkpoints that the ledger no longer
fulfils, and signs a new checkpoint. Nothing is hidden by it: writ verify shows
the record to everybody, and a checkpoint that it doesn't name stays a rollback.

Without --reason it only shows. The state directory's key must be there, no
process may use it, and what the store has must verify. docs/operations.md says
what to do before and after.`,
		Example: "  writ ledger adopt --state-dir /var/lib/writ/state\n  writ ledger adopt --state-dir /var/lib/writ/state --reason 'disk lost, back-up of Monday restored'",
		Args:    cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.StringVar(&f.state, "state-dir", "", "state directory whose store was restored")
	fl.StringVar(&f.config, "config", "", "configuration, for the forge's token, where --head is looked for in the repository")
	fl.StringVar(&f.reason, "reason", "", "why; it is recorded with your name")
	fl.StringVar(&f.world, "world", "", "one repository, by its identity (default: all that need it)")
	fl.StringArrayVar(&f.checkpoints, "checkpoint", nil, "signed checkpoint kept elsewhere, to be declared too: a file; may be repeated")
	fl.StringArrayVar(&f.heads, "head", nil, "state commit of this installation that its ledger doesn't hold, as ledger.rollback named it; needs --world; may be repeated")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) (err error) {
		if f.state == "" {
			return problem.Usage("--state-dir is missing: give that of the installation.")
		}
		for flag, path := range map[string]string{"state-dir": f.state, "config": f.config} {
			if err := installation.PathFlag(flag, path); err != nil {
				return err
			}
		}
		if f.reason, err = installation.ShortReason(f.reason); err != nil {
			return err
		}
		return a.adopt(ctx, f)
	})
	return cmd
}

// adopt shows what is lost, and declares it where a reason is given. Each world's
// record is one durable append: a crash leaves that world as it was, or adopted.
func (a *app) adopt(ctx context.Context, f adoptFlags) error {
	kept, err := ledgers.ReadCheckpoints(f.checkpoints)
	if err != nil {
		return err
	}
	in, err := ledgers.OpenRestored(ctx, a.Process, f.state)
	if err != nil {
		return err
	}
	defer in.Close()
	if len(f.heads) > 0 {
		return a.adoptHeads(ctx, in, f)
	}
	lost, err := ledgers.Losses(ctx, in, in.Dir.LastUse().Meant(f.world), kept)
	if err != nil {
		return err
	}
	if len(lost) == 0 {
		return &problem.Error{Exit: problem.ExitOther, Text: "Nothing is to be adopted: the store has all that the checkpoints sign.",
			Remedy: "If you hold a newer checkpoint, give it with --checkpoint."}
	}
	for _, l := range lost {
		a.print("%s", lossPlain(l))
	}
	a.print("What persons did after that (halts, resumes, pauses) is lost too; tasks, leases and results\nare in git and count. Halts and pauses can be given now, before the server starts.\n")
	if f.reason == "" {
		return unsaid("this store is to be adopted")
	}
	for _, l := range lost {
		done, err := ledgers.Adopt(ctx, a.Process, in, l, f.reason)
		if err != nil {
			return err
		}
		a.tellAdopted(done)
	}
	return nil
}

func lossPlain(l ledgers.Loss) string {
	chain := l.Ledger.Chain()
	size := chain.Head.Seq + 1
	text := fmt.Sprintf("%s\n  this store has %s", l.Ledger.World(), report.Counted(size, "record"))
	if size > 0 {
		text += ", the last of " + kernel.Timestamp(chain.Time/1000)
	}
	text += "\n"
	if l.Unsigned {
		text += "  its checkpoint isn't beside it, where one lies from the first record on: how many were signed isn't known\n"
	}
	for i, cp := range l.Bad {
		text += fmt.Sprintf("  signed were %d, as history %d: %s\n", cp.Size, cp.History, l.From[i])
		if cp.Size > size {
			text += fmt.Sprintf("    lost: records %d to %d, %d of them; what they said is not in this state directory\n", size, cp.Size-1, cp.Size-size)
		} else {
			text += fmt.Sprintf("    contradicted: among the first %s are others than those; which, can't be said\n", report.Counted(cp.Size, "record"))
		}
	}
	return text
}

func (a *app) tellAdopted(done ledgers.Adopted) {
	a.print("adopted: history %d of %s begins with record %d\n  its checkpoint is %s: copy it to where the others are kept\n", done.History, done.World, done.Seq, done.File)
}

// adoptHeads goes on with a state directory that was put back from a copy as a whole:
// its own checkpoints show nothing, but a state commit in the repository does.
func (a *app) adoptHeads(ctx context.Context, in *installation.Installation, f adoptFlags) error {
	heads := ledgers.Heads{World: f.world, Config: f.config, Heads: f.heads}
	l, err := heads.Ledger(ctx, a.Process, in)
	if err != nil {
		return err
	}
	a.print("%s\n  this store has %s, and none of them tells of %s of its key:\n", f.world, report.Counted(l.Chain().Head.Seq+1, "record"), report.Counted(len(f.heads), "state commit"))
	for _, h := range f.heads {
		a.print("    %s\n", h)
	}
	a.print("What was recorded after this copy was made is not in this state directory. Make sure that no\nother copy of it is in use: two would take each other's leases for their own.\n")
	if f.reason == "" {
		return unsaid("this store is to be adopted")
	}
	done, err := heads.Adopt(ctx, a.Process, in, l, f.reason)
	if err != nil {
		return err
	}
	a.tellAdopted(done)
	return nil
}
