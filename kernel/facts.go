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
	Told        bool         `json:"told"`       // the issue bears our account's status comment of a run
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
	Human []Violation `json:"human,omitempty"` // what a person did that takes the approval back, and ends a run
	// TakenBack is the id of the newest approving act that Human takes back, "" for none.
	TakenBack string `json:"taken_back,omitempty"`
	// OnItsWay says that nobody heard what became of this instance's last push to the
	// state ref, and that HEAD doesn't show it: it may still arrive.
	OnItsWay bool `json:"on_its_way,omitempty"`
	// Refused is the server's refusal of this task's last claim, where it isn't known
	// yet whether a rule refuses it, which the push of the wait shows.
	Refused []Violation `json:"refused,omitempty"`
	// Mended says that HEAD waits for a rule that may be mended: since it does, this
	// process began, or another configuration or contract came into force. So it does of a
	// HEAD that waits for what its checks lack.
	Mended bool `json:"mended,omitempty"`
	// BaseMoved says that the base is another commit than the one on which the checks of
	// the work that HEAD waits with lacked something.
	BaseMoved bool `json:"base_moved,omitempty"`
	// RuleWait is how long to wait for a rule before it is tried again, milliseconds.
	RuleWait int64       `json:"rule_wait,omitempty"`
	Issue    *IssueFacts `json:"issue,omitempty"` // with RequestTell: what the forge shows
	// CloseOn is the contract's word where it isn't the default: with CloseMerged
	// verified work waits for the merge of its change before the task is completed.
	CloseOn string `json:"close_on,omitempty"`
	// Sealed is the work that an interrupted run left at HEAD or in this instance's
	// store, read again; null where there is none.
	Sealed *SealedFacts `json:"sealed,omitempty"`
	// Missing is the change branch of the accepted result at HEAD, where it isn't there
	// and nothing tells that it was; null otherwise.
	Missing *MissingFacts `json:"missing,omitempty"`
	// Paths are the guarded paths of the live run's work, or of that which HEAD waits with;
	// null where there are none.
	Paths *PathsFacts `json:"paths,omitempty"`
	// Undone says that the delivered work was turned down: its change was closed
	// unmerged, or reverted on the base. A person may then ask for it again.
	Undone bool `json:"undone,omitempty"`
	// Refresh is what it takes to apply the delivered work at HEAD on the base as it is
	// now, where somebody asks for that; null otherwise.
	Refresh *RefreshFacts `json:"refresh,omitempty"`
	// Budget is what the operator's budgets leave for a run of this task; null where there are
	// none.
	Budget *BudgetFacts `json:"budget,omitempty"`
	// Fix is what it takes to begin a revision of the delivered work at HEAD, where
	// somebody asks for that; null otherwise.
	Fix *FixFacts `json:"fix,omitempty"`
	// LagUntil is until when nothing is claimed, Unix milliseconds, for the server showed
	// what was pushed too late for the last leases to be renewed in time; 0 for none.
	LagUntil int64 `json:"lag_until,omitempty"`
}

// SealedFacts is what a claim that would go on with sealed work depends on.
type SealedFacts struct {
	Run        string       `json:"run_id"` // that was dispatched
	Attempt    int64        `json:"attempt"`
	Approval   canon.Digest `json:"approval"`
	Governance canon.Digest `json:"governance_hash"`
	Base       string       `json:"base_commit"`
	Fix        canon.Digest `json:"fix,omitempty"` // of a revision: of the list that its builder was told
	Dispatch   canon.Digest `json:"dispatch_hash"`
	// Faults are why it can't be used: whose it is, what its bytes are, what its paths
	// are, or what it was made on and under.
	Faults []Violation `json:"faults"`
}

// MissingFacts is a result of which a server that isn't atomic took the state ref alone.
type MissingFacts struct {
	Change  string      `json:"change"`  // the commit that the result names
	Due     int64       `json:"due"`     // when the branch is made, Unix milliseconds: whoever was before us may still do so
	Refused []Violation `json:"refused"` // the server's refusal of the last try
	Faults  []Violation `json:"faults"`  // why it can't be made
}

// OwedFacts is a push that the server acknowledged and lost. The very same push is made
// again, by the look that is due, or once a person takes the halt back.
type OwedFacts struct {
	Due     int64       `json:"due"`     // Unix milliseconds
	Refused []Violation `json:"refused"` // the server's refusal of the last try
}

