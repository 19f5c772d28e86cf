package kernel

import "slices"

// Rules of a task whose run this process holds, in their fixed order.
const (
	ruleOwner    = "owner"    // HEAD is the commit this run left there
	ruleDeadline = "fence"    // the lease can still be renewed in time
	ruleApproved = "approved" // the text is the approved one
	ruleDispatch = "dispatch" // the dispatch is whole and admissible
	ruleBuild    = "build"    // exit, timeouts, result
	ruleScope    = "scope"    // changed files against the scope
	ruleMessage  = "message"  // commit rules
	ruleChecks   = "checks"   // the runner's checks
	ruleServer   = "server"   // the server takes the result
	rulePerson   = "person"   // nobody stopped it on the forge
	ruleStanding = "standing" // authority and target, asked again before the start
)

var runRules = []rule{
	{ruleKernel, kernelRule},
	{ruleOwner, ownerRule},
	{ruleDeadline, deadlineRule},
	{rulePolicy, func(f Facts) []Violation { return halting(f.Policy) }},
	{ruleApproved, approvedRule},
	{ruleDispatch, func(f Facts) []Violation { return f.Run.Dispatch }},
	{ruleBuild, func(f Facts) []Violation { return f.Run.Build }},
	{ruleScope, func(f Facts) []Violation { return slices.Concat(f.Run.Scope, f.Run.Whole) }},
	{ruleMessage, func(f Facts) []Violation { return f.Run.Message }},
	{ruleChecks, func(f Facts) []Violation { return f.Run.CheckFails }},
	{ruleServer, func(f Facts) []Violation { return f.Run.Refused }},
}

// askedRules are those of a run whose task is an issue on a forge.
var askedRules = []rule{
	{rulePerson, func(f Facts) []Violation { return f.Human }},
	{ruleStanding, standingRule},
}

// rulesOf are the rules of a run. Facts without a word of a forge are judged by
// the same rules as ever, so that their decisions replay byte for byte.
func rulesOf(f Facts) []rule {
	if !f.Asked && len(f.Human) == 0 {
		return runRules
	}
	return append(runRules[:len(runRules):len(runRules)], askedRules...)
}

// standingRule asks again at the last moment before the start (cases I5, I12):
// who approved may still do so, and the target is still eligible.
func standingRule(f Facts) []Violation {
	if !f.Run.Starts() {
		return nil
	}
	return f.Policy
}

// Starts reports whether the run is about to start what it was claimed for: its
// builder, or where it goes on with sealed work, the checks.
func (r RunFacts) Starts() bool {
	return r.Phase == PhaseClaimed || r.Phase == PhaseSealed && r.Resumes != ""
}

// ownerRule keeps a stale holder out: an output counts as ours only if HEAD is
// the very commit we left there. What else stands there is a takeover or an
// intruder; neither is fought.
func ownerRule(f Facts) []Violation {
	h := f.Head
	switch {
	case h.OID == f.Run.LeaseOID && !h.Foreign():
		return nil
	case h.Foreign():
		return one(CodeStateForeign, h.OID, "HEAD was made for %s.", h.Named)
	case h.OID != "" && h.State == "":
		return one(CodeLockViolation, h.OID, "Somebody pushed a commit that is no state event: %s", h.Fault)
	case h.OID == "":
		return one(CodeLeaseLost, f.Run.RunID, "The state ref was deleted.")
	}
	return one(CodeLeaseLost, f.Run.RunID, "HEAD is now %s with state %s of run %s.", h.OID, h.State, h.RunID)
}

// deadlineRule: a builder or a check past its renew deadline is killed. What was
// judged before may still be pushed onto our own expired lease, if HEAD is it.
func deadlineRule(f Facts) []Violation {
	if f.Run.Overdue && f.Run.Phase != PhaseJudged {
		return one(CodeLeaseLost, f.Run.RunID, "The lease could not be renewed in time.")
	}
	return nil
}

// approvedRule holds until the result is in: an edit after that is noted, and
// the result delivered.
func approvedRule(f Facts) []Violation {
	if f.Current == f.Approved || f.Run.Phase == PhaseChecked || f.Run.Phase == PhaseJudged {
		return nil
	}
	return one(CodeInstructionChanged, "", "Approved was %s, the issue now has %s.", f.Approved, f.Current)
}

