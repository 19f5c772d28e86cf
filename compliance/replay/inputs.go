package replay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/plan"
)

// checkSeedPack holds what was approved against its own digest, HEAD and the
// record.
func (v *verifier) checkSeedPack(f *findings) string {
	if v.seed == nil {
		f.file(FileSeedPack, "The seed pack can't be read: %v.", v.seedErr)
		return ""
	}
	s := *v.seed
	need := func(ok bool, format string, args ...any) {
		if !ok {
			f.file(FileSeedPack, format, args...)
		}
	}
	need(s.Kind == string(kernel.KindSeedPack) && s.V == kernel.SeedPackVersion, "Its kind or version is not known.")
	need(s.Task == v.head.Task, "It is of task %d, the ref of task %d.", s.Task, v.head.Task)
	need(v.signed == nil || s.World == v.signed.World, "It is of world %q, the records of another.", s.World)
	need(v.here(s.World), "It is of world %q, not of %q.", s.World, v.opts.World)
	digest, err := kernel.ApprovalDigest(s.Title, s.Body)
	need(err == nil && digest == s.Approval.Digest, "Its text has the digest %s; approved was %s.", digest, s.Approval.Digest)
	v.needTrailer(f, FileSeedPack, kernel.TrailerApproval, string(s.Approval.Digest))
	if v.ofRun() || v.live() {
		v.needTrailer(f, FileSeedPack, kernel.TrailerBase, s.Pins.BaseCommit)
	}
	v.needRecord(f, kernel.KindSeedPack, FileSeedPack)
	v.checkPrior(f)
	return fmt.Sprintf("Approved by %s was the text with digest %s, and this is it.", s.Approval.Actor, s.Approval.Digest)
}

// checkPrior holds the data of a retry against what stood in the ref when the
// run was claimed.
func (v *verifier) checkPrior(f *findings) {
	if v.seed.Retry == nil || !v.ofRun() && !v.live() {
		return
	}
	data, err := canon.Marshal(*v.seed.Retry)
	if err != nil || !bytes.Equal(data, v.head.Prior) {
		f.file(FileSeedPack, "What it says of the attempt before is not what the ref held.")
	}
}

func (v *verifier) needTrailer(f *findings, file, key, want string) {
	if got := v.said(key); got != want {
		f.file(file, "HEAD says %s %q, the file gives %q.", key, got, want)
	}
}

// needRecord compares a file with the one record of its kind, if there are
// records.
func (v *verifier) needRecord(f *findings, kind kernel.Kind, file string) {
	if !v.ofRun() || v.redacted() {
		return
	}
	list := v.of(kind)
	switch {
	case len(list) == 0:
		f.file(file, "There is no %s record that it is the copy of.", kind)
	case len(list) > 1:
		f.record(list[1].Seq, "It is a second %s of one run.", kind)
	case !bytes.Equal(list[0].Body, v.pack[file]):
		f.file(file, "It is not what record %d says.", list[0].Seq)
	}
}

// within reports whether what an attempt may use of models is no more than budgets allow.
func within(b kernel.Budgets, s kernel.Spend) bool { return b.Lower(s) == s }

// checkContract hashes the contract and holds the seed pack's checks against
// it.
func (v *verifier) checkContract(f *findings) string {
	data := v.pack[FileContract]
	hash := canon.Sum(data)
	// A stalled commit keeps its lease's tree, but not all of its trailers.
	if v.ofRun() || v.live() || v.said(kernel.TrailerGovernance) != "" {
		v.needTrailer(f, FileContract, kernel.TrailerGovernance, string(hash))
	}
	if v.rulesErr != nil {
		f.file(FileContract, "%v", v.rulesErr)
	}
	if v.seed == nil {
		return ""
	}
	if hash != v.seed.Pins.Governance {
		f.file(FileContract, "Its hash is %s, the seed pack pins %s.", hash, v.seed.Pins.Governance)
	}
	if v.rulesErr == nil && !offers(v.rules, v.seed.Spec.Checks, v.seed.Checks) {
		f.file(FileSeedPack, "Its checks are not those of the contract.")
	}
	if b, _, _, _ := v.rules.Apply(contract.Caps{}, nil); v.rulesErr == nil && !within(b, kernel.Spend{Tokens: v.seed.Budgets.Tokens, Cost: v.seed.Budgets.Cost}) {
		f.file(FileSeedPack, "An attempt may use more of models than the contract allows.")
	}
	if v.rulesErr == nil && !offersSteps(v.rules.Steps(), v.seed.Prepare) {
		f.file(FileSeedPack, "Its preparation is not that of the contract.")
	}
	v.checkSource(f)
	return fmt.Sprintf("The contract (%s) has the pinned hash %s.", v.seed.ContractSource, hash)
}

