package supervisor

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/world"
)

// observation is what a request goes by: everything that was read for it, and what the
// kernel decides on. Who composes an effect only reads it.
type observation struct {
	id       string
	request  kernel.Request
	clock    lease.Clock
	facts    kernel.Facts
	intake   *Intake
	head     git.Commit
	acts     worldref.Standing // who counts
	below    git.Commit        // under an unlisted writer's lease: the task's state
	event    lease.Event
	unpushed map[string][]byte // sealed work of the lease at HEAD that only our store has
	inputs   []git.Entry       // of that lease's tree
	change   git.OID           // at the change branch
	stray    git.OID           // that, where it is what a run of this task delivered and HEAD doesn't tell of
	unheard  bool              // the issue couldn't be asked before accepted work is pushed
	noBase   *noBaseError      // why nobody knows the contract: the issue is only told of that
	onItsWay bool              // see [kernel.Facts]
	ended    bool              // the issue tells how the task ended
	inWay    string            // a branch beside which it can't be, "" for none
	refInWay string            // a ref beside which the state ref, which isn't there, can't be, "" for none
	retry    *kernel.Retry
	evidence replay.Evidence    // once judged
	last     *push              // of ours that won, where no look had shown it before
	again    bool               // it was made again, and taken
	answer   *kernel.Outcome    // of an own push that was unknown until now
	staged   []kernel.Draft     // proposals and outcomes to be recorded first
	shown    *kernel.IssueFacts // the issue, where it was read
	// What the issue is to say: the text of comment and change, and the change's page.
	text, changeURL string
	changeText      string
	turnedDown      bool              // the work that HEAD tells of
	waited          *waited           // the result at HEAD, where its change is merged
	was             *refreshed        // below a lease that is to replace it
	pages           string            // where the repository's pages are, "" if that isn't known
	check           forge.Check       // that the change's commit is owed
	said            replies           // writ's answers to commands, as the issue shows them
	toldSeq         int64             // the highest number of a state commit that the issue tells of
	replies         map[int64]wording // to be given, by the command's comment
	left            *left             // what an interrupted run has sealed, where it was asked for
	fresh           *fresh            // delivered work, made again on the base as it is now, where that was asked for
	fix             *revised          // what a revision of it begins with, where that was asked for
	outdone         map[int64]bool    // commands for which a newer one counts, by their comment
	reviewed        bool              // what people said of the change was read
	origin          git.OID           // base that revised work at HEAD was first delivered on, "" of other work
	task            *subject
}

// cycle is one request in flight: what was seen, what was decided, what came of it.
type cycle struct {
	observation
	sealed   canon.Sealed // the facts, once all is seen
	judged   *kernel.Judgement
	late     []kernel.Draft // records that the decision makes
	broken   error          // the effect's bytes could not be made
	decision kernel.Decision
	effect   *effect
	outcome  *kernel.Outcome
	wrote    forge.Comment // that the effect wrote
	forgeErr error
}

// observe reads everything that the decision depends on. HEAD is read over git;
// issue and contract are read again at every request, so that an edit is seen.
func (t *Task) observe(ctx context.Context, req kernel.Request, actor string) (*observation, error) {
	c, err := t.observeOnce(ctx, req, actor)
	if errors.Is(err, errMovedOn) { // once: a server may show another HEAD for ever
		c, err = t.observeOnce(ctx, req, actor)
	}
	return c, err
}

// errMovedOn says that HEAD was moved, and the issue told so, while both were read.
var errMovedOn = errors.New("supervisor: HEAD moves while it is read; it is looked at again")

