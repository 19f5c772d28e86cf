package kernel

import (
	"cmp"
	"slices"
)

// Rules of a task without a live run of ours, in their fixed order.
const (
	ruleKernel      = "kernel"      // this task's kernel may act
	ruleTarget      = "target"      // the number belongs to this issue
	ruleBinding     = "binding"     // HEAD is this task's
	ruleEvent       = "event"       // HEAD is a state event
	ruleTrust       = "trust"       // whose word HEAD is
	ruleHistory     = "history"     // HEAD comes after what was seen before
	ruleDelivered   = "delivered"   // what HEAD accepted is there
	ruleReplaced    = "replaced"    // what a lease is to replace can be put back
	ruleLease       = "lease"       // nobody else holds it
	ruleConsent     = "consent"     // the text is the approved one
	ruleInput       = "input"       // structure and wording
	rulePolicy      = "policy"      // authority, contract, caps, mechanisms
	ruleEnvironment = "environment" // what a run needs is there
	ruleBudget      = "budget"      // what an attempt may use is left
	ruleAttempts    = "attempts"    // the budget of attempts
	ruleInterrupted = "interruptions"
)

var headRules = []rule{
	{ruleKernel, kernelRule},
	{ruleTarget, targetRule},
	{ruleBinding, bindingRule},
	{ruleEvent, eventRule},
	{ruleTrust, trustRule},
	{ruleHistory, historyRule},
	{ruleLease, leaseRule},
	{ruleConsent, consentRule},
	{ruleInput, func(f Facts) []Violation { return f.Input }},
	{rulePolicy, func(f Facts) []Violation { return f.Policy }},
	{ruleEnvironment, func(f Facts) []Violation { return f.Environment }},
	{ruleAttempts, attemptsRule},
	{ruleInterrupted, interruptionsRule},
}

// headRulesOf are the rules of a task without a run. Facts without a missing branch or
// result, or without budgets, are judged by the same rules as ever, so that their decisions replay byte for byte.
func headRulesOf(f Facts) []rule {
	rules := headRules[:len(headRules):len(headRules)]
	if f.Missing != nil {
		rules = append(rules, rule{ruleDelivered, deliveredRule})
	}
	if f.Budget != nil {
		rules = append(rules, rule{ruleBudget, budgetRule})
	}
	if f.Head.Unrestorable != nil {
		rules = append(rules, rule{ruleReplaced, replacedRule})
	}
	return rules
}

func kernelRule(f Facts) []Violation {
	if f.View.Halted {
		return one(CodeTaskHalted, "", "Halted: %s", f.View.HaltReason)
	}
	return nil
}

func targetRule(f Facts) []Violation {
	v := f.View
	if len(historyRule(f))+len(bindingRule(f))+len(trustRule(f))+len(replacedRule(f)) > 0 {
		return nil // it is no other issue that took the number: HEAD isn't this task's state
	}
	if v.AcceptedRun != "" && v.AcceptedApproval == f.Approved && f.Head.State != string(TaskCompleted) && !f.Head.Lost && WantsClaim(f) && !f.BeginsAnew() && !f.movedOn() && !f.wantsRefresh() && !f.wantsFix() && !f.replacing() {
		return one(CodeTaskNumberTaken, v.AcceptedRun, "The result of run %s was accepted for this very text, and HEAD doesn't show it any more.", v.AcceptedRun)
	}
	if f.Head.OID == "" || f.Head.Approval == "" || f.SameIssue || f.Head.Approval == f.Approved {
		return nil
	}
	return one(CodeTaskNumberTaken, "", "HEAD of task %d carries the digest %s, this issue has %s.", f.Task, f.Head.Approval, f.Approved)
}

// AbsentHead stands for a ref that doesn't exist where a person moves on from that.
const AbsentHead = "0000000000000000000000000000000000000000"

// movedOn reports whether a person looked at HEAD as it is and said to go on.
func (f Facts) movedOn() bool {
	return f.View.ResumedHead != "" && f.View.ResumedHead == cmp.Or(f.Head.OID, AbsentHead)
}

// young reports whether nothing of the task is known: nothing was seen of it, no act
// names a state of it, and the issue tells of no run.
func (f Facts) young() bool { return f.View.Seen == "" && !f.Told && f.Head.Witnessed == nil }

// blank reports whether the task has no state: no ref, or a commit that came with a
// fork, an import or a copy, which is only a parent.
func (f Facts) blank() bool { return f.Head.OID == "" || f.Head.Foreign() && f.young() }

// Repairs reports whether a person moved on from a HEAD that needs repair.
func (f Facts) Repairs() bool {
	if !f.movedOn() {
		return false
	}
	f.View.ResumedHead = ""
	return NeedsRepair(f)
}

