package replay

import (
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
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
	// World is the world that the evidence must be of; "" takes its own word.
	World string
}

// HeadInfo is what git says beside the pack. Commits must have been parsed from
// the bytes of their ids.
type HeadInfo struct {
	Task   int64        // number in the ref's name
	Commit git.Commit   // HEAD of the state ref
	Leases []git.Commit // of HEAD's run, the newest first, the claim last
	Prior  []byte       // retry.json that stood at HEAD when the run was claimed; nil for none
	Base   *Snapshot    // the pinned base; nil if it can't be read
	Change *Snapshot    // the commit that writ-change names; nil if it can't be read
	// Blobs are the files that the recorded changes bring, by id.
	Blobs map[git.OID][]byte
}

// Snapshot is a commit and its whole tree.
type Snapshot struct {
	Commit git.Commit
	Tree   git.Tree
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
	pack Pack
	head HeadInfo
	opts Options
	rep  Report

	key       *instancekey.Public // of HEAD's signer
	keyErr    error
	event     lease.Event // at HEAD
	eventErr  error
	claim     *lease.Event // of the run
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
	v.rep = Report{Task: head.Task, Head: string(head.Commit.OID), Evidence: EvidenceNone, Checks: []Check{}}
	v.readSigner()
	v.event, v.eventErr = eventOf(head.Commit)
	if v.eventErr == nil {
		v.rep.State, _ = kernel.TaskStateOf(v.event.State)
	}
	if n := len(head.Leases); n > 0 {
		if ev, err := eventOf(head.Leases[n-1]); err == nil {
			v.claim = &ev
		}
	}
	v.seed, v.seedErr = decoded[kernel.SeedPack](pack[FileSeedPack])
	if v.seed != nil {
		v.rep.World = v.seed.World
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
	switch v.rep.State {
	case kernel.TaskCompleted, kernel.TaskRetryPending:
		return true
	case kernel.TaskBlocked:
		return v.said(kernel.TrailerDispatch) != ""
	}
	return false
}

// live reports whether HEAD is a lease.
func (v *verifier) live() bool { return v.eventErr == nil && v.event.State == kernel.HeadWorking }

// redacted reports whether the server took only hashes.
func (v *verifier) redacted() bool { return v.pack[FileRecords] == nil }

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
	out := []check{{"signature", v.checkSignature}, {"head", v.checkHead}, {"tree", v.checkTree}}
	inputs := v.pack[FileSeedPack] != nil || v.pack[FileContract] != nil
	switch {
	case v.ofRun():
		return append(out, v.runChecks()...)
	case v.live():
		return append(out,
			check{"lease", v.checkLease}, check{"seed_pack", v.checkSeedPack}, check{"contract", v.checkContract},
			check{"kernel", v.checkKernel}, check{"plan", v.checkPlan}, check{"dispatch", v.checkDispatch})
	case inputs:
		out = append(out, check{"seed_pack", v.checkSeedPack}, check{"contract", v.checkContract})
	}
	if v.pack[FileReport] != nil || v.pack[FileMarkdown] != nil {
		out = append(out, check{"report", v.checkReport})
	}
	return out
}

func (v *verifier) runChecks() []check {
	out := []check{
		{"lease", v.checkLease}, {"seed_pack", v.checkSeedPack}, {"contract", v.checkContract},
		{"kernel", v.checkKernel}, {"plan", v.checkPlan}, {"dispatch", v.checkDispatch},
		{checkRecords, v.checkRecords}, {checkProofs, v.checkProofs},
		{"decisions", v.needsRecords(v.checkDecisions)}, {"audit", v.needsRecords(v.checkAudit)},
		{"effects", v.needsRecords(v.checkEffects)}, {"receipts", v.needsRecords(v.checkReceipts)},
		{"result", v.needsRecords(v.checkResult)}, {"report", v.checkReport},
	}
	if v.rep.State == kernel.TaskRetryPending || v.pack[FileRetry] != nil {
		out = append(out, check{"retry", v.needsRecords(v.checkRetry)})
	}
	if v.rep.State == kernel.TaskCompleted || v.said(kernel.TrailerChange) != "" {
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
