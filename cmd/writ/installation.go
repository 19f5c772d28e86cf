package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"maps"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// The path space of a world, fixed in its first record: how many paths live
// tasks may reserve together, and how deep a path may be.
const (
	worldPaths = 100_000
	worldDepth = 64
)

// installation is an open state directory: key, store and one world's ledger.
// Its holder has the directory's lock.
type installation struct {
	dir    *stateDir
	key    *instancekey.Key
	store  *ledger.Store
	ledger *ledger.Ledger
	repo   *git.Repo
	cfg    config.Config
	world  string
	log    *slog.Logger
}

// open takes the state directory and opens what lies in it. Close gives it back.
func (a *app) open(ctx context.Context, cfg config.Config, p place, statePath string, use lastUse, log *slog.Logger) (*installation, error) {
	in := &installation{cfg: cfg, world: p.world, log: log}
	if err := in.openAll(ctx, p, statePath, use); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

func (in *installation) openAll(ctx context.Context, p place, statePath string, use lastUse) (err error) {
	if in.repo, err = git.Open(ctx, git.Endpoint{URL: p.url}, git.Options{Logger: in.log}); err != nil {
		return err
	}
	if in.dir, err = openState(statePath, true); err != nil {
		return err
	}
	use.Repo, use.World, use.Refs = p.url, p.world, in.cfg.Refs
	if err := in.dir.take(use); err != nil {
		return err
	}
	if in.key, _, err = instancekey.LoadOrCreate(in.dir.path); err != nil {
		return err
	}
	if in.store, err = ledger.Open(ctx, in.dir.file(ledger.FileName), in.key, ledger.Options{Logger: in.log}); err != nil {
		return err
	}
	if in.ledger, err = in.store.World(ctx, p.world); err != nil {
		return err
	}
	if err := in.checkRollback(ctx); err != nil {
		return err
	}
	return in.start(ctx)
}

// Close gives everything back, the lock last.
func (in *installation) Close() {
	if in.store != nil {
		if err := in.store.Close(); err != nil {
			in.log.Error("the store could not be closed", "error", err)
		}
	}
	if in.repo != nil {
		_ = in.repo.Close() // everything that counts was answered before
	}
	if in.dir != nil {
		in.dir.release()
	}
}

// start writes the first record of a new ledger: whose it is, of which world,
// and the contract that was found first.
func (in *installation) start(ctx context.Context) error {
	if in.ledger.Chain().Head != kernel.NoHead() {
		return nil
	}
	names := slices.Sorted(maps.Keys(in.cfg.Builders))
	if len(names) == 0 {
		names = []string{defaultBuilder}
	}
	return in.ledger.Start(ctx, kernel.Genesis{
		Contract: in.firstContract(ctx), Kernel: kernel.Version(), Builders: names,
		MaxPaths: worldPaths, MaxDepth: worldDepth,
	}, newClock().Now().WallMs)
}

// firstContract is the hash of the contract in force now, or of the built-in
// one where the repository has none or can't be read: the claim pins the one
// that counts.
func (in *installation) firstContract(ctx context.Context) canon.Digest {
	builtIn := canon.Sum(contract.Template())
	base := in.baseRef()
	refs, err := in.repo.Refs(ctx, "refs/heads/")
	if err != nil {
		return builtIn
	}
	if base == "" {
		base = refs.Head
	}
	tree, err := in.repo.Tree(ctx, refs.OID(base))
	if err != nil {
		return builtIn
	}
	entry, ok := tree.Find(contract.Path)
	if !ok {
		return builtIn
	}
	data, err := in.repo.Blob(ctx, entry.OID)
	if err != nil {
		return builtIn
	}
	return canon.Sum(data)
}

func (in *installation) baseRef() string {
	if in.cfg.Base == "" {
		return ""
	}
	return "refs/heads/" + in.cfg.Base
}

// checkRollback holds the store against the checkpoint that lies beside it: a
// chain can't show that its end was cut off (CASES R4).
func (in *installation) checkRollback(ctx context.Context) error {
	signed, err := os.ReadFile(in.checkpointFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return badState(in.dir.path, "has a checkpoint that can't be read (%s)", cause(err))
	}
	cp, err := ledger.OpenCheckpoint(signed, in.key.Public)
	if err != nil {
		return &problem{code: kernel.CodeLedgerCorrupt, exit: exitRefused, text: err.Error()}
	}
	rolled := &problem{code: kernel.CodeLedgerRollback, exit: exitRefused, text: "The store has other or fewer records than the checkpoint beside it signs."}
	if cp.World != in.world || cp.Size > in.ledger.Chain().Head.Seq+1 {
		return rolled
	}
	if root, err := in.ledger.Tree(ctx, cp.Size); err != nil || root != cp.Root {
		return rolled
	}
	return nil
}

func (in *installation) checkpointFile() string {
	return ledger.CheckpointFile(in.dir.path, in.world)
}

// checkpoint signs the ledger as it stands and keeps the note beside the store.
func (in *installation) checkpoint(ctx context.Context) {
	signed, err := in.ledger.Checkpoint(ctx)
	if err == nil {
		err = ledger.WriteCheckpoint(in.checkpointFile(), signed)
	}
	if err != nil {
		in.log.Warn("no checkpoint was kept", "error", err)
	}
}

// evidence adds to a ledger what a supervisor puts into a task's pack.
type evidence struct{ *ledger.Ledger }

// Evidence implements supervisor.Ledger.
func (e evidence) Evidence(ctx context.Context, task, from int64) (replay.Evidence, error) {
	return replay.Collect(ctx, e.Ledger, task, from)
}

var _ supervisor.Ledger = evidence{}
