package replay

import (
	"cmp"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/plan"
)

// Options say what the caller knows from elsewhere.
type Options struct {
	// Keys are the keys that the caller vouches for. None: the signer is named,
	// and that nobody vouched for it. Otherwise another signer is a failure
	// (lease.untrusted).
	Keys []ssh.PublicKey
	// World is the world that the evidence must be of; "" takes its own word, and the
	// report then says that nobody vouched for it.
	World string
}

// HeadInfo is what git says beside the pack. Commits must have been parsed from
// the bytes of their ids.
type HeadInfo struct {
	Task int64  // number in the ref's name
	Ref  string // full name of the state ref
	// Acts are those of the world, the oldest first.
	Acts   []worldref.Entry
	Commit git.Commit   // HEAD of the state ref
	Leases []git.Commit // of HEAD's run, the newest first, the claim last
	Waits  []git.Commit // for a rule, between HEAD and the leases, the newest first
	Prior  []byte       // retry.json that stood at HEAD when the run was claimed; nil for none
	Base   *Snapshot    // the pinned base; nil if it can't be read
	Change *Snapshot    // the commit that writ-change names; nil if it can't be read
	Unheld *Unheld      // nil if a branch holds that, or it couldn't be looked
	// Carried is the commit below HEAD whose tree HEAD has; nil unless HEAD's files can't
	// be its own.
	Carried *git.Commit
	// Earlier is the claim of the run whose sealed work HEAD's run went on with; nil if
	// there is none, or it can't be found below.
	Earlier *git.Commit
	// Refreshed is the result that HEAD's run applied on another base, and replaced; nil if
	// there is none, or it can't be found below.
	Refreshed *Refreshed
	// Over is the result that HEAD's run is a revision of, and Told what the comments
	// of that revision point at; nil and empty if there is none, or it can't be read.
	Over *Refreshed
	Told Told
	// Restored is HEAD, or what a merge completed, where it put the delivered result back
	// that Commit is.
	Restored *Completion
	// Others are HEADs of other tasks that name an act.
	Others []Other
	// Results are the other results of the task below HEAD, the newest first.
	Results []Result
	// Broken are the leases of the task, from HEAD down, that were broken.
	Broken []Broken
	// Completion is HEAD where it completes a result that waited for the merge of its
	// change; Commit is then the result below it, whose run all else speaks of.
	Completion *Completion
	// Blobs are the files that the recorded changes bring, and what their lock files held
	// before, by id.
	Blobs map[git.OID][]byte
}

// Snapshot is a commit and its whole tree.
type Snapshot struct {
	Commit git.Commit
	Tree   git.Tree
}

// Unheld says that no branch's tip is the change, and that neither the default branch
// nor the task's own has it below its tip.
type Unheld struct {
	Own     string // full name of the task's own, which may be gone
	Default string // full name, "" for none
	Landed  bool   // the default branch's tip has the changed files as the change left them
}

// Other is the HEAD of another task's ref.
type Other struct {
	Ref    string
	Commit git.Commit
}

// Completion is a commit that completed a result, with its files.
type Completion struct {
	Commit git.Commit
	Files  Pack
	Merged Merged
}

// Merged are the commits that say what a merge brought, beside the base; nil for what
// can't be read.
type Merged struct {
	Verified *Snapshot // what it must bring
	Head     *Snapshot // of the change's branch
	Commit   *Snapshot // the merge on the base
	Landing  *Landing
}

// Landing is how a merge came onto the base branch, as the repository has that.
type Landing struct {
	Branch  string // full name
	Reached bool   // the merge is in its history
	// By is the commit by which the branch itself got the merge, where that is another:
	// one of the change's own branch, say, which a merge commit brought.
	By *Snapshot
}

// Verify evaluates every check that applies. It is a function of its arguments:
// no clock, no network, no file.
func Verify(pack Pack, head HeadInfo, o Options) Report {
	v := newVerifier(pack, head, o)
	var all []outcome
	for _, c := range v.checks() {
		f := &findings{}
		detail := c.run(f)
		if len(f.faults) > 0 {
			detail = f.text()
		}
		all = append(all, outcome{c.name, f.faults})
		v.rep.Checks = append(v.rep.Checks, Check{Name: c.name, OK: len(f.faults) == 0, Code: f.code(), Detail: detail})
	}
	v.rep.OK = !slices.ContainsFunc(v.rep.Checks, func(c Check) bool { return !c.OK })
	v.rep.FirstBad = firstBad(all)
	v.rep.Codes = codes(all)
	return v.rep
}

// outcome is what one check found.
type outcome struct {
	name   string
	faults []fault
}