// offers compares the checks of a seed pack with the contract's; a server's cap
// may have shortened a timeout.
func offers(c contract.Contract, names []string, got []kernel.Check) bool {
	want, unknown := c.SelectChecks(names)
	return len(unknown) == 0 && slices.EqualFunc(want, got, func(w, g kernel.Check) bool {
		return w.Name == g.Name && slices.Equal(w.Argv, g.Argv) && w.Repeat == g.Repeat && w.Vary == g.Vary && slices.Equal(w.Hosts, g.Hosts) && g.TimeoutMs <= w.TimeoutMs
	})
}

// offersSteps compares the preparation of a seed pack with the contract's.
func offersSteps(want, got []kernel.Step) bool {
	return slices.EqualFunc(want, got, func(w, g kernel.Step) bool {
		return w.Name == g.Name && slices.Equal(w.Argv, g.Argv) && slices.Equal(w.Hosts, g.Hosts) && slices.Equal(w.Keys, g.Keys) && g.TimeoutMs <= w.TimeoutMs
	})
}

// checkSource compares a repository's own contract with the pinned commit.
func (v *verifier) checkSource(f *findings) {
	if v.seed.ContractSource != contract.Path || v.head.Base == nil {
		return
	}
	e, ok := v.head.Base.Tree.Find(contract.Path)
	if !ok || e.OID != git.HashBlob(v.pack[FileContract]) {
		f.file(FileContract, "It is not %s of the base commit %s.", contract.Path, v.head.Base.Commit.OID)
	}
}

func (v *verifier) checkKernel(f *findings) string {
	if v.seed == nil {
		f.file(FileSeedPack, "No kernel version can be read.")
		return ""
	}
	if got := v.seed.Pins.Kernel; got != kernel.Version() {
		f.add(kernel.CodeReplayVersion, FileSeedPack, NoSeq, "The decisions were taken by kernel %q; this program replays %s.", got, kernel.Version())
	}
	return fmt.Sprintf("The decisions were taken by kernel %s, whose rules these are.", kernel.Version())
}

