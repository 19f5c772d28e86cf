package supervisor

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/plan"
)

// prepareClaim composes the first push of a run: the event, where HEAD is none
// for this approval, and our lease on it. HEAD becomes the lease.
func (w *worker) prepareClaim(c *cycle) (*effect, error) {
	switch {
	case c.decision.Refreshes != "":
		return w.prepareRefresh(c)
	case c.decision.Resumes != "":
		return w.prepareResume(c)
	}
	r := w.newRun(c, kernel.PhaseClaimed)
	r.spend = allowedFor(c.facts)
	r.pack = w.seedPack(c)
	if c.decision.Fixes != "" {
		w.revises(c, r)
	}
	var err error
	if r.plan, err = derive(r.pack); err != nil {
		return nil, err
	}
	r.dispatch = kernel.BuildDispatch(r.pack, kernel.Claim{
		RunID: r.id, Attempt: r.attempt, PlanHash: r.plan.hash, CommitterSeconds: r.date,
	})
	if r.dispatchBytes, err = canon.Marshal(r.dispatch); err != nil {
		return nil, err
	}
	r.dispatchHash = canon.Sum(r.dispatchBytes)
	objs := git.NewObjects()
	if err := w.inputTree(objs, r); err != nil {
		return nil, err
	}
	e, err := w.pushClaim(c, objs, r)
	if err != nil {
		return nil, err
	}
	return w.prefetchedMeanwhile(e, r), nil
}

// newRun is a run that begins with the claim of a request.
func (w *worker) newRun(c *cycle, phase kernel.Phase) *run {
	return &run{
		id: w.s.deps.NewRunID(), attempt: c.decision.Attempt, phase: phase, intake: c.intake, act: c.facts.Act,
		date: c.nextDate(), claimed: c.clock.WallMs, base: c.intake.base, from: w.s.deps.Ledger.Chain().Head.Seq + 1,
	}
}

// claimObjects is what the claim pushed, kept to rebuild the dispatch from.
type claimObjects struct {
	pack    []byte // seed_pack.json
	lease   []byte // message of the claim commit
	seconds int64  // its committer date
}

// claimPlan is the spec and plan of a claim, with the plan's hash.
type claimPlan struct {
	interpretation plan.Interpretation
	spec           plan.Spec
	plan           plan.Plan
	hash           canon.Digest
}

// derive makes interpretation, spec and plan of a seed pack: in this simplest
// form of the pipeline nobody has to propose them.
func derive(pack kernel.SeedPack) (claimPlan, error) {
	var p claimPlan
	var err error
	p.interpretation = plan.Derive(pack)
	if p.spec, err = plan.Commit(p.interpretation, pack); err != nil {
		return p, err
	}
	if p.plan, err = plan.DerivePlan(p.spec, pack); err != nil {
		return p, err
	}
	if vs := plan.Verify(p.plan, pack); len(vs) > 0 {
		return p, fmt.Errorf("supervisor: derived plan doesn't verify: %v", vs)
	}
	p.hash, err = canon.Hash(p.plan)
	return p, err
}

// prepareRefresh composes a claim that applies the delivered work on the base as it is now:
// a run of its own, with a seed pack of its own, and the dispatch, result and bytes of the
// run that was dispatched. The change branch is what a run of this task delivered, and may
// be replaced as long as it is just that.
func (w *worker) prepareRefresh(c *cycle) (*effect, error) {
	k := c.fresh
	r := w.newRun(c, kernel.PhaseSealed)
	r.resumes, r.refreshes, r.refreshAct = k.dispatch.RunID, c.decision.Refreshes, c.facts.Refresh.Act
	r.refreshInterruptions, r.was = c.decision.RefreshInterruptions, &replacedResult{commit: c.head, event: c.event}
	r.dispatch, r.dispatchBytes, r.dispatchHash, r.built = k.dispatch, k.dispatchBytes, canon.Sum(k.dispatchBytes), k.built
	r.pack = w.seedPack(c)
	r.pack.Retry, r.pack.Remark, r.pack.Hosts = nil, nil, nil // nobody is told
	r.pack.Covered = k.covered
	var err error
	if r.plan, err = derive(r.pack); err != nil {
		return nil, err
	}
	objs := git.NewObjects()
	if err := w.inputTree(objs, r); err != nil {
		return nil, err
	}
	r.stray = c.change
	w.say("the verified change of run %s is applied on the base %.12s", r.refreshes, r.pack.Pins.BaseCommit)
	return w.pushClaim(c, objs, r)
}

