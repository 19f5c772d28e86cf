package supervisor

import (
	"fmt"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/instruction"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Intake is a task as it stands: its text, the contract in force at a pinned
// commit, and what is wrong with either.
type Intake struct {
	Title, Body   string
	Prose         string
	Cuts          int64
	Current       canon.Digest // of title and body
	Approval      kernel.Approval
	Remark        *kernel.Remark // of who approved, to the builder
	Spec          kernel.TaskSpec
	Checks        []kernel.Check
	Prepare       []kernel.Step
	Budgets       kernel.Budgets
	Contract      []byte
	Governance    canon.Digest
	Source        string // where the contract is from
	Overridden    bool   // it was given by the operator
	PolicyVersion string
	Scope         executor.ScopeRules
	CommitMessage string
	Message       []kernel.Violation // commit rules
	TakeTurns     bool               // tasks whose scopes overlap (overlap: wait, which no contract can ask for yet)
	Input         []kernel.Violation
	Policy        []kernel.Violation
	Warnings      []string // of configuration and contract
	Notes         []string // of task, caps and language
	BaseRef       string
	BaseCommit    git.OID

	base      git.Tree
	misplaced []kernel.Violation // what stands where the contract should
	runners   []ssh.PublicKey    // whose results count, by the contract
	trigger   contract.Trigger
	notify    []string
	// byChange: accepted work is delivered by a change, as a draft or not.
	byChange, draft bool
	closeOn         string // kernel.CloseMerged, or "" for the default
	accept          string // least permission of who accepts guarded paths
	unlisted        bool   // the contract lists runners, and not this one
	autoRefreshes   int64  // how often the contract asks by itself that delivered work is applied on another base, 0 for never
	// contractRef and contractCommit are where the contract was read.
	contractRef    string
	contractCommit git.OID
}

// PolicyVersion is the version of the rules outside the kernel that a decision
// rests on: instruction, scope, contract.
const PolicyVersion = "2"

// assess holds the issue against the contract. The result is kept until text,
// contract or base change.
func (o *observer) assess(terms terms, issue Issue) *Intake {
	in, c, faults := terms.in, terms.contract, terms.faults
	in.Title, in.Body, in.Current = issue.Title, issue.Body, digestOf(issue)
	if old := o.intake; old != nil && old.Current == in.Current && old.BaseRef == in.BaseRef && old.BaseCommit == in.BaseCommit && old.Governance == in.Governance {
		again := *old // who approved, and when, may have changed all the same
		again.approvedBy(issue)
		return &again
	}
	in.approvedBy(issue)
	if len(faults) > 0 {
		in.refuse(faults)
	} else {
		o.resolve(in, c)
		o.s.listRunners(in, c)
	}
	o.intake = in
	return in
}

// approvedBy notes the approval: of the text as it is, unless the forge says of
// which bytes it was.
func (in *Intake) approvedBy(issue Issue) {
	in.Approval = kernel.Approval{Digest: in.Current, Actor: issue.Actor, Evidence: issue.Evidence, Time: issue.Time}
	if issue.Approved != "" {
		in.Approval.Digest = issue.Approved
	}
	in.Remark = nil
	if issue.Said != "" {
		in.Remark = &kernel.Remark{Act: issue.Act, Actor: issue.Actor, Text: issue.Said}
	}
}

// digestOf is the digest of the text as it is. Text that can't be hashed as
// text gets a digest of its bytes; it is refused for them later.
func digestOf(issue Issue) canon.Digest {
	d, err := kernel.ApprovalDigest(issue.Title, issue.Body)
	if err != nil {
		return canon.Sum([]byte(issue.Title + "\x00" + issue.Body))
	}
	return d
}

// refuse is the intake under a contract that can't be used.
func (in *Intake) refuse(faults []kernel.Violation) {
	in.Policy = faults
	in.Budgets = contract.Default().Budgets.Budgets
	in.Spec = kernel.TaskSpec{AllowedFiles: []string{}, Checks: []string{}}
	in.Checks = []kernel.Check{}
}

// resolve holds the issue against the contract.
func (o *observer) resolve(in *Intake, c contract.Contract) {
	if in.accept = c.Paths.Accept; !o.remote {
		c.Paths.Accept = contract.AcceptNobody // nobody can be asked
	}
	r := instruction.Parse(in.Title, in.Body)
	res := r.Resolve(c, nil)
	in.Prose, in.Cuts, in.Spec, in.Input = r.Prose, r.Cuts, res.Spec, res.Violations
	in.Notes = append([]string{}, res.Notes...)
	caps, attempt := o.s.cfg.Caps, o.s.cfg.Budgets.Attempts[res.Spec.Builder]
	caps.Budgets.Tokens, caps.Budgets.Cost = attempt.Tokens, attempt.Cost
	budgets, checks, notes, over := c.Apply(caps, res.Checks)
	in.Budgets, in.Checks, in.Prepare = budgets, checks, c.Preparation(o.s.cfg.Caps)
	in.Notes = append(in.Notes, notes...)
	in.Notes = append(in.Notes, scope.Unmatched(in.Spec.AllowedFiles, paths(in.base))...)
	in.Policy = append(in.Policy, over...)
	in.Scope = executor.ScopeRules{
		Allowed: in.Spec.AllowedFiles, Forbidden: c.Paths.Forbidden, Guarded: c.Paths.Guarded, Unprotect: c.Paths.Unprotect,
		Accepts: c.Paths.Accepts(), KeepIgnored: c.Paths.Ignored == contract.IgnoredRefuse, LockSources: o.s.cfg.LockSources,
	}
	in.CommitMessage, in.Message = c.Message(in.Title, o.number, contract.Trailer{Key: "Writ-Task", Value: fmt.Sprintf("%d", o.number)})
	in.TakeTurns = c.Overlap == contract.OverlapWait
}

// secretsIn refuses text that holds a secret: the evidence has it as it is, and the
// subjects of commit and change what they make of its title (cases F3, S18).
func (o *observer) secretsIn(in *Intake) (list []kernel.Violation) {
	said := ""
	if in.Remark != nil {
		said = in.Remark.Text
	}
	for _, c := range []struct{ subject, text, detail string }{
		{"title", in.Title + "\n" + in.CommitMessage, "The issue's title holds a secret."},
		{"body", in.Body, "The issue's text holds a secret."},
		{"retry", said, "What the retry says to the builder holds a secret."},
	} {
		if o.s.deps.Holds != nil && o.s.deps.Holds([]byte(c.text)) {
			list = append(list, kernel.Violation{Code: kernel.CodeSecretDetected, Subject: c.subject, Detail: c.detail})
		}
	}
	return list
}
