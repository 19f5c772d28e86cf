package kernel

// Rules of a task without a live run of ours, in their fixed order.
const (
	ruleKernel      = "kernel"      // this task's kernel may act
	ruleTarget      = "target"      // the number belongs to this issue
	ruleEvent       = "event"       // HEAD is a state event
	ruleTrust       = "trust"       // whose word HEAD is
	ruleLease       = "lease"       // nobody else holds it
	ruleConsent     = "consent"     // the text is the approved one
	ruleInput       = "input"       // structure and wording
	rulePolicy      = "policy"      // authority, contract, caps, mechanisms
	ruleEnvironment = "environment" // what a run needs is there
	ruleAttempts    = "attempts"    // the budget of attempts
	ruleInterrupted = "interruptions"
)

var headRules = []rule{
	{ruleKernel, kernelRule},
	{ruleTarget, targetRule},
	{ruleEvent, eventRule},
	{ruleTrust, trustRule},
	{ruleLease, leaseRule},
	{ruleConsent, consentRule},
	{ruleInput, func(f Facts) []Violation { return f.Input }},
	{rulePolicy, func(f Facts) []Violation { return f.Policy }},
	{ruleEnvironment, func(f Facts) []Violation { return f.Environment }},
	{ruleAttempts, attemptsRule},
	{ruleInterrupted, interruptionsRule},
}

func kernelRule(f Facts) []Violation {
	if f.View.Halted {
		return one(CodeTaskHalted, "", "Halted: %s", f.View.HaltReason)
	}
	return nil
}

func targetRule(f Facts) []Violation {
	v := f.View
	if v.AcceptedRun != "" && v.AcceptedApproval == f.Approved && f.Head.State != string(TaskCompleted) && WantsClaim(f) && !f.resumed() {
		return one(CodeTaskNumberTaken, v.AcceptedRun, "The result of run %s was accepted for this very text, and HEAD doesn't show it any more.", v.AcceptedRun)
	}
	if f.Head.OID == "" || f.Head.Approval == "" || f.SameIssue || f.Head.Approval == f.Approved {
		return nil
	}
	return one(CodeTaskNumberTaken, "", "HEAD of task %d carries the digest %s, this issue has %s.", f.Task, f.Head.Approval, f.Approved)
}

func eventRule(f Facts) []Violation {
	if f.Head.OID == "" || f.Head.OID == f.View.ResumedHead {
		return nil
	}
	if f.Head.State == "" {
		return one(CodeLockViolation, f.Head.OID, "HEAD of the state ref is no state event: %s", f.Head.Fault)
	}
	if _, ok := TaskStateOf(f.Head.State); !ok {
		return one(CodeLockViolation, f.Head.OID, "HEAD of the state ref has a state that no task has.")
	}
	return nil
}

// trustRule: a lease is a lock whoever wrote it, and a stalled commit only
// breaks one; everything else at HEAD is a result or approval.
func trustRule(f Facts) []Violation {
	h := f.Head
	switch {
	case h.OID != f.View.ResumedHead && h.State == HeadWorking && h.Over != "" && !h.Trust.Trusted():
		return one(CodeLeaseUntrusted, h.OID, "An unlisted writer laid a lease over %s.", h.Over)
	case h.OID == "", h.OID == f.View.ResumedHead, h.State == "", h.State == HeadWorking, h.State == HeadStalled, h.Trust.Trusted():
		return nil
	case h.Signer == "":
		return one(CodeLeaseUntrusted, h.OID, "HEAD says %s without a good signature.", h.State)
	}
	return one(CodeLeaseUntrusted, h.OID, "HEAD says %s, signed by %s, which isn't listed.", h.State, h.Signer)
}

func leaseRule(f Facts) []Violation {
	h := f.Head
	if h.State != HeadWorking || h.LeaseExpired {
		return nil
	}
	return one(CodeLeaseHeld, h.RunID, "Held by %s: %s", h.RunnerID, h.LeaseReason)
}

func consentRule(f Facts) []Violation {
	if f.Current == f.Approved {
		return nil
	}
	return one(CodeInstructionChanged, "", "Approved was %s, the issue now has %s.", f.Approved, f.Current)
}

func attemptsRule(f Facts) []Violation {
	if f.Head.State == string(TaskRetryPending) && !f.resumed() && f.Head.Attempt >= f.Budgets.Attempts {
		return one(CodeEscalationBlocked, "attempts", "%d of %d attempts are spent.", f.Head.Attempt, f.Budgets.Attempts)
	}
	return nil
}

func interruptionsRule(f Facts) []Violation {
	if f.Head.State == HeadStalled && !f.resumed() && f.Head.Interruptions > f.Budgets.Interruptions {
		return []Violation{
			{CodeEscalationBlocked, "interruptions", "The task is blocked."},
			one(CodeInterruptionsSpent, "interruptions", "%d interruptions, %d are allowed.", f.Head.Interruptions, f.Budgets.Interruptions)[0],
		}
	}
	return nil
}

// NeedsRepair reports whether HEAD is somebody else's commit that only a person
// moves on from.
func NeedsRepair(f Facts) bool { return len(eventRule(f))+len(trustRule(f)) > 0 }

// resumed reports whether a person moved on from this very HEAD or approved
// the issue anew while it stood there: its counts and its writer's trust then
// no longer bind.
func (f Facts) resumed() bool {
	if f.Head.OID == "" || f.Head.State == string(TaskCompleted) && f.Head.Trust.Trusted() && !f.Undone {
		return false // what is completed is not done again
	}
	return f.Head.OID == f.View.ResumedHead || f.Head.Reapproved
}

