package supervisor

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

const (
	// maxSealedFiles bounds the files of sealed work that are read, and
	// maxBaseMoves how far the base may have moved above the commit that it was made
	// on: what is further away is built anew.
	maxSealedFiles = 10_000
	// maxRuleWaits bounds the waits for a rule above a lease that are looked through: a
	// week of one an hour, and more. What lies below more of them is built anew.
	maxRuleWaits = 256
	maxBaseMoves = 10_000
)

// leftWork is what an interrupted run has sealed, as it was read again under one HEAD, base
// and contract.
type leftWork struct {
	head       string
	tip        git.OID
	governance canon.Digest
	revised    *revisionWork // what a revision would begin with that goes on with it; nil for none

	facts    *kernel.SealedFacts // nil where there is none
	work     sealed.Work
	pack     kernel.SeedPack
	packData []byte
	contract []byte
	base     git.Tree
	files    map[string][]byte
	stored   bool  // they come from our store
	held     *Held // what somebody is asked to accept of it, once that was shown
}

// readSealed reads what the run that HEAD tells of has sealed, in the tree of HEAD or in
// our store, and judges it anew: whose it is, every byte of it, its scope from the trees,
// and whether it was made on and under what holds now. Nothing is taken from whoever
// sealed it but the word that the builder had ended well.
func (o *observer) readSealed(ctx context.Context, c *observation) error {
	h := c.facts.Head
	asked := c.request == kernel.RequestTick || c.request == kernel.RequestTell && h.AwaitsPaths() && c.noBase == nil
	if o.worker.run != nil || !asked || h.State != kernel.HeadStalled && !h.WaitsWithWork() || !h.Trusted() || h.Reapproved {
		return nil
	}
	return o.leftOf(ctx, c, nil, o.readLeft)
}

// leftOf reads what was left, unless that was read under the same terms before.
func (o *observer) leftOf(ctx context.Context, c *observation, k *revisionWork, read func(context.Context, *observation, *leftWork) error) error {
	l := o.left
	if l == nil || l.head != c.facts.Head.OID || l.tip != c.intake.BaseCommit || l.governance != c.intake.Governance || !l.revises(k) {
		l = &leftWork{head: c.facts.Head.OID, tip: c.intake.BaseCommit, governance: c.intake.Governance, revised: k}
		if err := read(ctx, c, l); err != nil {
			return err
		}
		o.left = l
		if l.facts != nil && len(l.facts.Faults) > 0 {
			o.say("the sealed work of run %s is not gone on with: %s", l.facts.Run, l.facts.Faults[0].Detail)
		}
	}
	c.left, c.facts.Sealed = l, l.facts
	return nil
}

// revises reports whether what was left was read for this very revision, or for none.
func (l *leftWork) revises(k *revisionWork) bool {
	return l.revised == nil && k == nil || l.revised != nil && k != nil && same(l.revised.revision, k.revision)
}

// readLeft fills in what was left.
func (o *observer) readLeft(ctx context.Context, c *observation, l *leftWork) error {
	if err := o.leftAt(ctx, c.head.Tree, l); err != nil {
		return err
	}
	under, listed, err := o.sealedUnder(ctx, c, l)
	if err != nil {
		return err
	}
	return o.judgeLeft(ctx, c, l, under, listed)
}

// judgeLeft judges what was left under a lease, which is looked for in our store where no
// tree had it.
func (o *observer) judgeLeft(ctx context.Context, c *observation, l *leftWork, under lease.Event, listed bool) error {
	if run := dispatchedOf(under); l.files == nil && run != "" { // the very run that the lease was for
		if err := o.leftInStore(ctx, run, l); err != nil {
			return err
		}
	}
	if l.files == nil {
		return nil
	}
	l.facts = &kernel.SealedFacts{Run: c.facts.Head.LastRun, Faults: []kernel.Violation{}}
	if !listed {
		l.fault(kernel.CodeLeaseUntrusted, "The lease that it was sealed in is none of a writer who is listed and wasn't revoked.")
		return nil
	}
	if err := l.read(); err != nil {
		l.fault(kernel.CodeEvidenceInvalid, err.Error())
		return nil
	}
	l.describe()
	if !l.takenFor(under) {
		l.fault(kernel.CodeEvidenceInvalid, "It is of run "+l.facts.Run+", and not what the lease that it lies in was taken for.")
		return nil
	}
	o.judgeTerms(c, l)
	if len(l.facts.Faults) > 0 {
		return nil
	}
	if err := o.judgeBase(ctx, c, l); err != nil || len(l.facts.Faults) > 0 {
		return err
	}
	if err := o.judgeSealed(ctx, c, l); err != nil || len(l.facts.Faults) > 0 {
		return err
	}
	return l.judgeChecked()
}

