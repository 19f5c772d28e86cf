package contract

import (
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Path is where a contract lies in a repository.
const Path = ".writ/contract.yaml"

// SourceDefault is the source of the built-in contract.
const SourceDefault = "default"

// Limits of a contract.
const (
	// MaxBytes is the size of the file; the longest sensible one has a few KiB.
	MaxBytes = 64 << 10
	// MaxChecks is how many checks and how many steps of preparation it names.
	MaxChecks = 32
	// MaxArgs is the number of words of a command.
	MaxArgs = 128
	// MaxText is the length of a text in bytes.
	MaxText = 4 << 10
	// MaxList is the length of the other lists.
	MaxList = 256
)

// The words of a contract.
const (
	ModeGovern  = "govern"
	ModeObserve = "observe"

	DeliverPullRequest = "pull_request"
	DeliverPush        = "push"

	CloseVerified = "verified"
	CloseMerged   = "merged"

	RefreshManual = "manual"
	RefreshAuto   = "auto"

	OverlapAllow = "allow"
	OverlapWait  = "wait"

	PlanRequired = "required"
	PlanOff      = "off"

	IgnoredDiscard = "discard"
	IgnoredRefuse  = "refuse"

	LanguageStrict = "strict"
	LanguageWarn   = "warn"
	LanguageOff    = "off"

	EvidenceFull   = "full"
	EvidenceDigest = "digest"
)

// Contract is a governance contract as it was written; see [Contract.Apply] for
// what is left of its budgets under a server's caps. The defaults are those of
// default.yaml. "Not built" marks keys of which only the value that is named is
// accepted: it says what is done anyway.
type Contract struct {
	Version    int64    // always 1; the only key without a default
	Mode       string   // govern; observe holds on a forge
	Trigger    Trigger  //
	Base       string   // branch name; "" is the repository's default branch
	Defaults   Defaults //
	Deliver    Deliver  //
	CloseOn    string   // verified or merged
	Overlap    string   // allow; wait is not built
	Refresh    string   // manual: a delivered change is applied on a base that moved where somebody asks; auto: also by itself, as budgets.refreshes bounds
	Builder    string   // default: a name from the server's configuration
	Candidates int64    // 1; more is not built
	Plan       Plan     // not built
	Prepare    []Step   // none
	Checks     []Check  // none
	Budgets    Budgets  //
	Paths      Paths    //
	Commit     Commit   //
	Language   Language //
	Evidence   string   // full; digest is not built
	Notify     []string // none; whom `blocked` mentions on a forge
	Runners    []string // none: SSH public keys (authorized_keys lines) whose results count
	Branches   Branches // none; not built
	Mechanisms int64    // number of entries; 0; not built

	// Hash is the governance hash: SHA-256 of the file's bytes.
	Hash canon.Digest
	// Source is [Path] at the pinned commit, a file's name, or [SourceDefault].
	Source string
}

// Trigger says what approves an issue on a forge.
type Trigger struct {
	Label      string   // writ
	Permission string   // write; triage, maintain, admin: the least of who approves
	Bots       []string // none: bot accounts that may approve
}

// Defaults stand in for what a task leaves out.
type Defaults struct {
	AllowedFiles    []string // none: the task must name them
	ExpectedOutcome string   // "": the task must name it
	Checks          []string // none: all checks of the contract
}

// Deliver says how accepted work arrives.
type Deliver struct {
	As    string // pull_request; push is not built
	Draft bool   // false; on a forge
}

// Plan says who approves plans.
type Plan struct {
	Approval string // "": nothing plans, so neither required nor off is built
}

// Step is a command of the preparation. Those with keys come first.
type Step struct {
	Name      string   // unique; as a check's
	Run       []string // argv, run in the sandbox on the base
	TimeoutMs int64    // 10m; one second to six hours
	Hosts     []string // none: it has no network; as of a check. With hosts there must be keys
	Keys      []string // globs of the files that it sees; none: the whole base
}

// Check is a command that must pass on the result.
type Check struct {
	Name      string   // unique; small letters, digits, - and _
	Run       []string // argv, run in the sandbox
	TimeoutMs int64    // 10m; one second to six hours
	Repeat    int64    // 1; up to 10
	Vary      bool     // false
	Hosts     []string // none: it has no network; name, *.name or name:port, within what the operator allows
}

// Budgets are the limits of one task before the server's caps. Zero tokens or
// cents means no limit beside the server's.
type Budgets struct {
	kernel.Budgets
	Refreshes int64 // 5; how often refresh: auto applies the work of one approval on another base
	CostCents int64 // 0; what one attempt may cost, in hundredths of the currency of the server's price list
}

// microOfCent is how many millionths a hundredth is.
const microOfCent = 10_000

// Paths are the rules for paths; see package scope for globs and for the
// built-in list of protected paths.
type Paths struct {
	// Protected are all that the contract adds, of whichever class: protected, forbidden
	// and guarded.
	Protected []string
	Forbidden []string // none beside the built-in list: of Protected, what was written under protected or forbidden
	Guarded   []string // none beside the built-in list: of Protected, what a person may accept
	Accept    string   // maintain; write, admin: the least permission of who may; nobody
	Unprotect []string // none
	Tests     []string // none; not built
	Ignored   string   // discard; refuse: leftovers are violations
}

// Commit says how commits are named; see [Contract.Message].
type Commit struct {
	Pattern  string // RE2 over the first line
	Template string // one line with {title} and {task}
	Signoff  bool   // false; not built
	Sign     bool   // false; not built
}

// Language says what ambiguous words do; see package instruction.
type Language struct {
	Task  string // strict, and nothing else: this part binds
	Prose string // warn; strict, off
}

// Branches is the branch runner of seed 000 inside the server.
type Branches struct {
	Commands bool     // false
	Globs    []string // none
}

// AcceptNobody is the word of paths.accept that asks nobody: guarded paths are refused.
const AcceptNobody = "nobody"

// Accepts reports whether somebody is asked to accept guarded paths.
func (p Paths) Accepts() bool { return p.Accept != AcceptNobody }

// Steps are the steps of the preparation as they are run.
func (c Contract) Steps() []kernel.Step {
	var out []kernel.Step
	for _, s := range c.Prepare {
		out = append(out, kernel.Step{Name: s.Name, Argv: s.Run, TimeoutMs: s.TimeoutMs, Hosts: s.Hosts, Keys: s.Keys})
	}
	return out
}

// SelectChecks returns the checks with these names in the contract's order, or
// all of them for no names. Unknown names come back second.
func (c Contract) SelectChecks(names []string) ([]kernel.Check, []string) {
	wanted := make(map[string]bool, len(names))
	for _, n := range names {
		wanted[n] = true
	}
	out := []kernel.Check{}
	for _, k := range c.Checks {
		if len(names) == 0 || wanted[k.Name] {
			out = append(out, kernel.Check{Name: k.Name, Argv: k.Run, TimeoutMs: k.TimeoutMs, Repeat: k.Repeat, Vary: k.Vary, Hosts: k.Hosts})
		}
		delete(wanted, k.Name)
	}
	var unknown []string
	for _, n := range names {
		if wanted[n] {
			unknown = append(unknown, n)
		}
	}
	return out, unknown
}
