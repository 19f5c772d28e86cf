package kernel

// Rules of a task whose run this process holds, in their fixed order.
const (
	ruleOwner    = "owner"    // HEAD is the commit this run left there
	ruleFence    = "fence"    // the lease can still be renewed in time
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
	{ruleFence, fenceRule},
	{rulePolicy, func(f Facts) []Violation { return halting(f.Policy) }},
	{ruleApproved, approvedRule},
	{ruleDispatch, func(f Facts) []Violation { return f.Run.Dispatch }},
	{ruleBuild, func(f Facts) []Violation { return f.Run.Build }},
	{ruleScope, func(f Facts) []Violation { return f.Run.Scope }},
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

// standingRule asks again at the last moment before the start (CASES I5, I12):
// who approved may still do so, and the target is still eligible.
func standingRule(f Facts) []Violation {
	if f.Run.Phase != PhaseClaimed {
		return nil
	}
	return f.Policy
}

// ownerRule is the fence of DESIGN §5: an output counts as ours only if HEAD is
// the very commit we left there. What else stands there is a takeover or an
// intruder; neither is fought.
func ownerRule(f Facts) []Violation {
	h := f.Head
	switch {
	case h.OID == f.Run.LeaseOID:
		return nil
	case h.OID != "" && h.State == "":
		return one(CodeLockViolation, h.OID, "Somebody pushed a commit that is no state event: %s", h.Fault)
	case h.OID == "":
		return one(CodeLeaseLost, f.Run.RunID, "The state ref was deleted.")
	}
	return one(CodeLeaseLost, f.Run.RunID, "HEAD is now %s with state %s of run %s.", h.OID, h.State, h.RunID)
}

func fenceRule(f Facts) []Violation {
	if f.Run.FenceDue {
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
	if vs := append(why.of(ruleOwner), why.of(ruleFence)...); len(vs) > 0 {
		d.Standing, d.Action, d.Violations = StandAbandoned, ActionAbandon, vs
		d.Interruptions = f.Head.Interruptions
		return d
	}
	switch f.Request {
	case RequestStop:
		return waitFor(d, WaitApproval, one(CodeTaskStopped, "", "Stopped by %s.", f.Actor))
	case RequestShutdown:
		return release(d, f, one(CodeTaskInterrupted, f.Run.RunID, "The runner shuts down."))
	case RequestGiveBack:
		return release(d, f, one(CodeForgeUnreachable, f.Run.RunID, "The forge won't say before the lease ends whether the builder may start."))
	case RequestHalt:
		return release(d, f, one(CodeTaskHalted, f.Run.RunID, "Halted by %s.", f.Actor))
	}
	if vs := joinViolations(why, rulePerson, ruleApproved, ruleStanding); len(vs) > 0 {
		return waitFor(d, WaitApproval, vs)
	}
	if f.Run.RenewDue {
		d.Standing, d.Action = StandActing, ActionHeartbeat
		return d
	}
	return decidePhase(d, f)
}

func decidePhase(d Decision, f Facts) Decision {
	act := func(a Action) Decision {
		d.Standing, d.Action = StandActing, a
		return d
	}
	switch f.Run.Phase {
	case PhaseClaimed:
		if vs := d.Reasons.of(ruleDispatch); len(vs) > 0 {
			return release(d, f, vs)
		}
		return act(ActionDispatch)
	case PhaseBuilt:
		vs := joinViolations(d.Reasons, ruleBuild, ruleScope, ruleMessage)
		if len(vs) > 0 {
			return failed(d, f, vs)
		}
		if f.Checks > 0 {
			return act(ActionChecks)
		}
		return completed(d, f)
	case PhaseChecked:
		if vs := joinViolations(d.Reasons, ruleBuild, ruleScope, ruleMessage, ruleChecks); len(vs) > 0 {
			return failed(d, f, vs)
		}
		return completed(d, f)
	case PhaseJudged:
		if f.Run.Judgement != nil {
			return deliver(d, *f.Run.Judgement)
		}
	}
	return d // building or checking: wait
}

// deliver pushes what was judged. A server that refuses the result by a rule of
// its own blocks the task with its words, for nothing is retried unchanged.
func deliver(d Decision, j Judgement) Decision {
	if vs := d.Reasons.of(ruleServer); len(vs) > 0 && j.State != TaskBlocked {
		d.Violations = append(joinViolations(d.Reasons, judged...), vs...)
		d.Codes = append(append([]Code{}, j.Codes...), CodeEscalationBlocked, CodeVerificationFailed)
		d.Standing, d.Action, d.State = StandActing, ActionJudge, TaskBlocked
		return d
	}
	d.Standing, d.Action, d.State = StandActing, ActionResult, j.State
	d.NotBefore, d.Codes, d.WaitingFor = j.NotBefore, j.Codes, j.WaitingFor
	if j.State != TaskCompleted {
		d.Violations = joinViolations(d.Reasons, append(judged, ruleServer)...)
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

// completed is what becomes of work that is accepted. It is done, and with
// `close_on: merged` the issue waits for the merge.
func completed(d Decision, f Facts) Decision {
	d.Standing, d.Action, d.State = StandActing, ActionJudge, TaskCompleted
	if f.CloseOn == CloseMerged {
		d.WaitingFor = WaitMerge
	}
	return d
}

// failed is what becomes of a dispatched execution that isn't accepted. What
// isn't the builder's failure gives the lease back; everything else counts as
// an attempt, and the last one blocks the task (seed 001, escalation).
func failed(d Decision, f Facts, vs []Violation) Decision {
	for _, v := range vs {
		if v.Code.Info().Counts != CountsAttempt {
			return release(d, f, vs)
		}
	}
	d.Violations = vs
	d.Codes = []Code{CodeVerificationFailed}
	if len(d.Reasons.of(ruleScope)) > 0 {
		d.Codes = append(d.Codes, CodeScopeViolation)
	}
	d.Standing, d.Action, d.State = StandActing, ActionJudge, TaskRetryPending
	if f.Run.Attempt >= f.Budgets.Attempts {
		d.State = TaskBlocked
		d.Codes = append(d.Codes, CodeEscalationBlocked)
		return d
	}
	d.NotBefore = RetryAt(f.Now, f.Run.Attempt, f.Budgets.RetryBackoffMs, f.Budgets.RetryBackoffMaxMs)
	return d
}

// release gives a live lease back as stalled. It counts as an interruption;
// when those are spent, the next decision blocks the task.
func release(d Decision, f Facts, vs []Violation) Decision {
	d.Standing, d.Action, d.State, d.Violations = StandActing, ActionRelease, TaskOpen, vs
	d.Interruptions = f.Head.Interruptions + 1
	d.NotBefore = interruptedUntil(f.Budgets, d.Interruptions, f.Now)
	return d
}

func waitFor(d Decision, what string, vs []Violation) Decision {
	d.Standing, d.Action, d.State, d.WaitingFor, d.Violations = StandActing, ActionWait, TaskWaiting, what, vs
	return d
}
