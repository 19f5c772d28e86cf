package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Fault points of an adoption, for crash tests.
const (
	faultAdoptBefore   supervisor.Point = "ledger.adopt.before"
	faultAdoptRecorded supervisor.Point = "ledger.adopt.recorded"
	faultAdoptSigned   supervisor.Point = "ledger.adopt.signed"
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
	kept, err := readCheckpoints(f.checkpoints)
	if err != nil {
		return err
	}
	in, err := a.openRestored(ctx, f.state)
	if err != nil {
		return err
	}
	defer in.Close()
	if len(f.heads) > 0 {
		return a.adoptHeads(ctx, in, f)
	}
	lost, err := losses(ctx, in, in.Dir.LastUse().Meant(f.world), kept)
	if err != nil {
		return err
	}
	if len(lost) == 0 {
		return &problem.Error{Exit: problem.ExitOther, Text: "Nothing is to be adopted: the store has all that the checkpoints sign.",
			Remedy: "If you hold a newer checkpoint, give it with --checkpoint."}
	}
	for _, l := range lost {
		a.print("%s", l.plain())
	}
	a.print("What persons did after that (halts, resumes, pauses) is lost too; tasks, leases and results\nare in git and count. Halts and pauses can be given now, before the server starts.\n")
	if f.reason == "" {
		return problem.Usage("--reason is missing: nothing was changed. Say why this store is to be adopted.")
	}
	for _, l := range lost {
		if err := a.adoptWorld(ctx, in, l, f.reason); err != nil {
			return err
		}
	}
	return nil
}

