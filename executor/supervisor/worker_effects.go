package supervisor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/plan"
)

// prepareRun composes the effect of a decision on a run: on its lease, its builder, its
// checks or its result.
func (w *worker) prepareRun(ctx context.Context, c *cycle) (*effect, error) {
	switch c.decision.Action {
	case kernel.ActionClaim:
		return w.prepareClaim(c)
	case kernel.ActionTakeOver, kernel.ActionRelease:
		return w.prepareStalled(c)
	case kernel.ActionHeartbeat:
		return w.prepareHeartbeat(c)
	case kernel.ActionDispatch:
		return w.prepareDispatch(&c.observation)
	case kernel.ActionSeal:
		return w.prepareSeal(c)
	case kernel.ActionChecks:
		return w.prepareChecks(&c.observation)
	case kernel.ActionJudge:
		return nil, w.judge(ctx, c)
	case kernel.ActionResult:
		return w.prepareResult(ctx, c)
	case kernel.ActionWait:
		return w.prepareWait(ctx, c)
	case kernel.ActionAbandon:
		return w.prepareAbandon(&c.observation)
	case kernel.ActionComplete:
		return w.prepareComplete(c)
	case kernel.ActionRestore:
		return w.prepareRestore(c)
	case kernel.ActionRedeliver:
		return w.prepareRedeliver(c)
	}
	return nil, nil
}

// prepareSeal renews our lease with what the builder left in its tree.
func (w *worker) prepareSeal(c *cycle) (*effect, error) {
	r := w.run
	files, err := workOf(r).Files()
	if err != nil {
		return nil, err
	}
	objs := git.NewObjects()
	tree, err := evidence(objs, slices.Clone(r.entries), files)
	if err != nil {
		return nil, err
	}
	date := lease.NextCommitterSeconds(r.date, c.clock.WallMs)
	made, err := w.stateCommit(&c.observation, objs, stateCommit{
		tree: tree, parent: r.head, date: date, seq: c.facts.NextSeq(),
		message: func(stamp []lease.Trailer) ([]byte, error) {
			return lease.Renew(r.event, lease.Renewal{RunID: r.id, Replace: stamp})
		},
	})
	if err != nil {
		return nil, err
	}
	renewed, before := c.clock, r.due
	return w.pushed(c, r.id, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: r.head, New: made.oid}}, pack: objs.Pack(), seq: made.seq, before: &before, unshelves: true,
		won: func() {
			w.renewed(r, made.oid, date, made.message, renewed)
			r.tree, r.sealed, r.phase = tree, files[sealed.File], kernel.PhaseSealed
		},
	}), nil
}

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

// prepareRefresh composes a claim that applies the delivered work on the base as it is now:
// a run of its own, with a seed pack of its own, and the dispatch, result and bytes of the
// run that was dispatched. The change branch is what a run of this task delivered, and may
// be replaced as long as it is just that.
func (w *worker) prepareRefresh(c *cycle) (*effect, error) {
	k := c.fresh
	r := &run{
		id: w.s.deps.NewRunID(), attempt: c.decision.Attempt, phase: kernel.PhaseSealed, resumes: k.dispatch.RunID, refreshes: c.decision.Refreshes,
		refreshAct: c.facts.Refresh.Act, refreshInterruptions: c.decision.RefreshInterruptions, was: &refreshed{commit: c.head, event: c.event},
		intake: c.intake, act: c.facts.Act, date: c.nextDate(), claimed: c.clock.WallMs, base: c.intake.base,
		from: w.s.deps.Ledger.Chain().Head.Seq + 1, dispatch: k.dispatch, dispatchBytes: k.dispatchBytes, dispatchHash: canon.Sum(k.dispatchBytes),
		built: k.built,
	}
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

// prepareHeartbeat renews the lease: one commit, same tree, same run id.
func (w *worker) prepareHeartbeat(c *cycle) (*effect, error) {
	r := w.run
	date := lease.NextCommitterSeconds(r.date, c.clock.WallMs)
	objs := git.NewObjects()
	made, err := w.stateCommit(&c.observation, objs, stateCommit{
		tree: r.tree, parent: r.head, date: date, seq: c.facts.NextSeq(),
		message: func(stamp []lease.Trailer) ([]byte, error) {
			return lease.Renew(r.event, lease.Renewal{RunID: r.id, Replace: stamp})
		},
	})
	if err != nil {
		return nil, err
	}
	renewed, before := c.clock, r.due
	return w.pushed(c, r.id, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: r.head, New: made.oid}}, pack: objs.Pack(), seq: made.seq, bare: true, before: &before,
		won: func() { w.renewed(r, made.oid, date, made.message, renewed) },
	}), nil
}

