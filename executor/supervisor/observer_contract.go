package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

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

// terms are the contract in force: an intake without an issue.
type terms struct {
	in       *Intake
	contract contract.Contract
	faults   []kernel.Violation
}

// readTerms reads the contract at the tip of the base branch.
func (o *observer) readTerms(ctx context.Context, refs git.Refs) (terms, error) {
	in := &Intake{PolicyVersion: PolicyVersion}
	c, faults, err := o.readInForce(ctx, refs, in)
	if err != nil {
		c = contract.Contract{}
		faults, err = o.unreadable(ctx, refs, in, err)
	}
	if len(faults) > 0 {
		c.Trigger = contract.Default().Trigger // so that an answer can be given
	}
	in.trigger, in.notify = c.Trigger, c.Notify
	in.byChange, in.draft = c.Deliver.As == contract.DeliverPullRequest, c.Deliver.Draft
	if o.remote && in.byChange && c.CloseOn == contract.CloseMerged { // of a text in a file nobody would see the merge
		in.closeOn = kernel.CloseMerged
	}
	if c.Refresh == contract.RefreshAuto {
		in.autoRefreshes = c.Budgets.Refreshes
	}
	return terms{in, c, faults}, err
}

// readInForce reads base and contract.
func (o *observer) readInForce(ctx context.Context, refs git.Refs, in *Intake) (contract.Contract, []kernel.Violation, error) {
	if err := o.readBase(ctx, refs, in); err != nil {
		return contract.Contract{}, nil, err
	}
	in.contractRef, in.contractCommit = in.BaseRef, in.BaseCommit
	if err := o.readContract(ctx, in); err != nil {
		return contract.Contract{}, nil, err
	}
	return o.loadContract(ctx, refs, in)
}

// contractNow is the governance hash as it is now, for a run that has pinned one
// (case I10).
func (o *observer) contractNow(ctx context.Context, refs git.Refs, pinned *Intake) (canon.Digest, error) {
	if o.s.cfg.Contract == nil && refs.OID(pinned.contractRef) == pinned.contractCommit {
		return pinned.Governance, nil
	}
	var now Intake
	if err := o.readBase(ctx, refs, &now); err != nil {
		return "", err
	}
	err := o.readContract(ctx, &now)
	return now.Governance, err
}

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

// readBase pins the base: the tip of the base branch as it is now.
func (o *observer) readBase(ctx context.Context, refs git.Refs, in *Intake) error {
	in.BaseRef = o.s.cfg.Base
	if in.BaseRef == "" {
		in.BaseRef = refs.Head
	}
	var err error
	if in.BaseCommit, err = o.s.branch(ctx, refs, in.BaseRef); err != nil {
		return err
	}
	if in.BaseCommit.IsZero() {
		return &noBaseError{executor.Error{Code: kernel.CodeEnvRepository, Detail: o.noCommit(ctx, in.BaseRef)}}
	}
	in.base, err = o.readTree(ctx, in.BaseCommit)
	return err
}

// noBaseError says that the base branch isn't there: the server can do what it is asked.
type noBaseError struct{ err executor.Error }

func (e *noBaseError) Error() string { return e.err.Error() }

func (e *noBaseError) Unwrap() error { return &e.err }

// baseRefs are the refs at which the base is looked for: the operator's, or the one
// that HEAD names and the contract's, as it was last.
func (s *Supervisor) baseRefs() []string {
	if s.cfg.Base != "" {
		return []string{s.cfg.Base}
	}
	names := []string{git.OnlyHead}
	if named := s.named.Load(); named != nil {
		names = append(names, *named)
	}
	return names
}

// branch is where a branch is, which is asked for where it wasn't. A name that can be
// none is nowhere.
func (s *Supervisor) branch(ctx context.Context, refs git.Refs, name string) (git.OID, error) {
	if oid := refs.OID(name); !oid.IsZero() || !askable(name) {
		return oid, nil
	}
	refs, err := s.deps.Repo.Refs(ctx, name)
	return refs.OID(name), err
}

func askable(ref string) bool { return git.ValidateRef(ref) == nil }

// noCommit says what a repository needs whose base branch has no commit: that nothing is
// there to work on isn't a matter of path or permission. A git server doesn't name a
// branch that was deleted, the forge does.
func (o *observer) noCommit(ctx context.Context, ref string) string {
	name := strings.TrimPrefix(ref, "refs/heads/")
	if p := o.s.deps.Forge; name == "" && p != nil {
		if about, err := p.Client.Repository(ctx, p.Repo.ID); err == nil {
			name = about.DefaultBranch
		}
	}
	if name == "" {
		return "the repository's HEAD names no branch that is there: push the one that is meant, or name another branch as base"
	}
	return fmt.Sprintf("the base branch %q isn't there, or has no commit: make its first one (git commit) or push it, or name another branch as base", name)
}