// checkPlan takes the way from seed pack to plan again.
func (v *verifier) checkPlan(f *findings) string {
	if v.seed == nil {
		f.file(FileSeedPack, "No plan can be made without a seed pack.")
		return ""
	}
	if v.ofRun() && !v.redacted() {
		return v.checkPlanRecords(f)
	}
	_, p, err := planOf(*v.seed)
	hash, hashErr := p.Hash()
	if err != nil || hashErr != nil || string(hash) != v.said(kernel.TrailerPlan) {
		f.add(kernel.CodeEvidenceRedacted, FileSeedPack, NoSeq, "The plan %s is not derived from the seed pack; its record is not here.", v.said(kernel.TrailerPlan))
	}
	return fmt.Sprintf("The plan %s derives from the seed pack.", hash)
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

func (v *verifier) checkPlanRecords(f *findings) string {
	spec, p := one[plan.Spec](v, f, kernel.KindSpec), one[plan.Plan](v, f, kernel.KindPlan)
	if spec == nil || p == nil {
		return ""
	}
	var proposed []plan.Interpretation
	for _, r := range v.of(kernel.KindInterpretation) {
		i, err := decoded[plan.Interpretation](r.Body)
		if err != nil {
			f.record(r.Seq, "The interpretation can't be read: %v.", err)
			continue
		}
		proposed = append(proposed, *i)
	}
	winner, _, refused := plan.Collapse(proposed, v.seed.Budgets)
	want, err := plan.Commit(winner, *v.seed)
	if len(refused) > 0 || err != nil || !equal(want, spec.body) {
		f.record(spec.seq, "The spec does not follow from the recorded interpretations.")
	}
	if h, err := spec.body.Hash(); err != nil || p.body.Spec != h {
		f.record(p.seq, "The plan is of another spec.")
	}
	for _, x := range plan.Verify(p.body, *v.seed) {
		f.record(p.seq, "The plan does not verify: %s: %s", x.Subject, x.Detail)
	}
	if want, err := plan.DerivePlan(spec.body, *v.seed); p.body.Source == plan.SourceDerived && (err != nil || !equal(want, p.body)) {
		f.record(p.seq, "The plan says that it is derived from the spec, and is not.")
	}
	hash, err := p.body.Hash()
	if err != nil || string(hash) != v.said(kernel.TrailerPlan) {
		f.record(p.seq, "Its hash is %s, HEAD says %s %q.", hash, kernel.TrailerPlan, v.said(kernel.TrailerPlan))
	}
	return fmt.Sprintf("Interpretation, spec and plan %s follow from the seed pack.", hash)
}

// equal compares canonical bytes.
func equal(a, b any) bool {
	x, err := canon.Marshal(a)
	y, err2 := canon.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// checkDispatch builds the dispatch again from claim and seed pack alone (seed
// 001, principle 1). The file is compared where it is there.
func (v *verifier) checkDispatch(f *findings) string {
	if v.seed == nil {
		f.file(FileDispatch, "The dispatch can't be built without a seed pack.")
		return ""
	}
	data := v.pack[FileDispatch]
	built, err := v.buildDispatch(data)
	if err != nil {
		f.file(FileDispatch, "The dispatch can't be built again: %v.", err)
		return ""
	}
	hash := canon.Sum(built)
	v.needTrailer(f, FileDispatch, kernel.TrailerDispatch, string(hash))
	d, err := decoded[kernel.Dispatch](built)
	if err != nil || len(kernel.ValidateDispatch(*d)) > 0 {
		f.file(FileDispatch, "It lacks a required field.")
	}
	if v.sealed != nil && !equal(v.sealed.Dispatch, d) {
		f.file(FileSealed, "It is the work of another dispatch.")
	}
	if data == nil {
		return fmt.Sprintf("Built from the claim, the dispatch has the hash %s; there is no copy of it.", hash)
	}
	if !bytes.Equal(built, data) {
		f.file(FileDispatch, "Built again from the claim, the dispatch differs.")
	}
	if len(v.of(kernel.KindDispatch)) > 0 || v.started() {
		v.needRecord(f, kernel.KindDispatch, FileDispatch)
	}
	if !v.ofRun() || v.redacted() {
		v.checkSealed(f)
	}
	return fmt.Sprintf("Built again from the claim, the dispatch is the same, %s.", hash)
}

// checkSealed: what was sealed is what the verdict rests on.
func (v *verifier) checkSealed(f *findings) {
	if v.pack[FileSealed] == nil {
		return // the claim's tree shows whether there was any, see checkLease
	}
	if v.sealed == nil {
		f.file(FileSealed, "It can't be read: %v.", v.sealedErr)
		return
	}
	if !v.ofRun() || v.redacted() {
		return
	}
	for _, x := range []struct {
		kind kernel.Kind
		body any
	}{{kernel.KindBuilderResult, v.sealed.Result}, {kernel.KindDiff, v.sealed.Diff}} {
		kind, body := x.kind, x.body
		data, err := canon.Marshal(body)
		if list := v.of(kind); err != nil || len(list) == 0 {
			f.file(FileSealed, "There is no %s record of it.", kind)
		} else if !bytes.Equal(list[0].Body, data) {
			f.record(list[0].Seq, "It is not what was sealed.")
		}
	}
	v.checkVetted(f)
}

// checkVetted: what the checks said of sealed work before it waited is what is recorded of
// the run that delivers it.
func (v *verifier) checkVetted(f *findings) {
	if v.sealed.Checked == nil {
		return
	}
	list := v.of(kernel.KindRunResult)
	if len(list) == 0 {
		f.file(FileSealed, "There is no record of what its checks said.")
		return
	}
	run, err := decoded[kernel.RunResult](list[len(list)-1].Body)
	if err != nil {
		return // said elsewhere
	}
	if run.Run = v.sealed.Checked.Run; !equal(*run, *v.sealed.Checked) {
		f.record(list[len(list)-1].Seq, "It is not what the checks said before the work waited.")
	}
}

// started reports whether an intent to start a builder is recorded.
func (v *verifier) started() bool {
	return slices.ContainsFunc(v.of(kernel.KindIntent), func(r record) bool {
		i, err := decoded[kernel.Intent](r.Body)
		return err == nil && i.Effect == kernel.ActionDispatch
	})
}

// buildDispatch takes run, attempt and time from the claim, or from the
// dispatch itself where no claim was given.
func (v *verifier) buildDispatch(data []byte) ([]byte, error) {
	if b := v.head.Refreshed; v.refreshes() != "" {
		if b == nil || b.Pack[FileDispatch] == nil {
			return nil, errors.New("the result that it replaced has none")
		}
		return b.Pack[FileDispatch], nil // which is built again with that result
	}
	c := kernel.Claim{Attempt: v.number(kernel.TrailerAttempt), PlanHash: canon.Digest(v.said(kernel.TrailerPlan))}
	claim := v.claim
	if v.resumes() != "" {
		claim = v.earlier
	}
	if claim != nil {
		c.RunID, c.CommitterSeconds = claim.RunID, claim.CommitterSeconds
		return canon.Marshal(kernel.BuildDispatch(*v.seed, c))
	}
	d, err := decoded[kernel.Dispatch](data)
	if err != nil {
		return nil, err
	}
	at, err := time.Parse(time.RFC3339, d.Timestamp)
	if err != nil {
		return nil, err
	}
	c.RunID, c.CommitterSeconds = d.RunID, at.Unix()
	return canon.Marshal(kernel.BuildDispatch(*v.seed, c))
}