// openRestored opens an installation that is there: its store, its key.
func (a *app) openRestored(ctx context.Context, state string) (*installation.Installation, error) {
	dir, err := installation.OpenDir(state, false)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(dir.File(store.FileName)); errors.Is(err, fs.ErrNotExist) {
		p := installation.BadState(dir.Path, "has no store")
		p.Remedy = "Restore a back-up first, or start with a new, empty state directory."
		return nil, p
	}
	in, err := installation.Open(ctx, config.Default(), state, installation.Use{}, a.Warnings())
	if err != nil {
		return nil, err
	}
	fault, err := in.DB.Check(ctx)
	if err == nil && fault != "" {
		err = problem.Coded(kernel.CodeLedgerCorrupt, "The database's own check fails: %s.", fault)
	}
	if err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// loss is a world whose ledger doesn't fulfil what was signed.
type loss struct {
	ledger *ledger.Ledger
	bad    []ledger.Checkpoint
	notes  [][]byte
	from   map[string]string // where a note was found

	unsigned bool // its checkpoint isn't beside the store
}

// losses verifies the ledgers, of one world or of all, and holds them against
// the checkpoints beside the store and those that are given.
func losses(ctx context.Context, in *installation.Installation, world string, kept signedNotes) ([]loss, error) {
	beside, err := in.Dir.Checkpoints()
	if err != nil {
		return nil, err
	}
	paths := make([]string, 0, len(beside))
	for _, name := range slices.Sorted(maps.Keys(beside)) {
		paths = append(paths, in.Dir.File(name))
	}
	mine, err := readCheckpoints(paths)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(mine, kept)
	worlds, err := in.Store.Worlds(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range all {
		worlds = append(worlds, n.world)
	}
	slices.Sort(worlds)
	if worlds = slices.Compact(worlds); world != "" {
		if !slices.Contains(worlds, world) {
			return nil, problem.Usage("Neither store nor checkpoints know the world %s.", world)
		}
		worlds = []string{world}
	}
	var out []loss
	for _, w := range worlds {
		l := loss{from: map[string]string{}}
		if l.ledger, err = in.Store.World(ctx, w); err != nil {
			return nil, err
		}
		if l.bad, l.notes, err = l.ledger.Unfulfilled(ctx, all.of(w)...); err != nil {
			return nil, err
		}
		for _, n := range all {
			l.from[string(n.signed)] = n.source
		}
		signed, err := ledger.KeptCheckpoint(in.Dir.Path, w)
		if err != nil {
			return nil, err
		}
		l.unsigned = len(signed) == 0 && l.ledger.Chain().Head.Seq > 0
		if len(l.bad) > 0 || l.unsigned {
			out = append(out, l)
		}
	}
	return out, nil
}

func (l loss) plain() string {
	chain := l.ledger.Chain()
	size := chain.Head.Seq + 1
	text := fmt.Sprintf("%s\n  this store has %s", l.ledger.World(), report.Counted(size, "record"))
	if size > 0 {
		text += ", the last of " + kernel.Timestamp(chain.Time/1000)
	}
	text += "\n"
	if l.unsigned {
		text += "  its checkpoint isn't beside it, where one lies from the first record on: how many were signed isn't known\n"
	}
	for i, cp := range l.bad {
		text += fmt.Sprintf("  signed were %d, as history %d: %s\n", cp.Size, cp.History, l.from[string(l.notes[i])])
		if cp.Size > size {
			text += fmt.Sprintf("    lost: records %d to %d, %d of them; what they said is not in this state directory\n", size, cp.Size-1, cp.Size-size)
		} else {
			text += fmt.Sprintf("    contradicted: among the first %s are others than those; which, can't be said\n", report.Counted(cp.Size, "record"))
		}
	}
	return text
}

// adoptWorld writes the record, and the checkpoint that follows from it. What is
// lost with the second is made good by the next checkpoint.
func (a *app) adoptWorld(ctx context.Context, in *installation.Installation, l loss, reason string) error {
	a.Reach(faultAdoptBefore)
	first := kernel.Genesis{
		Contract: canon.Sum(contract.Template()), Kernel: kernel.Version(), Builders: []string{installation.DefaultBuilder},
		MaxPaths: installation.WorldPaths, MaxDepth: installation.WorldDepth,
	}
	now, actor := installation.NewClock().Now().WallMs, a.LocalActor()
	var done ledger.Adopted
	var err error
	if len(l.bad) == 0 {
		done, err = l.ledger.AdoptUnsigned(ctx, now, actor, reason)
	} else {
		done, err = l.ledger.Adopt(ctx, now, actor, reason, first, l.notes...)
	}
	if err != nil {
		return err
	}
	return a.signAdopted(ctx, in, l.ledger, done, nil)
}

// signAdopted signs the first checkpoint of the history that begins. Where heads were
// adopted and not a store, the one that showed it to be older has to be among them.
func (a *app) signAdopted(ctx context.Context, in *installation.Installation, l *ledger.Ledger, done ledger.Adopted, heads []string) error {
	a.Reach(faultAdoptRecorded)
	signed, err := l.Checkpoint(ctx)
	if err != nil {
		return err
	}
	a.Reach(faultAdoptSigned)
	file := ledger.CheckpointFile(in.Dir.Path, l.World())
	if err := ledger.WriteCheckpoint(file, signed); err != nil {
		return err
	}
	if mark, err := in.Older(); err == nil && mark != nil && mark.World == l.World() && (heads == nil || slices.Contains(heads, mark.Head)) {
		if err := in.ForgetOlder(); err != nil {
			return err
		}
	}
	a.print("adopted: history %d of %s begins with record %d\n  its checkpoint is %s: copy it to where the others are kept\n", done.History, l.World(), done.Seq, file)
	return nil
}

// signedNote is a checkpoint that was read from a file and not verified yet.
type signedNote struct {
	world, source string
	signed        []byte
}

type signedNotes []signedNote

// of are the notes of one world.
func (s signedNotes) of(world string) (out [][]byte) {
	for _, n := range s {
		if n.world == world {
			out = append(out, n.signed)
		}
	}
	return out
}

// readCheckpoints reads files that must be checkpoints.
func readCheckpoints(paths []string) (out signedNotes, err error) {
	for _, path := range paths {
		if err := installation.PathFlag("checkpoint", path); err != nil {
			return nil, err
		}
		n := signedNote{source: filepath.Base(path)}
		if n.signed, err = installation.ReadLimited(path, installation.MaxCheckpointBytes); err != nil {
			return nil, problem.Usage("The checkpoint %s can't be read: %s.", path, problem.Cause(err))
		}
		var ok bool
		if n.world, ok = ledger.CheckpointWorld(n.signed); !ok {
			return nil, problem.Coded(kernel.CodeLedgerCorrupt, "The file %s is no checkpoint.", path)
		}
		if info, err := os.Stat(path); err == nil {
			n.source += ", a file of " + info.ModTime().UTC().Format(time.RFC3339)
		}
		out = append(out, n)
	}
	return out, nil
}
