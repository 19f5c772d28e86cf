package world

import (
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// WorldSnapshot is the whole state of a world as one instance knows it (seed
// 002, schemas). Lists are sorted by their first field. StateHash is SHA-256
// over the canonical JSON of everything else: see
// [WorldSnapshot.Hash].
type WorldSnapshot struct {
	Kind               string       `json:"kind"`                 // KindSnapshot
	V                  int64        `json:"v"`                    // Version
	WorldID            string       `json:"world_id"`             // the world
	Instance           string       `json:"instance"`             // whose view it is: fingerprint
	RoundID            int64        `json:"round_id"`             // number of the last settled round, 0 at genesis
	Seed               int64        `json:"seed"`                 // of the last settled round, random_seed at genesis; any integer
	Members            []Member     `json:"members"`              // builders
	Land               Land         `json:"land"`                 // path space
	Tasks              []Task       `json:"tasks"`                // those that aren't completed, or are looked at again
	Archive            Archive      `json:"archive"`              // the completed ones
	ActiveMechanisms   []Mechanism  `json:"active_mechanisms"`    // none yet
	ActiveContracts    []Contract   `json:"active_contracts"`     // the contract in force
	PhysicsConstraints []Constraint `json:"physics_constraints"`  // bounds that nothing in the world can move
	Pauses             []Pause      `json:"pauses,omitempty"`     // for which nothing new is started, in the order in which they were recorded
	Acted              []string     `json:"acted,omitempty"`      // ids of the last acts on the world as a whole
	StateHash          canon.Digest `json:"state_hash,omitempty"` // left out of its own preimage
}

// Pause is a person's word that nothing new is to be started. What it was said of and since
// when name it.
type Pause struct {
	Of    string `json:"of"`    // kernel.PauseAll, PauseWorld or PauseFile
	Since int64  `json:"since"` // Unix milliseconds
	Actor string `json:"actor"` // who said so
}

// Hash computes the state hash; what StateHash holds doesn't matter.
func (s WorldSnapshot) Hash() (canon.Digest, error) {
	s.StateHash = ""
	return canon.Hash(s)
}

// Archive is where completed tasks go, so that the cost of a round doesn't grow
// with the world's age. A task that is looked at again comes back.
type Archive struct {
	Count int64        `json:"count"` // count of the times a task was put away
	Hash  canon.Digest `json:"hash"`  // of the last [Archived], "" for none
}

// Archived is a link of the chain that vouches for the archive. It is hashed,
// never stored: the records lead to it.
type Archived struct {
	Kind string       `json:"kind"` // KindArchived
	Prev canon.Digest `json:"prev"` // hash of the link before, "" for none
	Task Task         `json:"task"` // as it was put away
}

// Member is a builder.
type Member struct {
	Name  string `json:"name"`  // as configured
	Stats Stats  `json:"stats"` // its counters
}

// Land is the path space: its bounds and what live tasks reserve of it.
type Land struct {
	Shape    [2]int64      `json:"shape"`    // as in WorldConfig
	Reserved []Reservation `json:"reserved"` // by task
}

// Reservation is what one live task may change.
type Reservation struct {
	Task  int64    `json:"task_id"` // number of the task
	Paths []string `json:"paths"`   // its allowed_files
}

// Mechanism is an active rule of the world.
type Mechanism struct {
	ProposalID string `json:"proposal_id"` // the proposal's
	Code       string `json:"code"`        // CEL text
	SinceRound int64  `json:"since_round"` // number of the round
}

// Contract is the governance contract in force.
type Contract struct {
	GovernanceHash canon.Digest `json:"governance_hash"` // SHA-256 of the contract's bytes
	SinceRound     int64        `json:"since_round"`     // number of the round
}

// Constraint is a bound of the world: a number, a digest, or a text.
type Constraint struct {
	Name  string `json:"name"`  // what is bound
	Value int64  `json:"value"` // count, 0 where there is none
	Text  string `json:"text"`  // "" where there is none
}

// Task is what the fold knows of a task. State, attempts, interruptions and
// not-before are copies of what stands at HEAD, which decides.
type Task struct {
	Number          int64            `json:"task_id"`         // number of the task
	Builder         string           `json:"builder"`         // of the last seed pack
	Approval        canon.Digest     `json:"approval"`        // digest of the approved text
	State           kernel.TaskState `json:"state"`           // "" before the first event
	WaitingFor      string           `json:"waiting_for"`     // with state waiting
	Head            string           `json:"head_oid"`        // last seen or pushed, "" for none
	Attempts        int64            `json:"attempts"`        // count, of the approval
	Interruptions   int64            `json:"interruptions"`   // count, of the approval
	NotBefore       int64            `json:"not_before"`      // Unix milliseconds, 0 for none
	Halted          bool             `json:"halted"`          // nothing of it is started or accepted
	HaltReason      string           `json:"halt_reason"`     // sentence, "" when not halted
	Epoch           int64            `json:"epoch"`           // number of resumes
	ResumedHead     string           `json:"resumed_head"`    // commit at HEAD that a person last moved on from, "" for none
	AcceptedRun     string           `json:"accepted_run"`    // of this approval and epoch, "" for none
	AllowedFiles    []string         `json:"allowed_files"`   // of the last seed pack
	Pins            kernel.Pins      `json:"pins"`            // of the last seed pack
	SeedPack        canon.Digest     `json:"seed_pack_hash"`  // of the last seed pack, "" for none
	Interpretations []canon.Digest   `json:"interpretations"` // proposed since the seed pack
	Spec            canon.Digest     `json:"spec_hash"`       // of the committed spec, "" for none
	PlanProposals   []canon.Digest   `json:"plan_proposals"`  // hashes of the proposed plans since the spec
	Plan            canon.Digest     `json:"plan_hash"`       // of the committed plan, "" for none
	Dispatch        Dispatched       `json:"dispatch"`        // the last one recorded
	Run             Run              `json:"run"`             // the last one of this instance
	Ruling          *Ruling          `json:"ruling"`          // decision whose effect is not yet tried, or null
	Intents         []OpenIntent     `json:"intents"`         // effects without a known outcome
	Answers         []Answer         `json:"answers"`         // to actions, of this approval
	Act             string           `json:"act,omitempty"`   // id of the newest act on the forge that was taken in
	Acted           []string         `json:"acted,omitempty"` // ids of the last accepted actions of persons, oldest first

	Stop    string `json:"stop,omitempty"`    // who stopped it beside the forge, until that is carried out
	Stopped string `json:"stopped,omitempty"` // id of the newest stop on the forge that counted

	Answered   kernel.Answered `json:"answered,omitempty"`    // comments whose commands were answered
	TurnedDown kernel.Answered `json:"turned_down,omitempty"` // those of them that were told that they count for nothing

	Checked string `json:"checked,omitempty"` // commit and digest of the check that was set last

	Seen    string `json:"seen"`     // legitimate HEAD that a look showed last, "" for none
	SeenSeq int64  `json:"seen_seq"` // its number

	Told int64 `json:"told_seq,omitempty"` // higher number than HEAD's that the issue tells of, 0 for none

	Shown string `json:"shown,omitempty"` // commit of an accepted result that a look found at its branch last

	Unshown Unshown `json:"unshown"` // push that no look was taken after, all "" for none
}

// Unshown is a push of this instance of which the server said that it won. Until a look
// shows it that is the server's word only.
type Unshown struct {
	Old string `json:"old_oid"` // commit that it replaced, "" for none
	New string `json:"new_oid"` // commit that it brought, "" for no push
	Seq int64  `json:"seq"`     // number of that
	Run string `json:"run_id"`  // run that it is of, "" for none
}

// Dispatched names a recorded dispatch.
type Dispatched struct {
	Run  string       `json:"run_id"`        // the run it is for
	Hash canon.Digest `json:"dispatch_hash"` // of its canonical bytes
}

// Run is a run of this instance, from its claim's intent on.
type Run struct {
	ID         string       `json:"run_id"`              // "" before the first claim
	Resumes    string       `json:"resumes,omitempty"`   // the dispatched run whose sealed work it goes on with
	Refreshes  string       `json:"refreshes,omitempty"` // run whose delivered result it is to replace
	Fixes      string       `json:"fixes,omitempty"`     // run whose delivered result it is a revision of
	Dispatched bool         `json:"dispatched"`          // the intent of its dispatch is written: there is no second
	Started    bool         `json:"started"`             // the dispatch is known to have started the builder
	Result     canon.Digest `json:"result_hash"`         // of the builder result's body
	Diff       canon.Digest `json:"diff_hash"`           // of the diff's body
	Checks     canon.Digest `json:"checks_hash"`         // of the run result's body
	Judged     bool         `json:"judged"`              // a decision took its outcome in
	Accepted   bool         `json:"accepted"`            // ... and accepted it
	Over       bool         `json:"over"`                // its lease is gone or its result pushed
}

// Ruling is what the fold keeps of a decision.
type Ruling struct {
	Verdict       kernel.Verdict   `json:"verdict"`             // the kernel's word
	Action        kernel.Action    `json:"action"`              // the one effect
	State         kernel.TaskState `json:"state"`               // once the effect is done
	WaitingFor    string           `json:"waiting_for"`         // with state waiting
	Attempt       int64            `json:"attempt"`             // number of the attempt, from 1
	Interruptions int64            `json:"interruptions"`       // count, of the approval
	NotBefore     int64            `json:"not_before"`          // Unix milliseconds, 0 for none
	Resumes       string           `json:"resumes,omitempty"`   // of a claim: the run whose sealed work it goes on with
	Refreshes     string           `json:"refreshes,omitempty"` // of a claim: the run whose delivered result it is to replace
	Fixes         string           `json:"fixes,omitempty"`     // of a claim: the run whose delivered result it is a revision of
	Fix           canon.Digest     `json:"fix,omitempty"`       // ... and the digest of that revision's list
}

// OpenIntent is an effect whose outcome isn't known.
type OpenIntent struct {
	Intent  kernel.Intent `json:"intent"`  // as recorded
	Run     string        `json:"run_id"`  // of its record
	Ruling  Ruling        `json:"ruling"`  // the decision it carries out
	Unknown bool          `json:"unknown"` // its outcome was asked for and is unknown
}

// Answer is what is kept of the first answer to an action, for duplicates.
type Answer struct {
	Agent string       `json:"agent_id"`        // builder's name
	Key   string       `json:"idempotency_key"` // scoped to the agent
	Error *kernel.Code `json:"error"`           // failure code, null on success
	Old   Stats        `json:"old_stats"`       // counters before the action
	New   Stats        `json:"new_stats"`       // counters after it
}