// judgeChecked: what the checks are said to have passed is this very tree, and they are
// those of the task.
func (l *leftWork) judgeChecked() error {
	k := l.work.Checked
	if k == nil {
		return nil
	}
	tree, err := changedTree(git.NewObjects(l.base), &run{base: l.base, built: executor.BuildOutcome{Diff: l.work.Diff, Contents: l.work.Contents}})
	if err != nil {
		return err
	}
	named := slices.EqualFunc(l.pack.Checks, k.Checks, func(want kernel.Check, got kernel.CheckResult) bool {
		return want.Name == got.Name && got.Runs == max(want.Repeat, 1)
	})
	if !named || k.Tree != string(tree) {
		l.fault(kernel.CodeEvidenceInvalid, "The checks that it is said to have passed are others, or were run on other files.")
	}
	return nil
}

func (l *leftWork) fault(code kernel.Code, detail string) {
	l.facts.Faults = append(l.facts.Faults, kernel.Violation{Code: code, Subject: l.facts.Run, Detail: detail})
}

// read takes the work and its seed pack from the bytes.
func (l *leftWork) read() (err error) {
	if l.work, err = sealed.Read(l.files); err != nil {
		return err
	}
	if err := canon.UnmarshalCanonical(l.packData, &l.pack); err != nil {
		return fmt.Errorf("its seed pack can't be read: %w", err)
	}
	return nil
}

// describe are the facts that the work itself gives.
func (l *leftWork) describe() {
	d := l.work.Dispatch
	l.facts.Run, l.facts.Attempt, l.facts.Approval = d.RunID, d.Attempt, l.pack.Approval.Digest
	l.facts.Governance, l.facts.Base = l.pack.Pins.Governance, l.pack.Pins.BaseCommit
	if hash, err := canon.Hash(d); err == nil {
		l.facts.Dispatch = hash
	}
	if r := l.pack.Revision; r != nil {
		l.facts.Fix, _ = kernel.FixDigest(r.Fix) // a list that isn't whole is none that is asked for
	}
}

// leftAt reads sealed work from the tree of a state commit.
func (o *observer) leftAt(ctx context.Context, id git.OID, l *leftWork) error {
	tree, err := o.s.deps.Repo.Tree(ctx, id)
	if err != nil {
		return err
	}
	var wanted []git.Entry
	for _, e := range tree.Entries {
		if sealed.Is(e.Path) || e.Path == replay.FileSeedPack || e.Path == replay.FileContract {
			wanted = append(wanted, e)
		}
	}
	if !slices.ContainsFunc(wanted, func(e git.Entry) bool { return e.Path == sealed.File }) {
		return nil
	}
	l.files = map[string][]byte{}
	if len(wanted) > maxSealedFiles {
		return nil // without its files it can't be read
	}
	return o.readWanted(ctx, wanted, l)
}

// sealedUnder reads the lease that HEAD ended, and whether it is that of a listed writer.
// HEAD is the word that a lease was broken or given back, and copies the tree of that
// lease: whoever wrote the lease has sealed the work, and must be listed himself. Waits
// for a rule may stand between them, with the same tree.
func (o *observer) sealedUnder(ctx context.Context, c *observation, l *leftWork) (ev lease.Event, listed bool, err error) {
	if c.facts.Head.AwaitsSealed() {
		return c.event, true, nil // HEAD brought the work itself
	}
	if len(c.head.Parents) != 1 {
		return ev, false, nil
	}
	below, err := o.s.deps.Repo.Commit(ctx, c.head.Parents[0])
	if err != nil {
		return ev, false, gitTrouble(err)
	}
	for range maxRuleWaits {
		if ev, err = eventOf(below, false); err != nil {
			return ev, false, nil //nolint:nilerr // it is none of anybody
		}
		between := ev.State == string(kernel.TaskWaiting) || ev.State == kernel.HeadStalled
		if !c.facts.Head.AwaitsRule() || !between || below.Tree != c.head.Tree || len(below.Parents) != 1 || !o.listedHere(c, ev, below) {
			break
		}
		if below, err = o.s.deps.Repo.Commit(ctx, below.Parents[0]); err != nil {
			return ev, false, gitTrouble(err)
		}
	}
	listed = ev.State == kernel.HeadWorking && o.listedHere(c, ev, below)
	return ev, (l.files == nil || below.Tree == c.head.Tree) && listed, nil
}