func (t *Task) observeOnce(ctx context.Context, req kernel.Request, actor string) (*observation, error) {
	c := &observation{id: t.s.deps.NewRunID(), request: req, clock: t.s.now(), task: t.subject}
	t.observer.baseWake = 0
	if err := t.worker.settle(ctx, c); err != nil {
		return nil, err
	}
	refs, err := t.observer.look(ctx, c)
	if c.again {
		refs, err = t.observer.look(ctx, c) // nothing else is to be waited for
	}
	if err != nil {
		return nil, err
	}
	t.s.keepActs(ctx, refs)
	c.change, c.inWay = refs.OID(t.ChangeRef()), inWay(refs, t.ChangeRef())
	if refs.OID(t.StateRef()).IsZero() {
		c.refInWay = inWay(refs, t.StateRef())
	}
	t.s.locked(func() {
		c.onItsWay = t.observer.onItsWay(refs.OID(t.StateRef()))
		t.worker.lookUpUnknown(c, refs.OID(t.StateRef()))
	})
	issue, err := t.observer.readIssue(ctx, c, refs)
	if err != nil {
		return nil, err
	}
	t.s.locked(func() { c.facts.View = t.view() })
	head, err := t.observer.headFacts(ctx, c, refs.OID(t.StateRef()))
	if err != nil {
		return nil, err
	}
	if c.noBase != nil && head.Trust != kernel.TrustOwn {
		return nil, c.noBase // whose HEAD counts, the contract says
	}
	c.facts = kernel.Facts{
		Kind: string(kernel.KindObservation), Request: req, Actor: actor, View: c.facts.View,
		World: t.s.cfg.World, Task: t.number, Head: head, SameIssue: t.remote,
	}
	if err := t.observer.readTold(ctx, c, issue); err != nil {
		return nil, err
	}
	if err := t.observer.movedSince(ctx, c.facts.Head); err != nil {
		return nil, err
	}
	if err := t.readWork(ctx, c, issue); err != nil {
		return nil, err
	}
	if err := t.tracker.readForge(ctx, c, issue.seen); err != nil {
		return nil, err
	}
	t.s.locked(func() { t.tracker.lookUpForge(c) })
	if err := t.observer.noteSecond(ctx, c); err != nil {
		return nil, err
	}
	return c, t.observer.readRetry(ctx, c)
}

// readWork reads the task, and the work that HEAD or the live run has.
func (t *Task) readWork(ctx context.Context, c *observation, issue Issue) error {
	if issue.seen != nil { // what was answered with a no doesn't count later
		issue.seen.TurnedDown = c.facts.View.TurnedDown
	}
	if err := t.observer.readSealed(ctx, c); err != nil {
		return err
	}
	if err := t.observer.readRefresh(ctx, c, issue.seen); err != nil {
		return err
	}
	if err := t.observer.readFix(ctx, c, issue.seen); err != nil {
		return err
	}
	if t.worker.run == nil { // what HEAD waits with decides whether a claim is wanted
		if err := t.observer.readPaths(ctx, c, issue.seen); err != nil {
			return err
		}
	}
	t.observer.readTask(ctx, c, issue)
	for _, read := range []func(context.Context, *observation) error{t.worker.readUnpushed, t.observer.readStray} {
		if err := read(ctx, c); err != nil {
			return err
		}
	}
	c.facts.Policy = append(c.facts.Policy, t.observer.refsFree(c)...)
	t.observer.changeMoved(ctx, c)
	if err := t.observer.fixStands(ctx, c, issue.seen); err != nil {
		return err
	}
	if err := t.observer.readRun(ctx, c); err != nil || t.worker.run == nil {
		return err
	}
	return t.observer.readPaths(ctx, c, issue.seen)
}

// headFacts are HEAD's, with what this installation knows of it.
func (o *observer) headFacts(ctx context.Context, c *observation, oid git.OID) (head kernel.HeadFacts, err error) {
	if head, err = o.readHead(ctx, c, oid); err != nil {
		return head, err
	}
	if err := o.worker.keyOver(c); err != nil {
		return head, err
	}
	if err := o.lackingAct(ctx, c, head); err != nil {
		return head, err
	}
	if err := o.own(c, head, c.facts.View); err != nil {
		return head, err
	}
	if head.Lost, err = o.worker.lost(ctx, c, head); err != nil {
		return head, err
	}
	if head.Lost && o.worker.unseen != nil {
		if head.Owed = o.worker.unseen.owed; o.halted() {
			head.Owed = cmp.Or(head.Owed, &kernel.OwedFacts{Refused: []kernel.Violation{}})
		}
	}
	if o.first == nil {
		o.first = &head.OID
	}
	if o.worker.run == nil && head.Kept && head.Trust == kernel.TrustOwn {
		head.Predecessor = true // who had this ledger before is dead
	}
	return head, nil
}