// Resumable reports whether a claim goes on with the sealed work: a run of this very
// approval, attempt and contract was interrupted after its builder had ended, and no
// person has begun the task anew or stopped it since.
func (f Facts) Resumable() bool {
	h := f.Head
	return f.sealedFor("") && (h.State == HeadStalled || h.WaitsWithWork()) && h.Trusted() && !f.BeginsAnew()
}

// sealedFor reports whether there is sealed work of this very approval, attempt and
// contract, which nothing speaks against, of a revision for this list; "" for none.
func (f Facts) sealedFor(list canon.Digest) bool {
	s, h := f.Sealed, f.Head
	return s != nil && len(s.Faults) == 0 && s.Run != "" && s.Fix == list &&
		h.Approval == f.Approved && s.Approval == f.Approved && s.Governance == f.Governance && s.Attempt == max(h.Attempt, 1)
}

// ownWork reports whether HEAD waits for a rule with work of this instance's own dead
// process, which can be gone on with: nobody else has to be waited for.
func (f Facts) ownWork() bool { return f.Head.Kept && f.Head.Predecessor && f.Resumable() }

// Keepable reports whether what the builder of the live run left is to be kept: it has
// ended well, and nothing speaks against its work.
func (f Facts) Keepable() bool {
	r := f.Run
	return r != nil && r.Phase == PhaseBuilt && len(r.Build)+len(r.Scope)+len(r.Message) == 0
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
	OID     string  `json:"oid"`   // "" where the ref doesn't exist
	State   string  `json:"state"` // word of aynig-state; "" where HEAD is no event
	Fault   string  `json:"fault"` // why HEAD is no event
	Trust   Trust   `json:"trust"`
	Signer  string  `json:"signer"`  // key fingerprint, "" for none
	Format  int64   `json:"format"`  // of its trailers, 0 where they are none of ours
	Seq     int64   `json:"seq"`     // of a commit that is bound here
	Binding Binding `json:"binding"` // "" where the ref doesn't exist
	Issue   string  `json:"issue"`   // [IssueName] of a commit that is bound here
	Named   string  `json:"named"`   // what it is bound to, where that is elsewhere
	// Parent is the first commit below it that is trusted and bound here, where the
	// decision turns on it: "" otherwise, and where there is none.
	Parent        string       `json:"parent"`
	RunID         string       `json:"run_id"`
	RunnerID      string       `json:"runner_id"`
	OriginState   string       `json:"origin_state"`
	Predecessor   bool         `json:"predecessor"` // it is of this state directory's dead process: its lease, or its wait for a rule
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
	// Unrenewed says that HEAD is this process's own lease, which ended because the
	// server was unable to take a renewal, or showed it too late: breaking it counts
	// nothing.
	Unrenewed bool `json:"unrenewed,omitempty"`
	// Behind says that nothing was seen of the task, the issue tells of a run, and HEAD
	// neither is of that run nor has it below.
	Behind bool `json:"behind,omitempty"`
	// Told is the number of the state commit that writ's comment on the issue tells of,
	// where that is higher than HEAD's; 0 otherwise.
	Told int64 `json:"told_seq,omitempty"`
	// Lost says that the server acknowledged this instance's last push, and that HEAD
	// neither is what that brought nor has it below, though no look has shown it since.
	Lost bool `json:"lost,omitempty"`
	// Owed is that push, where it brings what was judged and a rule refuses it now, or
	// where the task is halted.
	Owed *OwedFacts `json:"owed,omitempty"`
	// LastRun is the run whose end HEAD tells of, where it is nobody's lease.
	LastRun string `json:"last_run,omitempty"`
	// Shown is the commit of the accepted result that HEAD is, where its change branch
	// shows it.
	Shown string `json:"shown,omitempty"`
	// Kept says that HEAD waits for a rule with the work of LastRun: who was to
	// deliver it has it.
	Kept bool `json:"kept,omitempty"`
	// Urged says that a person asked for the work that is kept to be delivered now: for
	// the same text, with nothing said to it.
	Urged bool `json:"urged,omitempty"`
	// Refreshes is, of a lease, the run whose delivered result it is to replace, and
	// RefreshAct the act on the forge that asked for such a thing last.
	Refreshes  string `json:"refreshes,omitempty"`
	RefreshAct string `json:"refresh_act,omitempty"`
	// Fixes is, of a lease, the run whose delivered result it is a revision of, and
	// Fix the digest of that revision's list; of a result the digest alone. RefreshAct is the
	// act that asked for either.
	Fixes string       `json:"fixes,omitempty"`
	Fix   canon.Digest `json:"fix,omitempty"`
	// RefreshInterruptions is how often runs for that act were interrupted, and RefreshOwed
	// says that it is to be done again.
	RefreshInterruptions int64 `json:"refresh_interruptions,omitempty"`
	RefreshOwed          bool  `json:"refresh_owed,omitempty"`
	// RefreshWaits is what that act waits for before it is done again: [WaitPaths], or ""
	// for nothing but time.
	RefreshWaits string `json:"refresh_waiting_for,omitempty"`
	// Unrestorable is why the result that a dead lease at HEAD, or that of the live run, is
	// to replace can't be put back: it doesn't count any more, or can't be read.
	Unrestorable *Violation `json:"unrestorable,omitempty"`
	// Witnessed is what an act on the ref of the world's acts names on this ref, where
	// nothing was seen of the task here, and HEAD neither is that nor has it below.
	Witnessed *WitnessedFacts `json:"witnessed,omitempty"`
}

