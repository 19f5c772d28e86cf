package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Version is the version of the report's shape.
const Version = 1

// Report is the compliance report of one cycle, or the notice of a tick that
// ended none (refused, held, waiting). Its canonical JSON is what `writ task
// run --json` prints and what lies in the evidence.
type Report struct {
	Kind string `json:"kind"` // "report"
	V    int64  `json:"v"`

	// The seed's three. FinalState is absent where no cycle ended, and has
	// never a fourth value.
	FinalState kernel.TaskState `json:"task_final_state,omitempty"`
	Dispatched bool             `json:"execution_dispatched"`
	Verified   bool             `json:"execution_verified"`

	World  string `json:"world_id"`
	TaskID int64  `json:"task_id"`
	RunID  string `json:"run_id"` // "" where nothing was claimed

	// FirstLines are what a reader must know before all else; [Report.Finish]
	// writes them.
	FirstLines []string           `json:"first_lines"`
	Codes      []kernel.Code      `json:"codes"`           // distinct, in the table's order
	Words      []Words            `json:"words,omitempty"` // of each code, in the same order
	Violations []kernel.Violation `json:"violations"`      // in the kernel's order

	ChangedFiles []string `json:"changed_files"` // computed from raw bytes, sorted
	// Locks are the changed lock files that came with their manifests, sorted.
	Locks        []string `json:"locks,omitempty"`
	Discarded    []string `json:"discarded"`     // ignored leftovers, sorted
	ChangeCommit string   `json:"change_commit"` // "" where none was made
	BaseCommit   string   `json:"base_commit"`

	Attempts      int64 `json:"attempts"` // counted so far, this one included
	Interruptions int64 `json:"interruptions"`

	GovernanceHash canon.Digest `json:"governance_hash"`
	ContractSource string       `json:"contract_source"`
	DispatchHash   canon.Digest `json:"dispatch_hash"` // "" where nothing was dispatched
	LedgerHead     canon.Digest `json:"ledger_head"`   // last record before the report

	Builder string `json:"builder"`
	// Agent says which agent it was. Its version and its last message are its own claims.
	Agent *kernel.Agent `json:"agent,omitempty"`
	// BuilderMs is how long the builder ran, in milliseconds; 0 in a report of before it was
	// said, and where none ran.
	BuilderMs int64  `json:"builder_ms,omitempty"`
	Sandbox   string `json:"sandbox"` // isolation level of the builder; SandboxNone is loud
	// ChecksSandbox is that of the checks, which another machine may have run; "" where
	// none ran.
	ChecksSandbox string  `json:"checks_sandbox"`
	Checks        []Check `json:"checks"` // as run, in the contract's order
	TestsTouched  bool    `json:"tests_touched"`

	NotBefore  string   `json:"not_before"`  // UTC, ISO 8601; "" where no retry waits
	WaitingFor string   `json:"waiting_for"` // one of kernel's Wait words; "" where nothing does
	Held       *Held    `json:"held"`        // null unless another runner holds the lease
	Warnings   []string `json:"warnings"`    // of the contract
	Notes      []string `json:"notes"`       // of task, caps, language
	Outputs    []Output `json:"outputs"`     // last part of what failed, redacted
	// Merge is what became of the change, where a report is shown after it was
	// delivered. In the evidence, the report that a merge has completed has one.
	Merge *Merge `json:"merge,omitempty"`
}

// Words are what was said of a code when the report was made. They stand in the
// report so that its text can be told from it alone, by a later program as well,
// whose words may be others. The first reports of version 1 have none, see
// [Report.Wordless].
type Words struct {
	Code    kernel.Code `json:"code"`
	Meaning string      `json:"meaning"`
	Remedy  string      `json:"remedy"` // for who has the issue's page
}

// Wordless reports whether a report has codes and not the words of them: one that
// was made before reports had any. Everything else in it holds, but what was said
// of its codes then can't be told from it.
func (r Report) Wordless() bool { return len(r.Codes) > 0 && r.Words == nil }

