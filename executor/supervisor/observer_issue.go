package supervisor

import (
	"context"
	"errors"
	"slices"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

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
		pinned.Governance, err = o.contracts.contractNow(ctx, refs, r.intake)
	}
	return issue, err
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

// readTask fills in the facts of issue, contract and environment. A run is
// judged by what was pinned at its claim; only the digest is compared anew.
func (o *observer) readTask(c *observation, issue Issue) {
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
}

// readRoom reads what a run needs, where a claim is wanted.
func (o *observer) readRoom(ctx context.Context, c *observation) {
	if in := c.intake; kernel.WantsClaim(c.facts) {
		c.facts.Environment = slices.Concat(o.s.deps.Executor.Environment(ctx, in.Spec.Builder), o.outwardFaults(in), o.baseFaults(c))
		o.s.locked(func() { o.readBudget(c) })
	}
}