// WantsClaim reports whether HEAD, taken alone, leaves room for a claim: only
// then the environment and the input matter.
func WantsClaim(f Facts) bool {
	if f.resumed() {
		return true
	}
	switch f.Head.State {
	case string(TaskCompleted), string(TaskBlocked), string(TaskWaiting):
		return false
	case HeadWorking:
		return f.Head.LeaseExpired
	}
	return f.Head.OID == "" || f.Head.State != ""
}

// decideHead decides from HEAD when this process holds no run.
func decideHead(f Facts) Decision {
	why := evaluate("task", headRules, f)
	d := Decision{Verdict: Allow, Action: ActionNone, Reasons: why, Attempt: f.Head.Attempt, Interruptions: f.Head.Interruptions}
	d.State, _ = TaskStateOf(f.Head.State)
	deny := func(s Standing, vs []Violation) Decision {
		d.Verdict, d.Standing, d.Violations = Deny, s, vs
		return d
	}
	if h := halting(why.all()); len(h) > 0 {
		d.Verdict, d.Standing, d.Violations = Halt, StandHalted, why.all()
		return d
	}
	if vs := why.of(ruleKernel); len(vs) > 0 {
		return deny(StandHalted, vs)
	}
	if vs := why.of(ruleTarget); len(vs) > 0 {
		return deny(StandRefused, vs)
	}
	if vs := append(why.of(ruleEvent), why.of(ruleTrust)...); len(vs) > 0 {
		d.WaitingFor = WaitRepair
		return deny(StandWaiting, vs)
	}
	if vs := why.of(ruleLease); len(vs) > 0 {
		d.Wake = f.Head.LeaseUntil
		return deny(StandHeld, vs)
	}
	if ended, ok := standsStill(f, d); ok {
		return ended
	}
	switch f.Request {
	case RequestShutdown, RequestHalt, RequestGiveBack:
		d.Standing = StandAbandoned
		return d
	case RequestStop:
		return stopped(f, d)
	case RequestLook:
		d.Standing, d.Wake = StandDue, f.Head.NotBefore
		return d
	}
	if vs := joinViolations(why, ruleConsent, ruleInput, rulePolicy, ruleEnvironment); len(vs) > 0 {
		return deny(StandRefused, vs)
	}
	return moveOn(f, d)
}

// stopped hands a task that nobody works on to the person who stopped it. A
// dead lease is broken first, and a task that has no ref needs no word.
func stopped(f Facts, d Decision) Decision {
	if f.Head.OID == "" || f.Head.State == HeadWorking {
		d.Standing, d.WaitingFor = StandWaiting, WaitApproval
		d.Violations = one(CodeTaskStopped, "", "Stopped by %s.", f.Actor)
		return d
	}
	return waitFor(d, WaitApproval, one(CodeTaskStopped, "", "Stopped by %s.", f.Actor))
}

// standsStill answers for a HEAD that nobody needs to execute now.
func standsStill(f Facts, d Decision) (Decision, bool) {
	if f.resumed() {
		return d, false
	}
	switch TaskState(f.Head.State) {
	case TaskCompleted, TaskBlocked:
		d.Standing, d.WaitingFor = StandFinal, f.Head.WaitingFor
		return d, true
	case TaskWaiting:
		d.Standing, d.WaitingFor = StandWaiting, f.Head.WaitingFor
		return d, true
	}
	return d, false
}

// moveOn is reached when every rule but the budgets holds: break a dead lease,
// block, wait for the due time, or claim.
func moveOn(f Facts, d Decision) Decision {
	act := func(a Action, s TaskState) Decision {
		d.Standing, d.Action, d.State = StandActing, a, s
		return d
	}
	h := f.Head
	if h.State == HeadWorking {
		d.Interruptions = h.Interruptions + 1
		d.NotBefore = interruptedUntil(f.Budgets, d.Interruptions, f.Now)
		return act(ActionTakeOver, TaskOpen)
	}
	if spent := append(d.Reasons.of(ruleAttempts), d.Reasons.of(ruleInterrupted)...); len(spent) > 0 {
		d.Violations = spent
		return act(ActionResult, TaskBlocked)
	}
	if h.NotBefore > f.Now && !f.resumed() {
		d.Standing, d.Wake = StandDue, h.NotBefore
		return d
	}
	switch {
	case f.resumed(), h.OID == "", h.Approval != f.Approved:
		d.Attempt, d.Interruptions = 1, 0
		if h.OID != "" && h.State == string(TaskWaiting) && h.Approval == f.Approved {
			// Waiting is no end: what was counted before it stays counted.
			d.Attempt, d.Interruptions = max(h.Attempt, 1), h.Interruptions
		}
	case h.State == string(TaskRetryPending):
		d.Attempt = h.Attempt + 1
	default:
		d.Attempt = max(h.Attempt, 1)
	}
	return act(ActionClaim, TaskClaimed)
}

// interruptedUntil is the back-off after the n-th interruption: none after the
// first (0), then growing like that of retries.
func interruptedUntil(b Budgets, n, now int64) int64 {
	if n <= 1 {
		return 0
	}
	return RetryAt(now, n-1, b.RetryBackoffMs, b.RetryBackoffMaxMs)
}
