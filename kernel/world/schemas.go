package world

import (
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Version is the version of the schemas in this package.
const Version = 1

// The kinds of the schemas that are no records by themselves. A receipt's kind
// is [kernel.KindReceipt].
const (
	KindConfig            = "world_config"
	KindActionIntent      = "action_intent"
	KindActionResult      = "action_result"
	KindMechanismProposal = "mechanism_proposal"
	KindMechanismResult   = "mechanism_result"
	KindSnapshot          = "world_snapshot"
	KindArchived          = "archived_task"
)

// WorldConfig is what a world is made from, once, at its genesis (seed 002,
// schemas). The first three fields after the tags are the seed's, the rest
// binds the world to its repository and instance.
type WorldConfig struct {
	Kind             string       `json:"kind"`               // KindConfig
	V                int64        `json:"v"`                  // Version
	WorldID          string       `json:"world_id"`           // forge host/owner/name
	InitMemberNumber int64        `json:"init_member_number"` // count of builders at genesis, 0 or more
	LandShape        [2]int64     `json:"land_shape"`         // most reserved path patterns (count), greatest depth (path segments); both at least 1
	RandomSeed       *int64       `json:"random_seed"`        // any integer but 0; null: one is derived
	Members          []string     `json:"members"`            // names of the builders, sorted
	Instance         string       `json:"instance"`           // fingerprint of the instance's key
	RepositoryID     string       `json:"repository_id"`      // forge's numeric id, "" where there is none
	InstanceKey      string       `json:"instance_key"`       // OpenSSH public key
	GovernanceHash   canon.Digest `json:"governance_hash"`    // of the first contract
	KernelVersion    string       `json:"kernel_version"`     // semantic version of the kernel
}

// ActionIntent is what wants to change the world: a builder's diff, or a person's act
// (seed 002, schemas).
type ActionIntent struct {
	Kind           string       `json:"kind"`            // KindActionIntent
	V              int64        `json:"v"`               // Version
	WorldID        string       `json:"world_id"`        // the world it is for
	AgentID        string       `json:"agent_id"`        // builder's name, or person:<who acts>: an index would change its meaning with the list
	RoundID        int64        `json:"round_id"`        // number of the round in which the outcome is taken in
	Code           canon.Digest `json:"code"`            // hash of the body of the diff record, or of the act; "" where there was none to take
	IdempotencyKey string       `json:"idempotency_key"` // run id, or the act's key; scoped to the agent, a duplicate has the first answer
}

// Stats are the integer counters of a builder, each a count since genesis.
type Stats struct {
	Dispatched  int64 `json:"dispatched"`  // count of dispatches that are known to have started it
	Accepted    int64 `json:"accepted"`    // count of results that the kernel accepted
	Rejected    int64 `json:"rejected"`    // count of results that it did not accept
	Interrupted int64 `json:"interrupted"` // count of runs that ended otherwise, or were lost after their acceptance
}

// ActionResult is the answer to an [ActionIntent] (seed 002, schemas).
type ActionResult struct {
	Kind              string       `json:"kind"`               // KindActionResult
	V                 int64        `json:"v"`                  // Version
	WorldID           string       `json:"world_id"`           // the world that answers
	AgentID           string       `json:"agent_id"`           // builder's name
	Success           bool         `json:"success"`            // the kernel accepted the work
	OldStats          Stats        `json:"old_stats"`          // counters before the action
	NewStats          Stats        `json:"new_stats"`          // counters after it
	PerformanceChange int64        `json:"performance_change"` // change of accepted minus rejected, count
	MessagesSent      []Message    `json:"messages_sent"`      // notes for people
	Error             *kernel.Code `json:"error"`              // failure code, null on success
	Signature         *string      `json:"signature"`          // reserved for agents that sign, null
}

// Message is a note for people.
type Message struct {
	To   string `json:"to"`   // whom it concerns: "task/<number>"
	Text string `json:"text"` // failure code: its sentence may be reworded, this is hashed
}

// MechanismProposal proposes a rule of the world (seed 002, schemas).
type MechanismProposal struct {
	Kind       string `json:"kind"`        // KindMechanismProposal
	V          int64  `json:"v"`           // Version
	WorldID    string `json:"world_id"`    // the world it is for
	ProposalID string `json:"proposal_id"` // unique per world
	AgentID    string `json:"agent_id"`    // who proposes
	Code       string `json:"code"`        // CEL text
	RoundID    int64  `json:"round_id"`    // number of the round in which it is handed in
}

// MechanismResult is the answer to a [MechanismProposal] (seed 002, schemas).
type MechanismResult struct {
	Kind       string       `json:"kind"`        // KindMechanismResult
	V          int64        `json:"v"`           // Version
	WorldID    string       `json:"world_id"`    // the world that answers
	ProposalID string       `json:"proposal_id"` // the proposal's
	Executed   bool         `json:"executed"`    // it is active from the next round on
	Error      *kernel.Code `json:"error"`       // failure code, null if executed
}

// RoundReceipt is the record of a settled round (seed 002, schemas). A round
// and its receipt belong to one instance.
type RoundReceipt struct {
	Kind                  string           `json:"kind"`                    // "receipt"
	V                     int64            `json:"v"`                       // Version
	WorldID               string           `json:"world_id"`                // the world
	Instance              string           `json:"instance"`                // whose round it is: fingerprint
	RoundID               int64            `json:"round_id"`                // number of the round, the first is 1
	Seed                  int64            `json:"seed"`                    // input of the settlement, any integer
	SnapshotHashBefore    canon.Digest     `json:"snapshot_hash_before"`    // state hash after the round before
	SnapshotHashAfter     canon.Digest     `json:"snapshot_hash_after"`     // state hash after this round
	AcceptedActionIDs     []string         `json:"accepted_action_ids"`     // "agent:key", sorted
	RejectedActionIDs     []string         `json:"rejected_action_ids"`     // "agent:key", sorted; invalid ones, too
	ActivatedMechanismIDs []string         `json:"activated_mechanism_ids"` // proposal ids, sorted
	JudgeResults          []JudgeResult    `json:"judge_results"`           // verdicts from outside, by proposal
	RoundMetrics          map[string]int64 `json:"round_metrics"`           // counts, see the Metric names
	Timestamp             int64            `json:"timestamp"`               // virtual clock, Unix milliseconds
	OriginWorldID         *string          `json:"origin_world_id"`         // reserved for federation, null
	OriginReceiptHash     *canon.Digest    `json:"origin_receipt_hash"`     // reserved for federation, null
}

// JudgeResult is a judge's recorded verdict on a mechanism.
type JudgeResult struct {
	ProposalID string      `json:"proposal_id"` // the proposal's
	Approved   bool        `json:"approved"`    // it may be handed in
	Code       kernel.Code `json:"code"`        // why not, "" if approved
}

// The names in a receipt's round_metrics; each is a count.
const (
	MetricRecords       = "records"          // records of the round but audit entries and reports, without the receipt
	MetricAccepted      = "actions_accepted" // in this round
	MetricRejected      = "actions_rejected" // in this round, invalid ones included
	MetricTasks         = "tasks"            // known to the world, after the round
	MetricLiveTasks     = "tasks_live"       // with a run of this instance, after the round
	MetricReservedPaths = "reserved_paths"   // patterns reserved by them, after the round
	MetricOpenIntents   = "open_intents"     // effects without a known outcome, after the round
)

// Hash is the receipt's content hash.
func (r RoundReceipt) Hash() (canon.Digest, error) { return canon.Hash(r) }