// renewed notes a lease commit that stands. The clock is the one that was read
// before the commit was made: others count from there at the earliest.
func (w *worker) renewed(r *run, oid git.OID, date int64, msg []byte, at lease.Clock) {
	ev, err := lease.ReadEvent(lease.Head{OID: string(oid), Message: msg, CommitterSeconds: date, CommitterOK: true})
	if err != nil {
		w.log().Error("own lease can't be read back", "error", err)
		return
	}
	w.guard.Lock()
	defer w.guard.Unlock()
	r.event, r.head, r.date = ev, oid, date
	r.due = lease.NewDeadlines(at, w.s.cfg.LeaseSeconds, w.s.cfg.MarginSeconds)
}

// prepareStalled breaks a dead lease, or gives our own back.
func (w *worker) prepareStalled(c *cycle) (*effect, error) {
	tr := trailers{
		attempt: c.facts.Head.Attempt, approval: string(c.facts.Head.Approval),
		interruptions: c.decision.Interruptions, notBefore: c.decision.NotBefore, codes: c.decision.Codes,
		act: c.facts.Head.Act, ledger: string(w.s.deps.Ledger.Chain().Head.Hash),
	}
	objs := git.NewObjects()
	head := git.OID(c.facts.Head.OID)
	tree, err := c.stateTree(objs)
	if err != nil {
		return nil, err
	}
	parent, seq := head, c.facts.NextSeq()
	late, work, err := w.sealLate(&c.observation, objs, c.inputs, c.unpushed)
	if err != nil {
		return nil, err
	}
	if late.oid != "" {
		parent, tree, seq = late.oid, work, seq+1
	}
	made, err := w.stateCommit(&c.observation, objs, stateCommit{
		tree: tree, parent: parent, date: c.nextDate(), seq: seq, trailers: &tr,
		message: func(all []lease.Trailer) ([]byte, error) {
			extra := append([]lease.Trailer{{Key: "writ-origin-state", Value: originOf(c.event)}}, all...)
			return lease.Stalled(c.event, lease.Break{Extra: extra})
		},
	})
	if err != nil {
		return nil, err
	}
	run := c.facts.Head.RunID
	own := w.run
	e := w.pushed(c, run, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: head, New: made.oid}}, pack: objs.Pack(), seq: made.seq, bare: late.oid == "",
		unshelves: late.oid != "",
		won:       func() { w.gaveUp(own) },
		failed:    func() { w.bare = false },
	})
	if own == nil {
		return e, nil
	}
	return w.killFirst(e), nil
}

// killFirst makes an effect end our processes before it tells the world that
// nobody works on the task.
func (w *worker) killFirst(e *effect) *effect {
	push := e.do
	e.do = func(ctx context.Context) kernel.Outcome {
		w.kill()
		return push(ctx)
	}
	return e
}

func originOf(ev lease.Event) string {
	if ev.OriginState != "" {
		return ev.OriginState
	}
	return string(kernel.TaskOpen)
}

// prepareAbandon ends our processes and forgets the run; nothing is pushed, for
// HEAD isn't ours any more.
func (w *worker) prepareAbandon(c *observation) (*effect, error) {
	r := w.run
	return &effect{
		intent: kernel.Intent{Kind: string(kernel.KindIntent), Key: "abandon:" + r.id, Effect: kernel.ActionAbandon},
		do: func(context.Context) kernel.Outcome {
			w.kill()
			if _, unable := w.s.outage.of(w.number); r.hidden || (unable || w.wasLate(r)) && c.facts.Head.OID == string(r.head) {
				w.lapsed = r.head
			}
			w.gaveUp(r)
			return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: "abandon:" + r.id, Effect: kernel.ActionAbandon, Status: kernel.OutcomeDone}
		},
	}, nil
}

// wasLate reports whether a run's lease ended while an answer was waited for.
func (w *worker) wasLate(r *run) bool {
	w.guard.Lock()
	defer w.guard.Unlock()
	return r.late
}

