package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"

	"maps"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/store"
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

// installation is an open state directory: its key and its store. Its holder
// has the directory's lock.
type installation struct {
	dir   *stateDir
	key   *instancekey.Key
	db    *store.DB
	store *ledger.Store // in db
	seen  *observations
	cfg   config.Config
	log   *slog.Logger

	taken    func() error           // called once the directory is ours, before the store is opened; nil: nothing
	rotating bool                   // a replacement of the key may be under way
	fault    func(supervisor.Point) // for crash tests; nil elsewhere
}

// openInstallation takes the state directory and opens what lies in it. Close
// gives it back.
func openInstallation(ctx context.Context, cfg config.Config, statePath string, use lastUse, log *slog.Logger) (*installation, error) {
	return openingInstallation(ctx, &installation{cfg: cfg, log: log}, statePath, use)
}

func openingInstallation(ctx context.Context, in *installation, statePath string, use lastUse) (*installation, error) {
	if err := in.open(ctx, statePath, use); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

func (in *installation) open(ctx context.Context, statePath string, use lastUse) (err error) {
	if in.dir, err = openState(statePath, true); err != nil {
		return err
	}
	use.Refs = in.cfg.Refs
	if err := in.dir.take(use); err != nil {
		return err
	}
	in.dir.tidy()
	// A key is made for a new directory, never beside what a lost one signed.
	if in.key, _, err = instancekey.LoadOrCreate(in.dir.path, store.FileName, checkpointPrefix+"*"); err != nil {
		return err
	}
	if !in.rotating && instancekey.Replacing(in.dir.path) {
		return coded(kernel.CodeKeyUnfinished, "The key of %s is about to be replaced, and that was interrupted.", in.dir.path)
	}
	if in.taken != nil {
		if err := in.taken(); err != nil {
			return err
		}
	}
	in.seen = openObservations(in.dir.file(observedFile))
	if in.db, err = store.Open(ctx, in.dir.file(store.FileName), store.Options{Logger: in.log}); err != nil {
		return err
	}
	in.store = ledger.New(in.db, in.key, ledger.Options{Logger: in.log})
	return in.db.CheckTables(ctx)
}

// Close gives everything back, the lock last.
func (in *installation) Close() {
	if in.store != nil {
		if err := errors.Join(in.store.Close(), in.db.Close()); err != nil {
			in.log.Error("the store could not be closed", "error", err)
		}
	}
	if in.dir != nil {
		in.dir.release()
	}
}

// governed is one world of an installation: its repository and its ledger.
type governed struct {
	*installation
	ledger *ledger.Ledger
	repo   *git.Repo
	world  string // its identity

	display string // what people call it

	savings *savings // of a server; nil: nothing is saved
}

// govern opens a world and verifies its ledger.
func (in *installation) govern(ctx context.Context, world, display string, repo *git.Repo) (g *governed, err error) {
	return in.governing(ctx, world, display, repo, in.store.World)
}

// governing is govern with a way to open the ledger.
func (in *installation) governing(ctx context.Context, world, display string, repo *git.Repo, open func(context.Context, string) (*ledger.Ledger, error)) (g *governed, err error) {
	g = &governed{installation: in, repo: repo, world: world, display: display}
	if err := in.current(ctx); err != nil {
		return nil, err
	}
	if err := in.boot(world, func() error {
		if g.ledger, err = open(ctx, world); err != nil {
			return err
		}
		return g.checkRollback(ctx)
	}); err != nil {
		return nil, err
	}
	for _, a := range g.ledger.Adopted() {
		in.log.Warn("this ledger went on from an older store; what was signed besides is abandoned", "world", world, "repository", display,
			"history", a.History, "from_record", a.Seq, "actor", a.Actor, "reason", a.Reason)
	}
	return g, g.start(ctx)
}

// boot loads what the kernel of a world needs. Of one that is HALTED for it, because its
// ledger can't be trusted, the log has the entry: the ledger takes none.
func (in *installation) boot(world string, load func() error) error {
	halted, err := supervisor.BootWorld(world, newClock().Now().WallMs, load)
	var coded interface{ FailureCode() kernel.Code }
	if halted == nil || !errors.As(err, &coded) || !coded.FailureCode().Halts() {
		return err
	}
	entry, failed := canon.Marshal(halted)
	if failed != nil {
		return errors.Join(err, failed)
	}
	in.log.Error("the kernel of a repository is halted: what it needs can't be trusted", logWorld, world, "code", string(coded.FailureCode()), "entry", string(entry))
	return err
}

// Close gives repository, store and lock back.
func (g *governed) Close() {
	closeRepo(g.repo)
	g.installation.Close()
}

// start writes the first record of a new ledger: whose it is, of which world,
// and the contract that was found first. Nothing follows it before its checkpoint lies
// beside the store.
func (g *governed) start(ctx context.Context) error {
	kept, err := ledger.KeptCheckpoint(g.dir.path, g.world)
	if err != nil || kept != nil {
		return err
	}
	if err := g.begin(ctx); err != nil {
		return err
	}
	signed, err := g.ledger.Checkpoint(ctx)
	if err != nil {
		return err
	}
	return ledger.WriteCheckpoint(g.checkpointFile(), signed)
}

func (g *governed) begin(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(g.cfg.Builders))
	if len(names) == 0 {
		names = []string{defaultBuilder}
	}
	return g.ledger.Start(ctx, kernel.Genesis{
		Contract: g.firstContract(ctx), Kernel: kernel.Version(), Builders: names,
		MaxPaths: worldPaths, MaxDepth: worldDepth,
	}, newClock().Now().WallMs)
}