// decideRun decides for the run that this process holds.
func decideRun(f Facts) Decision {
	why := evaluate("run", rulesOf(f), f)
	d := Decision{
		Verdict: Allow, Standing: StandRunning, Action: ActionNone, State: TaskClaimed, Reasons: why,
		Attempt: f.Run.Attempt, Interruptions: f.Head.Interruptions,
	}
	if h := halting(f.Policy); len(h) > 0 {
		d.Verdict, d.Standing, d.Violations = Halt, StandHalted, h
		return d
	}
	if vs := why.of(ruleKernel); len(vs) > 0 {
		d.Standing, d.Action, d.Violations = StandHalted, ActionAbandon, vs
		return d
	}
	if vs := append(why.of(ruleOwner), why.of(ruleDeadline)...); len(vs) > 0 {
		d.Standing, d.Action, d.Violations = StandAbandoned, ActionAbandon, vs
		d.Interruptions = f.Head.Interruptions
		return d
	}
	switch f.Request {
	case RequestStop:
		return waitFor(d, WaitApproval, one(CodeTaskStopped, "", "Stopped by %s.", f.Actor))
	case RequestShutdown, RequestHalt, RequestGiveBack:
		if f.Head.AwaitsRule() { // no lease is held
			d.Standing, d.Action = StandAbandoned, ActionAbandon
			return d
		}
	}
	switch f.Request {
	case RequestShutdown:
		return release(d, f, one(CodeTaskInterrupted, f.Run.RunID, "The runner shuts down."))
	case RequestGiveBack:
		return release(d, f, one(CodeForgeUnreachable, f.Run.RunID, "The forge won't say before the lease ends whether the builder may start."))
	case RequestHalt: // a person's act is no interruption
		d.Standing, d.Action, d.State, d.Violations = StandActing, ActionRelease, TaskOpen, f.haltedBy()
		return d
	}
	if f.Head.AwaitsRule() && f.Head.Reapproved {
		d.Standing, d.Action = StandAbandoned, ActionAbandon // a person began the task anew
		return d
	}
	if vs := joinViolations(why, rulePerson, ruleApproved, ruleStanding); len(vs) > 0 {
		if f.Run.Phase == PhaseClaimed && len(why.of(ruleApproved)) > 0 {
			d.Codes = []Code{CodeDispatchInvalid} // what would be handed out is no approved text any more
		}
		return waitFor(d, WaitApproval, vs)
	}
	if f.Run.RenewDue && !nearResult(f) {
		d.Standing, d.Action = StandActing, ActionHeartbeat
		return d
	}
	return decidePhase(d, f)
}

// nearResult reports whether nothing is left to be run: the next push is the
// result, and a renewal before it would only be in its way.
func nearResult(f Facts) bool {
	switch f.Run.Phase {
	case PhaseBuilt:
		return f.Checks == 0
	case PhaseChecked, PhaseJudged:
		return !f.Run.Unheard
	}
	return false
}

func decidePhase(d Decision, f Facts) Decision {
	act := func(a Action) Decision {
		d.Standing, d.Action = StandActing, a
		return d
	}
	switch f.Run.Phase {
	case PhaseClaimed:
		if vs := d.Reasons.of(ruleDispatch); len(vs) > 0 {
			d.Codes = []Code{CodeDispatchInvalid}
			return release(d, f, vs)
		}
		return act(ActionDispatch)
	case PhaseBuilt:
		vs := joinViolations(d.Reasons, ruleBuild, ruleScope, ruleMessage)
		if len(vs) > 0 {
			return failed(d, f, vs)
		}
		if f.Checks > 0 {
			return act(ActionSeal)
		}
		return completed(d, f)
	case PhaseSealed:
		if vs := d.Reasons.of(ruleDispatch); len(vs) > 0 {
			return release(d, f, vs)
		}
		if vs := joinViolations(d.Reasons, ruleBuild, ruleScope, ruleMessage); len(vs) > 0 {
			return failed(d, f, vs)
		}
		if f.Checks > 0 && !f.Run.Checked {
			return act(ActionChecks)
		}
		return completed(d, f)
	case PhaseChecked:
		if vs := joinViolations(d.Reasons, ruleBuild, ruleScope, ruleMessage, ruleChecks); len(vs) > 0 {
			return failed(d, f, vs)
		}
		return completed(d, f)
	case PhaseJudged:
		if f.Run.Judgement != nil && !f.Run.Unheard {
			return deliver(d, f)
		}
	}
	return d // building or checking, or nobody can be asked: wait
}

// deliver pushes what was judged. Where the server refuses it, the wait for a rule is
// pushed onto the same commit: a server that takes that has a rule against the work, and
// one that doesn't is unable. The work is kept and pushed again later, for rules are
// mended. So it waits where somebody made a branch in the way of the change branch.
func deliver(d Decision, f Facts) Decision {
	j := *f.Run.Judgement
	if vs := d.Reasons.of(ruleServer); len(vs) > 0 {
		if f.Run.Again == 0 {
			return waitForRule(d, vs, RetryAt(f.Now, 1, RuleLeft, RuleLeft))
		}
		d.Standing, d.WaitingFor, d.Wake, d.Violations = StandDue, WaitRule, f.Run.Again, vs
		return d
	}
	d.Standing, d.Action, d.State = StandActing, ActionResult, j.State
	d.NotBefore, d.Codes, d.WaitingFor = j.NotBefore, j.Codes, j.WaitingFor
	if !j.Accepted() {
		d.Violations = joinViolations(d.Reasons, judged...)
	}
	return d
}