// readTree reads a commit's tree, or the one that was read last.
func (o *observer) readTree(ctx context.Context, commit git.OID) (git.Tree, error) {
	for _, kept := range o.trees {
		if kept.commit == commit {
			return kept.tree, nil
		}
	}
	tree, err := o.s.deps.Repo.Tree(ctx, commit)
	if err != nil {
		return tree, err
	}
	// Two: the branch of the contract and the base, where they differ.
	o.trees = append([]keptTree{{commit, tree}}, o.trees...)[:min(2, len(o.trees)+1)]
	return tree, nil
}

// keptTree is a tree by the commit that it was read from.
type keptTree struct {
	commit git.OID
	tree   git.Tree
}

// readContract reads the operator's contract, the repository's at the pinned
// commit, or the built-in one.
func (o *observer) readContract(ctx context.Context, in *Intake) error {
	if x := o.s.cfg.Contract; x != nil {
		data, err := x.Read()
		if err != nil {
			return &executor.Error{Code: kernel.CodeEnvGovernance, Detail: "the contract can't be read", Err: err}
		}
		in.Contract, in.Source, in.Overridden = data, x.Name, true
		in.Governance = canon.Sum(data)
		return nil
	}
	in.Contract, in.Source = contract.Template(), contract.SourceDefault
	e, found := in.base.Find(contract.Path)
	switch {
	case found:
		in.Source, in.Contract = contract.Path, nil
		if e.Mode == git.ModeGitlink {
			break
		}
		err := o.s.deps.Repo.Blobs(ctx, []git.OID{e.OID}, func(_ git.OID, data []byte) error { in.Contract = data; return nil })
		if err != nil {
			return fmt.Errorf("%s: %w", contract.Path, err)
		}
	default:
		if in.misplaced = contract.Misplaced(paths(in.base)); len(in.misplaced) > 0 {
			in.Contract = nil
		}
	}
	in.Governance = canon.Sum(in.Contract)
	return nil
}

// paths are those of a tree's entries.
func paths(tree git.Tree) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range tree.Entries {
			if !yield(e.Path) {
				return
			}
		}
	}
}

// mode is the git mode of the contract's entry, "" where it isn't from git.
func (in *Intake) mode() string {
	for _, e := range in.base.Entries {
		if e.Path == in.Source && !in.Overridden {
			return e.Mode.String()
		}
	}
	return ""
}

// loadContract parses the contract, which may name another base branch than
// the one that it is read from.
func (o *observer) loadContract(ctx context.Context, refs git.Refs, in *Intake) (contract.Contract, []kernel.Violation, error) {
	if len(in.misplaced) > 0 {
		return contract.Contract{}, in.misplaced, nil
	}
	c, warnings, faults := o.parse(in.Contract, contract.Source{Name: in.Source, Mode: in.mode()})
	in.Warnings = append(append([]string{}, o.s.cfg.Warnings...), warnings...)
	if len(faults) > 0 || c.Base == "" || o.s.cfg.Base != "" || in.BaseRef == "refs/heads/"+c.Base {
		return c, faults, nil
	}
	named := "refs/heads/" + c.Base
	in.BaseRef = named
	var err error
	if in.BaseCommit, err = o.s.branch(ctx, refs, in.BaseRef); err != nil {
		return c, nil, err
	}
	if in.BaseCommit.IsZero() {
		return c, []kernel.Violation{{Code: kernel.CodeGovernanceInvalid, Subject: "base", Detail: fmt.Sprintf("The repository has no branch %q.", c.Base)}}, nil
	}
	if askable(named) { // a server may put anything at any name
		o.s.named.Store(&named)
	}
	in.base, err = o.readTree(ctx, in.BaseCommit)
	return c, nil, err
}

// parsed is a contract as it was last read, for whichever task of the world. Every
// request reads its bytes again, but holding them against all rules costs more than
// the rest of a look. Nobody writes to it.
type parsed struct {
	data     []byte
	source   contract.Source
	contract contract.Contract
	warnings []string
	faults   []kernel.Violation
}

func (o *observer) parse(data []byte, source contract.Source) (contract.Contract, []string, []kernel.Violation) {
	p := o.s.parsed.Load()
	if p == nil || p.source != source || !bytes.Equal(p.data, data) {
		p = &parsed{data: data, source: source}
		p.contract, p.warnings, p.faults = contract.Load(data, source)
		p.faults = slices.Clip(p.faults) // others are appended to it
		o.s.parsed.Store(p)
	}
	return p.contract, p.warnings, p.faults
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
		Accepts: c.Paths.Accepts(), KeepIgnored: c.Paths.Ignored == contract.IgnoredRefuse,
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

// listRunners reads the keys whose results count in this repository. Where the
// contract names some and ours isn't among them, nothing of ours would count.
func (s *Supervisor) listRunners(in *Intake, c contract.Contract) {
	listed := len(c.Runners) == 0
	own := git.Fingerprint(s.deps.Signer.PublicKey())
	for _, line := range c.Runners {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			continue // the contract was refused for it
		}
		listed = listed || git.Fingerprint(key) == own
		in.runners = append(in.runners, key)
	}
	if in.unlisted = !listed; !listed {
		in.Policy = append(in.Policy, kernel.Violation{Code: kernel.CodeAuthority, Subject: "runners",
			Detail: "The contract lists runners, and this installation's key " + own + " isn't among them."})
	}
}
