package supervisor

import (
	"context"
	"iter"
	"log/slog"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/pushed"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// Repo is the repository that holds base, state ref and change branch. It is
// the source of truth: answers are never cached.
type Repo interface {
	Refs(ctx context.Context, names ...string) (git.Refs, error)
	Commit(ctx context.Context, oid git.OID) (git.Commit, error)
	// Commits reads many at once: see [git.Repo.Commits].
	Commits(ctx context.Context, oids []git.OID, f func(git.Commit)) error
	// Log reads the commits that from reach and not don't, or more of them: see
	// [git.Repo.Log].
	Log(ctx context.Context, from, not []git.OID, most int) (commits []git.Commit, rest []git.OID, err error)
	Tree(ctx context.Context, commitOrTree git.OID) (git.Tree, error)
	Blobs(ctx context.Context, oids []git.OID, f func(git.OID, []byte) error) error
	CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome
	Reassert(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome
}

// Ledger stores finished records and vouches for them. Write is durable when it
// returns without an error; after an error nothing was stored.
type Ledger interface {
	Chain() kernel.Chain
	Write(ctx context.Context, now int64, drafts ...kernel.Draft) ([]kernel.SealedRecord, error)
	Evidence(ctx context.Context, task, fromSeq int64) (replay.Evidence, error)
	// RecordsOfTask gives the records of one task in their order.
	RecordsOfTask(ctx context.Context, task int64) iter.Seq2[kernel.Record, error]
}

// Issue is the text of a task as it is now, and what is known of its approval.
type Issue struct {
	Title    string
	Body     string
	Actor    string             // who approved: account id, or the local user
	Evidence string             // how the approved bytes are known
	Approved canon.Digest       // "" where the approval is of the text as it is
	Time     int64              // of the approval, Unix milliseconds
	Policy   []kernel.Violation // authority and target
	Anew     bool               // approved again, while the task waited

	// What follows is of an issue on a forge; see package approval.
	Act   string             // id of the newest act that counts, "" for none
	Retry bool               // that act also moves on from what waits for repair
	ByBot bool               // that act is a bot's that the contract names: it approves, and begins nothing anew
	Said  string             // what its author said to it for the builder
	Asked bool               // authority and target were asked of the forge for this reading
	Human []kernel.Violation // what a person did that takes the approval back, and ends a run
	// TakenBack is the id of the newest approving act that Human takes back, "" for none.
	TakenBack string

	seen *approval.Facts // all that was read
}

// Terms is what an issue is read by: the contract's, and how the task stands.
type Terms struct {
	Trigger contract.Trigger
	Prior   string // act that the task was claimed on, "" for none
	Live    string // act that the live run rests on, "" where none is live
	// Brief asks for text and persons' acts only: a run is under way, and authority
	// and target were asked before its start.
	Brief bool
}

// Issues reads the task's text from where it lives. The contract is read before
// it, and its terms handed over.
type Issues interface {
	Issue(ctx context.Context, terms Terms) (Issue, error)
}

// Clock reads both time domains at once.
type Clock interface {
	Now() lease.Clock
}

// Sightings keeps since when this instance has seen others' leases, so that the
// time counts on for processes that end.
type Sightings interface {
	Load(ref string) (lease.Sighting, bool)
	Save(s lease.Sighting) error
}

// Shelf keeps one sealed work of each task in the instance's store, until it is pushed
// or of no more use.
type Shelf interface {
	Put(ctx context.Context, task int64, run string, work []byte) error
	Get(ctx context.Context, task int64) (run string, work []byte, err error)
	Drop(ctx context.Context, task int64) error
}

// Pushes keep what is pushed to the tasks' refs in the instance's store, for the day that
// the forge loses it.
type Pushes interface {
	Keep(ctx context.Context, task, now int64, p pushed.Push) error
	Since(ctx context.Context, task int64, from, head string) (list []pushed.Push, gap string, err error)
	Forget(ctx context.Context, task int64, head string) error
}

// Deps are the parts that a supervisor works with.
type Deps struct {
	Repo      Repo
	Ledger    Ledger
	Executor  executor.Executor
	Clock     Clock
	Sightings Sightings
	NewRunID  func() string // a fresh UUID at each call
	Signer    git.Signer
	Log       *slog.Logger
	// Acts are what was said of keys and worlds; nil where nothing can have been.
	Acts Acts
	// Shelf keeps sealed work that the server doesn't take; nil keeps none.
	Shelf Shelf
	// Pushes keeps what is pushed; nil keeps nothing.
	Pushes Pushes
	// Savings keeps what the process has folded; nil keeps nothing.
	Savings Savings
	// Holds reports whether text has a secret in it that writ was given; nil knows none.
	Holds func(text []byte) bool
	// Forge is where the world's issues are; nil where tasks come from files.
	Forge *Forge
	// Progress gets a sentence for the person who watches; nil for nobody.
	Progress func(line string)
	// Tail gets a redacted line of the builder's or a check's output.
	Tail func(task int64, line string)
	// Fault is called at every registered fault point; nil outside tests.
	Fault func(Point)
	// Healed is told the tasks that waited for the server's recovery, which is there;
	// nil for nobody.
	Healed func(tasks []int64)
	// Ended is called once for every cycle that ended with a report.
	Ended func(EndedRun)
}

// EndedRun is one ended execution, for the log of execution cycles.
type EndedRun struct {
	Task   int64
	From   int64  // ledger sequence of the cycle's first record
	Report []byte // canonical JSON of the compliance report
}

// Config is what the operator decided.
type Config struct {
	World         string        // its identity, see docs/architecture.md
	Repository    string        // what people call it
	RunnerID      string        // this state directory on this host
	RefPrefix     string        // of state refs; DefaultRefPrefix if empty
	ChangePrefix  string        // of change branches; DefaultChangePrefix if empty
	Base          string        // full ref name of the base branch; "" for the repository's default
	Contract      *ContractFile // instead of the repository's own; nil for that
	Caps          contract.Caps
	LockSources   []string // that lock files may name, whatever the base does
	Lease         lease.Policy
	LeaseSeconds  int64
	MarginSeconds int64
	Name, Email   string          // author and committer of what writ writes
	Trusted       []ssh.PublicKey // whose results count besides our own
	Warnings      []string        // for the first lines of every report
	Observe       bool            // claim nothing on a forge, whatever the contract says
	Budgets       Budgets         // what builders may use of models
}

// ContractFile is a contract given by the operator.
type ContractFile struct {
	Name string
	Read func() ([]byte, error)
}

// The places of a task's refs.
const (
	DefaultRefPrefix    = "refs/writ/task/"
	DefaultChangePrefix = replay.ChangePrefix
)
