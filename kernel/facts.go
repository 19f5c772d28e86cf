package kernel

import (
	"strconv"
	"strings"

	"github.com/writbot/writ/kernel/canon"
)

// Request says why a decision is asked for.
type Request string

// The requests of a task.
const (
	RequestTick     Request = "tick"      // look at the task
	RequestStop     Request = "stop"      // a person wants the run to end
	RequestShutdown Request = "shutdown"  // this process ends
	RequestHalt     Request = "halt"      // a person halts the task: what is held is given back first
	RequestGiveBack Request = "give_back" // the forge won't answer before the lease of what wasn't started ends
	RequestLook     Request = "look"      // only say how the task stands
)

// Facts is everything that one decision depends on: the task's folded state,
// what was observed, and the time. It is recorded whole as an observation, so
// that the decision can be taken again from that one record.
type Facts struct {
	Kind        string       `json:"kind"` // "observation"
	Now         int64        `json:"now"`  // the virtual clock, Unix milliseconds
	View        TaskView     `json:"view"` // what the fold of the ledger knows
	Request     Request      `json:"request"`
	Actor       string       `json:"actor"`
	World       string       `json:"world_id"`
	Task        int64        `json:"task_id"`
	Head        HeadFacts    `json:"head"`
	Approved    canon.Digest `json:"approved"`   // digest of the approved text
	Current     canon.Digest `json:"current"`    // digest of the text as it is now
	SameIssue   bool         `json:"same_issue"` // the forge vouches that HEAD's task is this issue
	Governance  canon.Digest `json:"governance_hash"`
	Budgets     Budgets      `json:"budgets"`
	Checks      int64        `json:"checks"`      // how many checks the task has
	Input       []Violation  `json:"input"`       // structure and wording of the task
	Policy      []Violation  `json:"policy"`      // authority, target, contract, caps, mechanisms
	Environment []Violation  `json:"environment"` // repository, sandbox, builder, store
	Run         *RunFacts    `json:"run"`         // this process's live run, or null
	// What follows is there where the task is an issue on a forge.
	Act   string      `json:"act,omitempty"`   // id of the newest act that counts, see [NewerAct]
	Asked bool        `json:"asked,omitempty"` // Policy holds what the forge says of authority and target now
	Human []Violation `json:"human,omitempty"` // what a person did meanwhile that ends a run
	Issue *IssueFacts `json:"issue,omitempty"` // with RequestTell: what the forge shows
	// CloseOn is the contract's word where it isn't the default: with CloseMerged a
	// completed task waits for the merge of its change before its issue is closed.
	CloseOn string `json:"close_on,omitempty"`
	// Undone says that the delivered work was turned down: its change was closed
	// unmerged, or reverted on the base. A person may then ask for it again.
	Undone bool `json:"undone,omitempty"`
}

// CloseMerged is the contract's word for closing an issue at the merge.
const CloseMerged = "merged"

// Trust says by whom HEAD was signed.
type Trust string

// Whose commit HEAD is.
const (
	TrustOwn      Trust = "own"      // this instance's key
	TrustListed   Trust = "listed"   // a key in runners
	TrustUnlisted Trust = "unlisted" // a good signature by another key
	TrustNone     Trust = "none"     // no or a bad signature
)

// Trusted reports whether a result or approval with this signature is acted on.
func (t Trust) Trusted() bool { return t == TrustOwn || t == TrustListed }

// HeadFacts is the commit at the task's state ref, as read over git.
type HeadFacts struct {
	OID           string       `json:"oid"`   // "" where the ref doesn't exist
	State         string       `json:"state"` // word of aynig-state; "" where HEAD is no event
	Fault         string       `json:"fault"` // why HEAD is no event
	Trust         Trust        `json:"trust"`
	Signer        string       `json:"signer"` // key fingerprint, "" for none
	RunID         string       `json:"run_id"`
	RunnerID      string       `json:"runner_id"`
	OriginState   string       `json:"origin_state"`
	Predecessor   bool         `json:"predecessor"` // the lease of this state directory's dead process
	LeaseExpired  bool         `json:"lease_expired"`
	LeaseUntil    int64        `json:"lease_until"` // Unix milliseconds, best estimate
	LeaseReason   string       `json:"lease_reason"`
	Approval      canon.Digest `json:"approval"`
	Attempt       int64        `json:"attempt"`
	Interruptions int64        `json:"interruptions"`
	NotBefore     int64        `json:"not_before"` // Unix milliseconds, 0 for none
	WaitingFor    string       `json:"waiting_for"`
	// Over is the word at the commit below an untrusted lease, where that is an
	// end or a wait: such a lease opens nothing again.
	Over       string `json:"over"`
	Reapproved bool   `json:"reapproved"` // a person approved anew while HEAD stood here
	// Act is the id of the act on the forge that HEAD rests on, "" for none.
	Act string `json:"act,omitempty"`
	// LastRun is the run whose end HEAD tells of, where it is nobody's lease.
	LastRun string `json:"last_run,omitempty"`
}