// judged are the rules that a verdict on a run rests on.
var judged = []string{ruleBuild, ruleScope, ruleMessage, ruleChecks}

func joinViolations(why Reason, names ...string) []Violation {
	var out []Violation
	for _, n := range names {
		out = append(out, why.of(n)...)
	}
	return out
}

// completed is what becomes of work that is accepted. With `close_on: merged` the
// task isn't at its end with it: it waits for the merge. Work that
// changes guarded paths is delivered to nobody before a person has accepted these.
func completed(d Decision, f Facts) Decision {
	if f.Paths.Held() {
		return waitFor(d, WaitPaths, f.Paths.violations())
	}
	d.Standing, d.Action, d.State = StandActing, ActionJudge, TaskCompleted
	if f.CloseOn == CloseMerged {
		d.State, d.WaitingFor = TaskWaiting, WaitMerge
	}
	return d
}

// hostWait is how long a task is left alone whose run ended over what the host lacked,
// in milliseconds. Whether it still lacks that is looked at before the next claim.
const hostWait = 60_000

// failed is what becomes of a dispatched execution that isn't accepted. What
// isn't the builder's failure gives the lease back, and counts nothing where the host
// couldn't run it at all: its disk was full, say. Everything else counts as
// an attempt, and the last one blocks the task (seed 001, escalation), as does what no
// further attempt could do.
func failed(d Decision, f Facts, vs []Violation) Decision {
	faults := slices.DeleteFunc(slices.Clone(vs), func(v Violation) bool { return v.Code.Lacks() })
	if len(vs) > 0 && len(faults) == 0 {
		return lacking(d, f, vs)
	}
	host, counts := false, false
	for _, v := range faults {
		host = host || v.Code.Info().Counts != CountsAttempt
		counts = counts || v.Code.Info().Counts == CountsInterruption
	}
	if host {
		d = release(d, f, vs)
		if !counts {
			d.Interruptions, d.NotBefore = f.Head.Interruptions, RetryAt(f.Now, 1, hostWait, hostWait)
		}
		return d
	}
	d.Violations = vs
	d.Codes = []Code{CodeVerificationFailed}
	if len(d.Reasons.of(ruleScope)) > 0 {
		d.Codes = append(d.Codes, CodeScopeViolation)
	}
	d.Standing, d.Action, d.State = StandActing, ActionJudge, TaskRetryPending
	if f.Run.Attempt >= f.Budgets.Attempts || personsWork(vs) {
		d.State = TaskBlocked
		d.Codes = append(d.Codes, CodeEscalationBlocked)
		return d
	}
	d.NotBefore = RetryAt(f.Now, f.Run.Attempt, f.Budgets.RetryBackoffMs, f.Budgets.RetryBackoffMaxMs)
	return d
}

// personsWork reports whether a person has to do the work: dependencies that no sandbox may
// fetch for a change are as far from the next attempt, whatever it is paid.
func personsWork(vs []Violation) bool {
	return slices.ContainsFunc(vs, func(v Violation) bool { return v.Code == CodePrepareRefused })
}

// lacking is what becomes of work whose checks fail for what the base's checks lack as
// well: no other builder would mend that. The work waits, sealed, until somebody does. A
// run that started a builder counts as an interruption, so that a base which keeps moving
// or a contract which keeps changing doesn't pay builders without end.
func lacking(d Decision, f Facts, vs []Violation) Decision {
	d = waitFor(d, WaitEnvironment, vs)
	if f.Run.Resumes == "" {
		d.Interruptions = f.Head.Interruptions + 1
		d.NotBefore = interruptedUntil(f.Budgets, d.Interruptions, f.Now)
	}
	return d
}

// haltedBy says who halted the task whose lease is given back.
func (f Facts) haltedBy() []Violation {
	return one(CodeTaskHalted, f.Head.RunID, "Halted by %s.", f.Actor)
}

// release gives a live lease back as stalled. It counts as an interruption;
// when those are spent, the next decision blocks the task.
func release(d Decision, f Facts, vs []Violation) Decision {
	d.Standing, d.Action, d.State, d.Violations = StandActing, ActionRelease, TaskOpen, vs
	d.Interruptions = f.Head.Interruptions + 1
	d.NotBefore = interruptedUntil(f.Budgets, d.Interruptions, f.Now)
	return d
}

// RuleLeft is how long, in milliseconds, a wait for a rule is left to the instance that
// has the work. It pushes the wait again before that; afterwards anybody moves the task
// on.
const RuleLeft = 3_600_000

// waitForRule is the small commit that shows whether the server takes anything at all:
// nothing is in it but the wait, and its tree is HEAD's.
func waitForRule(d Decision, vs []Violation, until int64) Decision {
	d = waitFor(d, WaitRule, vs)
	d.NotBefore = until
	return d
}

func waitFor(d Decision, what string, vs []Violation) Decision {
	d.Standing, d.Action, d.State, d.WaitingFor, d.Violations = StandActing, ActionWait, TaskWaiting, what, vs
	return d
}
