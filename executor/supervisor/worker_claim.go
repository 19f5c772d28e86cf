package supervisor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

// planned is the spec and plan of a claim, with the plan's hash.
type planned struct {
	interpretation plan.Interpretation
	spec           plan.Spec
	plan           plan.Plan
	hash           canon.Digest
}

// derive makes interpretation, spec and plan of a seed pack: in this simplest
// form of the pipeline nobody has to propose them.
func derive(pack kernel.SeedPack) (planned, error) {
	var p planned
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

// claimObjects is what the claim pushed, kept to rebuild the dispatch from.
type claimObjects struct {
	pack    []byte // seed_pack.json
	lease   []byte // message of the claim commit
	seconds int64  // its committer date
}

// prepareClaim composes the first push of a run: the event, where HEAD is none
// for this approval, and our lease on it. HEAD becomes the lease.
func (w *worker) prepareClaim(c *cycle) (*effect, error) {
	switch {
	case c.decision.Refreshes != "":
		return w.prepareRefresh(c)
	case c.decision.Resumes != "":
		return w.prepareResume(c)
	}
	r := &run{
		id: w.s.deps.NewRunID(), attempt: c.decision.Attempt, phase: kernel.PhaseClaimed,
		intake: c.intake, act: c.facts.Act, date: c.nextDate(), claimed: c.clock.WallMs, base: c.intake.base,
		from: w.s.deps.Ledger.Chain().Head.Seq + 1, spend: allowedFor(c.facts),
	}
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

// pushClaim composes the push that begins a run. What an earlier one left in the store
// is of no more use once it is won, unless this one goes on with it from there.
func (w *worker) pushClaim(c *cycle, objs *git.Objects, r *run) (*effect, error) {
	r.stray = cmp.Or(r.stray, c.stray)
	made, err := w.claimCommits(c, objs, r)
	if err != nil {
		return nil, err
	}
	at := c.clock
	return w.pushed(c, r.id, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: git.OID(c.facts.Head.OID), New: made.oid}}, pack: objs.Pack(), seq: made.seq,
		stored: r.resumes != "" && r.refreshes == "" && c.left.stored && !r.shelved, unshelves: !r.shelved,
		won: func() {
			r.claim = made.oid
			w.renewed(r, made.oid, r.date, made.message, at)
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
func (w *worker) claimCommits(c *cycle, objs *git.Objects, r *run) (stated, error) {
	parent, origin, seq := c.head.OID, c.facts.Head.State, c.facts.NextSeq() // no commit is no parent
	if w.needsEvent(&c.observation) {
		event, err := w.openEvent(&c.observation, objs, r, seq)
		if err != nil {
			return stated{}, err
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
func (w *worker) openEvent(c *observation, objs *git.Objects, r *run, seq int64) (stated, error) {
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

// needsEvent: the ref is new, or a person begins the task anew (REQUIREMENTS T13).
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
	vs = append(vs, r.contractMoved(c)...)
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

// contractMoved: the contract in force at the start is the pinned one.
func (r *run) contractMoved(c *observation) []kernel.Violation {
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

// prepareDispatch starts the builder: one effect call, which returns its handle.
func (w *worker) prepareDispatch(_ *observation) (*effect, error) {
	r := w.run
	key := "dispatch:" + r.id
	job := executor.BuildJob{
		World: w.s.cfg.Repository, Task: w.number, Run: r.id, Builder: r.pack.Spec.Builder, Dispatch: r.dispatchBytes,
		Instruction: r.dispatch.Instruction, Base: w.baseOf(r), Budgets: r.pack.Budgets, Scope: r.intake.Scope,
		Prepare: r.pack.Prepare, Trusted: w.trustedOf(r), Spend: r.spend,
		OnLine: w.tail(),
	}
	return &effect{
		drafts: []kernel.Draft{{Kind: kernel.KindDispatch, Task: w.number, Run: r.id, Body: json.RawMessage(r.dispatchBytes)}},
		intent: kernel.Intent{Kind: string(kernel.KindIntent), Key: key, Effect: kernel.ActionDispatch, Digest: r.dispatchHash},
		do: func(ctx context.Context) kernel.Outcome {
			b, err := w.s.deps.Executor.Build(context.WithoutCancel(ctx), job)
			if err != nil {
				r.phase = kernel.PhaseBuilt
				return w.notStarted(r, key, kernel.ActionDispatch, err)
			}
			w.guard.Lock()
			r.build, r.phase = b, kernel.PhaseBuilding
			w.guard.Unlock()
			return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: key, Effect: kernel.ActionDispatch, Status: kernel.OutcomeDone}
		},
	}, nil
}

// notStarted notes that a build or check never ran. It isn't the builder's
// failure.
func (w *worker) notStarted(r *run, key string, a kernel.Action, err error) kernel.Outcome {
	code := kernel.CodeEnvBuilderFailed
	var xe *executor.Error
	if errors.As(err, &xe) {
		code = xe.Code
	}
	r.fails = append(r.fails, kernel.Violation{Code: code, Subject: r.pack.Spec.Builder, Detail: err.Error()})
	return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: key, Effect: a, Status: kernel.OutcomeFailed, Code: code, Detail: err.Error()}
}

// baseOf hands the pinned tree to the executor.
func (w *worker) baseOf(r *run) executor.Base {
	return w.baseAt(git.OID(r.pack.Pins.BaseCommit), r.base)
}

// baseAt is a commit's tree for the executor.
func (w *worker) baseAt(commit git.OID, tree git.Tree) executor.Base {
	b := executor.Base{Commit: string(commit)}
	for _, e := range tree.Entries {
		b.Files = append(b.Files, executor.File{Path: e.Path, Mode: e.Mode.String(), ID: string(e.OID)})
	}
	b.Blobs = func(ctx context.Context, ids []string, f func(string, []byte) error) error {
		ctx = (*worker)(nil).on(git.Unbudgeted(ctx)) // a whole base is read, within its own bounds of size and time
		oids := make([]git.OID, len(ids))
		for i, id := range ids {
			oids[i] = git.OID(id)
		}
		return w.s.deps.Repo.Blobs(ctx, oids, func(oid git.OID, data []byte) error { return f(string(oid), data) })
	}
	return b
}

// tail is who is shown what runs of the task prints, nil for nobody.
func (w *worker) tail() func(line string) {
	to := w.s.deps.Tail
	if to == nil {
		return nil
	}
	return func(line string) { to(w.number, line) }
}

// prepareResume composes a claim that goes on with sealed work: a run of its own, with
// the earlier one's seed pack and dispatch, and the work in its tree. What only our store
// has stays there where the server doesn't take it.
func (w *worker) prepareResume(c *cycle) (*effect, error) {
	l := c.left
	in := *c.intake
	in.BaseCommit, in.Contract, in.base = git.OID(l.pack.Pins.BaseCommit), l.contract, l.base
	in.Approval, in.Spec, in.Checks, in.Prepare, in.Budgets = l.pack.Approval, l.pack.Spec, l.pack.Checks, l.pack.Prepare, l.pack.Budgets
	r := &run{
		id: w.s.deps.NewRunID(), attempt: c.decision.Attempt, phase: kernel.PhaseSealed, resumes: l.facts.Run,
		intake: &in, act: c.facts.Act, date: c.nextDate(), claimed: c.clock.WallMs, base: l.base, pack: l.pack,
		from: w.s.deps.Ledger.Chain().Head.Seq + 1, dispatch: l.work.Dispatch, dispatchHash: l.facts.Dispatch,
		built: executor.BuildOutcome{Result: l.work.Result, Diff: l.work.Diff, Contents: l.work.Contents},
	}
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