const (
	// lagSoon is how long a claim waits at most [outageFar] after one whose lease couldn't
	// be kept, and lagFar the wait after that: each costs the server two pushes.
	lagSoon = time.Hour
	lagFar  = 10 * time.Minute
)

// lagged counts leases in a row that ended because the server showed too late what was
// pushed for them: a replica that lags by more than a renewal takes. Nothing is counted
// against the task, and the next claim waits ever longer, as any try at a server that
// can't.
type lagged struct {
	n            int
	began, until int64 // Clock.BootMs
}

// gaveUp forgets a run that ended without a result.
func (w *worker) gaveUp(r *run) {
	if r != nil && r.hidden {
		l, now := &w.lagged, w.s.now().BootMs
		if l.n++; l.n == 1 {
			l.began = now
		}
		wait := outageWait(l.n)
		if now-l.began > lagSoon.Milliseconds() {
			wait = lagFar
		}
		l.until = now + w.s.cfg.LeaseSeconds*1000 + wait.Milliseconds() // nobody can claim before the lease ends
		w.say("the server shows too late what was pushed for a lease to be renewed in time: the next claim waits %s", wait)
	}
	w.setRun(nil)
}

// prepareChecks starts the checks on the proposed change: a fresh tree, built
// from the hashed bytes.
func (w *worker) prepareChecks(_ *observation) (*effect, error) {
	r := w.run
	tree, err := changedTree(git.NewObjects(r.base), r)
	if err != nil {
		return nil, err
	}
	r.treeID = tree
	key := "checks:" + r.id
	job := executor.CheckJob{
		World: w.s.cfg.Repository, Task: w.number, Run: r.id, Base: w.baseOf(r), Diff: r.built.Diff, Contents: r.built.Contents,
		Checks: r.pack.Checks, Prepare: r.pack.Prepare, Trusted: w.trustedOf(r), TreeID: string(tree), OnLine: w.tail(),
	}
	return &effect{
		intent: kernel.Intent{Kind: string(kernel.KindIntent), Key: key, Effect: kernel.ActionChecks, New: string(tree)},
		do: func(ctx context.Context) kernel.Outcome {
			k, err := w.s.deps.Executor.Check(context.WithoutCancel(ctx), job)
			if err != nil {
				r.phase = kernel.PhaseChecked
				return w.notStarted(r, key, kernel.ActionChecks, err)
			}
			w.guard.Lock()
			r.checks, r.phase = k, kernel.PhaseChecking
			w.guard.Unlock()
			return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: key, Effect: kernel.ActionChecks, Status: kernel.OutcomeDone}
		},
	}, nil
}