// takenFor reports whether a lease was taken for the run that was dispatched, or for one
// that went on with it.
func (l *leftWork) takenFor(ev lease.Event) bool {
	return trailer(ev, kernel.TrailerDispatch) == string(l.facts.Dispatch) && dispatchedOf(ev) == l.facts.Run
}

// dispatchedOf is the run that was dispatched of those that a lease, or the wait that was
// put on it, is for.
func dispatchedOf(ev lease.Event) string {
	return cmp.Or(trailer(ev, kernel.TrailerResumes), ev.RunID, trailer(ev, kernel.TrailerRun))
}

// trailer is the value of a trailer, "" where it isn't there.
func trailer(ev lease.Event, key string) string {
	for _, tr := range ev.Extra() {
		if tr.Key == key {
			return tr.Value
		}
	}
	return ""
}

// listedHere reports whether a commit is of this very task and by a listed writer.
// A key that was replaced since counts below HEAD; what a key has sealed that was revoked
// since is of no more use.
func (o *observer) listedHere(c *observation, ev lease.Event, commit git.Commit) bool {
	_, signer := o.s.trust(commit, o.StateRef(), c.acts)
	if !c.acts.SignsBelow(signer, o.StateRef(), string(commit.OID)) {
		return false
	}
	h := kernel.HeadFacts{OID: string(commit.OID), Trust: kernel.TrustListed}
	o.bind(&h, ev, c.acts)
	return h.Trusted()
}

// gitTrouble drops the error of a commit that can be read in two ways, or isn't there.
func gitTrouble(err error) error {
	switch git.CodeOf(err) {
	case string(kernel.CodeCommitAmbiguous), git.CodeObjectMissing, git.CodeObjectInvalid:
		return nil
	}
	return err
}

// readWanted reads what was left from its entries.
func (o *observer) readWanted(ctx context.Context, wanted []git.Entry, l *leftWork) error {
	files, err := filesOf(ctx, o.s.deps.Repo, wanted)
	if err != nil {
		return err
	}
	l.packData, l.contract = files[replay.FileSeedPack], files[replay.FileContract]
	delete(files, replay.FileSeedPack)
	delete(files, replay.FileContract)
	l.files = files
	return nil
}

// filesOf reads the plain files among entries, by path.
func filesOf(ctx context.Context, repo Repo, wanted []git.Entry) (map[string][]byte, error) {
	files, ids, at := map[string][]byte{}, []git.OID{}, map[git.OID][]string{}
	for _, e := range wanted {
		if e.Mode != git.ModeFile {
			continue
		}
		if at[e.OID] == nil {
			ids = append(ids, e.OID)
		}
		at[e.OID] = append(at[e.OID], e.Path)
	}
	err := repo.Blobs(ctx, ids, func(oid git.OID, data []byte) error {
		for _, path := range at[oid] {
			files[path] = bytes.Clone(data)
		}
		return nil
	})
	return files, err
}

// leftInStore takes what we could not push before of a run, "" for any.
func (o *observer) leftInStore(ctx context.Context, run string, l *leftWork) error {
	kept, err := o.worker.unpushed(ctx, run)
	if err == nil && kept != nil {
		l.stored, l.files, l.packData, l.contract = true, kept.Files, kept.SeedPack, kept.Contract
	}
	return err
}

// judgeTerms: what the work was made under is what a claim would pin now, and the
// dispatch is the one that follows from it.
func (o *observer) judgeTerms(c *observation, l *leftWork) {
	p, in := l.pack, c.intake
	if p.World != o.s.cfg.World || p.Task != o.number || p.Pins.Governance != canon.Sum(l.contract) {
		l.fault(kernel.CodeEvidenceInvalid, "It is of another task, or its contract is not the one that it names.")
		return
	}
	if p.Pins.Governance != in.Governance || p.Pins.Kernel != kernel.Version() || p.Pins.Policy != in.PolicyVersion ||
		p.ContractSource != in.Source || p.CommitMessage != in.CommitMessage || p.Budgets != in.Budgets ||
		!same(p.Spec, in.Spec) || !same(p.Checks, in.Checks) || !slices.EqualFunc(p.Prepare, in.Prepare, func(a, b kernel.Step) bool { return same(a, b) }) {
		l.fault(kernel.CodeGovernanceMismatch, "Contract, task or limits are not those that it was made under.")
		return
	}
	if k := l.revised; k != nil && !same(p.Revision, k.revision) || k == nil && p.Revision != nil {
		l.fault(kernel.CodeInstructionChanged, "What its builder was told isn't what one would be told now.")
		return
	}
	made, err := derive(p)
	at, err2 := time.Parse(time.RFC3339, l.work.Dispatch.Timestamp)
	if err != nil || err2 != nil {
		l.fault(kernel.CodeEvidenceInvalid, "No dispatch follows from its seed pack.")
		return
	}
	d := l.work.Dispatch
	again := kernel.BuildDispatch(p, kernel.Claim{RunID: d.RunID, Attempt: d.Attempt, PlanHash: made.hash, CommitterSeconds: at.Unix()})
	if !same(again, d) {
		l.fault(kernel.CodeDispatchNondeterministic, "Built again, its dispatch differs.")
	}
}

