package supervisor

import (
	"context"
	"slices"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// cycle is one request in flight: what was read, what was decided, what is to
// be recorded.
type cycle struct {
	id       string
	request  kernel.Request
	clock    lease.Clock
	facts    kernel.Facts
	intake   *Intake
	head     git.Commit
	event    lease.Event
	change   git.OID // at the change branch
	retry    *kernel.Retry
	evidence replay.Evidence // once judged
	judged   *kernel.Judgement
	late     []kernel.Draft  // records that the decision makes
	settled  bool            // the outcome is recorded
	broken   error           // the effect's bytes could not be made
	ctx      context.Context // of the tick
	decision kernel.Decision
	effect   *effect
	outcome  *kernel.Outcome
	answer   *kernel.Outcome    // of an own push that was unknown until now
	staged   []kernel.Draft     // proposals and outcomes to be recorded first
	recorded bool               // the first append is done
	shown    *kernel.IssueFacts // the issue, where it was read
	// Of an effect on the issue: the text of comment and change, the change's page,
	// and what the forge answered.
	text, changeURL string
	changeText      string
	wrote           forge.Comment // that the effect wrote
	turnedDown      bool          // the work that HEAD tells of
	pages           string        // where the repository's pages are, "" if that isn't known
	forgeErr        error
	check           forge.Check       // that the change's commit is owed
	said            replies           // writ's answers to commands, as the issue shows them
	replies         map[int64]wording // to be given, by the command's comment
	task            *Task
}

// observe reads everything that the decision depends on. HEAD is read over git;
// issue and contract are read again at every request, so that an edit is seen.
func (t *Task) observe(ctx context.Context, req kernel.Request, actor string) (*cycle, error) {
	c := &cycle{id: t.s.deps.NewRunID(), request: req, clock: t.s.now(), task: t, ctx: ctx}
	if err := t.settle(ctx, c); err != nil {
		return nil, err
	}
	refs, err := t.s.deps.Repo.Refs(ctx, t.StateRef(), t.ChangeRef(), "refs/heads/")
	if err != nil {
		return nil, err
	}
	c.change = refs.OID(t.ChangeRef())
	t.s.locked(func() { t.lookUpUnknown(c, refs.OID(t.StateRef())) })
	issue, err := t.readIssue(ctx, c, refs)
	if err != nil {
		return nil, err
	}
	head, err := t.readHead(ctx, c, refs.OID(t.StateRef()))
	if err != nil {
		return nil, err
	}
	if t.first == nil {
		t.first = &head.OID
	}
	c.facts = kernel.Facts{
		Kind: string(kernel.KindObservation), Request: req, Actor: actor,
		World: t.s.cfg.World, Task: t.number, Head: head, SameIssue: t.remote,
	}
	if c.facts.Undone, err = t.undone(ctx, c, issue); err != nil {
		return nil, err
	}
	c.facts.Head.Reapproved = t.reapproved(issue, head) || c.facts.Undone
	if err := t.readView(ctx, c, issue); err != nil {
		return nil, err
	}
	t.readTask(ctx, c, issue)
	t.readRun(c)
	if err := t.readForge(ctx, c, issue.seen); err != nil {
		return nil, err
	}
	t.s.locked(func() { t.lookUpForge(c) })
	return c, t.readRetry(ctx, c)
}

// reapproved reports whether a person approved anew while HEAD stood where it
// stands: at the keyboard by running the task again, on a forge by an act after
// the one that HEAD rests on. A bot's act is none, for bots that answer one
// another would go on for ever (case I6).
func (t *Task) reapproved(issue Issue, head kernel.HeadFacts) bool {
	if issue.Act == "" {
		return issue.Anew && head.WaitingFor == kernel.WaitApproval && head.OID == *t.first
	}
	if issue.ByBot || !head.Trust.Trusted() || !kernel.NewerAct(issue.Act, head.Act) {
		return false
	}
	switch kernel.TaskState(head.State) {
	case kernel.TaskWaiting, kernel.TaskBlocked, kernel.TaskRetryPending:
		return true
	}
	return head.State == kernel.HeadStalled
}

// readView reads what the fold knows of the task. Where a person asked on the
// forge to move on from somebody else's commit, that is recorded first (case
// L12).
func (t *Task) readView(ctx context.Context, c *cycle, issue Issue) (err error) {
	t.s.locked(func() {
		c.facts.View, c.facts.Now = t.view(), t.virtualNow(c.clock)
		if !issue.Retry || issue.ByBot || !kernel.NewerAct(issue.Act, c.facts.View.Act) || !kernel.NeedsRepair(c.facts) && !c.facts.Undone {
			return
		}
		err = t.s.resume(ctx, t.number, kernel.OperatorAct{Actor: issue.Actor, Reason: "/writ retry", Head: c.facts.Head.OID, ActID: issue.Act})
		c.facts.View = t.view()
	})
	return err
}

// readShared reads what other tasks of the world change, at the last moment and
// with the world to itself: the time of the last record, the path space, and
// the evidence, whose checkpoint must end with the record that the result names.
func (t *Task) readShared(ctx context.Context, c *cycle) {
	c.facts.Now = t.virtualNow(c.clock)
	if t.run == nil {
		c.facts.Policy = append(c.facts.Policy, t.s.world.Admit(t.number, c.intake.Spec.AllowedFiles)...)
		return
	}
	if t.run.phase == kernel.PhaseJudged && !t.run.slim {
		var err error
		if c.evidence, err = t.s.deps.Ledger.Evidence(ctx, t.number, t.run.from); err != nil {
			t.say("the evidence can't be packed whole: %v", err)
			t.run.slim = true
		}
	}
}

// readIssue reads the contract, then the task's text, and holds one against the
// other.
func (t *Task) readIssue(ctx context.Context, c *cycle, refs git.Refs) (Issue, error) {
	if t.run != nil {
		return t.readPinned(ctx, c, refs)
	}
	terms, err := t.readTerms(ctx, refs)
	if err != nil {
		return Issue{}, err
	}
	var view kernel.TaskView
	t.s.locked(func() { view = t.view() })
	issue, err := t.askIssue(ctx, c, Terms{Trigger: terms.contract.Trigger, Prior: view.Act})
	if err != nil {
		return issue, err
	}
	c.intake = t.assess(terms, issue)
	if issue.Asked {
		issue.Policy = append(issue.Policy, t.s.observeOnly(terms.contract)...)
	}
	return issue, nil
}

// observeOnly is why nothing may be claimed that could be.
func (s *Supervisor) observeOnly(c contract.Contract) []kernel.Violation {
	v := kernel.Violation{Code: kernel.CodeObserveOnly}
	switch {
	case c.Mode == contract.ModeObserve:
		v.Subject, v.Detail = "mode", "The contract says mode: observe, so writ says what it would do and doesn't claim."
	case s.cfg.Observe:
		v.Subject, v.Detail = "server.observe", "The operator set server.observe, so writ says what it would do and doesn't claim."
	default:
		return nil
	}
	return []kernel.Violation{v}
}

// readPinned reads the text again for a run, which goes by what was pinned at
// its claim. Before the start, and only then, contract and approval are read
// whole once more, and what can't be read keeps it from starting; afterwards it
// doesn't keep the run from renewing its lease.
func (t *Task) readPinned(ctx context.Context, c *cycle, refs git.Refs) (Issue, error) {
	r := t.run
	pinned := *r.intake
	c.intake = &pinned
	starting := r.phase == kernel.PhaseClaimed && c.request == kernel.RequestTick
	tell := c.request == kernel.RequestTell
	brief := tell || r.phase == kernel.PhaseBuilding || r.phase == kernel.PhaseChecking
	if t.remote && !starting && !brief {
		// What the build came to is taken in: it is the kernel's now. What isn't
		// started yet is only handed over, for which nobody need be asked.
		return Issue{}, nil
	}
	if t.quiet && brief && !tell && c.clock.BootMs-t.looked < lookEvery {
		return Issue{}, nil // nobody says that there is anything to see
	}
	asking := ctx
	if starting && !tell {
		asking = forge.Urgent(ctx) // the lease is held, and isn't renewed by who asks
	}
	issue, err := t.askIssue(asking, c, Terms{Trigger: pinned.trigger, Prior: r.act, Brief: brief})
	if err != nil {
		if t.remote && (starting || tell) {
			return Issue{}, err
		}
		t.say("the issue can't be read at the moment: %v", err)
		return Issue{}, nil
	}
	pinned.Current = digestOf(issue)
	if starting && !tell {
		pinned.Governance, err = t.contractNow(ctx, refs, r.intake)
	}
	return issue, err
}

// readTask fills in the facts of issue, contract and environment. A run is
// judged by what was pinned at its claim; only the digest is compared anew.
func (t *Task) readTask(ctx context.Context, c *cycle, issue Issue) {
	in := c.intake
	c.facts.Act, c.facts.Asked = issue.Act, issue.Asked
	c.facts.Approved, c.facts.Current = in.Approval.Digest, in.Current
	if t.run != nil {
		in = t.run.intake
		c.facts.Approved = in.Approval.Digest
	}
	c.facts.Governance, c.facts.Budgets, c.facts.Checks = in.Governance, in.Budgets, int64(len(in.Checks))
	c.facts.CloseOn = in.closeOn
	c.facts.Input, c.facts.Policy = in.Input, slices.Concat(in.Policy, issue.Policy)
	if t.run != nil {
		c.facts.Human = issue.Human
		return
	}
	c.facts.Policy = slices.Concat(c.facts.Policy, t.refused, t.changeBranchFree(c))
	if kernel.WantsClaim(c.facts) {
		c.facts.Environment = t.s.deps.Executor.Environment(ctx, in.Spec.Builder)
	}
}

// changeBranchFree: nobody's commit on the change branch is ever forced over.
func (t *Task) changeBranchFree(c *cycle) []kernel.Violation {
	if c.change.IsZero() || !kernel.WantsClaim(c.facts) {
		return nil
	}
	return []kernel.Violation{{
		Code: kernel.CodeTargetIneligible, Subject: t.ChangeRef(),
		Detail: "The change branch exists already, at " + string(c.change) + ". Delete or rename it, or give another number.",
	}}
}

// changeBranchTaken: somebody made the change branch while the work was done. It
// is theirs, and the result can't be delivered.
func (t *Task) changeBranchTaken(c *cycle) []kernel.Violation {
	if t.run.phase != kernel.PhaseJudged || t.run.change == "" || c.change.IsZero() {
		return nil
	}
	return []kernel.Violation{{
		Code: kernel.CodeTargetIneligible, Subject: t.ChangeRef(),
		Detail: "Somebody made the change branch during the run, at " + string(c.change) + ".",
	}}
}

// readRun fills in the facts of the live run and takes in what its processes
// came to: proposals, recorded before any decision uses them.
func (t *Task) readRun(c *cycle) {
	r := t.run
	if r == nil {
		return
	}
	t.takeIn(c)
	rf := &kernel.RunFacts{
		RunID: r.id, LeaseOID: string(r.head), Attempt: r.attempt, Phase: r.phase,
		RenewDue: r.tenure.RenewDue(c.clock), FenceDue: r.tenure.MustFence(c.clock),
		ClaimedAt: r.claimed, Refused: slices.Concat(r.refused, t.changeBranchTaken(c)), Judgement: r.judgement,
	}
	switch r.phase {
	case kernel.PhaseClaimed:
		rf.Dispatch = t.checkDispatch(c)
	case kernel.PhaseBuilt, kernel.PhaseChecking, kernel.PhaseChecked, kernel.PhaseJudged:
		exit := r.built.Result.Exit
		rf.Exit, rf.Build = &exit, slices.Concat(r.fails, r.built.Violations)
		rf.Scope, rf.Changes = r.built.Diff.Violations, int64(len(r.built.Diff.Changes))
		rf.CheckFails = r.checked.Violations
		rf.Message = r.intake.Message
	}
	c.facts.Run = rf
}

// takeIn moves the run on when a build or the checks have ended.
func (t *Task) takeIn(c *cycle) {
	r := t.run
	switch {
	case c.request == kernel.RequestTell:
		// Only the issue is moved.
	case t.isStopping() && c.request == kernel.RequestTick:
		// What a person's act killed didn't fail: his request comes next.
	case r.phase == kernel.PhaseBuilding && closed(r.build.Done()):
		r.built, r.phase = bounded(r.build.Outcome()), kernel.PhaseBuilt
		c.stage(kernel.KindBuilderResult, r.id, r.built.Result)
		c.stage(kernel.KindDiff, r.id, r.built.Diff)
		t.say("builder ended: %s, %d changed, %d discarded", exitWords(r.built.Result.Exit), len(r.built.Diff.Changes), len(r.built.Diff.Discarded))
	case r.phase == kernel.PhaseChecking && closed(r.checks.Done()):
		r.checked, r.phase = r.checks.Outcome(), kernel.PhaseChecked
		r.checked.Violations = boundViolations(r.checked.Violations)
		c.stage(kernel.KindRunResult, r.id, r.checked.Run)
		for _, k := range r.checked.Run.Checks {
			t.say("check %s: %s", k.Name, passWord(k.Passed))
		}
	}
}

// readRetry reads, at the HEAD of a failed or interrupted attempt, what the next
// dispatch ends with.
func (t *Task) readRetry(ctx context.Context, c *cycle) error {
	if t.run != nil {
		return nil
	}
	switch c.facts.Head.State {
	case string(kernel.TaskRetryPending), string(kernel.TaskWaiting), kernel.HeadStalled:
	default:
		return nil
	}
	if !c.facts.Head.Trust.Trusted() {
		return nil // a stranger's words don't reach a builder this way
	}
	pack := replay.Pack{}
	var err error
	for _, name := range []string{replay.FileRetry, replay.FileSeedPack} {
		if pack[name], err = t.readFile(ctx, c.head.Tree, name); err != nil {
			return err
		}
	}
	var r kernel.Retry
	if err := canon.UnmarshalCanonical(replay.PriorRetry(pack), &r); err != nil {
		return nil //nolint:nilerr // a retry without its data is still a retry
	}
	c.retry = &r
	return nil
}

// readFile reads one file of a state commit's tree; nil if it isn't there.
func (t *Task) readFile(ctx context.Context, tree git.OID, name string) ([]byte, error) {
	list, err := t.s.deps.Repo.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	var data []byte
	for _, e := range list.Entries {
		if e.Path == name && e.Mode == git.ModeFile {
			err = t.s.deps.Repo.Blobs(ctx, []git.OID{e.OID}, func(_ git.OID, b []byte) error { data = b; return nil })
		}
	}
	return data, err
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// stageLate adds a record that the decision makes, after it.
func (c *cycle) stageLate(kind kernel.Kind, run string, body any) {
	c.late = append(c.late, kernel.Draft{Kind: kind, Task: c.task.number, Run: run, Body: body})
}

// runID is the run that a record of this request concerns.
func (c *cycle) runID() string {
	switch {
	case c.facts.Run != nil:
		return c.facts.Run.RunID
	case c.effect != nil && c.effect.run != "":
		return c.effect.run
	}
	return c.facts.Head.RunID
}

func (c *cycle) stage(kind kernel.Kind, run string, body any) {
	c.staged = append(c.staged, kernel.Draft{Kind: kind, Task: c.task.number, Run: run, Body: body})
}