// changedTree adds the blobs and trees of the base with the change applied.
// Every byte comes from what was hashed.
func changedTree(objs *git.Objects, r *run) (git.OID, error) {
	entries := make(map[string]git.Entry, len(r.base.Entries))
	for _, e := range r.base.Entries {
		entries[e.Path] = e
	}
	for _, ch := range r.built.Diff.Changes {
		if ch.Op == kernel.OpDelete {
			delete(entries, ch.Path)
			continue
		}
		mode, err := fileMode(ch.AfterMode)
		if err != nil {
			return "", err
		}
		id := git.OID(ch.AfterID)
		if ch.Op != kernel.OpMode {
			data, ok := r.built.Contents[ch.AfterID]
			if !ok {
				return "", fmt.Errorf("supervisor: the bytes of %q are missing", ch.Path)
			}
			if id = objs.Blob(data); string(id) != ch.AfterID {
				return "", fmt.Errorf("supervisor: the bytes of %q aren't the hashed ones", ch.Path)
			}
		}
		entries[ch.Path] = git.Entry{Path: ch.Path, Mode: mode, OID: id}
	}
	list := make([]git.Entry, 0, len(entries))
	for _, e := range entries {
		list = append(list, e)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
	return objs.Tree(list)
}

// fileMode admits what a change may leave behind: regular files.
func fileMode(s string) (git.Mode, error) {
	switch s {
	case git.ModeFile.String():
		return git.ModeFile, nil
	case git.ModeExec.String():
		return git.ModeExec, nil
	}
	return 0, fmt.Errorf("supervisor: mode %q can't be committed", s)
}

// judge keeps the verdict on the run. Nothing outside happens: the result is
// pushed by the next request, when verdict and report are records already and
// the evidence can hold them.
func (w *worker) judge(ctx context.Context, c *cycle) error {
	r := w.run
	j := &kernel.Judgement{
		State: c.decision.State, NotBefore: c.decision.NotBefore, Codes: c.decision.Codes, WaitingFor: c.decision.WaitingFor,
	}
	if r.violations = c.decision.Violations; c.facts.Paths != nil && c.facts.Paths.Accepted != nil {
		r.accepted = c.facts.Paths.Accepted.Act
	}
	rep, err := w.buildReport(ctx, c)
	if err != nil {
		return err
	}
	if j.Accepted() {
		commit, err := changeCommit(git.NewObjects(r.base), r, w.person(0))
		if err != nil {
			return err
		}
		r.change, rep.ChangeCommit = commit, string(commit)
	} else {
		r.change = ""
	}
	if r.report, err = rep.JSON(); err != nil {
		return err
	}
	r.markdown = report.Markdown(rep)
	j.Report = canon.Sum(r.report)
	c.stageLate(kernel.KindReport, r.id, rep)
	c.judged = j
	return nil
}

// stageLate adds a record that the decision makes, after it.
func (c *cycle) stageLate(kind kernel.Kind, run string, body any) {
	c.late = append(c.late, kernel.Draft{Kind: kind, Task: c.task.number, Run: run, Body: body})
}

// changeCommit adds the one clean commit by which somebody delivers the work. Its date is
// the dispatch's, so that it is the same whoever goes on with the work.
func changeCommit(objs *git.Objects, r *run, who git.Person) (git.OID, error) {
	tree, err := changedTree(objs, r)
	if err != nil {
		return "", err
	}
	at, err := time.Parse(time.RFC3339, r.dispatch.Timestamp)
	if err != nil {
		return "", err
	}
	who.Seconds = at.Unix()
	return objs.Commit(git.CommitSpec{
		Tree: tree, Parents: []git.OID{git.OID(r.pack.Pins.BaseCommit)}, Author: who, Committer: who,
		Message: []byte(r.pack.CommitMessage),
	}, nil)
}

// prepareResult composes the commit point of a result: one request with the
// state ref (old = our lease) and, where the work is accepted, the change
// branch (old = none), all or none (DESIGN §4).
func (w *worker) prepareResult(ctx context.Context, c *cycle) (*effect, error) {
	if w.run == nil {
		return w.prepareBlocked(ctx, c)
	}
	r := w.run
	objs := git.NewObjects(r.base)
	if r.change != "" {
		if _, err := changeCommit(objs, r, w.person(0)); err != nil {
			return nil, err
		}
	}
	tree, err := w.evidenceTree(&c.observation, objs, r)
	if err != nil {
		return nil, err
	}
	tr := w.runTrailers(r)
	tr.interruptions, tr.run, tr.refreshInterruptions = c.facts.Head.Interruptions, r.id, 0
	tr.notBefore, tr.codes, tr.change = c.decision.NotBefore, c.decision.Codes, string(r.change)
	if r.change != "" {
		tr.accepts = r.accepted
	}
	made, err := w.output(objs, tree, r.head, c, tr, r.markdown)
	if err != nil {
		return nil, err
	}
	cmds := []git.Command{{Ref: w.StateRef(), Old: r.head, New: made.oid}}
	if r.change != "" && r.change != c.change {
		cmds = append(cmds, git.Command{Ref: w.ChangeRef(), Old: old(c.change), New: r.change})
	}
	rep := r.report
	e := w.pushed(c, r.id, &push{cmds: cmds, pack: objs.Pack(), seq: made.seq, unshelves: r.shelved && r.sealed == nil, accepted: r.judgement.Accepted(), won: func() {
		w.ended(r.from, rep)
		w.setRun(nil)
		w.s.gotThrough()
	}})
	return w.killFirst(e), nil
}

// gotThrough wakes whose push a rule refused, each once, for somebody else's got through.
func (s *Supervisor) gotThrough() {
	var tasks []int64
	s.locked(func() {
		tasks = slices.Concat(s.hasten(true), slices.Collect(maps.Keys(s.denied)))
		clear(s.denied)
	})
	if s.deps.Healed != nil && len(tasks) > 0 {
		s.deps.Healed(tasks)
	}
}

// output adds a commit of the state ref that is neither lease nor stalled.
func (w *worker) output(objs *git.Objects, tree, parent git.OID, c *cycle, tr trailers, body string) (stated, error) {
	return w.outputAt(objs, tree, parent, c.facts.NextSeq(), c, tr, body)
}

// outputAt is output with a number of its own.
func (w *worker) outputAt(objs *git.Objects, tree, parent git.OID, seq int64, c *cycle, tr trailers, body string) (stated, error) {
	tr.waiting = c.decision.WaitingFor
	state := string(c.decision.State)
	return w.stateCommit(&c.observation, objs, stateCommit{
		tree: tree, parent: parent, date: c.nextDate(), seq: seq, trailers: &tr,
		message: func(extra []lease.Trailer) ([]byte, error) {
			return lease.Format(lease.Message{
				Title:    fmt.Sprintf("writ: task %d is %s", w.number, state),
				Body:     body,
				Trailers: append([]lease.Trailer{{Key: lease.KeyState, Value: state}}, extra...),
			})
		},
	})
}

// evidenceTree makes the tree of a result: inputs, records, proofs and report.
func (w *worker) evidenceTree(c *observation, objs *git.Objects, r *run) (git.OID, error) {
	ev := c.evidence
	files := map[string][]byte{
		replay.FileDispatch: r.dispatchBytes, replay.FileReport: r.report, replay.FileMarkdown: []byte(r.markdown),
		replay.FileProofs: ev.Proofs, replay.FileCheckpoint: ev.Checkpoint,
	}
	if r.sealed != nil {
		files[sealed.File] = r.sealed
	}
	if !r.slim {
		files[replay.FileRecords] = ev.Records
	}
	if r.judgement.State == kernel.TaskRetryPending {
		var err error
		if files[replay.FileRetry], err = canon.Marshal(w.retryOf(r)); err != nil {
			return "", err
		}
	}
	return evidence(objs, append([]git.Entry{}, r.entries...), files)
}

// evidence adds files to the entries of a state commit's tree.
func evidence(objs *git.Objects, entries []git.Entry, files map[string][]byte) (git.OID, error) {
	for name, data := range files {
		if len(data) > 0 || sealed.Is(name) { // work may have an empty file; of streams nothing is kept then
			entries = append(entries, git.Entry{Path: name, Mode: git.ModeFile, OID: objs.Blob(data)})
		}
	}
	sortEntries(entries)
	return objs.Tree(entries)
}

// retryOf is the data that the next dispatch ends with.
func (w *worker) retryOf(r *run) kernel.Retry {
	return kernel.Retry{
		Attempt: r.attempt, Run: r.id, Violations: r.violations,
		Tail: r.checked.Tail, Source: r.judgement.Report,
	}
}

// prepareBlocked ends a task at whose HEAD nobody works any more: the budget of
// attempts or interruptions is spent.
func (w *worker) prepareBlocked(ctx context.Context, c *cycle) (*effect, error) {
	rep, err := w.buildReport(ctx, c)
	if err != nil {
		return nil, err
	}
	return w.endWithoutRun(c, rep)
}

// prepareWait hands the task to a person: a stop, an edit.
func (w *worker) prepareWait(ctx context.Context, c *cycle) (*effect, error) {
	switch what := c.decision.WaitingFor; {
	case what == kernel.WaitRule:
		return w.prepareRuleWait(c)
	case kernel.SealedWait(what):
		return w.prepareSealedWait(ctx, c)
	}
	rep, err := w.buildReport(ctx, c)
	if err != nil {
		return nil, err
	}
	e, err := w.endWithoutRun(c, rep)
	if err != nil {
		return nil, err
	}
	return w.killFirst(e), nil
}

// endWithoutRun pushes a state that no run produced, with its report.
func (w *worker) endWithoutRun(c *cycle, rep report.Report) (*effect, error) {
	data, err := rep.JSON()
	if err != nil {
		return nil, err
	}
	md := report.Markdown(rep)
	objs := git.NewObjects()
	var inputs []git.Entry
	if w.run != nil {
		inputs = append(inputs, w.run.entries...)
	}
	tree, err := c.stateTree(objs)
	if !w.bare && err == nil {
		tree, err = evidence(objs, inputs, map[string][]byte{replay.FileReport: data, replay.FileMarkdown: []byte(md)})
	}
	if err != nil {
		return nil, err
	}
	head := git.OID(c.facts.Head.OID)
	tr := trailers{
		run: c.facts.Head.Run(), attempt: c.decision.Attempt, approval: string(c.facts.Head.Approval), interruptions: c.decision.Interruptions,
		governance: string(c.facts.Governance), codes: c.decision.Codes, ledger: string(w.s.deps.Ledger.Chain().Head.Hash),
	}
	if tr.act = c.facts.Head.Act; kernel.NewerAct(c.facts.Spent(), tr.act) {
		tr.act = c.facts.Spent() // only what comes after it moves on
	}
	made, err := w.output(objs, tree, head, c, tr, md)
	if err != nil {
		return nil, err
	}
	from := w.s.deps.Ledger.Chain().Head.Seq + 1
	if w.run != nil {
		from = w.run.from
	}
	e := w.pushed(c, c.facts.Head.RunID, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: head, New: made.oid}}, pack: objs.Pack(), seq: made.seq, bare: w.bare,
		won:    func() { w.ended(from, data); w.setRun(nil) },
		failed: func() { w.bare = false },
	}, kernel.Draft{Kind: kernel.KindReport, Task: w.number, Run: c.facts.Head.RunID, Body: rep})
	return e, nil
}

