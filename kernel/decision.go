package kernel

import "github.com/writbot/writ/kernel/canon"

// Action is the one effect of a decision. ActionNone is the decision to do
// nothing.
type Action string

// The effects of a task. Those marked "push" move the state ref by
// compare-and-swap.
const (
	ActionNone      Action = "none"
	ActionClaim     Action = "claim"     // push: event and lease
	ActionTakeOver  Action = "take_over" // push: stalled over an expired lease
	ActionHeartbeat Action = "heartbeat" // push: renewed lease
	ActionDispatch  Action = "dispatch"  // start the builder
	ActionSeal      Action = "seal"      // push: our lease, with what the builder left in its tree
	ActionChecks    Action = "checks"    // start the checks
	ActionJudge     Action = "judge"     // record the verdict on a run; nothing outside happens
	ActionResult    Action = "result"    // push: completed, retry_pending or blocked
	ActionRelease   Action = "release"   // push: stalled over our own live lease
	ActionWait      Action = "wait"      // push: waiting
	ActionAbandon   Action = "abandon"   // kill our processes, push nothing
	ActionComplete  Action = "complete"  // push: completed over a result that waited for its merge
	ActionRestore   Action = "restore"   // push: the delivered result again, over the lease of a run that was to replace it
	ActionRedeliver Action = "redeliver" // push the change branch that an accepted result at HEAD names, and that isn't there
)

// External reports whether the action reaches outside the ledger.
func (a Action) External() bool { return a != ActionNone && a != ActionJudge && a != "" }

// Verdict is the kernel's word on a request.
type Verdict string

// The three verdicts of seed 004.
const (
	Allow Verdict = "ALLOW"
	Deny  Verdict = "DENY"
	Halt  Verdict = "HALT"
)

// Standing is how the task stands for the caller after the decision.
type Standing string

// Standings; each maps to one exit code of `writ task run`.
const (
	StandActing    Standing = "acting"    // the effect is to be done, then decide again
	StandRunning   Standing = "running"   // our run is live: wait for it or for Wake
	StandFinal     Standing = "final"     // HEAD has one of the three final states
	StandDue       Standing = "due"       // retry_pending or stalled, due at Wake
	StandHeld      Standing = "held"      // another runner's lease is live until Wake
	StandWaiting   Standing = "waiting"   // waits for a person
	StandRefused   Standing = "refused"   // the kernel won't start
	StandHalted    Standing = "halted"    // this task's kernel is halted
	StandAbandoned Standing = "abandoned" // our run is over without a result
)

// Reason is a node of the tree that explains a decision: one rule, whether it
// holds, and what it rests on.
type Reason struct {
	Rule       string      `json:"rule"`
	Holds      bool        `json:"holds"`
	Detail     string      `json:"detail"`
	Violations []Violation `json:"violations"`
	Children   []Reason    `json:"children"`
}

// Decision is what the kernel makes of facts: a pure function of the task's
// view, the facts and the time.
type Decision struct {
	Kind          string       `json:"kind"` // "decision"
	Verdict       Verdict      `json:"verdict"`
	Standing      Standing     `json:"standing"`
	Action        Action       `json:"action"`
	State         TaskState    `json:"state"`       // the task's state once the effect is done
	WaitingFor    string       `json:"waiting_for"` // with TaskWaiting
	Attempt       int64        `json:"attempt"`
	Interruptions int64        `json:"interruptions"`
	NotBefore     int64        `json:"not_before"` // Unix milliseconds, 0 for none
	Wake          int64        `json:"wake"`       // when to decide again at the latest, 0 for no time
	Codes         []Code       `json:"codes"`
	Violations    []Violation  `json:"violations"`
	Reasons       Reason       `json:"reasons"`
	Facts         canon.Digest `json:"facts_hash"`
	Issue         *IssueEffect `json:"issue,omitempty"` // of an effect on the issue
	// Resumes is, of a claim, the run whose sealed work it goes on with; "" where a
	// builder is to be started.
	Resumes string `json:"resumes,omitempty"`
	// Refreshes is, of a claim, the run whose delivered result it applies on the base as
	// it is now.
	Refreshes string `json:"refreshes,omitempty"`
	// Fixes is, of a claim, the run whose delivered result it is a revision of, and
	// Fix the digest of that revision's list, see [FixDigest].
	Fixes string       `json:"fixes,omitempty"`
	Fix   canon.Digest `json:"fix,omitempty"`
	// RefreshInterruptions is how often runs for the act that asked for that were
	// interrupted, and AsksAgain says, of putting the result back, that the act is to be
	// done again.
	RefreshInterruptions int64 `json:"refresh_interruptions,omitempty"`
	AsksAgain            bool  `json:"asks_again,omitempty"`
	// RefreshWaits is, where it asks again, what that waits for: [WaitPaths], or "" for
	// nothing but time.
	RefreshWaits string `json:"refresh_waiting_for,omitempty"`
}

// Refusal is the report of a request that the kernel won't go on with (seed
// 003 §7). It is an expected output, not a failure.
type Refusal struct {
	Kind     string         `json:"kind"` // "refusal"
	World    string         `json:"world_id"`
	Task     int64          `json:"task_id"`
	Codes    []Code         `json:"reason_codes"`
	Evidence []canon.Digest `json:"evidence"` // hashes of the records it rests on
	Required []Requirement  `json:"required"`
}

// Requirement says what would have to change, from the table's fixed words.
type Requirement struct {
	Code     Code   `json:"code"`
	Subject  string `json:"subject"`
	Required string `json:"required"`
}

// NewRefusal composes the refusal of a denied decision.
func NewRefusal(world string, task int64, d Decision, evidence []canon.Digest) Refusal {
	r := Refusal{Kind: string(KindRefusal), World: world, Task: task, Codes: d.Codes, Evidence: evidence}
	for _, v := range d.Violations {
		r.Required = append(r.Required, Requirement{v.Code, v.Subject, v.Code.Info().Remedy})
	}
	return r
}