// prepareResume composes a claim that goes on with sealed work: a run of its own, with
// the earlier one's seed pack and dispatch, and the work in its tree. What only our store
// has stays there where the server doesn't take it.
func (w *worker) prepareResume(c *cycle) (*effect, error) {
	l := c.left
	in := *c.intake
	in.BaseCommit, in.Contract, in.base = git.OID(l.pack.Pins.BaseCommit), l.contract, l.base
	in.Approval, in.Spec, in.Checks, in.Prepare, in.Budgets = l.pack.Approval, l.pack.Spec, l.pack.Checks, l.pack.Prepare, l.pack.Budgets
	r := w.newRun(c, kernel.PhaseSealed)
	r.resumes, r.intake, r.base, r.pack = l.facts.Run, &in, l.base, l.pack
	r.dispatch, r.dispatchHash = l.work.Dispatch, l.facts.Dispatch
	r.built = executor.BuildOutcome{Result: l.work.Result, Diff: l.work.Diff, Contents: l.work.Contents}
	if c.decision.Fixes != "" {
		r.goesOver(c)
	}
	if l.work.Checked != nil {
		r.vetted, r.checked.Run = true, *l.work.Checked
		r.checked.Run.Run = r.id
	}
	var err error
	if r.plan, err = derive(r.pack); err != nil {
		return nil, err
	}
	if r.dispatchBytes, err = canon.Marshal(r.dispatch); err != nil {
		return nil, err
	}
	objs := git.NewObjects()
	if err := w.inputTree(objs, r); err != nil {
		return nil, err
	}
	if r.shelved = l.stored && w.bare; !r.shelved {
		if r.tree, err = evidence(objs, slices.Clone(r.entries), l.files); err != nil {
			return nil, err
		}
		r.sealed = l.files[sealed.File]
	}
	w.say("the builder of run %s had ended: its sealed work is gone on with", r.resumes)
	return w.pushClaim(c, objs, r)
}

// pushClaim composes the push that begins a run. What an earlier one left in the store
// is of no more use once it is won, unless this one goes on with it from there.
func (w *worker) pushClaim(c *cycle, objs *git.Objects, r *run) (*effect, error) {
	r.stray = cmp.Or(r.stray, c.stray)
	made, err := w.claimCommits(c, objs, r)
	if err != nil {
		return nil, err
	}
	at := c.clock
	return w.pushEffect(c, r.id, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: git.OID(c.facts.Head.OID), New: made.oid}}, pack: objs.Pack(), seq: made.seq,
		stored: r.resumes != "" && r.refreshes == "" && c.left.stored && !r.shelved, unshelves: !r.shelved,
		won: func() {
			r.claim = made.oid
			w.noteRenewed(r, made.oid, r.date, made.message, at)
			w.setRun(r)
			w.ruling = ruling{}
		},
	}, w.claimDrafts(r)...), nil
}

// prefetchedMeanwhile has the executor lay out the base while the claim is pushed:
// most claims are won, and what was laid out for a lost one is thrown away.
func (w *worker) prefetchedMeanwhile(e *effect, r *run) *effect {
	p, ok := w.s.deps.Executor.(executor.Prefetcher)
	if !ok {
		return e
	}
	push := e.do
	e.do = func(ctx context.Context) kernel.Outcome {
		p.Prefetch(r.pack.Spec.Builder, w.baseOf(r))
		return push(ctx)
	}
	return e
}

