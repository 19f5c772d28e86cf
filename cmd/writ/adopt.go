package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/ledgers"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
)

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