// firstBad looks at the records before all else: what rests on a bad one fails
// too, and isn't the cause.
func firstBad(all []outcome) *BadRecord {
	rank := func(o outcome) int {
		switch o.name {
		case checkRecords:
			return 0
		case checkProofs:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b outcome) int { return rank(a) - rank(b) })
	for _, o := range all {
		if x := first(o.faults); x != nil && x.code != kernel.CodeEvidenceRedacted {
			return &BadRecord{Seq: x.seq, File: x.file, Detail: x.detail}
		}
	}
	return nil
}

func codes(all []outcome) []kernel.Code {
	var out []kernel.Code
	for _, o := range all {
		for _, x := range o.faults {
			out = append(out, x.code)
		}
	}
	return kernel.SortCodes(out)
}

// verifier holds what the checks have in common. All of it is read before the
// first check, so that no check waits for another; what could not be read is
// nil, and the check whose part it is says why.
type verifier struct {
	acts worldref.Standing // who counts
	pack Pack
	head HeadInfo
	opts Options
	rep  Report

	state     kernel.TaskState    // of the run's result, which HEAD is or completes
	signer    string              // of the result
	key       *instancekey.Public // its
	keyErr    error
	event     lease.Event // at HEAD
	eventErr  error
	stamp     kernel.Stamp // HEAD's
	stampErr  error
	claim     *lease.Event // of the run
	earlier   *lease.Event // of the run whose sealed work it went on with
	sealed    *sealed.Manifest
	sealedErr error
	seed      *kernel.SeedPack
	seedErr   error
	rules     contract.Contract
	rulesErr  error
	signed    *ledger.Checkpoint // opened with the signer's key
	signedErr error
	proofs    *Proofs // that fit the checkpoint
	proofsErr error
	lines     []line   // of records.jsonl
	records   []record // those that can be read, in order
	diff      *kernel.Diff
}

func newVerifier(pack Pack, head HeadInfo, o Options) *verifier {
	v := &verifier{pack: pack, head: head, opts: o}
	v.rep = Report{Task: head.Task, Head: string(head.Commit.OID), Evidence: EvidenceNone, Results: append([]Result{}, head.Results...), Checks: []Check{}}
	v.rep.Gaps = []Gap{}
	if v.readSigner(); v.keyErr != nil {
		return v // nothing of what is there is an instance's word
	}
	v.rep.Gaps = v.gaps()
	if v.eventErr == nil {
		v.state, _ = kernel.TaskStateOf(v.event.State)
	}
	v.rep.State = v.state
	if c := head.Completion; c != nil {
		v.rep.Head = string(c.Commit.OID)
		if ev, err := eventOf(c.Commit); err == nil {
			v.rep.State, _ = kernel.TaskStateOf(ev.State)
		}
	}
	if n := len(head.Leases); n > 0 {
		if ev, err := eventOf(head.Leases[n-1]); err == nil {
			v.claim = &ev
		}
	}
	if head.Earlier != nil {
		if ev, err := eventOf(*head.Earlier); err == nil {
			v.earlier = &ev
		}
	}
	if data := pack[FileSealed]; data != nil {
		var m sealed.Manifest
		if m, v.sealedErr = sealed.Decode(data); v.sealedErr == nil {
			v.sealed = &m
		}
	}
	v.seed, v.seedErr = decoded[kernel.SeedPack](pack[FileSeedPack])
	v.readStamp()
	if v.seed != nil {
		v.rep.World, v.rep.Repository = cmp.Or(v.rep.World, v.seed.World), v.seed.Repository
	}
	v.readContract()
	if v.ofRun() {
		v.rep.Evidence = EvidenceFull
		if v.redacted() {
			v.rep.Evidence = EvidenceRedacted
		}
		v.readProofs()
		v.readLines()
		v.diff = v.runsDiff()
	}
	return v
}