// claimDrafts are the records that a claim rests on, in the order of seed 003.
func (w *worker) claimDrafts(r *run) []kernel.Draft {
	d := func(k kernel.Kind, body any) kernel.Draft {
		return kernel.Draft{Kind: k, Task: w.number, Run: r.id, Body: body}
	}
	return []kernel.Draft{
		d(kernel.KindSeedPack, r.pack),
		d(kernel.KindInterpretation, r.plan.interpretation),
		d(kernel.KindSpec, r.plan.spec),
		d(kernel.KindPlan, r.plan.plan),
	}
}

func (w *worker) seedPack(c *cycle) kernel.SeedPack {
	in := c.intake
	retry := c.retry
	if c.decision.Attempt == 1 {
		retry = nil // a new approval starts over
	}
	var hosts []string
	if x, ok := w.s.deps.Executor.(executor.Outward); ok {
		hosts = x.Hosts(w.s.cfg.Repository, in.Spec.Builder)
	}
	return kernel.SeedPack{
		Kind: string(kernel.KindSeedPack), V: kernel.SeedPackVersion, World: w.s.cfg.World, Repository: w.s.cfg.Repository, Task: w.number,
		Title: in.Title, Body: in.Body, Prose: in.Prose, Cuts: in.Cuts, Approval: in.Approval, Spec: in.Spec,
		Checks: in.Checks, Prepare: in.Prepare, Hosts: hosts, LockSources: in.Scope.LockSources, Budgets: in.Budgets,
		Pins: kernel.Pins{
			BaseCommit: string(in.BaseCommit), Governance: in.Governance,
			Kernel: kernel.Version(), Policy: in.PolicyVersion,
		},
		ContractSource: in.Source, CommitMessage: in.CommitMessage, Retry: retry, Remark: in.Remark,
		Warnings: append([]string{}, in.Warnings...), Notes: append([]string{}, in.Notes...),
	}
}

// inputTree makes the tree of a claim: what its dispatch is built from.
func (w *worker) inputTree(objs *git.Objects, r *run) error {
	pack, err := canon.Marshal(r.pack)
	if err != nil {
		return err
	}
	r.objects = &claimObjects{pack: pack}
	r.entries = []git.Entry{
		{Path: replay.FileContract, Mode: git.ModeFile, OID: objs.Blob(r.intake.Contract)},
		{Path: replay.FileSeedPack, Mode: git.ModeFile, OID: objs.Blob(pack)},
	}
	r.tree, err = objs.Tree(r.entries)
	return err
}

// claimCommits adds the event, if HEAD is none for this approval, and the lease.
func (w *worker) claimCommits(c *cycle, objs *git.Objects, r *run) (madeCommit, error) {
	parent, origin, seq := c.head.OID, c.facts.Head.State, c.facts.NextSeq() // no commit is no parent
	if w.needsEvent(&c.observation) {
		event, err := w.openEvent(&c.observation, objs, r, seq)
		if err != nil {
			return madeCommit{}, err
		}
		parent, origin, seq = event.oid, string(kernel.TaskOpen), seq+1
	}
	tr := w.runTrailers(r)
	tr.interruptions, tr.branch = c.decision.Interruptions, r.stray
	made, err := w.stateCommit(&c.observation, objs, stateCommit{
		tree: r.tree, parent: parent, date: r.date, seq: seq, trailers: &tr,
		message: func(extra []lease.Trailer) ([]byte, error) {
			return lease.Working(lease.Claim{
				OriginState: origin, RunID: r.id, RunnerID: w.s.cfg.RunnerID, LeaseSeconds: w.s.cfg.LeaseSeconds,
				Title: fmt.Sprintf("writ: attempt %d at task %d", r.attempt, w.number),
				Body:  r.dispatch.Instruction, Extra: extra,
			})
		},
	})
	r.objects.lease, r.objects.seconds = made.message, r.date
	return made, err
}

