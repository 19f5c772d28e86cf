package kernel

import "github.com/writbot/writ/kernel/canon"

// Result is what a builder answers, the fields of seed 001. It is a claim: the
// kernel computes the changed files itself and the runner's checks decide.
type Result struct {
	Status       string   `json:"status"` // ResultSuccess or ResultFailure
	ChangedFiles []string `json:"changed_files"`
	CommitHash   *string  `json:"commit_hash,omitempty"` // recorded, never used
	TestsPassed  bool     `json:"tests_passed"`
	Logs         string   `json:"logs"`
	Timestamp    string   `json:"timestamp"` // UTC, ISO 8601
}

// The two values of a result's status.
const (
	ResultSuccess = "success"
	ResultFailure = "failure"
)

// Stream is a captured output: hash and length of all of it, and its last part.
type Stream struct {
	Digest canon.Digest `json:"digest"`
	Bytes  int64        `json:"bytes"`
	Tail   string       `json:"tail"` // valid UTF-8, redacted, capped
}

// Exit is how a process ended.
type Exit struct {
	Code   int64  `json:"code"`   // -1 when ended by a signal
	Signal string `json:"signal"` // "" when it exited by itself
	Cause  string `json:"cause"`  // one of the Cause words
}

// Why a process ended.
const (
	CauseExited      = "exited"
	CauseTimeout     = "timeout"       // build or check timeout
	CauseStart       = "start_timeout" // no sign of life in time
	CauseIdle        = "idle_timeout"  // no output for too long
	CauseResource    = "resource"      // a limit of the sandbox
	CauseBudget      = "budget"        // it used of models what it may
	CauseStopped     = "stopped"       // by writ: stop, shutdown, lost lease
	CauseStartFailed = "start_failed"  // the program could not be executed
)

// BuilderResult is the proposal record of a builder's end.
type BuilderResult struct {
	Kind     string      `json:"kind"` // "builder_result"
	Run      string      `json:"run_id"`
	Builder  string      `json:"builder"`
	Argv     []string    `json:"argv"`
	Sandbox  string      `json:"sandbox"`  // isolation level, "none" included
	Composed bool        `json:"composed"` // the adapter wrote the result, not the builder
	Result   *Result     `json:"result"`   // null where there is none or it is invalid
	Exit     Exit        `json:"exit"`
	Stdout   Stream      `json:"stdout"`
	Stderr   Stream      `json:"stderr"`
	Started  int64       `json:"started"` // Unix milliseconds
	Ended    int64       `json:"ended"`
	Faults   []Violation `json:"faults"`           // found while reading the result
	Egress   *Egress     `json:"egress,omitempty"` // absent where it asked for no connection
	Prepared *Prepared   `json:"prepared,omitempty"`
	Agent    *Agent      `json:"agent,omitempty"` // absent of a builder of no kind
}

// Agent says which agent a builder was. Kind, model and instructions are the operator's configuration. The
// version is the agent's claim: what it says in its own stream, else what its program said
// before the claim. So is its last message.
type Agent struct {
	Kind    string `json:"kind"`
	Version string `json:"version"`           // untrusted: at most 64 printable ASCII characters; "" where it said none
	Model   string `json:"model"`             // "" where the choice is the agent's
	Message string `json:"message,omitempty"` // untrusted: the beginning of what it said last, redacted, at most 2 KiB
	// Instructions says that it was told to obey the repository's plain instructions.
	Instructions bool `json:"repository_instructions,omitempty"`
}

// ChangeOp is what happened to a path.
type ChangeOp string

// The operations of a diff. A rename is a delete and an add.
const (
	OpAdd    ChangeOp = "add"
	OpModify ChangeOp = "modify"
	OpDelete ChangeOp = "delete"
	OpMode   ChangeOp = "mode"
)