// Run is the run that HEAD speaks of, "" for none: the one that holds the task, or
// the last one that did.
func (h HeadFacts) Run() string {
	if h.RunID != "" {
		return h.RunID
	}
	return h.LastRun
}

// Phase is how far a live run has come.
type Phase string

// The phases of a run, in order.
const (
	PhaseClaimed  Phase = "claimed"
	PhaseBuilding Phase = "building"
	PhaseBuilt    Phase = "built"
	PhaseChecking Phase = "checking"
	PhaseChecked  Phase = "checked"
	PhaseJudged   Phase = "judged"
)

// RunFacts is what is known of the run that this process holds.
type RunFacts struct {
	RunID      string      `json:"run_id"`
	LeaseOID   string      `json:"lease_oid"` // the last commit this run pushed
	Attempt    int64       `json:"attempt"`
	Phase      Phase       `json:"phase"`
	RenewDue   bool        `json:"renew_due"`
	FenceDue   bool        `json:"fence_due"`
	ClaimedAt  int64       `json:"claimed_at"`
	Exit       *Exit       `json:"exit"`        // the builder's, once built
	Build      []Violation `json:"build"`       // exit, timeout, result
	Scope      []Violation `json:"scope"`       // changed files against the scope
	Changes    int64       `json:"changes"`     // number of changed paths
	CheckFails []Violation `json:"check_fails"` // once checked
	Message    []Violation `json:"message"`     // commit rules
	Dispatch   []Violation `json:"dispatch"`    // dispatch checked again before the start
	Refused    []Violation `json:"refused"`     // the server's refusal of the result
	Judgement  *Judgement  `json:"judgement"`   // the recorded verdict, once judged
}

// Judgement is the kernel's recorded verdict on a run, before it is pushed. What
// broke a rule stands in the run's own facts.
type Judgement struct {
	State      TaskState    `json:"state"`
	NotBefore  int64        `json:"not_before"` // Unix milliseconds, 0 for none
	Codes      []Code       `json:"codes"`
	Violations []Violation  `json:"violations"`
	Report     canon.Digest `json:"report_hash"`
	WaitingFor string       `json:"waiting_for,omitempty"` // WaitMerge where the issue is closed at the merge
}

// TaskView is what the fold of an instance's records knows of a task. Ownership
// and state are read at HEAD; this is only what HEAD can't say.
type TaskView struct {
	Task       int64  `json:"task_id"`
	Halted     bool   `json:"halted"`
	HaltReason string `json:"halt_reason"`
	Epoch      int64  `json:"epoch"`
	// ResumedHead is the commit at HEAD that a person last moved on from with
	// `writ task resume`, "" for none.
	ResumedHead string `json:"resumed_head"`
	// AcceptedRun is the run whose result this instance saw accepted for
	// AcceptedApproval, "" for none.
	AcceptedRun      string       `json:"accepted_run"`
	AcceptedApproval canon.Digest `json:"accepted_approval"`
	// Act is the id of the newest act on the forge that was taken in: by a HEAD
	// that could be trusted, or by moving on; "" for none.
	Act string `json:"act,omitempty"`
	// Answered are the comments whose commands were answered.
	Answered Answered `json:"answered,omitempty"`
	// Checked is the check that was set last: commit and digest.
	Checked string `json:"checked,omitempty"`
}

// NewerAct reports whether the act on a forge with one id came after that with
// another. An id begins with the act's time by the forge's clock, in Unix
// milliseconds, and a slash; every act comes after none, and what is no id after
// nothing.
func NewerAct(id, than string) bool {
	if id == than {
		return false
	}
	a, okA := actTime(id)
	b, okB := actTime(than)
	return okA && (!okB || a >= b)
}

func actTime(id string) (int64, bool) {
	ms, _, found := strings.Cut(id, "/")
	n, err := strconv.ParseInt(ms, 10, 64)
	return n, found && err == nil
}