// same compares canonical bytes.
func same(a, b any) bool {
	x, err := canon.Marshal(a)
	y, err2 := canon.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// judgeBase: the commit that the work was made on still is the base, or below it. A base
// that was rewritten holds it no more. That of a revision is the delivered commit.
func (o *observer) judgeBase(ctx context.Context, c *observation, l *leftWork) error {
	pinned := git.OID(l.pack.Pins.BaseCommit)
	if k := l.revised; k != nil {
		if l.base = k.over.tree; pinned != k.over.commit {
			l.fault(kernel.CodeTargetIneligible, "The commit that it revises, "+string(pinned)+", is not the delivered one.")
		}
		return nil
	}
	if pinned != l.tip {
		log, _, err := o.s.deps.Repo.Log(ctx, []git.OID{l.tip}, []git.OID{pinned}, maxBaseMoves)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(log, func(c git.Commit) bool { return slices.Contains(c.Parents, pinned) }) {
			l.fault(kernel.CodeTargetIneligible, "The commit that it was made on, "+string(pinned)+", is not on the base any more.")
			return nil
		}
	}
	var err error
	if l.base, err = o.s.deps.Repo.Tree(ctx, pinned); err != nil && gitTrouble(err) == nil {
		l.fault(kernel.CodeTargetIneligible, "The commit that it was made on can't be read any more.")
		return nil
	}
	for _, g := range l.work.Diff.Guarded {
		was, there := l.base.Find(g.Path)
		if now, is := c.intake.base.Find(g.Path); is != there || now != was {
			l.fault(kernel.CodeTargetIneligible, "The base has another "+g.Path+" by now than the one that it changes, and that path is guarded.")
		}
	}
	return err
}

// judgeSealed judges scope and size again, as if the builder's workspace were read once
// more. What a change of mode alone leaves is hashed from the base.
func (o *observer) judgeSealed(ctx context.Context, c *observation, l *leftWork) error {
	rules := o.rulesOf(ctx, c.intake.Scope, l.pack.Budgets)
	rules.LockSources = l.pack.LockSources // as the run was judged and as a replay does it
	s, err := scope.New(scopeEntries(l.base), rules)
	if err != nil {
		l.fault(kernel.CodeEnvBase, err.Error())
		return nil // the base or the patterns can't be used, which a claim says
	}
	v, err := s.Again(ctx, l.work.Diff.Changes, l.work.Contents)
	if err != nil {
		return err
	}
	if len(l.work.Diff.Merged) > 0 {
		l.fault(kernel.CodeEvidenceInvalid, "It says that files were merged, which no builder's work is.")
	}
	if !same(v.Diff("", "").Guarded, l.work.Diff.Guarded) || !same(v.Diff("", "").Locks, l.work.Diff.Locks) {
		l.fault(kernel.CodeEvidenceInvalid, "Which of its paths are guarded isn't what was recorded.")
	}
	if l.facts.Faults = append(l.facts.Faults, boundViolations(v.Violations)...); len(l.facts.Faults) > 0 {
		return nil
	}
	return o.judgeModes(ctx, l)
}

// judgeModes hashes the files of which the mode alone was changed: nothing that lies
// sealed has their bytes.
func (o *observer) judgeModes(ctx context.Context, l *leftWork) error {
	of := map[git.OID][]kernel.Change{}
	for _, ch := range l.work.Diff.Changes {
		if ch.Op == kernel.OpMode {
			of[git.OID(ch.AfterID)] = append(of[git.OID(ch.AfterID)], ch)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return o.s.deps.Repo.Blobs(ctx, slices.Sorted(maps.Keys(of)), func(oid git.OID, data []byte) error {
		for _, ch := range of[oid] {
			if canon.Sum(data) != ch.AfterHash || int64(len(data)) != ch.Size {
				l.fault(kernel.CodeEvidenceInvalid, "What it says of "+ch.Path+" is not what the base holds.")
			}
		}
		return nil
	})
}