// Change is one hash-anchored change (seed 003 §10): full-file replacement with
// hashes before and after. Ids are git blob ids, hashes SHA-256 of the content.
type Change struct {
	Path       string       `json:"path"`
	Op         ChangeOp     `json:"op"`
	BeforeID   string       `json:"before_id"` // "" for add
	BeforeMode string       `json:"before_mode"`
	AfterID    string       `json:"after_id"` // "" for delete
	AfterMode  string       `json:"after_mode"`
	AfterHash  canon.Digest `json:"after_hash"` // "" for delete
	Size       int64        `json:"size"`       // bytes after
}

// Diff is the proposal record of what a builder changed, computed by Writ from
// raw bytes.
type Diff struct {
	Kind       string      `json:"kind"` // "diff"
	Run        string      `json:"run_id"`
	Base       string      `json:"base_commit"`
	Changes    []Change    `json:"changes"`   // by path
	Discarded  []string    `json:"discarded"` // untracked paths that the base ignores
	Violations []Violation `json:"violations"`
	// Guarded are the changed paths that a person must accept, Locks the lock files that
	// come with their manifests; both by path.
	Guarded []GuardedPath `json:"guarded,omitempty"`
	Locks   []string      `json:"locks,omitempty"`
	// Merged are the files that are merges, where a verified diff was applied on another
	// base that had changed them too; by path.
	Merged []MergedFile `json:"merged,omitempty"`
}

// MergedFile is a changed file whose content is a merge by lines: of which git blobs.
type MergedFile struct {
	Path     string `json:"path"`
	BaseID   string `json:"base_id"`   // before the work, on the base that it was verified on
	OursID   string `json:"ours_id"`   // as the work left it there
	TheirsID string `json:"theirs_id"` // on the base that it was applied on
}

// GuardedPath is a changed path that nothing is delivered with until a person has accepted
// exactly what it holds.
type GuardedPath struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// CheckResult is one check's end. Durations are no part of it: the same tree
// gives the same bytes (conformance KC46).
type CheckResult struct {
	Name   string  `json:"name"`
	Passed bool    `json:"passed"`
	Runs   int64   `json:"runs"` // how often it ran
	Stable bool    `json:"stable"`
	Exit   Exit    `json:"exit"`
	Output Stream  `json:"output"`
	Egress *Egress `json:"egress,omitempty"` // of all its runs; absent where it asked for no connection
	// OnBase is how it ended on the base, where it failed and that was tried. It is told, and
	// decides nothing: a test that an issue exists to mend fails there by design.
	OnBase *Exit `json:"on_base,omitempty"`
	// Lacks is what it did without, and what the base does without as well: then it is no
	// fault of the change.
	Lacks *Lack `json:"lacks,omitempty"`
}

// Lack is what a check has not in its surroundings.
type Lack struct {
	Code Code   `json:"code"` // one for which [Code.Lacks] holds
	What string `json:"what"` // host, program, limit or call
}

// RunResult is the proposal record of the runner's checks.
type RunResult struct {
	Kind    string        `json:"kind"` // "run_result"
	Run     string        `json:"run_id"`
	Tree    string        `json:"tree"` // git tree id that was checked
	Sandbox string        `json:"sandbox"`
	Checks  []CheckResult `json:"checks"` // in the contract's order
	// Prepared is absent where the contract has no preparation.
	Prepared *Prepared `json:"prepared,omitempty"`
}

// Prepared is what a builder or the checks of a run were shown of the contract's
// preparation.
type Prepared struct {
	// Key is the hash of all that the result follows from: steps, key files or base, and
	// what of the host the steps see. Layer is the hash of the files that were shown.
	Key   canon.Digest `json:"key"`
	Layer canon.Digest `json:"layer"`
	// OfChange says that the change touches key files: the preparation was made from its
	// own, for these checks alone.
	OfChange bool         `json:"of_change"`
	Steps    []StepResult `json:"steps"` // that ran now; none where the layer was there
}

// StepResult is how one step of the preparation ended.
type StepResult struct {
	Name   string  `json:"name"`
	Exit   Exit    `json:"exit"`
	Output Stream  `json:"output"`
	Egress *Egress `json:"egress,omitempty"` // absent where it asked for no connection
}