// bindingRule: a commit that names another place is not this task's state, whoever
// signed it. On a task of which nothing is known it is left below, and nothing is
// read from it.
func bindingRule(f Facts) []Violation {
	h := f.Head
	if !h.Foreign() || f.movedOn() || f.young() || h.Witnessed != nil {
		return nil
	}
	return []Violation{
		one(CodeLeaseUntrusted, h.OID, "HEAD is no state of this task.")[0],
		one(CodeStateForeign, h.OID, "HEAD was made for %s.", h.Named)[0],
	}
}

func eventRule(f Facts) []Violation {
	if f.Head.OID == "" || f.Head.Foreign() || f.movedOn() {
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

// unlistedLock reports whether HEAD is a lease of an unlisted writer, or the end of
// one: a lock, and nothing else. What the task's state is, the commit seen last says.
func (h HeadFacts) unlistedLock() bool {
	return !h.Trusted() && !h.Foreign() && (h.State == HeadWorking || h.State == HeadStalled)
}

// HeldByStranger reports whether HEAD is the live lease of an unlisted writer.
func (h HeadFacts) HeldByStranger() bool {
	return h.unlistedLock() && h.State == HeadWorking && !h.LeaseExpired
}

// UnlistedLock reports whether HEAD only locks the task: see [HeadFacts.Over].
func (h HeadFacts) UnlistedLock() bool { return h.unlistedLock() }

// trustRule: a lease is a lock whoever wrote it; everything else at HEAD is a
// result or approval.
func trustRule(f Facts) []Violation {
	h := f.Head
	switch {
	case h.OID == "", h.State == "", h.Foreign(), h.Trusted(), f.movedOn():
		return nil
	case h.unlistedLock() && h.Over != "":
		return one(CodeLeaseUntrusted, h.OID, "An unlisted writer laid a lease over %s.", h.Over)
	case h.unlistedLock():
		return nil
	case h.Signer == "":
		return one(CodeLeaseUntrusted, h.OID, "HEAD says %s without a good signature.", h.State)
	case h.Trust.Trusted():
		return one(CodeLeaseUntrusted, h.OID, "HEAD says %s, and doesn't say of which task.", h.State)
	}
	return one(CodeLeaseUntrusted, h.OID, "HEAD says %s, signed by %s, which isn't listed.", h.State, h.Signer)
}

// historyRule: nobody sets a task back, or removes its state, without a person who
// looks at it. History isn't scanned; see [TaskView.Follows].
func historyRule(f Facts) []Violation {
	h, v := f.Head, f.View
	switch w := h.Witnessed; {
	case f.movedOn():
		return nil
	case w != nil && !h.HeldByStranger():
		return one(CodeStateRollback, h.OID, "An act on the ref of the world's acts names %s, number %d, and the state ref lacks that.", w.OID, w.Seq)
	case f.blank() && f.young(), h.Foreign():
		return nil
	case h.OID == "" && v.Seen != "":
		return one(CodeStateRollback, "", "The state ref is gone. Seen last was %s, number %d.", v.Seen, v.SeenSeq)
	case h.OID == "":
		return one(CodeStateRollback, "", "There is no state ref, and the issue tells of a run.")
	case h.State == "":
		return nil // no event: that is what is wrong
	case h.unlistedLock():
		return lockRule(f)
	case h.Trusted() && h.Told > 0:
		return one(CodeStateRollback, h.OID, "HEAD has the number %d, and the issue tells of number %d.", h.Seq, h.Told)
	case h.Trusted() && h.Behind && v.Seen == "":
		if h.State == HeadWorking && !h.LeaseExpired {
			return nil // somebody works on it, and the issue may lag
		}
		return one(CodeStateRollback, h.OID, "HEAD has the number %d, and doesn't have the run that the issue tells of.", h.Seq)
	case h.Trusted() && !v.Follows(h):
		return one(CodeStateRollback, h.OID, "HEAD has the number %d. Seen last was %s, number %d.", h.Seq, v.Seen, v.SeenSeq)
	}
	return nil
}

// lockRule: above an unlisted lease that has ended, the task's state is that of the
// commit seen last, on which it must stand.
func lockRule(f Facts) []Violation {
	h, v := f.Head, f.View
	switch {
	case h.State == HeadWorking && !h.LeaseExpired, h.Parent != "" && (h.Parent == v.Seen || h.Parent == v.Unshown):
		return nil
	case v.Seen == "":
		return one(CodeLeaseUntrusted, h.OID, "An unlisted writer had the task before anything of it was seen.")
	}
	return one(CodeStateRollback, h.OID, "An unlisted writer laid a lease over another commit than the one seen last, %s, number %d.", v.Seen, v.SeenSeq)
}

// deliveredRule: an accepted result whose commit no branch holds, and that nobody can
// push any more, is no result. Until it is due, who made it may still push it.
func deliveredRule(f Facts) []Violation {
	if m := f.Missing; m != nil && f.Now >= m.Due && !f.movedOn() {
		return m.Faults
	}
	return nil
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
	if f.Head.State == string(TaskRetryPending) && !f.BeginsAnew() && f.Head.Attempt >= f.Budgets.Attempts {
		return one(CodeEscalationBlocked, "attempts", "%d of %d attempts are spent.", f.Head.Attempt, f.Budgets.Attempts)
	}
	return nil
}

func interruptionsRule(f Facts) []Violation {
	n := f.interruptions()
	if (f.Head.State == HeadStalled || f.Head.Kept || f.equipped()) && !f.BeginsAnew() && n > f.Budgets.Interruptions {
		return []Violation{
			{CodeEscalationBlocked, "interruptions", "The task is blocked."},
			one(CodeInterruptionsSpent, "interruptions", "%d interruptions, %d are allowed.", n, f.Budgets.Interruptions)[0],
		}
	}
	return nil
}

// interruptions is how often the task was interrupted.
func (f Facts) interruptions() int64 {
	if f.workLeft() {
		return f.Head.Interruptions + 1
	}
	return f.Head.Interruptions
}

// workLeft reports whether the work that waits for a rule is left: who had it didn't push the
// wait again, or is this instance, which is asked for it and can't go on with it.
func (f Facts) workLeft() bool {
	h := f.Head
	return h.Kept && !f.ownWork() && (h.NotBefore <= f.Now || (h.Urged || f.movedOn()) && h.Predecessor)
}

// repairRules are those of a HEAD that only a person moves on from: somebody else's
// commit, or a state that was set back or removed. The more telling ones are last.
var repairRules = []rule{
	{ruleBinding, bindingRule},
	{ruleEvent, eventRule},
	{ruleTrust, trustRule},
	{ruleHistory, historyRule},
	{ruleDelivered, deliveredRule},
	{ruleReplaced, replacedRule},
}

// HeadFaults are why only a person moves on from HEAD, the more telling ones last.
func HeadFaults(f Facts) (out []Violation) {
	for _, r := range repairRules {
		out = append(out, r.eval(f)...)
	}
	return out
}

// repairs are what the rules found of which only a person moves on.
func repairs(why Reason) (out []Violation) {
	for _, r := range repairRules {
		out = append(out, why.of(r.name)...)
	}
	return out
}

// NeedsRepair reports whether only a person moves on from HEAD.
func NeedsRepair(f Facts) bool { return len(HeadFaults(f)) > 0 }

// BeginsAnew reports whether a person begins the task anew: he approved the issue while
// this very HEAD stood there, or moved on from it where nothing goes on from it by itself.
// Its counts and its writer's trust then no longer bind. Who takes back a halt begins
// nothing anew: what goes on by itself goes on as it was.
func (f Facts) BeginsAnew() bool {
	h := f.Head
	if f.Delivered() && !f.Undone {
		return false // what is delivered is not done again
	}
	ended := h.State == string(TaskBlocked) || h.State == string(TaskWaiting) && !h.WaitsWithWork() && !f.AwaitsMerge()
	return h.OID != "" && h.Reapproved || f.movedOn() && ended || f.Repairs()
}

// WantsClaim reports whether HEAD, taken alone, leaves room for a claim: only
// then the environment and the input matter.
func WantsClaim(f Facts) bool {
	if f.BeginsAnew() || f.wantsRefresh() || f.wantsFix() {
		return true
	}
	switch f.Head.State {
	case string(TaskWaiting):
		return f.Head.AwaitsRule() || f.comeTrue()
	case string(TaskCompleted), string(TaskBlocked):
		return false
	case HeadWorking:
		return f.Head.LeaseExpired
	}
	return f.blank() || f.Head.State != ""
}

// decideHead decides from HEAD when this process holds no run.
func decideHead(f Facts) Decision {
	why := evaluate("task", headRulesOf(f), f)
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
		if f.Request == RequestHalt && f.haltedLease() && !f.Head.Lost && len(why.of(ruleTarget))+len(why.of(ruleLease))+len(repairs(why)) == 0 {
			return moveOn(f, d) // it is given back
		}
		return deny(StandHalted, vs)
	}
	if vs := why.of(ruleTarget); len(vs) > 0 {
		return deny(StandRefused, vs)
	}
	if vs := repairs(why); len(vs) > 0 {
		d.WaitingFor = WaitRepair
		return deny(StandWaiting, vs)
	}
	if vs := why.of(ruleLease); len(vs) > 0 {
		d.Wake = f.Head.LeaseUntil
		return deny(StandHeld, vs)
	}
	if o := f.Head.Owed; o != nil && !f.BeginsAnew() {
		d.Standing, d.WaitingFor, d.Wake, d.Violations = StandDue, WaitRule, o.Due, o.Refused
		return d
	}
	if f.Missing != nil && !f.BeginsAnew() {
		return redeliver(f, d)
	}
	if takesBack(f) {
		return waitFor(d, WaitApproval, f.Human)
	}
	if begun, ok := replaces(f, d); ok {
		return begun
	}
	if ended, ok := standsStill(f, d); ok {
		ended.Wake = max(ended.Wake, f.replaceWake())
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
	if vs := joinViolations(why, ruleConsent, ruleInput, rulePolicy, ruleEnvironment, ruleBudget); len(vs) > 0 && !givesBack(f) {
		return unpaid(f, deny(StandRefused, vs))
	}
	return moveOn(f, d)
}

// givesBack reports whether a dead lease is broken though nothing may be claimed: the
// issue would say for good that the task is worked on. An instance that only observes,
// or that the contract doesn't list, breaks no lease but its own.
func givesBack(f Facts) bool {
	if f.Head.State != HeadWorking || f.Head.Trust == TrustOwn {
		return f.Head.State == HeadWorking
	}
	return f.Head.Trusted() && !slices.ContainsFunc(f.Policy, onlyObserves)
}

// onlyObserves reports whether a violation says that this instance only observes, or that
// the contract lists runners and not this one.
func onlyObserves(v Violation) bool {
	return v.Code == CodeObserveOnly || v.Code == CodeAuthority && v.Subject == "runners"
}

// takesBack reports whether a person took back what the task would go on by, and HEAD
// doesn't say so yet: whoever looks first writes it there, so that no reopening and no
// installation that never saw the act goes on by what was approved before it. Where
// there is no state, or one that only an approval moves on from, that is written where an
// approval was taken back that HEAD doesn't rest on. Of a task without state it is written
// for a stop, which may be edited or deleted, or its author be nobody any more, and where
// a claim may still be on its way, which then comes too late: of labels and closings the
// forge's own history tells everybody.
func takesBack(f Facts) bool {
	if f.Request != RequestTick || len(f.Human) == 0 || f.Delivered() || !mayWrite(f) {
		return false
	}
	h, unspent := f.Head, f.TakenBack != "" && f.Spent() != f.Head.Act && NewerAct(f.TakenBack, f.Head.Act)
	switch {
	case f.blank():
		return unspent && (f.StopSeen() != "" || f.OnItsWay)
	case h.State == string(TaskWaiting) && !h.WaitsWithWork(), h.State == string(TaskBlocked), h.State == string(TaskCompleted):
		return unspent
	}
	return true
}

// mayWrite reports whether this instance moves a state ref whose task nobody holds: it
// neither only observes, nor is left out of the contract's runners, and the target is
// still the one that it governs.
func mayWrite(f Facts) bool {
	return !slices.ContainsFunc(f.Policy, func(v Violation) bool {
		return onlyObserves(v) || v.Code == CodeTargetIneligible || v.Code == CodeTargetNotAllowed
	})
}

// stopped hands a task that nobody works on to the person who stopped it, be it over a
// dead lease of our own: a person's act is no interruption. Another's lease isn't ours to
// stop, and a task that has no ref needs a word only where it was approved.
func stopped(f Facts, d Decision) Decision {
	vs := one(CodeTaskStopped, "", "Stopped by %s.", f.Actor)
	h := f.Head
	if f.blank() && (f.Act == "" || len(f.Policy) > 0) || h.State == HeadWorking && !(h.Trust == TrustOwn && h.Trusted()) {
		d.Standing, d.WaitingFor, d.Violations = StandWaiting, WaitApproval, vs
		return d
	}
	return waitFor(d, WaitApproval, vs)
}

// standsStill answers for a HEAD that nobody needs to execute now.
func standsStill(f Facts, d Decision) (Decision, bool) {
	if f.BeginsAnew() {
		return d, false
	}
	switch TaskState(f.Head.State) {
	case TaskCompleted, TaskBlocked:
		d.Standing, d.WaitingFor = StandFinal, f.Head.WaitingFor
		return d, true
	case TaskWaiting:
		if f.Head.AwaitsRule() {
			return d, false // rules are mended
		}
		if f.comeTrue() || f.Head.AwaitsSealed() && f.Request == RequestStop {
			return d, false
		}
		if f.Head.AwaitsPaths() {
			d.Violations = f.whyUndelivered()
		}
		d.Standing, d.WaitingFor = StandWaiting, f.Head.WaitingFor
		return d, true
	}
	return d, false
}

// whyUndelivered is why work that waits for its guarded paths isn't delivered: what is waited for,
// and what keeps it from being gone on with once that is accepted.
func (f Facts) whyUndelivered() []Violation {
	var out []Violation
	if f.Paths.Held() {
		out = f.Paths.violations()
	}
	if f.Sealed != nil {
		out = append(out, f.Sealed.Faults...)
	}
	return append(out, consentRule(f)...)
}

// redeliver pushes the change branch of the accepted result at HEAD, which moves the task
// no further. A rule of the server's own that refuses it is waited for.
func redeliver(f Facts, d Decision) Decision {
	m := f.Missing
	if f.Now < m.Due || f.Request != RequestTick {
		d.Standing, d.Wake = StandDue, m.Due
		if d.Violations = m.Refused; len(m.Refused) > 0 {
			d.WaitingFor = WaitRule
		}
		return d
	}
	d.Standing, d.Action, d.WaitingFor = StandActing, ActionRedeliver, f.Head.WaitingFor
	return d
}

// moveOn is reached when every rule but the budgets holds: break a dead lease,
// block, wait for the due time, or claim.
func moveOn(f Facts, d Decision) Decision {
	act := func(a Action, s TaskState) Decision {
		d.Standing, d.Action, d.State = StandActing, a, s
		return d
	}
	h := f.Head
	if h.State == HeadWorking && f.Request == RequestHalt {
		d.Violations = f.haltedBy()
		return act(ActionTakeOver, TaskOpen)
	}
	if h.State == HeadWorking && h.Unrestorable == nil { // otherwise a person moved on from it
		if h.Unrenewed {
			return act(ActionTakeOver, TaskOpen)
		}
		d.Interruptions = h.Interruptions + 1
		d.NotBefore = interruptedUntil(f.Budgets, d.Interruptions, f.Now)
		return act(ActionTakeOver, TaskOpen)
	}
	if spent := append(d.Reasons.of(ruleAttempts), d.Reasons.of(ruleInterrupted)...); len(spent) > 0 {
		d.Violations = spent
		return act(ActionResult, TaskBlocked)
	}
	if h.NotBefore > f.Now && !hurries(f) {
		if d.Standing, d.Wake = StandDue, h.NotBefore; h.AwaitsRule() {
			d.WaitingFor = WaitRule
			d.Violations = one(CodePushRefused, h.OID, "The server refused the push by a rule of its own. The text of this commit has its words.")
		}
		return d
	}
	if f.LagUntil > f.Now && !hurries(f) {
		d.Standing, d.Wake = StandDue, f.LagUntil
		return d
	}
	switch {
	case f.BeginsAnew(), f.blank(), h.Approval != f.Approved:
		d.Attempt, d.Interruptions = 1, 0
		if h.OID != "" && h.State == string(TaskWaiting) && h.Approval == f.Approved && !f.AwaitsMerge() {
			// Waiting is no end: what was counted before it stays counted.
			d.Attempt, d.Interruptions = max(h.Attempt, 1), h.Interruptions
		}
	case h.State == string(TaskRetryPending):
		d.Attempt = max(h.Attempt, 0) + 1
	default:
		d.Attempt, d.Interruptions = max(h.Attempt, 1), f.interruptions()
		if f.Resumable() && !f.BaseMoved { // on the old base the checks lack what they lacked
			d.Resumes = f.Sealed.Run
		}
	}
	if len(f.Refused) > 0 {
		d.Resumes = ""
		return waitForRule(d, f.Refused, RetryAt(f.Now, 1, f.RuleWait, f.RuleWait))
	}
	return act(ActionClaim, TaskClaimed)
}

// hurries reports whether the task goes on before its time. Work that another instance has
// is left to it, whoever asks.
func hurries(f Facts) bool {
	return f.BeginsAnew() || f.ownWork() || f.workLeft() || f.Mended || f.movedOn() && !f.Head.Kept
}

// interruptedUntil is the back-off after the n-th interruption: none after the
// first (0), then growing like that of retries.
func interruptedUntil(b Budgets, n, now int64) int64 {
	if n <= 1 {
		return 0
	}
	return RetryAt(now, n-1, b.RetryBackoffMs, b.RetryBackoffMaxMs)
}