// onItsWay reports whether a push of an earlier process may still reach the state ref: its
// answer wasn't heard, and HEAD is where it found it.
func (o *observer) onItsWay(head git.OID) bool {
	return slices.ContainsFunc(o.s.world.UnknownIntents(o.number), func(x world.OpenIntent) bool {
		i := x.Intent
		return i.Ref == o.StateRef() && i.New != "" && i.Old == plain(head)
	})
}

// look reads the refs, and holds them against what was pushed.
func (o *observer) look(ctx context.Context, c *observation) (git.Refs, error) {
	refs, err := o.s.deps.Repo.Refs(ctx, o.lookedAt()...)
	if err != nil {
		return refs, err
	}
	if err := o.s.lookAtActs(ctx, refs); err != nil {
		return refs, err
	}
	return refs, o.shows(ctx, c, refs)
}

// readTold reads what the issue tells of the task: of which run, and whether a person
// asks anew for what was done.
func (o *observer) readTold(ctx context.Context, c *observation, issue Issue) (err error) {
	said := o.told(issue.seen)
	c.facts.Told, c.toldSeq = said.at > 0, said.seq
	if said.seq > c.facts.Head.Seq && o.worker.run == nil {
		c.facts.Head.Told = said.seq
	}
	if c.facts.Head.Behind, err = o.behind(ctx, c.facts.Head, c.facts.View, said.run); err != nil {
		return err
	}
	if err := o.leaveToTeller(ctx, c, said); err != nil {
		return err
	}
	if err := o.readMissing(ctx, c); err != nil {
		return err
	}
	if c.facts.Undone, err = o.tracker.undone(ctx, c, issue); err != nil {
		return err
	}
	c.facts.Head.Reapproved = o.reapproved(issue, c.facts) || c.facts.Undone
	if c.facts.Head.Reapproved && o.worker.run == nil && c.urges(issue) {
		c.facts.Head.Reapproved, c.facts.Head.Urged = false, true
	}
	return o.readView(ctx, c, issue, said.at)
}

// reapproved reports whether a person approved anew while HEAD stood where it
// stands: at the keyboard by running the task again, on a forge by an act after
// the one that HEAD rests on. A bot's act is none, for bots that answer one
// another would go on for ever (case I6).
func (o *observer) reapproved(issue Issue, f kernel.Facts) bool {
	head := f.Head
	if r := o.worker.run; r != nil && r.waitsAtHead() {
		return o.worker.beganAnew(r, issue)
	}
	if issue.Act == "" {
		return issue.Anew && head.WaitingFor == kernel.WaitApproval && head.OID == *o.first
	}
	if issue.ByBot || len(issue.Human) > 0 || !f.HeadCounts() || !kernel.NewerAct(issue.Act, head.Act) {
		return false
	}
	switch kernel.TaskState(head.State) {
	case kernel.TaskWaiting, kernel.TaskBlocked, kernel.TaskRetryPending:
		return true
	}
	return head.State == kernel.HeadStalled
}

// readShared reads what other tasks of the world change, at the last moment and
// with the world to itself: the time of the last record, the path space, and
// the evidence, whose checkpoint must end with the record that the result names.
func (o *observer) readShared(ctx context.Context, c *observation) {
	c.facts.Now = o.virtualNow(c.clock)
	if o.worker.run == nil {
		c.facts.Policy = append(c.facts.Policy, o.s.world.Admit(o.number, c.intake.Spec.AllowedFiles)...)
		o.readBudget(c)
		return
	}
	if o.worker.run.phase == kernel.PhaseJudged {
		var err error
		if c.evidence, err = o.s.deps.Ledger.Evidence(ctx, o.number, o.worker.run.from); err != nil {
			o.say("the evidence can't be packed whole: %v", err)
			o.worker.run.slim = true
		}
	}
}

