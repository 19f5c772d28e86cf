package ledgers

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/ledger"
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

// OpenRestored opens an installation that is there: its store, its key.
func OpenRestored(ctx context.Context, proc *wire.Process, state string) (*installation.Installation, error) {
	dir, err := installation.OpenDir(state, false)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(dir.File(store.FileName)); errors.Is(err, fs.ErrNotExist) {
		p := installation.BadState(dir.Path, "has no store")
		p.Remedy = "Restore a back-up first, or start with a new, empty state directory."
		return nil, p
	}
	in, err := installation.Open(ctx, config.Default(), state, installation.Use{}, proc.Warnings())
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

// Loss is a world whose ledger doesn't fulfil what was signed.
type Loss struct {
	Ledger   *ledger.Ledger
	Bad      []ledger.Checkpoint // what it doesn't fulfil
	From     []string            // where the note of each was found
	Unsigned bool                // its checkpoint isn't beside the store
	notes    [][]byte
}

// Losses verifies the ledgers, of one world or of all, and holds them against
// the checkpoints beside the store and those that are given.
func Losses(ctx context.Context, in *installation.Installation, world string, kept Notes) ([]Loss, error) {
	beside, err := in.Dir.Checkpoints()
	if err != nil {
		return nil, err
	}
	paths := make([]string, 0, len(beside))
	for _, name := range slices.Sorted(maps.Keys(beside)) {
		paths = append(paths, in.Dir.File(name))
	}
	mine, err := ReadCheckpoints(paths)
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
	var out []Loss
	for _, w := range worlds {
		var l Loss
		if l.Ledger, err = in.Store.World(ctx, w); err != nil {
			return nil, err
		}
		if l.Bad, l.notes, err = l.Ledger.Unfulfilled(ctx, all.of(w)...); err != nil {
			return nil, err
		}
		for _, signed := range l.notes {
			l.From = append(l.From, all.source(signed))
		}
		signed, err := ledger.KeptCheckpoint(in.Dir.Path, w)
		if err != nil {
			return nil, err
		}
		l.Unsigned = len(signed) == 0 && l.Ledger.Chain().Head.Seq > 0
		if len(l.Bad) > 0 || l.Unsigned {
			out = append(out, l)
		}
	}
	return out, nil
}

// Adopted is a history that began.
type Adopted struct {
	ledger.Adopted
	World string
	File  string // its first checkpoint
}

// Adopt writes the record, and the checkpoint that follows from it. What is
// lost with the second is made good by the next checkpoint.
func Adopt(ctx context.Context, proc *wire.Process, in *installation.Installation, l Loss, reason string) (Adopted, error) {
	proc.Reach(faultAdoptBefore)
	first := kernel.Genesis{
		Contract: canon.Sum(contract.Template()), Kernel: kernel.Version(), Builders: []string{installation.DefaultBuilder},
		MaxPaths: installation.WorldPaths, MaxDepth: installation.WorldDepth,
	}
	now, actor := installation.NewClock().Now().WallMs, proc.LocalActor()
	var done ledger.Adopted
	var err error
	if len(l.Bad) == 0 {
		done, err = l.Ledger.AdoptUnsigned(ctx, now, actor, reason)
	} else {
		done, err = l.Ledger.Adopt(ctx, now, actor, reason, first, l.notes...)
	}
	if err != nil {
		return Adopted{}, err
	}
	return signAdopted(ctx, proc, in, l.Ledger, done, nil)
}

// signAdopted signs the first checkpoint of the history that begins. Where heads were
// adopted and not a store, the one that showed it to be older has to be among them.
func signAdopted(ctx context.Context, proc *wire.Process, in *installation.Installation, l *ledger.Ledger, done ledger.Adopted, heads []string) (Adopted, error) {
	proc.Reach(faultAdoptRecorded)
	signed, err := l.Checkpoint(ctx)
	if err != nil {
		return Adopted{}, err
	}
	proc.Reach(faultAdoptSigned)
	file := ledger.CheckpointFile(in.Dir.Path, l.World())
	if err := ledger.WriteCheckpoint(file, signed); err != nil {
		return Adopted{}, err
	}
	if mark, err := in.Older(); err == nil && mark != nil && mark.World == l.World() && (heads == nil || slices.Contains(heads, mark.Head)) {
		if err := in.ForgetOlder(); err != nil {
			return Adopted{}, err
		}
	}
	return Adopted{Adopted: done, World: l.World(), File: file}, nil
}