// Merge is what became of the change that delivered the work.
type Merge struct {
	Commit     string   `json:"commit"`             // on the base, "" where it was closed unmerged
	Into       string   `json:"into,omitempty"`     // other branch that it was merged into instead of the base
	Verified   string   `json:"verified,omitempty"` // commit that it is held against: the delivered one, or one pushed since that passed its review
	AsVerified bool     `json:"merged_as_verified"` // each path has the content of that
	Differs    []string `json:"differs"`            // paths that don't
	Reverted   string   `json:"reverted"`           // commit on the base that reverts it, "" for none
}

// SandboxNone is the isolation level of a run without a sandbox.
const SandboxNone = "none"

// Check is one check's end.
type Check struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	Runs   int64  `json:"runs"`
	Stable bool   `json:"stable"` // all runs agreed
	Exit   int64  `json:"exit"`   // -1 when ended by a signal
	// OnBase is how it ended on the base, where it failed and that was tried.
	OnBase *OnBase `json:"on_base,omitempty"`
}

// OnBase is a check's end on the base.
type OnBase struct {
	Exit int64 `json:"exit"`
	Same bool  `json:"same"` // it failed there as well, the same way
}

// Held says who holds the lease.
type Held struct {
	Runner string `json:"runner"`
	Until  string `json:"until"` // UTC, ISO 8601
}

// Output is the last part of a stream.
type Output struct {
	Name string `json:"name"` // such as "check test" or "builder stderr"
	Tail string `json:"tail"`
}

// What the first lines say.
const (
	LineNothingChecked = "Nothing was checked: the contract has no checks. Only the scope of the change was verified."
	LineTestsTouched   = "The change touches the tests: the base's own tests were run as well."
	LineNoSandbox      = "There was NO SANDBOX: the builder ran with all rights of the user who started writ (sandbox: none)."
	// LineChecksNoSandbox is also told of the checks of what somebody pushed.
	LineChecksNoSandbox = "There was NO SANDBOX: the checks ran with all rights of the user who started writ (sandbox: none)."
	lineOnBase          = "The check %s fails on the base as well, with the same exit status."
	noteOnce            = "Each check ran once; whether it gives the same answer each time was not tried (repeat: 1)."
)

// Finish puts the report into its final form: kind and version, first lines,
// lists in their order and never null.
func (r Report) Finish() Report {
	r.Kind, r.V = string(kernel.KindReport), Version
	r.FirstLines = []string{}
	line := func(when bool, text string) {
		if when && r.Dispatched {
			r.FirstLines = append(r.FirstLines, text)
		}
	}
	line(len(r.Checks) == 0 && r.Verified, LineNothingChecked)
	line(len(r.Locks) > 0, lineLocks(r.Locks))
	for _, c := range r.Checks {
		line(c.OnBase != nil && c.OnBase.Same, fmt.Sprintf(lineOnBase, safeName(c.Name)))
	}
	line(r.TestsTouched, LineTestsTouched)
	line(r.Sandbox == SandboxNone, LineNoSandbox)
	line(r.ChecksSandbox == SandboxNone, LineChecksNoSandbox)
	r.Codes = kernel.SortCodes(append(slices.Clone(r.Codes), kernel.CodesOf(r.Violations)...))
	r.Words = make([]Words, len(r.Codes))
	for i, c := range r.Codes {
		r.Words[i] = Words{c, c.Info().Meaning, c.IssueRemedy()}
	}
	r.Violations = kernel.SortViolations(r.Violations)
	r.ChangedFiles, r.Discarded = sorted(r.ChangedFiles), sorted(r.Discarded)
	r.Checks, r.Outputs = append([]Check{}, r.Checks...), append([]Output{}, r.Outputs...)
	r.Warnings, r.Notes = append([]string{}, r.Warnings...), append([]string{}, r.Notes...)
	once := len(r.Checks) > 0 && !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Runs > 1 })
	if once && !slices.Contains(r.Notes, noteOnce) {
		r.Notes = append(r.Notes, noteOnce)
	}
	return r
}

// maxLockNames is how many lock files a line names.
const maxLockNames = 5

