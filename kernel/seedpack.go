package kernel

import (
	"github.com/writbot/writ/kernel/canon"
)

// Approval is the recorded act by which a person approved exactly these bytes.
type Approval struct {
	Digest   canon.Digest `json:"digest"`   // of title and body, see [ApprovalDigest]
	Actor    string       `json:"actor"`    // forge account id, or the local user
	Evidence string       `json:"evidence"` // how the approved bytes are known
	Time     int64        `json:"time"`     // Unix milliseconds
}

// issueText is what an approval is bound to, and nothing else.
type issueText struct {
	Kind  string `json:"kind"`
	Title string `json:"title"`
	Body  string `json:"body"`
}

// ApprovalDigest returns the digest an approval is bound to: title and raw
// body, neither labels nor comments. Text that isn't UTF-8 is an
// error.
func ApprovalDigest(title, body string) (canon.Digest, error) {
	return canon.Hash(issueText{Kind: "issue", Title: title, Body: body})
}

// TaskSpec is the binding part of an issue, from its writ block, its form
// headings or the contract's defaults.
type TaskSpec struct {
	AllowedFiles    []string `json:"allowed_files"`
	ExpectedOutcome string   `json:"expected_outcome"`
	Checks          []string `json:"checks"`
	Builder         string   `json:"builder"`
}

// Check is one check of the contract as it is run.
type Check struct {
	Name      string   `json:"name"`
	Argv      []string `json:"argv"`
	TimeoutMs int64    `json:"timeout_ms"`
	Repeat    int64    `json:"repeat"`
	Vary      bool     `json:"vary"`
	Hosts     []string `json:"hosts,omitempty"` // that it may reach, if the operator lets it
}

// Step is one command of the preparation, which runs on the base before builder and
// checks. It sees the files that Keys of the steps match, and no others; without Keys the
// whole base, and no network.
type Step struct {
	Name      string   `json:"name"`
	Argv      []string `json:"argv"`
	TimeoutMs int64    `json:"timeout_ms"`
	Hosts     []string `json:"hosts,omitempty"` // that it may reach, if the operator lets it
	Keys      []string `json:"keys,omitempty"`  // patterns of the files that its result follows from
}

// Budgets are the contract's limits after the server's caps. Durations are
// milliseconds, sizes bytes.
type Budgets struct {
	StartTimeoutMs    int64 `json:"start_timeout_ms"`
	BuildTimeoutMs    int64 `json:"build_timeout_ms"`
	IdleTimeoutMs     int64 `json:"idle_timeout_ms"`
	Attempts          int64 `json:"attempts"`
	Interruptions     int64 `json:"interruptions"`
	RetryBackoffMs    int64 `json:"retry_backoff_ms"`
	RetryBackoffMaxMs int64 `json:"retry_backoff_max_ms"`
	Files             int64 `json:"files"`
	Bytes             int64 `json:"bytes"`
	Interpretations   int64 `json:"interpretations"`
	Nodes             int64 `json:"nodes"`
	Steps             int64 `json:"steps"`
	Depth             int64 `json:"depth"`
	Contradictions    int64 `json:"contradictions"`
	// Tokens and Cost are what one attempt may use of models, as [Spend] has them; 0 is no
	// limit beside the operator's.
	Tokens int64 `json:"tokens,omitempty"`
	Cost   int64 `json:"cost_micro,omitempty"`
}

// Lower is what an attempt may use: of models the operator's limit, or the contract's where
// that is lower, for the contract raises none; of time what is given, and no more than its
// builder may take.
func (b Budgets) Lower(operators Spend) Spend {
	lower := func(contracts, operators int64) int64 {
		if operators == 0 || contracts > 0 && contracts < operators {
			return contracts
		}
		return operators
	}
	return Spend{Tokens: lower(b.Tokens, operators.Tokens), Cost: lower(b.Cost, operators.Cost), Time: min(operators.Time, b.BuildTimeoutMs)}
}

// Pins tie a seed pack and its plan to what they were made against.
type Pins struct {
	BaseCommit string       `json:"base_commit"`
	Governance canon.Digest `json:"governance_hash"`
	Kernel     string       `json:"kernel_version"`
	Policy     string       `json:"policy_version"`
}

// SeedPack is the whole approved input of a claim. It lies in the tree of the
// claim, so that its dispatch can be rebuilt from the repository alone.
type SeedPack struct {
	Kind           string   `json:"kind"` // "seed_pack"
	V              int64    `json:"v"`
	World          string   `json:"world_id"`
	Repository     string   `json:"repository"` // what people call the world; it decides nothing
	Task           int64    `json:"task_id"`
	Title          string   `json:"title"`
	Body           string   `json:"body"` // raw, as approved
	Prose          string   `json:"prose"`
	Cuts           int64    `json:"cuts"` // things of the issue that the prose leaves out
	Approval       Approval `json:"approval"`
	Spec           TaskSpec `json:"spec"`
	Checks         []Check  `json:"checks"`
	Prepare        []Step   `json:"prepare,omitempty"`
	Hosts          []string `json:"hosts,omitempty"`        // that the builder is told it may reach; none: it is told that there is no network
	LockSources    []string `json:"lock_sources,omitempty"` // the operator's: that lock files may name beside those of their base
	Budgets        Budgets  `json:"budgets"`
	Pins           Pins     `json:"pins"`
	ContractSource string   `json:"contract_source"` // path at the pinned commit, a file's name, or "default"
	CommitMessage  string   `json:"commit_message"`  // from the contract's template
	Retry          *Retry   `json:"retry"`           // null on the first attempt
	// Remark is what the approver added for the builder, if he did.
	Remark *Remark `json:"remark,omitempty"`
	// Revision is there where the claim is for a revision of delivered work. The base
	// in Pins is then the delivered commit.
	Revision *Revision `json:"revision,omitempty"`
	// Covered are the ids of the comments that the work was revised for, sorted as a list of
	// them is, where the claim applies revised work on another base: see [SeedPack.Told].
	Covered []string `json:"covered,omitempty"`
	// Warnings and Notes are what a report of the run says of configuration, contract
	// and task beside its outcome. No decision reads them.
	Warnings []string `json:"warnings"`
	Notes    []string `json:"notes"`
}

// Told are the ids of the comments that the work was revised for, in this claim and before
// it, sorted as a list of them is.
func (p SeedPack) Told() []string {
	if p.Revision != nil {
		return p.Revision.Covered()
	}
	return append([]string{}, p.Covered...)
}

// Remark is the text after `/writ retry`, by the very act that the task was claimed
// on. It is data for the builder, like the issue's own words; no decision reads it.
type Remark struct {
	Act   string `json:"act"`   // id of the act on the forge
	Actor string `json:"actor"` // as in the approval
	Text  string `json:"text"`  // one line, without hidden characters
}

// Retry is the data that a retry's dispatch ends with: what the kernel recorded
// of the attempt before. No decision reads it.
type Retry struct {
	Attempt    int64        `json:"attempt"` // the failed one
	Run        string       `json:"run_id"`
	Violations []Violation  `json:"violations"`
	Tail       string       `json:"tail"`   // of the failed checks' output, capped, redacted
	Source     canon.Digest `json:"source"` // hash of the report it was taken from
}

// SeedPackVersion is the version of the seed pack's shape.
const SeedPackVersion = 1
