package replay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/world"
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

// runsDiff is the diff record of the run, if it can be read.
func (v *verifier) runsDiff() *kernel.Diff {
	list := v.of(kernel.KindDiff)
	if len(list) == 0 {
		return nil
	}
	d, _ := decoded[kernel.Diff](list[len(list)-1].Body)
	return d
}

// readContract loads the contract once; several checks use its words.
func (v *verifier) readContract() {
	c, _, bad := contract.Load(v.pack[FileContract], contract.Source{Name: FileContract})
	if len(bad) > 0 {
		v.rulesErr = fmt.Errorf("the contract can't be used: %s", bad[0].Detail)
	}
	v.rules = c
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

// auditor follows the audit entries of a pack: a stretch of one kernel's chain,
// whose beginning lies before the run.
type auditor struct {
	v       *verifier
	f       *findings
	last    *machine.Entry
	digest  canon.Digest    // of last
	facts   canon.Digest    // of the newest observation
	act     canon.Digest    // the newest act of a person
	verdict kernel.Verdict  // of the newest decision
	due     map[string]bool // intents that are not begun yet
	begun   map[string]bool // effects that an entry let begin
}

// checkAudit follows the chain of entries, and holds them against the records
// that they tell of: each request's facts and decision, and for each effect an
// entry before it (promise P6).
func (v *verifier) checkAudit(f *findings) string {
	a := &auditor{v: v, f: f, due: map[string]bool{}, begun: map[string]bool{}}
	n := 0
	for _, r := range v.records {
		switch r.Kind {
		case kernel.KindObservation:
			a.facts = canon.Sum(r.Body)
		case kernel.KindOperatorAct: // a request of its own, which its kernel allowed
			a.act = canon.Sum(r.Body)
		case kernel.KindDecision:
			if d := read[kernel.Decision](f, r); d != nil {
				a.verdict = d.body.Verdict
			}
		case kernel.KindIntent:
			if i := read[kernel.Intent](f, r); i != nil {
				a.due[i.body.Key] = true
			}
		case kernel.KindOutcome:
			a.outcome(r)
		case kernel.KindAudit:
			n++
			a.entry(r)
		}
	}
	if n == 0 {
		f.file(FileRecords, "There is no audit entry.")
	} else if a.last != nil && a.last.StateTo != machine.Idle.String() {
		f.file(FileRecords, "The entries end in %s, in the middle of a request.", a.last.StateTo)
	}
	return fmt.Sprintf("The chain of audit entries is whole (%d), and each effect had its entry first.", n)
}

// outcome: what came to an end was let begin.
func (a *auditor) outcome(r record) {
	o := read[kernel.Outcome](a.f, r)
	if o != nil && a.facts != "" && a.due[o.body.Key] {
		a.f.record(r.Seq, "The effect %s was done without an audit entry before it.", o.body.Key)
	}
}

func (a *auditor) entry(r record) {
	b := read[machine.Entry](a.f, r)
	if b == nil {
		return
	}
	e := b.body
	digest, err := e.Digest()
	if err != nil {
		a.f.record(r.Seq, "The entry can't be hashed: %v.", err)
		return
	}
	if why := a.misfit(e); why != "" {
		a.f.record(r.Seq, "%s", why)
	}
	if e.StateTo == machine.Executing.String() && e.Tool != nil {
		if !a.due[e.Tool.Key] {
			a.f.record(r.Seq, "It lets the effect %s begin, which no intent announces.", e.Tool.Key)
		}
		delete(a.due, e.Tool.Key)
	}
	a.last, a.digest = &e, digest
}

// misfit says why an entry does not continue the chain or its request.
func (a *auditor) misfit(e machine.Entry) string {
	if err := e.Check(); err != nil {
		return fmt.Sprintf("The entry is none that the machine makes: %v.", err)
	}
	to, _ := machine.ParseState(e.StateTo)
	act, allowed := e.EvidenceHash, e.Decision != nil && *e.Decision == machine.Allow
	switch {
	case act != nil && allowed && *act != a.act:
		return "It allows an act that no record tells of."
	case e.ParamsHash != nil && *e.ParamsHash != a.facts:
		return "The entry is of a request with other facts."
	case act == nil && e.Decision != nil && string(*e.Decision) != string(a.verdict):
		return fmt.Sprintf("The entry says %s, the decision %s.", *e.Decision, a.verdict)
	case to == machine.Executing && (e.Tool == nil || act != nil || a.verdict != kernel.Allow):
		return "It lets an effect begin that no decision allows."
	case a.last == nil:
		return ""
	case e.Kernel != a.last.Kernel || e.Epoch != a.last.Epoch:
		return "The entry is of another kernel or epoch."
	case e.Seq != a.last.Seq+1 || e.Prev != a.digest:
		return "The entry does not follow the one before it."
	case e.Time < a.last.Time:
		return "The machine's clock goes back."
	case e.StateFrom != a.last.StateTo:
		return fmt.Sprintf("The machine was in %s, the entry leaves %s.", a.last.StateTo, e.StateFrom)
	case e.StateFrom != machine.Idle.String() && to != machine.Halted && !goesOn(*a.last, e):
		return "The entry is of another request than the one before it."
	}
	return ""
}

// goesOn reports whether an entry is of the same request as the one before it: what is
// known of a request stays.
func goesOn(a, b machine.Entry) bool {
	return same(a.RequestID, b.RequestID) && same(a.Actor, b.Actor) && same(a.Intent, b.Intent) &&
		same(a.ParamsHash, b.ParamsHash) && same(a.EvidenceHash, b.EvidenceHash) &&
		(a.Decision == nil || same(a.Decision, b.Decision)) && (a.Tool == nil || equal(a.Tool, b.Tool))
}

func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// checkDecisions takes each decision again from the observation before it, the
// only thing that it may rest on, and compares the bytes (promise P7).
func (v *verifier) checkDecisions(f *findings) string {
	var seen, last *record // the newest observation and decision
	n := 0
	said := lastOf{}
	for _, r := range v.records {
		switch r.Kind {
		case kernel.KindSpec:
			said[ofTask{r.Kind, r.Task}] = r.Record
		case kernel.KindOperatorAct, kernel.KindPlanProposal:
			if err := said.checkWords(r.Record); err != nil {
				f.record(r.Seq, "It can't be so: %v.", err)
			}
		case kernel.KindObservation:
			seen = &r
		case kernel.KindDecision:
			n++
			last = &r
			v.checkDecision(f, seen, r)
		case kernel.KindRefusal:
			v.checkRefusal(f, seen, last, r)
		}
	}
	if n == 0 {
		f.file(FileRecords, "There is no decision.")
	}
	return fmt.Sprintf("%s, taken again from the facts: the same byte for byte.", report.Counted(n, "decision"))
}

func (v *verifier) checkDecision(f *findings, seen *record, r record) {
	if v.seed != nil && v.seed.Pins.Kernel != kernel.Version() {
		f.add(kernel.CodeReplayVersion, FileRecords, r.Seq, "It was taken by kernel %q; this program replays %s.", v.seed.Pins.Kernel, kernel.Version())
		return
	}
	if seen == nil {
		f.record(r.Seq, "The decision rests on no observation.")
		return
	}
	facts := v.factsOf(f, *seen)
	if facts == nil {
		return
	}
	again, err := kernel.Decide(*facts)
	if err != nil {
		f.record(r.Seq, "The decision can't be taken again: %v.", err)
		return
	}
	want, err := canon.Marshal(again)
	if err != nil || !bytes.Equal(want, r.Body) {
		f.record(r.Seq, "The decision does not follow from its facts (record %d): taken again, it is %s, %s.", seen.Seq, again.Verdict, again.Action)
	}
}

// factsOf reads an observation of this task.
func (v *verifier) factsOf(f *findings, r record) *kernel.Facts {
	facts := read[kernel.Facts](f, r)
	if facts == nil {
		return nil
	}
	if facts.body.Kind != string(kernel.KindObservation) || facts.body.Task != v.head.Task || facts.body.World != r.World {
		f.record(r.Seq, "The observation is not of this task.")
		return nil
	}
	if run := facts.body.Run; run != nil && run.Phase == kernel.PhaseJudged && run.Judgement == nil {
		f.record(r.Seq, "The run is said to be judged, and the judgement is missing.")
		return nil // the kernel's rules can't be asked about what can't be
	}
	return &facts.body
}

// checkRefusal composes the refusal again. It is of the decision just taken.
func (v *verifier) checkRefusal(f *findings, seen, last *record, r record) {
	if seen == nil || last == nil {
		f.record(r.Seq, "The refusal is of no decision.")
		return
	}
	d := read[kernel.Decision](f, *last)
	if d == nil {
		return
	}
	want := kernel.NewRefusal(r.World, r.Task, d.body, []canon.Digest{canon.Sum(seen.Body)})
	if data, err := canon.Marshal(want); err != nil || !bytes.Equal(data, r.Body) {
		f.record(r.Seq, "The refusal is not that of the decision before it.")
	}
}

// checkReceipts: rounds are counted up, and a round begins with the state that
// the one before left.
func (v *verifier) checkReceipts(f *findings) string {
	var last *world.RoundReceipt
	list := v.of(kernel.KindReceipt)
	for _, r := range list {
		b := read[world.RoundReceipt](f, r)
		if b == nil {
			continue
		}
		now := b.body
		switch {
		case now.V != world.Version:
			f.add(kernel.CodeReplayVersion, FileRecords, r.Seq, "The receipt has version %d; this program knows %d.", now.V, world.Version)
		case now.WorldID != r.World || now.Instance != r.Instance:
			f.record(r.Seq, "The receipt is of another world or instance.")
		case now.Timestamp > r.Time:
			f.record(r.Seq, "The receipt is dated after its record.")
		case last != nil && now.RoundID <= last.RoundID:
			f.record(r.Seq, "Its round %d is not after round %d.", now.RoundID, last.RoundID)
		case last != nil && now.RoundID == last.RoundID+1 && now.SnapshotHashBefore != last.SnapshotHashAfter:
			f.record(r.Seq, "Its round does not begin with the state that round %d left.", last.RoundID)
		}
		last = &now
	}
	if len(list) == 0 {
		f.file(FileRecords, "There is no receipt of a settled round.")
	}
	return fmt.Sprintf("%s, each after the one before.", report.Counted(len(list), "receipt"))
}

// Broken is a lease, and the commit by which somebody broke it.
type Broken struct{ Lease, By git.Commit }

// Gap is what no evidence tells of: the holder of a lease died, and what it recorded since
// its last commit stands in its own ledger alone. Its code is evidence.gap.
type Gap struct {
	Run    string `json:"run_id"`
	From   string `json:"from"` // the holder's last commit
	To     string `json:"to"`   // the commit by which its lease was broken
	Holder string `json:"holder"`
	By     string `json:"by"` // fingerprint, as the holder's
}

// broken finds the leases that were broken, among the commits from HEAD down.
func broken(all []git.Commit) (list []Broken) {
	of := map[git.OID]git.Commit{}
	for _, c := range all {
		of[c.OID] = c
	}
	for _, c := range all {
		if ev, err := eventOf(c); err != nil || ev.State != kernel.HeadStalled || len(c.Parents) != 1 {
			continue
		}
		below, ok := of[c.Parents[0]]
		if ev, err := eventOf(below); ok && err == nil && ev.State == lease.StateWorking {
			list = append(list, Broken{below, c})
		}
	}
	return list
}

// gaps are those of leases that another instance broke. Who gave its own lease back, or
// broke the lease of a process of its own that died, has the records of that.
func (v *verifier) gaps() []Gap {
	list := []Gap{}
	for _, b := range v.head.Broken {
		holder, err := signer(b.Lease)
		by, err2 := signer(b.By)
		ev, err3 := eventOf(b.Lease)
		if err != nil || err2 != nil || err3 != nil || v.acts.Successor(git.Fingerprint(holder)) == v.acts.Successor(git.Fingerprint(by)) {
			continue
		}
		list = append(list, Gap{ev.RunID, string(b.Lease.OID), string(b.By.OID), git.Fingerprint(holder), git.Fingerprint(by)})
	}
	return list
}

// checkGaps: what is lost with a holder that died doesn't concern the run whose work was
// accepted. That one has all its records.
func (v *verifier) checkGaps(f *findings) string {
	var runs []string
	for _, g := range v.rep.Gaps {
		if v.claim != nil && v.accepted() && g.Run == v.claim.RunID {
			f.add(kernel.CodeEvidenceGap, "", NoSeq, "The lease %s of run %s, whose work was accepted, was broken by another instance (%s): what its holder recorded between the two is lost.", g.From, g.Run, g.To)
		}
		runs = append(runs, g.Run)
	}
	return fmt.Sprintf("evidence.gap: what the holder recorded between its last commit and the takeover is not here, of the run %s. The result doesn't rest on it.", strings.Join(runs, ", "))
}

// readStamp reads where HEAD belongs. It is the signed commit's own word, and that
// of a file counts only if it is the same.
func (v *verifier) readStamp() {
	if v.eventErr != nil {
		v.stampErr = errors.New("it is no state event")
		return
	}
	v.stamp, v.stampErr = kernel.ReadStamp(v.event.Trailers)
	v.rep.World, v.rep.WorldVouched = v.stamp.World, v.opts.World != ""
}

// checkBinding: a signature says who, not where. A commit that was made for another
// world, ref or task is not this task's state, whoever signed it (case L18).
func (v *verifier) checkBinding(f *findings) string {
	s := v.stamp
	switch {
	case v.stampErr != nil:
		f.file("", "HEAD doesn't say where it belongs: %v.", v.stampErr)
		return ""
	case s.Task != v.head.Task || v.head.Ref != "" && s.Ref != v.head.Ref:
		f.add(kernel.CodeStateForeign, "", NoSeq, "HEAD was made for %s, and stands at %s.", s, v.head.Ref)
	case !v.here(s.World):
		f.add(kernel.CodeStateForeign, "", NoSeq, "HEAD was made for %s, and this is %s.", s, v.opts.World)
	}
	if v.seed != nil && v.seed.World != s.World {
		f.file(FileSeedPack, "It is of world %q, HEAD of %q.", v.seed.World, s.World)
	}
	v.checkNumbers(f)
	return fmt.Sprintf("HEAD was made for %s, as its commit %d.", s, s.Seq)
}

// checkNumbers: the run's leases, and its waits above them, are of the same place, and
// are counted up to HEAD.
func (v *verifier) checkNumbers(f *findings) {
	above := v.stamp.Seq
	for i, c := range slices.Concat(v.head.Waits, v.head.Leases) {
		ev, err := eventOf(c)
		if err != nil {
			continue // which is said of the lease
		}
		s, err := kernel.ReadStamp(ev.Trailers)
		switch {
		case err != nil:
			f.file("", "The lease %s doesn't say where it belongs: %v.", c.OID, err)
		case s.Binding(v.stamp) != kernel.BindHere:
			f.add(kernel.CodeStateForeign, "", NoSeq, "The lease %s was made for %s.", c.OID, s)
		case i > 0 && s.Seq != above-1, i == 0 && c.OID != v.head.Commit.OID && s.Seq >= above:
			f.file("", "The lease %s has the number %d, the commit above it %d.", c.OID, s.Seq, above)
		}
		above = s.Seq
	}
}