// WitnessedFacts is a state commit that another installation, or this one in the world
// before, said that it saw.
type WitnessedFacts struct {
	OID string `json:"oid"`
	Seq int64  `json:"seq"` // 0 where the repository doesn't have the commit
}

// AwaitsRule reports whether HEAD waits until the server takes what a rule of its own
// refused: it is due again by itself, at [HeadFacts.NotBefore].
func (h HeadFacts) AwaitsRule() bool {
	return h.Trusted() && h.State == string(TaskWaiting) && h.WaitingFor == WaitRule
}

// AwaitsSealed reports whether HEAD waits, and has sealed work in its tree.
func (h HeadFacts) AwaitsSealed() bool {
	return h.Trusted() && h.State == string(TaskWaiting) && SealedWait(h.WaitingFor)
}

// WaitsWithWork reports whether HEAD waits, and is gone on from without a person who begins
// the task anew: with the work that its run has done, where that can be used.
func (h HeadFacts) WaitsWithWork() bool { return h.AwaitsRule() || h.AwaitsSealed() }

// AwaitsEnvironment reports whether HEAD waits with sealed work for what its checks lack,
// and the base's as well.
func (h HeadFacts) AwaitsEnvironment() bool {
	return h.Trusted() && h.State == string(TaskWaiting) && h.WaitingFor == WaitEnvironment
}

// equipped reports whether work that waits for what its checks lack is tried again: a
// person says so, configuration or contract are others, or the base is. That is nothing
// that mends it as a rule, so that after as many runs as there are attempts the base alone
// has no builder paid any more.
func (f Facts) equipped() bool {
	return f.Head.AwaitsEnvironment() && (f.Mended || f.movedOn() || f.BaseMoved && f.Head.Interruptions < f.Budgets.Attempts)
}

// comeTrue reports whether what HEAD waits for with its sealed work has come about, so that
// the work is gone on with.
func (f Facts) comeTrue() bool { return f.accepted() || f.equipped() }

// Delivered reports whether HEAD is a result that counts and was accepted: it is
// completed, or waits for the merge of its change. One whose branch is missing delivers
// nothing.
func (f Facts) Delivered() bool {
	return f.Missing == nil && f.HeadCounts() && (f.Head.State == string(TaskCompleted) || f.AwaitsMerge())
}