// lineLocks names the lock files that nobody was asked about.
func lineLocks(locks []string) string {
	var names []string
	for _, l := range locks[:min(len(locks), maxLockNames)] {
		names = append(names, "`"+safePath(l)+"`")
	}
	if n := len(locks) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	return "With its manifest, and naming no source that the base's doesn't: " + strings.Join(names, ", ") + "."
}

func sorted(list []string) []string {
	out := append([]string{}, list...)
	slices.Sort(out)
	return out
}

// JSON is the report's canonical JSON; an invalid report has none.
func (r Report) JSON() ([]byte, error) {
	r = r.Finish()
	if err := r.Validate(); err != nil {
		return nil, err
	}
	return canon.Marshal(r)
}

// Error is a report that says what can't be.
type Error struct{ Reason string }

// Error is one line.
func (e *Error) Error() string { return "report: " + e.Reason }

// Validate holds a report against what can occur (conformance D43, D52). A
// report that fails is a fault of Writ, and is never printed.
func (r Report) Validate() error {
	has := func(c kernel.Code) bool { return slices.Contains(r.Codes, c) }
	ended := r.FinalState != kernel.TaskNone
	for _, rule := range []struct {
		broken bool
		why    string
	}{
		{r.Kind != string(kernel.KindReport) || r.V != Version, "its kind or version is wrong"},
		{ended && !r.FinalState.Final(), fmt.Sprintf("task_final_state %q is not one of the three", r.FinalState)},
		{r.Verified && !r.Dispatched, "verified and never dispatched"},
		{r.Dispatched && !r.DispatchHash.Valid(), "dispatched without a dispatch hash"},
		{r.Dispatched && r.RunID == "", "dispatched without a run id"},
		{r.FinalState == kernel.TaskCompleted && !r.Verified, "completed and not verified"},
		{r.FinalState == kernel.TaskCompleted && r.ChangeCommit == "", "completed without a change commit"},
		{r.FinalState == kernel.TaskCompleted && slices.ContainsFunc(r.Codes, countsAttempt), "completed with a failure's code"},
		{ended && r.FinalState != kernel.TaskCompleted && r.Verified, "verified and not completed"},
		{r.FinalState == kernel.TaskBlocked && !has(kernel.CodeEscalationBlocked), "blocked without its code"},
		{r.FinalState != kernel.TaskBlocked && has(kernel.CodeEscalationBlocked), "the code of a blocked task, which it is not"},
		{ended && len(r.Codes) == 0 && r.FinalState != kernel.TaskCompleted, "failed without a code"},
		{has(kernel.CodeVerificationFailed) && (r.Verified || !r.Dispatched), "execution.verification.failed without a failed dispatch"},
		{ended && (r.Held != nil || r.WaitingFor != ""), "ended, and held or waiting as well"},
		{r.awaitsMerge() && r.ChangeCommit == "", "waiting for a merge without a change commit"},
		{!ended && r.Verified && !r.awaitsMerge(), "verified, and neither completed nor waiting for the merge"},
		{r.FinalState == kernel.TaskCompleted && r.NotBefore != "", "completed, and a retry waits"},
		{slices.ContainsFunc(r.Codes, func(c kernel.Code) bool { return !c.Known() }), "a code that the table lacks"},
		{!slices.Equal(r.Codes, kernel.SortCodes(r.Codes)), "codes out of order"},
		{r.Words != nil && !slices.EqualFunc(r.Words, r.Codes, func(w Words, c kernel.Code) bool { return w.Code == c }), "words of other codes than it has"},
	} {
		if rule.broken {
			return &Error{rule.why}
		}
	}
	return nil
}

// awaitsMerge reports whether the work is verified, and the merge of its change
// completes the task (`close_on: merged`).
func (r Report) awaitsMerge() bool { return r.Verified && r.WaitingFor == kernel.WaitMerge }

// AtMerge is the report of a result that waited for the merge of its change, once the
// change is merged: the task has its final state with it. Nothing else of it changes.
func (r Report) AtMerge(m Merge) Report {
	r.FinalState, r.WaitingFor, r.Merge = kernel.TaskCompleted, "", &m
	return r.Finish()
}

func countsAttempt(c kernel.Code) bool { return c.Info().Counts == kernel.CountsAttempt }