// ended tells the process around us that a cycle is over.
func (w *worker) ended(from int64, rep []byte) {
	if w.s.deps.Ended != nil {
		w.s.deps.Ended(Cycle{Task: w.number, From: from, Report: rep})
	}
}

func sortEntries(list []git.Entry) {
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
}

// prepareRedeliver composes the push of a change branch that a result lacks.
func (w *worker) prepareRedeliver(c *cycle) (*effect, error) {
	m := w.missing
	return w.pushed(c, c.facts.Head.Run(), &push{
		cmds: []git.Command{{Ref: w.ChangeRef(), Old: old(c.change), New: m.change}}, pack: m.pack,
		won: func() { m.rest(w.s.now().WallMs, nil) }, // until a look shows it
	}), nil
}

// old is what a command says of a ref at a commit, be it none.
func old(oid git.OID) git.OID { return cmp.Or(oid, git.ZeroOID) }

// prepareComplete composes the end of a task whose change is merged: the tree of the
// result that waited, with its report brought to its final state and the facts that the
// decision rests on. Any trusted instance may push it; it is put on the very result that
// waited, or not at all.
func (w *worker) prepareComplete(c *cycle) (*effect, error) {
	facts, err := canon.Marshal(replay.MergeRecord{
		Kind: replay.KindMerge, Result: c.facts.Head.OID, Kernel: kernel.Version(), Facts: c.facts,
	})
	if err != nil {
		return nil, err
	}
	final := c.waited.report.AtMerge(*mergeOf(c.facts.Issue.Change))
	data, err := final.JSON()
	if err != nil {
		return nil, err
	}
	md := report.Markdown(final)
	replaced := map[string][]byte{replay.FileReport: data, replay.FileMarkdown: []byte(md), replay.FileMerge: facts}
	kept := slices.DeleteFunc(slices.Clone(c.waited.entries), func(e git.Entry) bool { return replaced[e.Path] != nil || e.Path == replay.FileRefresh })
	objs := git.NewObjects()
	tree, err := evidence(objs, kept, replaced)
	if err != nil {
		return nil, err
	}
	head := git.OID(c.facts.Head.OID)
	tr := resultTrailers(c.event)
	tr.branch = c.replaced() // which change is this one's, is told by it for good
	tr.ledger = string(w.s.deps.Ledger.Chain().Head.Hash)
	made, err := w.output(objs, tree, head, c, tr, md)
	if err != nil {
		return nil, err
	}
	from, run := w.s.deps.Ledger.Chain().Head.Seq+1, c.facts.Head.LastRun
	return w.pushed(c, run, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: head, New: made.oid}}, pack: objs.Pack(), seq: made.seq,
		won: func() { w.ended(from, data) },
	}, kernel.Draft{Kind: kernel.KindReport, Task: w.number, Run: run, Body: final}), nil
}

// accepted reports whether a decision makes a run's work the task's result.
func accepted(d kernel.Decision) bool {
	return kernel.Judgement{State: d.State, WaitingFor: d.WaitingFor}.Accepted()
}