// firstContract is the hash of the contract in force now, or of the built-in
// one where the repository has none, can't be read, or isn't known (a command
// that works from the state directory alone): the claim pins the one that counts.
func (g *governed) firstContract(ctx context.Context) canon.Digest {
	builtIn := canon.Sum(contract.Template())
	if g.repo == nil {
		return builtIn
	}
	base := g.baseRef()
	refs, err := g.repo.Refs(ctx, cmp.Or(base, git.OnlyHead))
	if err != nil {
		return builtIn
	}
	base = cmp.Or(base, refs.Head)
	tree, err := g.repo.Tree(ctx, refs.OID(base))
	if err != nil {
		return builtIn
	}
	entry, ok := tree.Find(contract.Path)
	if !ok {
		return builtIn
	}
	data, err := g.repo.Blob(ctx, entry.OID)
	if err != nil {
		return builtIn
	}
	return canon.Sum(data)
}

func (g *governed) baseRef() string {
	if g.cfg.Base == "" {
		return ""
	}
	return "refs/heads/" + g.cfg.Base
}

// checkRollback holds the store against the checkpoint that lies beside it: a
// chain can't show that its end was cut off (CASES R2). A checkpoint that the
// ledger declares abandoned is none to keep to.
func (g *governed) checkRollback(ctx context.Context) error {
	signed, err := ledger.KeptCheckpoint(g.dir.path, g.world)
	if err != nil {
		return err
	}
	return g.ledger.Check(ctx, signed)
}

func (g *governed) checkpointFile() string {
	return ledger.CheckpointFile(g.dir.path, g.world)
}

// checkpoint signs the ledger as it stands and keeps the note beside the store.
func (g *governed) checkpoint(ctx context.Context) {
	signed, err := g.ledger.Checkpoint(ctx)
	if err == nil {
		err = ledger.WriteCheckpoint(g.checkpointFile(), signed)
	}
	if err != nil {
		g.log.Warn("no checkpoint was kept", "error", err)
	}
}

// evidence adds to a ledger what a supervisor puts into a task's pack.
type evidence struct{ *ledger.Ledger }

// Evidence implements supervisor.Ledger.
func (e evidence) Evidence(ctx context.Context, task, from int64) (replay.Evidence, error) {
	return replay.Collect(ctx, e.Ledger, task, from)
}

var _ supervisor.Ledger = evidence{}

// closeRepo gives back a repository that counts for nothing any more.
func closeRepo(r *git.Repo) {
	if r != nil {
		_ = r.Close() // everything that counts was answered before
	}
}

// defaultBuilder is the name that a contract gives where it gives none.
const defaultBuilder = "default"

// The keys that say which task a line is about.
const (
	logWorld = "world"
	logTask  = "task"
	logRun   = "run"
	// logRepository is what people call the world.
	logRepository = "repository"
)
