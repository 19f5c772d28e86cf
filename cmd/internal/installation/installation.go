// Package installation is the state directory: its lock, key, store and requests, and each
// world's ledger in it. Commands and the server open it here, and nowhere else.
package installation

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"

	"maps"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/problem"
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
	WorldPaths = 100_000
	WorldDepth = 64
)

// Installation is an open state directory: its key and its store. Its holder
// has the directory's lock.
type Installation struct {
	Dir   *Dir
	Key   *instancekey.Key
	DB    *store.DB
	Store *ledger.Store // in db
	Seen  *sightings
	Cfg   config.Config
	Log   *slog.Logger

	Taken    func() error           // called once the directory is ours, before the store is opened; nil: nothing
	Rotating bool                   // a replacement of the key may be under way
	Fault    func(supervisor.Point) // for crash tests; nil elsewhere
}

// Open takes the state directory and opens what lies in it. Close
// gives it back.
func Open(ctx context.Context, cfg config.Config, statePath string, use Use, log *slog.Logger) (*Installation, error) {
	return OpenAs(ctx, &Installation{Cfg: cfg, Log: log}, statePath, use)
}

// OpenAs is Open for an installation whose fields say what is to be different.
func OpenAs(ctx context.Context, in *Installation, statePath string, use Use) (*Installation, error) {
	if err := in.open(ctx, statePath, use); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

func (in *Installation) open(ctx context.Context, statePath string, use Use) (err error) {
	if in.Dir, err = OpenDir(statePath, true); err != nil {
		return err
	}
	use.Refs = in.Cfg.Refs
	if err := in.Dir.take(use); err != nil {
		return err
	}
	in.Dir.tidy()
	// A key is made for a new directory, never beside what a lost one signed.
	if in.Key, _, err = instancekey.LoadOrCreate(in.Dir.Path, store.FileName, checkpointPrefix+"*"); err != nil {
		return err
	}
	if !in.Rotating && instancekey.Replacing(in.Dir.Path) {
		return problem.Coded(kernel.CodeKeyUnfinished, "The key of %s is about to be replaced, and that was interrupted.", in.Dir.Path)
	}
	if in.Taken != nil {
		if err := in.Taken(); err != nil {
			return err
		}
	}
	in.Seen = openSightings(in.Dir.File(ObservedFile))
	if in.DB, err = store.Open(ctx, in.Dir.File(store.FileName), store.Options{Logger: in.Log}); err != nil {
		return err
	}
	in.Store = ledger.New(in.DB, in.Key, ledger.Options{Logger: in.Log})
	return in.DB.CheckTables(ctx)
}

// Close gives everything back, the lock last.
func (in *Installation) Close() {
	if in.Store != nil {
		if err := errors.Join(in.Store.Close(), in.DB.Close()); err != nil {
			in.Log.Error("the store could not be closed", "error", err)
		}
	}
	if in.Dir != nil {
		in.Dir.release()
	}
}

// Governed is one world of an installation: its repository and its ledger.
type Governed struct {
	*Installation
	Ledger *ledger.Ledger
	Repo   *git.Repo
	World  string // its identity

	Display string // what people call it

	Savings *Savings // of a server; nil: nothing is saved
}

// Govern opens a world and verifies its ledger.
func (in *Installation) Govern(ctx context.Context, world, display string, repo *git.Repo) (g *Governed, err error) {
	return in.Governing(ctx, world, display, repo, in.Store.World)
}

// Governing is govern with a way to open the ledger.
func (in *Installation) Governing(ctx context.Context, world, display string, repo *git.Repo, open func(context.Context, string) (*ledger.Ledger, error)) (g *Governed, err error) {
	g = &Governed{Installation: in, Repo: repo, World: world, Display: display}
	if err := in.Current(ctx); err != nil {
		return nil, err
	}
	if err := in.Boot(world, func() error {
		if g.Ledger, err = open(ctx, world); err != nil {
			return err
		}
		return g.checkRollback(ctx)
	}); err != nil {
		return nil, err
	}
	for _, a := range g.Ledger.Adopted() {
		in.Log.Warn("this ledger went on from an older store; what was signed besides is abandoned", "world", world, "repository", display,
			"history", a.History, "from_record", a.Seq, "actor", a.Actor, "reason", a.Reason)
	}
	return g, g.start(ctx)
}

// Boot loads what the kernel of a world needs. Of one that is HALTED for it, because its
// ledger can't be trusted, the log has the entry: the ledger takes none.
func (in *Installation) Boot(world string, load func() error) error {
	halted, err := supervisor.BootWorld(world, NewClock().Now().WallMs, load)
	var coded interface{ FailureCode() kernel.Code }
	if halted == nil || !errors.As(err, &coded) || !coded.FailureCode().Halts() {
		return err
	}
	entry, failed := canon.Marshal(halted)
	if failed != nil {
		return errors.Join(err, failed)
	}
	in.Log.Error("the kernel of a repository is halted: what it needs can't be trusted", LogWorld, world, "code", string(coded.FailureCode()), "entry", string(entry))
	return err
}

// Close gives repository, store and lock back.
func (g *Governed) Close() {
	CloseRepo(g.Repo)
	g.Installation.Close()
}

// start writes the first record of a new ledger: whose it is, of which world,
// and the contract that was found first. Nothing follows it before its checkpoint lies
// beside the store.
func (g *Governed) start(ctx context.Context) error {
	kept, err := ledger.KeptCheckpoint(g.Dir.Path, g.World)
	if err != nil || kept != nil {
		return err
	}
	if err := g.begin(ctx); err != nil {
		return err
	}
	signed, err := g.Ledger.Checkpoint(ctx)
	if err != nil {
		return err
	}
	return ledger.WriteCheckpoint(g.checkpointFile(), signed)
}

func (g *Governed) begin(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(g.Cfg.Builders))
	if len(names) == 0 {
		names = []string{DefaultBuilder}
	}
	return g.Ledger.Start(ctx, kernel.Genesis{
		Contract: g.firstContract(ctx), Kernel: kernel.Version(), Builders: names,
		MaxPaths: WorldPaths, MaxDepth: WorldDepth,
	}, NewClock().Now().WallMs)
}