// openEvent adds the event that a claim is made on.
func (w *worker) openEvent(c *observation, objs *git.Objects, r *run, seq int64) (madeCommit, error) {
	return w.stateCommit(c, objs, stateCommit{
		tree: r.tree, parent: c.head.OID, date: r.date, seq: seq,
		trailers: &trailers{base: string(r.intake.BaseCommit), approval: string(r.pack.Approval.Digest), governance: string(r.pack.Pins.Governance)},
		message: func(extra []lease.Trailer) ([]byte, error) {
			return lease.Format(lease.Message{
				Title:    fmt.Sprintf("writ: task %d is open", w.number),
				Body:     r.dispatch.Instruction,
				Trailers: append([]lease.Trailer{{Key: lease.KeyState, Value: string(kernel.TaskOpen)}}, extra...),
			})
		},
	})
}

// needsEvent reports whether the ref is new, or a person begins the task anew.
func (w *worker) needsEvent(c *observation) bool {
	h := c.facts.Head
	return h.OID == "" || h.State == "" || h.Approval != c.facts.Approved || c.facts.BeginsAnew()
}

// checkDispatch builds the dispatch again from what was pushed, at the last
// moment before the start (seed 001, principle 1; cases I2, I10).
func (w *worker) checkDispatch(c *observation) []kernel.Violation {
	r := w.run
	vs := kernel.ValidateDispatch(r.dispatch)
	again, err := rebuildDispatch(*r.objects, r.plan.hash)
	if err != nil || !bytes.Equal(again, r.dispatchBytes) {
		vs = append(vs, kernel.Violation{
			Code: kernel.CodeDispatchNondeterministic, Subject: r.id,
			Detail: "Built again from the claim, the dispatch differs.",
		})
	}
	vs = append(vs, r.movedContract(c)...)
	if at, err := time.Parse(time.RFC3339, r.dispatch.Deadline); err == nil && c.clock.WallMs > at.UnixMilli() {
		vs = append(vs, kernel.Violation{
			Code: kernel.CodeTaskInterrupted, Subject: r.id,
			Detail: "The dispatch's deadline, " + r.dispatch.Deadline + ", was over before its builder could be started.",
		})
	}
	if r.build != nil {
		vs = append(vs, kernel.Violation{Code: kernel.CodeDispatchInvalid, Subject: r.id, Detail: "This run was dispatched already."})
	}
	if c.facts.Head.OID != string(r.head) {
		vs = append(vs, kernel.Violation{Code: kernel.CodeDispatchInvalid, Subject: r.id, Detail: "There is no claim of this run at HEAD."})
	}
	return vs
}

// movedContract is the violation of a contract that isn't the one pinned at the claim any
// more.
func (r *run) movedContract(c *observation) []kernel.Violation {
	if c.intake.Governance == r.intake.Governance {
		return nil
	}
	return []kernel.Violation{{
		Code: kernel.CodeGovernanceMismatch, Subject: r.intake.Source,
		Detail: fmt.Sprintf("Pinned at the claim was %s, the file now has %s.", r.intake.Governance, c.intake.Governance),
	}}
}

// rebuildDispatch makes a dispatch from a claim's pushed bytes alone.
func rebuildDispatch(o claimObjects, planHash canon.Digest) ([]byte, error) {
	var pack kernel.SeedPack
	if err := canon.UnmarshalCanonical(o.pack, &pack); err != nil {
		return nil, err
	}
	ev, err := lease.ReadEvent(lease.Head{Message: o.lease, CommitterSeconds: o.seconds, CommitterOK: true})
	if err != nil {
		return nil, err
	}
	var h kernel.HeadFacts
	readTrailers(&h, ev)
	return canon.Marshal(kernel.BuildDispatch(pack, kernel.Claim{
		RunID: ev.RunID, Attempt: h.Attempt, PlanHash: planHash, CommitterSeconds: o.seconds,
	}))
}