// decoded reads one of our own canonical documents.
func decoded[T any](data []byte) (*T, error) {
	var out T
	if err := canon.UnmarshalCanonical(data, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// ofRun reports whether HEAD is the result of a run, which owes a pack.
func (v *verifier) ofRun() bool {
	switch v.state {
	case kernel.TaskCompleted, kernel.TaskRetryPending:
		return true
	case kernel.TaskWaiting:
		return v.accepted()
	case kernel.TaskBlocked:
		return v.said(kernel.TrailerDispatch) != ""
	}
	return false
}

// accepted reports whether the run's work became the task's result.
func (v *verifier) accepted() bool {
	return kernel.Judgement{State: v.state, WaitingFor: v.said(kernel.TrailerWaitingFor)}.Accepted()
}

// resumes is the run whose sealed work HEAD's run went on with, "" for none.
func (v *verifier) resumes() string { return v.said(kernel.TrailerResumes) }

// dispatched is the run that the builder was started for.
func (v *verifier) dispatched() string {
	if run := v.resumes(); run != "" || v.claim == nil {
		return run
	}
	return v.claim.RunID
}

// live reports whether HEAD is a lease.
func (v *verifier) live() bool { return v.eventErr == nil && v.event.State == kernel.HeadWorking }

// redacted reports whether the server took only hashes.
func (v *verifier) redacted() bool { return v.pack[FileRecords] == nil }

// leaseTree reports whether HEAD's tree is that of a lease: HEAD is one, or says that one
// was broken or given back, or that its work waits for a rule.
func (v *verifier) leaseTree() bool {
	return v.live() || v.eventErr == nil && (v.event.State == kernel.HeadStalled || awaitsRule(v.event))
}

// said is the value of one of Writ's trailers at HEAD, "" unless it stands
// there exactly once.
func (v *verifier) said(key string) string { return trailer(v.event, key) }

func trailer(ev lease.Event, key string) string {
	value, _ := lease.Message{Trailers: ev.Trailers}.Get(key)
	return value
}

// check is one line of the report.
type check struct {
	name string
	run  func(*findings) string // the sentence when all is well
}

const (
	checkRecords = "records"
	checkProofs  = "proofs"
)

// checks are those that apply to this HEAD, in the order of the package
// comment.
func (v *verifier) checks() []check {
	if v.keyErr != nil {
		return []check{{"signature", v.checkSignature}}
	}
	out := v.checksBelow()
	if len(v.under()) > 0 {
		out = append(out, check{"acts", v.checkActs})
	}
	if len(v.rep.Gaps) > 0 {
		out = append(out, check{"gaps", v.checkGaps})
	}
	if v.head.Restored != nil {
		out = append(out, check{"restored", v.checkRestored})
	}
	if v.head.Completion != nil {
		out = append(out, check{"merge", v.checkMerge})
	}
	return out
}

// checksBelow are those of the result that HEAD is or completes.
func (v *verifier) checksBelow() []check {
	out := []check{{"signature", v.checkSignature}, {"head", v.checkHead}, {"binding", v.checkBinding}, {"tree", v.checkTree}}
	inputs := v.pack[FileSeedPack] != nil || v.pack[FileContract] != nil
	switch {
	case v.ofRun():
		return append(out, v.runChecks()...)
	case v.live():
		return append(out,
			check{"lease", v.checkLease}, check{"seed_pack", v.checkSeedPack}, check{"contract", v.checkContract},
			check{"kernel", v.checkKernel}, check{"plan", v.checkPlan}, check{"dispatch", v.checkDispatch})
	case v.head.Carried != nil:
		return out
	case inputs:
		out = append(out, check{"seed_pack", v.checkSeedPack}, check{"contract", v.checkContract})
	}
	if v.pack[FileReport] != nil || v.pack[FileMarkdown] != nil {
		out = append(out, check{"report", v.checkReport})
	}
	return out
}

// refreshChecks are those of a run that applied a delivered result on another base, or was a
// revision of it.
func (v *verifier) refreshChecks() []check {
	switch {
	case v.refreshes() != "":
		return []check{{"refresh", v.checkRefreshed}}
	case v.fixes() != "" || v.seed != nil && v.seed.Revision != nil:
		return []check{{"revision", v.checkRevision}}
	}
	return nil
}

func (v *verifier) runChecks() []check {
	out := v.refreshChecks()
	out = append(out, []check{
		{"lease", v.checkLease}, {"seed_pack", v.checkSeedPack}, {"contract", v.checkContract},
		{"kernel", v.checkKernel}, {"plan", v.checkPlan}, {"dispatch", v.checkDispatch},
		{checkRecords, v.checkRecords}, {checkProofs, v.checkProofs},
		{"decisions", v.needsRecords(v.checkDecisions)}, {"audit", v.needsRecords(v.checkAudit)},
		{"effects", v.needsRecords(v.checkEffects)}, {"receipts", v.needsRecords(v.checkReceipts)},
		{"result", v.needsRecords(v.checkResult)}, {"report", v.checkReport},
	}...)
	if v.state == kernel.TaskRetryPending || v.pack[FileRetry] != nil {
		out = append(out, check{"retry", v.needsRecords(v.checkRetry)})
	}
	if v.accepted() || v.said(kernel.TrailerChange) != "" {
		out = append(out, check{"change", v.checkChange})
	}
	return out
}

// needsRecords makes a check say that it can't be made on hashes.
func (v *verifier) needsRecords(run func(*findings) string) func(*findings) string {
	if !v.redacted() {
		return run
	}
	return func(f *findings) string {
		f.add(kernel.CodeEvidenceRedacted, FileRecords, NoSeq, "Not checked: the records are kept as hashes only.")
		return ""
	}
}

// planOf derives spec and plan as a claim without a planner does.
func planOf(pack kernel.SeedPack) (plan.Spec, plan.Plan, error) {
	spec, err := plan.Commit(plan.Derive(pack), pack)
	if err != nil {
		return spec, plan.Plan{}, err
	}
	p, err := plan.DerivePlan(spec, pack)
	return spec, p, err
}