// firstContract is the hash of the contract in force now, or of the built-in
// one where the repository has none, can't be read, or isn't known (a command
// that works from the state directory alone): the claim pins the one that counts.
func (g *Governed) firstContract(ctx context.Context) canon.Digest {
	builtIn := canon.Sum(contract.Template())
	if g.Repo == nil {
		return builtIn
	}
	base := g.BaseRef()
	refs, err := g.Repo.Refs(ctx, cmp.Or(base, git.OnlyHead))
	if err != nil {
		return builtIn
	}
	base = cmp.Or(base, refs.Head)
	tree, err := g.Repo.Tree(ctx, refs.OID(base))
	if err != nil {
		return builtIn
	}
	entry, ok := tree.Find(contract.Path)
	if !ok {
		return builtIn
	}
	data, err := g.Repo.Blob(ctx, entry.OID)
	if err != nil {
		return builtIn
	}
	return canon.Sum(data)
}

// BaseRef is the configured base branch, "" for the one that the repository names.
func (g *Governed) BaseRef() string {
	if g.Cfg.Base == "" {
		return ""
	}
	return "refs/heads/" + g.Cfg.Base
}

// checkRollback holds the store against the checkpoint that lies beside it: a
// chain can't show that its end was cut off (case R2). A checkpoint that the
// ledger declares abandoned is none to keep to.
func (g *Governed) checkRollback(ctx context.Context) error {
	signed, err := ledger.KeptCheckpoint(g.Dir.Path, g.World)
	if err != nil {
		return err
	}
	return g.Ledger.Check(ctx, signed)
}

func (g *Governed) checkpointFile() string {
	return ledger.CheckpointFile(g.Dir.Path, g.World)
}

// Checkpoint signs the ledger as it stands and keeps the note beside the store.
func (g *Governed) Checkpoint(ctx context.Context) {
	signed, err := g.Ledger.Checkpoint(ctx)
	if err == nil {
		err = ledger.WriteCheckpoint(g.checkpointFile(), signed)
	}
	if err != nil {
		g.Log.Warn("no checkpoint was kept", "error", err)
	}
}

// Evidence adds to a ledger what a supervisor puts into a task's pack.
type Evidence struct{ *ledger.Ledger }

// Evidence implements supervisor.Ledger.
func (e Evidence) Evidence(ctx context.Context, task, from int64) (replay.Evidence, error) {
	return replay.Collect(ctx, e.Ledger, task, from)
}

var _ supervisor.Ledger = Evidence{}

// CloseRepo gives back a repository that counts for nothing any more.
func CloseRepo(r *git.Repo) {
	if r != nil {
		_ = r.Close() // everything that counts was answered before
	}
}

// DefaultBuilder is the name that a contract gives where it gives none.
const DefaultBuilder = "default"

// The keys that say which task a line is about.
const (
	LogWorld = "world"
	LogTask  = "task"
	LogRun   = "run"
	// LogRepository is what people call the world.
	LogRepository = "repository"
)