// AwaitsMerge reports whether HEAD is an accepted result whose task is completed by
// the merge of its change.
func (f Facts) AwaitsMerge() bool {
	return f.HeadCounts() && f.Head.State == string(TaskWaiting) && f.Head.WaitingFor == WaitMerge
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
	PhaseSealed   Phase = "sealed" // what was built lies at HEAD, or can not
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
	Overdue    bool        `json:"fence_due"`
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
	// Again is when a refused result is pushed again, Unix milliseconds; 0 where it
	// isn't known yet whether a rule refuses it, which the push of the wait shows.
	Again int64 `json:"again,omitempty"`
	// Resumes is the run whose sealed work this one goes on with: it was dispatched,
	// and this one is not.
	Resumes string `json:"resumes,omitempty"`
	// Refreshes is the run whose delivered result this one applies on another base.
	Refreshes string `json:"refreshes,omitempty"`
	// Fixes is the run whose delivered result this one is a revision of.
	Fixes string `json:"fixes,omitempty"`
	// Whole is what a revision and the work that it goes on from break together of scope and
	// size, against the base that the work was first delivered on.
	Whole []Violation `json:"whole,omitempty"`
	// Checked says that the sealed work comes with the word of its checks, which passed.
	Checked bool `json:"checked,omitempty"`
	// Unheard says that nobody could ask the issue whether accepted work is still
	// wanted. It is kept, and its lease renewed, until somebody can.
	Unheard bool `json:"unheard,omitempty"`
}

// Judgement is the kernel's recorded verdict on a run, before it is pushed. What
// broke a rule stands in the run's own facts.
type Judgement struct {
	State      TaskState    `json:"state"`
	NotBefore  int64        `json:"not_before"` // Unix milliseconds, 0 for none
	Codes      []Code       `json:"codes"`
	Violations []Violation  `json:"violations"`
	Report     canon.Digest `json:"report_hash"`
	WaitingFor string       `json:"waiting_for,omitempty"` // WaitMerge where the merge completes the task
}

// Accepted reports whether the run's work is the task's result.
func (j Judgement) Accepted() bool {
	return j.State == TaskCompleted || j.State == TaskWaiting && j.WaitingFor == WaitMerge
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
	// Stopped is the id of the newest stop on the forge that was seen to count; ""
	// for none. Nothing older counts any more, whatever becomes of its comment or of
	// what its author may do.
	Stopped string `json:"stopped,omitempty"`
	// Stop is who stopped the task here, beside the forge, where that isn't carried out
	// yet; "" for nobody. It outlives the process that was asked.
	Stop string `json:"stop,omitempty"`
	// Answered are the comments whose commands were answered.
	Answered Answered `json:"answered,omitempty"`
	// TurnedDown are those of them that were told that they count for nothing.
	TurnedDown Answered `json:"turned_down,omitempty"`
	// Checked is the check that was set last: commit and digest.
	Checked string `json:"checked,omitempty"`
	// Seen is the HEAD that a look showed last and that was legitimate, and SeenSeq its
	// number; "" and 0 before the first. What was pushed and acknowledged since is none:
	// a server may lose it. See [TaskView.Follows].
	Seen    string `json:"seen"`
	SeenSeq int64  `json:"seen_seq"`
	// Told is [HeadFacts.Told] as it was seen last.
	Told int64 `json:"told_seq,omitempty"`
	// Shown is the commit of an accepted result that a look found at its change branch
	// last. Where it isn't there any more, somebody took it away.
	Shown string `json:"shown,omitempty"`
	// Unshown is the commit of this instance's last push, where the server said that it
	// won and no look has told what became of it; "" for none.
	Unshown string `json:"unshown,omitempty"`
}

// StopSeen is the id of the stop that counts on the forge now, "" for none.
func (f Facts) StopSeen() string {
	for _, list := range [][]Violation{f.Policy, f.Human} {
		for _, v := range list {
			if v.Code == CodeTaskStopped && NewerAct(v.Subject, "") {
				return v.Subject
			}
		}
	}
	return ""
}

// Spent is the id of the act on the forge that is spent once HEAD waits for a person: what
// took the approval back, or where nothing did, the newest that counts. Only what comes
// after it moves the task on, so what was approved before is never gone on with.
func (f Facts) Spent() string {
	for _, v := range f.Human {
		if NewerAct(v.Subject, "") {
			return v.Subject
		}
	}
	return f.Act
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

// ActTime is when an act was, by the forge's clock in Unix milliseconds; 0 for what is
// no id.
func ActTime(id string) int64 {
	ms, _ := actTime(id)
	return ms
}

func actTime(id string) (int64, bool) {
	ms, _, found := strings.Cut(id, "/")
	n, err := strconv.ParseInt(ms, 10, 64)
	return n, found && err == nil
}
