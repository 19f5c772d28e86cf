package executor

import (
	"context"

	"github.com/writbot/writ/kernel"
)

// BuildJob is everything a builder's start depends on.
type BuildJob struct {
	World       string // as the server's configuration calls it
	Task        int64
	Run         string
	Builder     string         // name in the server's configuration
	Dispatch    []byte         // canonical JSON, handed over as a read-only file
	Instruction string         // the builder's standard input
	Base        Base           // what the workspace holds at the start
	Budgets     kernel.Budgets // start, build and idle timeouts, files, bytes
	Scope       ScopeRules     // what may change
	Prepare     []kernel.Step  // what runs on the base before it
	// Trusted is the base that is prepared from, where Base is work that was delivered on it;
	// nil: Base.
	Trusted *Base
	Spend   kernel.Spend      // that it may use of models; the zero value bounds nothing
	OnLine  func(line string) // live tail, redacted, one call at a time; may be nil
}

// ScopeRules say what a change may touch.
type ScopeRules struct {
	Allowed     []string // globs of the task
	Forbidden   []string // of the contract's paths.forbidden, on top of the fixed list
	Guarded     []string // of the contract's paths.guarded, on top of the fixed list
	Unprotect   []string // of the contract's paths.unprotect
	Accepts     bool     // somebody can be asked to accept a guarded path
	LockSources []string // of the operator: that lock files may name, whatever the base does
	KeepIgnored bool     // paths.ignored is not "discard": ignored leftovers are violations
}

// File is one entry of a tree. Mode is git's, in octal: 100644, 100755, 120000
// or 160000.
type File struct {
	Path string
	Mode string
	ID   string // git blob id
}

// Base is a pinned tree and where its blobs come from.
type Base struct {
	Commit string
	Files  []File // by path
	// Blobs calls f once for each distinct id, in any order.
	Blobs func(ctx context.Context, ids []string, f func(id string, data []byte) error) error
}

// BuildOutcome is what came of a build: two proposals and what is wrong with
// them. Contents has the bytes behind each after-id of the diff: the bytes that
// were hashed, and the only ones that are ever committed.
type BuildOutcome struct {
	Result     kernel.BuilderResult
	Diff       kernel.Diff
	Contents   map[string][]byte  // by git blob id
	Violations []kernel.Violation // exit, timeout, result
}

// CheckJob asks the runner to evaluate a change: the checks run in a fresh
// sandbox each, on a fresh tree built from the hashed bytes.
type CheckJob struct {
	World    string // as the server's configuration calls it
	Task     int64
	Run      string
	Base     Base
	Diff     kernel.Diff
	Contents map[string][]byte
	Checks   []kernel.Check
	Prepare  []kernel.Step
	// Trusted is the base that the checks are prepared from, where Base is what somebody
	// pushed; nil: Base.
	Trusted *Base
	TreeID  string // git id of the tree that is checked
	OnLine  func(line string)
}

// CheckOutcome is what the checks gave.
type CheckOutcome struct {
	Run        kernel.RunResult
	Violations []kernel.Violation
	Tail       string // of the failed checks' output, capped and redacted
}

// Build is a running builder.
type Build interface {
	// Done is closed when the outcome is there.
	Done() <-chan struct{}
	// Kill ends the whole process tree; the outcome then says that it was
	// stopped. It returns when nothing of it runs any more.
	Kill()
	// Outcome is valid once Done is closed.
	Outcome() BuildOutcome
}

// Checks is a running evaluation.
type Checks interface {
	Done() <-chan struct{}
	Kill()
	Outcome() CheckOutcome
}

// Executor starts builders and checks. A returned error is a *Error and means
// that nothing runs.
//
// Build and Check return at once: laying the tree out is a part of what runs,
// so that a large base never keeps a caller from renewing its lease, and Kill
// ends that part too. What goes wrong there is in the outcome, with a code that
// is no attempt's.
type Executor interface {
	// Environment validates what a run needs before a task is claimed (seed
	// 001): sandbox, builder and the provider of its model. Its codes are
	// environment.*, sandbox.unavailable and provider.*.
	Environment(ctx context.Context, builder string) []kernel.Violation
	Build(ctx context.Context, job BuildJob) (Build, error)
	Check(ctx context.Context, job CheckJob) (Checks, error)
}

// Prefetcher is what an executor may offer on top of [Executor].
type Prefetcher interface {
	// Prefetch begins to lay out what a run of builder on base will need, before
	// it is known whether there will be one, and returns at once. It starts no
	// process and it can't fail: what isn't there when Build or Check wants it
	// is done then.
	Prefetch(builder string, base Base)
}

// Outward is what an executor may offer on top of [Executor]. Of one that doesn't offer it
// nothing reaches the outside.
type Outward interface {
	// Reach says which hosts that checks and preparation ask for can't be reached from
	// here in a world, and whether there can be a preparation, before anything is built
	// (egress.not_allowed, environment.prepare.unavailable).
	Reach(world string, checks []kernel.Check, steps []kernel.Step) []kernel.Violation
	// Hosts are those that a builder is told it may reach in a world, sorted: as a contract
	// writes hosts, or where they are asked for if the gateway has a credential for them, or
	// if they are asked for by some methods alone, which are named. Providers of models are
	// left out.
	Hosts(world, builder string) []string
	// Unheld says why what one attempt of a builder may use of models, by the operator's
	// budget and a contract's, can't be held in a world (budget.unmetered, budget.unpriced).
	Unheld(world, builder string, contracts kernel.Budgets) []kernel.Violation
}

// Surveyor is what an executor may offer on top of [Executor].
type Surveyor interface {
	// Survey tries whether a run of builder could have base, every file of it, and
	// says what is wrong with the base itself (environment.base.unusable): that is
	// so for every run on this commit. An error means that it could not be found
	// out now. It takes as long as laying the base out does, and ends with ctx.
	Survey(ctx context.Context, builder string, base Base) ([]kernel.Violation, error)
}

// Error is a failure to start, with its code.
type Error struct {
	Code   kernel.Code
	Detail string
	Err    error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return string(e.Code) + ": " + e.Detail + ": " + e.Err.Error()
	}
	return string(e.Code) + ": " + e.Detail
}

func (e *Error) Unwrap() error { return e.Err }