// readIssue reads the contract, then the task's text, and holds one against the
// other.
func (o *observer) readIssue(ctx context.Context, c *observation, refs git.Refs) (Issue, error) {
	if o.worker.run != nil {
		return o.readPinned(ctx, c, refs)
	}
	terms, err := o.readTerms(ctx, refs)
	if noBase, lacks := errors.AsType[*noBaseError](err); lacks && c.request == kernel.RequestTell {
		terms.faults, c.noBase, err = []kernel.Violation{{Code: noBase.err.Code, Detail: noBase.err.Detail}}, noBase, nil
		terms.contract.Trigger = contract.Default().Trigger
	}
	if err != nil {
		return Issue{}, err
	}
	var view kernel.TaskView
	o.s.locked(func() { view = o.view() })
	issue, err := o.tracker.askIssue(ctx, c, Terms{Trigger: terms.contract.Trigger, Prior: view.Act})
	if err != nil {
		return issue, err
	}
	c.intake = o.assess(terms, issue)
	if err := o.limitWorkflows(ctx, c.intake); err != nil {
		return issue, err
	}
	issue.Retry = issue.Retry && c.noBase == nil
	if issue.Asked {
		issue.Policy = append(issue.Policy, o.s.observeOnly(terms.contract)...)
	}
	if len(terms.faults) > 0 {
		issue.Human = nil // whose word counts, such a contract doesn't say
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
// doesn't keep the run from renewing its lease. Right before accepted work is pushed
// the issue is read in any case: an act that takes the approval back wins, whether or
// not anybody told of it, and where that can't be read the work is kept and waits.
func (o *observer) readPinned(ctx context.Context, c *observation, refs git.Refs) (Issue, error) {
	r := o.worker.run
	pinned := *r.intake
	c.intake = &pinned
	starting := kernel.RunFacts{Phase: r.phase, Resumes: r.resumes}.Starts() && c.request == kernel.RequestTick
	tell := c.request == kernel.RequestTell
	delivering := o.worker.judged() && r.judgement.Accepted() && c.request == kernel.RequestTick
	brief := tell || !delivering && (r.phase == kernel.PhaseBuilding || r.phase == kernel.PhaseChecking || r.waitsAtHead())
	if o.remote && !starting && !delivering && !brief {
		// What the build came to is taken in: it is the kernel's now. What isn't
		// started yet is only handed over, for which nobody need be asked.
		return r.heeded, nil
	}
	if o.tracker.quiet && brief && !tell && c.clock.BootMs-o.tracker.looked < lookEvery {
		return r.heeded, nil // nobody says that there is anything to see
	}
	asking := ctx
	if (starting || delivering) && !tell {
		asking = forge.Urgent(ctx) // the lease is held, and isn't renewed by who asks
	}
	issue, err := o.tracker.askIssue(asking, c, Terms{Trigger: pinned.trigger, Prior: r.act, Live: r.act, Brief: brief})
	if err != nil {
		if o.remote && (starting || tell) {
			return Issue{}, err
		}
		c.unheard = o.remote && delivering
		o.say("the issue can't be read at the moment: %v", err)
		return r.heeded, nil
	}
	if len(issue.Human) > 0 { // what it is stopped for stays, also where that can't be pushed yet
		r.heeded = Issue{Act: issue.Act, Human: issue.Human}
	}
	issue.Human = r.heeded.Human
	pinned.Current = digestOf(issue)
	if starting && !tell {
		pinned.Governance, err = o.contractNow(ctx, refs, r.intake)
	}
	return issue, err
}

// readTask fills in the facts of issue, contract and environment. A run is
// judged by what was pinned at its claim; only the digest is compared anew.
func (o *observer) readTask(ctx context.Context, c *observation, issue Issue) {
	in := c.intake
	c.facts.Act, c.facts.Asked = issue.Act, issue.Asked
	c.facts.Approved, c.facts.Current = in.Approval.Digest, in.Current
	if o.worker.run != nil {
		in = o.worker.run.intake
		c.facts.Approved = in.Approval.Digest
	}
	c.facts.Governance, c.facts.Budgets, c.facts.Checks = in.Governance, in.Budgets, int64(len(in.Checks))
	c.facts.CloseOn = in.closeOn
	c.facts.Input, c.facts.Policy = in.Input, slices.Concat(in.Policy, issue.Policy)
	if c.facts.Human = issue.Human; o.worker.run != nil {
		return
	}
	c.facts.TakenBack, c.facts.OnItsWay, c.facts.LagUntil = issue.TakenBack, c.onItsWay, o.lagUntil(c.clock)
	c.facts.Policy = slices.Concat(c.facts.Policy, o.worker.refused, o.secretsIn(in))
	c.facts.Mended = o.worker.mendedSince(c) || o.worker.equippedSince(c)
	c.facts.BaseMoved = c.facts.Head.AwaitsEnvironment() && said(c.event, kernel.TrailerBase) != string(in.BaseCommit)
	if c.facts.Refused = o.worker.ruling.refused; len(c.facts.Refused) > 0 {
		c.facts.RuleWait = ruleWait(c.facts.Head, c.headAt())
	}
	if kernel.WantsClaim(c.facts) {
		c.facts.Environment = slices.Concat(o.s.deps.Executor.Environment(ctx, in.Spec.Builder), o.outwardFaults(in), o.baseFaults(c))
		o.s.locked(func() { o.readBudget(c) })
	}
}

// readRun fills in the facts of the live run and takes in what its processes
// came to: proposals, recorded before any decision uses them.
func (o *observer) readRun(ctx context.Context, c *observation) error {
	r := o.worker.run
	if r == nil {
		return nil
	}
	o.worker.takeIn(c)
	r.mended(c.clock.WallMs)
	o.changeBranchTaken(c)
	rf := &kernel.RunFacts{
		RunID: r.id, LeaseOID: string(r.head), Attempt: r.attempt, Phase: r.phase,
		RenewDue: r.tenure.RenewDue(c.clock) && !o.worker.unrenewable(), FenceDue: r.tenure.MustFence(c.clock),
		ClaimedAt: r.claimed, Resumes: r.resumes, Refreshes: r.refreshes, Fixes: r.fixes, Refused: r.ruling.refused, Judgement: r.judgement, Again: r.again, Unheard: c.unheard, Checked: r.vetted,
	}
	switch r.phase {
	case kernel.PhaseClaimed:
		rf.Dispatch = o.worker.checkDispatch(c)
	case kernel.PhaseBuilt, kernel.PhaseSealed, kernel.PhaseChecking, kernel.PhaseChecked, kernel.PhaseJudged:
		exit := r.built.Result.Exit
		rf.Exit, rf.Build = &exit, slices.Concat(r.fails, r.built.Violations)
		rf.Scope, rf.Changes = r.built.Diff.Violations, int64(len(r.built.Diff.Changes))
		rf.CheckFails = r.checked.Violations
		rf.Message = r.intake.Message
		var err error
		if rf.Whole, err = o.judgeWhole(ctx, r); err != nil {
			return err
		}
		if rf.Starts() {
			rf.Dispatch = r.contractMoved(c)
		}
	}
	c.facts.Run = rf
	return nil
}

// readRetry reads, at the HEAD of a failed or interrupted attempt, what the next
// dispatch ends with.
func (o *observer) readRetry(ctx context.Context, c *observation) error {
	if o.worker.run != nil {
		return nil
	}
	switch c.facts.Head.State {
	case string(kernel.TaskRetryPending), string(kernel.TaskWaiting), kernel.HeadStalled:
	default:
		return nil
	}
	if !c.facts.HeadCounts() {
		return nil // a stranger's words don't reach a builder this way
	}
	pack := replay.Pack{}
	var err error
	for _, name := range []string{replay.FileRetry, replay.FileSeedPack} {
		if pack[name], err = o.readFile(ctx, c.head.Tree, name); err != nil {
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
func (sj *subject) readFile(ctx context.Context, tree git.OID, name string) ([]byte, error) {
	list, err := sj.s.deps.Repo.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	var data []byte
	for _, e := range list.Entries {
		if e.Path == name && e.Mode == git.ModeFile {
			err = sj.s.deps.Repo.Blobs(ctx, []git.OID{e.OID}, func(_ git.OID, b []byte) error { data = b; return nil })
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

func (c *observation) stage(kind kernel.Kind, run string, body any) {
	c.staged = append(c.staged, kernel.Draft{Kind: kind, Task: c.task.number, Run: run, Body: body})
}
