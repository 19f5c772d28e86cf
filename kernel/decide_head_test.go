package kernel_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// verdict is what a row of the decision's tables expects.
type verdict struct {
	verdict       kernel.Verdict
	standing      kernel.Standing
	action        kernel.Action
	state         kernel.TaskState
	waiting       string
	attempt       int64
	interruptions int64
	notBefore     int64
	wake          int64
	codes         []kernel.Code
}

func verdictOf(d kernel.Decision) verdict {
	return verdict{
		d.Verdict, d.Standing, d.Action, d.State, d.WaitingFor, d.Attempt, d.Interruptions, d.NotBefore, d.Wake, d.Codes,
	}
}

func compare(t *testing.T, d kernel.Decision, want verdict) {
	t.Helper()
	if want.codes == nil {
		want.codes = []kernel.Code{}
	}
	got := verdictOf(d)
	if got.codes == nil {
		got.codes = []kernel.Code{}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(verdict{})); diff != "" {
		t.Errorf("decision (-want +got):\n%s\nreasons: %+v", diff, d.Reasons)
	}
}

func codes(c ...kernel.Code) []kernel.Code { return c }

// acting is the verdict of an effect at a HEAD.
func acting(a kernel.Action, s kernel.TaskState, attempt, interruptions int64) verdict {
	return verdict{verdict: kernel.Allow, standing: kernel.StandActing, action: a, state: s, attempt: attempt, interruptions: interruptions}
}

// TestDecide_Head is the decision for a task without a live run of ours: one
// row for each rule and each state that HEAD can have.
func TestDecide_Head(t *testing.T) {
	claim := func(attempt, interruptions int64) verdict {
		return acting(kernel.ActionClaim, kernel.TaskClaimed, attempt, interruptions)
	}
	takeOver := func(interruptions, notBefore int64) verdict {
		v := acting(kernel.ActionTakeOver, kernel.TaskOpen, 1, interruptions)
		v.notBefore = notBefore
		return v
	}
	still := func(s kernel.Standing, state kernel.TaskState) verdict {
		return verdict{verdict: kernel.Allow, standing: s, action: kernel.ActionNone, state: state, attempt: 1}
	}
	denied := func(s kernel.Standing, state kernel.TaskState, c ...kernel.Code) verdict {
		v := still(s, state)
		v.verdict, v.codes = kernel.Deny, c
		return v
	}
	repair := func(state kernel.TaskState, c kernel.Code) verdict {
		v := denied(kernel.StandWaiting, state, c)
		v.waiting = kernel.WaitRepair
		return v
	}
	set := func(state string, change func(*kernel.Facts)) kernel.Facts { return with(at(state), change) }
	halted := func(change func(*kernel.Facts)) kernel.Facts {
		return set("working", func(f *kernel.Facts) {
			f.Request, f.View.Halted, f.Head.LeaseExpired = kernel.RequestHalt, true, true
			if change != nil {
				change(f)
			}
		})
	}
	tests := []struct {
		name  string
		facts kernel.Facts
		want  verdict
	}{
		{"no ref: claim", fresh(), claim(1, 0)},
		{"open: claim", at("open"), claim(1, 0)},
		{"open by another approval of the same issue: counts begin anew", set("open", func(f *kernel.Facts) {
			f.Head.Approval, f.SameIssue, f.Head.Attempt, f.Head.Interruptions = digest("e"), true, 3, 2
		}), claim(1, 0)},
		{"another issue's number", set("open", func(f *kernel.Facts) { f.Head.Approval = digest("e") }),
			denied(kernel.StandRefused, kernel.TaskOpen, kernel.CodeTaskNumberTaken)},
		{"halted", set("open", func(f *kernel.Facts) { f.View.Halted, f.View.HaltReason = true, "by hand" }),
			denied(kernel.StandHalted, kernel.TaskOpen, kernel.CodeTaskHalted)},
		{"halted, with the lease of our dead process: given back, which is no interruption", halted(nil), func() verdict {
			v := takeOver(0, 0)
			v.codes = codes(kernel.CodeTaskHalted)
			return v
		}()},
		{"halted, while a result on it is lost, which a resume pushes again", halted(func(f *kernel.Facts) { f.Head.Lost = true }),
			denied(kernel.StandHalted, kernel.TaskClaimed, kernel.CodeTaskHalted)},
		{"halted, and it only looks", halted(func(f *kernel.Facts) { f.Request = kernel.RequestTick }),
			denied(kernel.StandHalted, kernel.TaskClaimed, kernel.CodeTaskHalted)},
		{"halted, with somebody else's lease", halted(func(f *kernel.Facts) { f.Head.Trust = kernel.TrustListed }),
			denied(kernel.StandHalted, kernel.TaskClaimed, kernel.CodeTaskHalted)},
		{"halted, with a lease of ours that lives", halted(func(f *kernel.Facts) { f.Head.LeaseExpired = false }),
			denied(kernel.StandHalted, kernel.TaskClaimed, kernel.CodeTaskHalted)},
		{"halted, with a lease of ours that was made for another place", halted(func(f *kernel.Facts) { f.Head.Binding = kernel.BindElsewhere }),
			denied(kernel.StandHalted, kernel.TaskClaimed, kernel.CodeTaskHalted)},
		{"halted, with a lease of ours of another issue", halted(func(f *kernel.Facts) { f.Head.Approval = digest("e") }),
			denied(kernel.StandHalted, kernel.TaskClaimed, kernel.CodeTaskHalted)},

		{"no event at HEAD", set("", func(f *kernel.Facts) { f.Head.Fault = "no trailers" }), repair("", kernel.CodeLockViolation)},
		{"a state that no task has", at("deployed"), repair("", kernel.CodeLockViolation)},
		{"a person moved on from it", set("", func(f *kernel.Facts) { f.View.ResumedHead = head1 }), claim(1, 0)},
		{"a person moved on from another commit", set("", func(f *kernel.Facts) { f.View.ResumedHead = head2 }), repair("", kernel.CodeLockViolation)},

		{"result by an unlisted key", set("completed", func(f *kernel.Facts) { f.Head.Trust = kernel.TrustUnlisted }),
			repair(kernel.TaskCompleted, kernel.CodeLeaseUntrusted)},
		{"an unlisted key's word on a task that a result was accepted of, of another text", set("open", func(f *kernel.Facts) {
			f.Head.Trust, f.Head.Approval = kernel.TrustUnlisted, digest("e")
			f.View.AcceptedRun, f.View.AcceptedApproval = ourRun, digest("a")
		}), repair(kernel.TaskOpen, kernel.CodeLeaseUntrusted)},
		{"open, unsigned", set("open", func(f *kernel.Facts) { f.Head.Trust, f.Head.Signer = kernel.TrustNone, "" }),
			repair(kernel.TaskOpen, kernel.CodeLeaseUntrusted)},
		{"an unlisted stalled on the HEAD seen last", set("stalled", func(f *kernel.Facts) {
			f.Head.Trust, f.Head.Parent, f.View.Seen, f.View.SeenSeq = kernel.TrustUnlisted, head2, head2, 4
		}), claim(1, 0)},
		{"an unlisted stalled on our own push, which no look has shown", set("stalled", func(f *kernel.Facts) {
			f.Head.Trust, f.Head.Parent, f.View.Unshown = kernel.TrustUnlisted, head2, head2
		}), claim(1, 0)},
		{"an unlisted stalled, nothing seen", set("stalled", func(f *kernel.Facts) { f.Head.Trust = kernel.TrustUnlisted }),
			repair(kernel.TaskOpen, kernel.CodeLeaseUntrusted)},
		{"result by a listed key", set("completed", func(f *kernel.Facts) { f.Head.Trust = kernel.TrustListed }),
			still(kernel.StandFinal, kernel.TaskCompleted)},

		{"held", set("working", func(f *kernel.Facts) { f.Head.LeaseUntil = now + 9000 }), func() verdict {
			v := denied(kernel.StandHeld, kernel.TaskClaimed, kernel.CodeLeaseHeld)
			v.wake = now + 9000
			return v
		}()},
		{"an unlisted lease is a lock too", set("working", func(f *kernel.Facts) { f.Head.Trust = kernel.TrustNone }),
			denied(kernel.StandHeld, kernel.TaskClaimed, kernel.CodeLeaseHeld)},
		{"expired: take over, due at once", set("working", func(f *kernel.Facts) { f.Head.LeaseExpired = true }), takeOver(1, 0)},
		{"expired, and nothing may be claimed: given back", set("working", func(f *kernel.Facts) {
			f.Head.LeaseExpired, f.Policy = true, []kernel.Violation{{Code: kernel.CodeSuperseded}}
		}), takeOver(1, 0)},
		{"expired, of another instance, and nothing may be claimed: given back", set("working", func(f *kernel.Facts) {
			f.Head.LeaseExpired, f.Head.Trust, f.Policy = true, kernel.TrustListed, []kernel.Violation{{Code: kernel.CodeSuperseded}}
		}), takeOver(1, 0)},
		{"expired, of another instance, and this one observes", set("working", func(f *kernel.Facts) {
			f.Head.LeaseExpired, f.Head.Trust, f.Policy = true, kernel.TrustListed, []kernel.Violation{{Code: kernel.CodeObserveOnly}}
		}), denied(kernel.StandRefused, kernel.TaskClaimed, kernel.CodeObserveOnly)},
		{"expired, of another instance, and this one isn't listed", set("working", func(f *kernel.Facts) {
			f.Head.LeaseExpired, f.Head.Trust, f.Policy = true, kernel.TrustListed, []kernel.Violation{{Code: kernel.CodeAuthority, Subject: "runners"}}
		}), denied(kernel.StandRefused, kernel.TaskClaimed, kernel.CodeAuthority)},
		{"second interruption: back off", set("working", func(f *kernel.Facts) {
			f.Head.LeaseExpired, f.Head.Interruptions = true, 1
		}), takeOver(2, now+backoff)},

		{"stalled, due", set("stalled", func(f *kernel.Facts) { f.Head.Interruptions, f.Head.NotBefore = 2, now }), claim(1, 2)},
		{"stalled, not due", set("stalled", func(f *kernel.Facts) { f.Head.NotBefore = now + 1 }), func() verdict {
			v := still(kernel.StandDue, kernel.TaskOpen)
			v.wake = now + 1
			return v
		}()},
		{"stalled, interruptions spent", set("stalled", func(f *kernel.Facts) { f.Head.Interruptions = 3 }), func() verdict {
			v := acting(kernel.ActionResult, kernel.TaskBlocked, 1, 3)
			v.codes = codes(kernel.CodeEscalationBlocked, kernel.CodeInterruptionsSpent)
			return v
		}()},
		{"retry, due", at("retry_pending"), claim(2, 0)},
		{"retry, not due", set("retry_pending", func(f *kernel.Facts) { f.Head.NotBefore = now + backoff }), func() verdict {
			v := still(kernel.StandDue, kernel.TaskRetryPending)
			v.wake = now + backoff
			return v
		}()},
		{"retry, attempts spent", set("retry_pending", func(f *kernel.Facts) { f.Head.Attempt = 3 }), func() verdict {
			v := acting(kernel.ActionResult, kernel.TaskBlocked, 3, 0)
			v.codes = codes(kernel.CodeEscalationBlocked)
			return v
		}()},
		{"completed", at("completed"), still(kernel.StandFinal, kernel.TaskCompleted)},
		{"blocked", at("blocked"), still(kernel.StandFinal, kernel.TaskBlocked)},
		{"waiting", set("waiting", func(f *kernel.Facts) { f.Head.WaitingFor = kernel.WaitBudget }), func() verdict {
			v := still(kernel.StandWaiting, kernel.TaskWaiting)
			v.waiting = kernel.WaitBudget
			return v
		}()},
		{"waiting, approved anew: counts stay", set("waiting", func(f *kernel.Facts) {
			f.Head.WaitingFor, f.Head.Reapproved, f.Head.Attempt, f.Head.Interruptions = kernel.WaitApproval, true, 2, 1
		}), claim(2, 1)},
		{"blocked, a person moved on", set("blocked", func(f *kernel.Facts) {
			f.View.ResumedHead, f.Head.Attempt, f.Head.NotBefore = head1, 3, now+1
		}), claim(1, 0)},

		{"retry, a person moved on: it goes on before its time, and counts on", set("retry_pending", func(f *kernel.Facts) {
			f.View.ResumedHead, f.Head.NotBefore, f.Head.Interruptions = head1, now+backoff, 2
		}), claim(2, 2)},
		{"stalled, interruptions spent, a person moved on", set("stalled", func(f *kernel.Facts) {
			f.View.ResumedHead, f.Head.Interruptions = head1, 3
		}), func() verdict {
			v := acting(kernel.ActionResult, kernel.TaskBlocked, 1, 3)
			v.codes = codes(kernel.CodeEscalationBlocked, kernel.CodeInterruptionsSpent)
			return v
		}()},
		{"waiting for an approval, a person moved on: counts stay", set("waiting", func(f *kernel.Facts) {
			f.View.ResumedHead, f.Head.WaitingFor, f.Head.Attempt, f.Head.Interruptions = head1, kernel.WaitApproval, 2, 1
		}), claim(2, 1)},

		{"completed, a person moved on: it is not done again", set("completed", func(f *kernel.Facts) {
			f.View.ResumedHead, f.Head.Reapproved = head1, true
		}), still(kernel.StandFinal, kernel.TaskCompleted)},
		{"accepted here, and HEAD doesn't show it", set("open", func(f *kernel.Facts) {
			f.View.AcceptedRun, f.View.AcceptedApproval = ourRun, digest("a")
		}), denied(kernel.StandRefused, kernel.TaskOpen, kernel.CodeTaskNumberTaken)},
		{"accepted here for another text", set("open", func(f *kernel.Facts) {
			f.View.AcceptedRun, f.View.AcceptedApproval = ourRun, digest("e")
		}), claim(1, 0)},
		{"accepted here, a person moved on", set("open", func(f *kernel.Facts) {
			f.View.AcceptedRun, f.View.AcceptedApproval, f.View.ResumedHead = ourRun, digest("a"), head1
		}), claim(1, 0)},
		{"an unlisted lease laid over an end opens nothing", set("working", func(f *kernel.Facts) {
			f.Head.Trust, f.Head.Over, f.Head.LeaseExpired = kernel.TrustUnlisted, "completed", true
			f.Head.Parent, f.View.Seen, f.View.SeenSeq = head2, head2, 4
		}), repair(kernel.TaskClaimed, kernel.CodeLeaseUntrusted)},
		{"the server shows too late what is pushed", set("stalled", func(f *kernel.Facts) { f.LagUntil = now + 1 }), func() verdict {
			v := still(kernel.StandDue, kernel.TaskOpen)
			v.wake = now + 1
			return v
		}()},
		{"it showed too late, and the wait is over", set("open", func(f *kernel.Facts) { f.LagUntil = now }), claim(1, 0)},
		{"it shows too late, and a person began anew", set("open", func(f *kernel.Facts) { f.LagUntil, f.Head.Reapproved = now+1, true }), claim(1, 0)},
		{"only a look", set("retry_pending", func(f *kernel.Facts) { f.Request, f.Head.NotBefore = kernel.RequestLook, now-1 }), func() verdict {
			v := still(kernel.StandDue, kernel.TaskRetryPending)
			v.wake = now - 1
			return v
		}()},
		{"input", with(fresh(), func(f *kernel.Facts) { f.Input = breaks(kernel.CodeDispatchMalformed) }), func() verdict {
			v := denied(kernel.StandRefused, "", kernel.CodeDispatchMalformed)
			v.attempt = 0
			return v
		}()},
		{"policy", set("open", func(f *kernel.Facts) { f.Policy = breaks(kernel.CodeAuthority) }),
			denied(kernel.StandRefused, kernel.TaskOpen, kernel.CodeAuthority)},
		{"environment", set("open", func(f *kernel.Facts) { f.Environment = breaks(kernel.CodeSandboxUnavailable) }),
			denied(kernel.StandRefused, kernel.TaskOpen, kernel.CodeSandboxUnavailable)},
		{"changed after the approval", set("open", func(f *kernel.Facts) { f.Current = digest("d") }),
			denied(kernel.StandRefused, kernel.TaskOpen, kernel.CodeInstructionChanged)},
		{"an end isn't judged again", set("completed", func(f *kernel.Facts) {
			f.Input, f.Environment, f.Current = breaks(kernel.CodeDispatchMalformed), breaks(kernel.CodeSandboxUnavailable), digest("d")
		}), still(kernel.StandFinal, kernel.TaskCompleted)},
		{"the ledger can't be trusted", set("completed", func(f *kernel.Facts) { f.Policy = breaks(kernel.CodeLedgerRollback) }), func() verdict {
			v := still(kernel.StandHalted, kernel.TaskCompleted)
			v.verdict, v.codes = kernel.Halt, codes(kernel.CodeLedgerRollback)
			return v
		}()},
		{"shutdown", set("open", func(f *kernel.Facts) { f.Request = kernel.RequestShutdown }), still(kernel.StandAbandoned, kernel.TaskOpen)},
		{"given back", set("open", func(f *kernel.Facts) { f.Request = kernel.RequestGiveBack }), still(kernel.StandAbandoned, kernel.TaskOpen)},
		{"stop", set("open", func(f *kernel.Facts) { f.Request = kernel.RequestStop }), func() verdict {
			v := acting(kernel.ActionWait, kernel.TaskWaiting, 1, 0)
			v.waiting, v.codes = kernel.WaitApproval, codes(kernel.CodeTaskStopped)
			return v
		}()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { compare(t, decide(t, tt.facts), tt.want) })
	}
}

// TestDecide_HeadPrecedence takes one reason after the other away from facts
// that break everything, and sees the next one decide.
func TestDecide_HeadPrecedence(t *testing.T) {
	f := at("")
	f.View.Halted, f.View.HaltReason = true, "by hand"
	f.Policy = append(breaks(kernel.CodeLedgerFork), breaks(kernel.CodeAuthority)...)
	f.Head.Approval, f.Head.Fault, f.Head.Trust = digest("e"), "no trailers", kernel.TrustUnlisted
	f.Input, f.Environment, f.Current = breaks(kernel.CodeDispatchMalformed), breaks(kernel.CodeEnvBuilder), digest("d")
	steps := []struct {
		standing kernel.Standing
		code     kernel.Code
		mend     func()
	}{
		{kernel.StandHalted, kernel.CodeLedgerFork, func() { f.Policy = breaks(kernel.CodeAuthority) }},
		{kernel.StandHalted, kernel.CodeTaskHalted, func() { f.View.Halted = false }},
		{kernel.StandRefused, kernel.CodeTaskNumberTaken, func() { f.Head.Approval = digest("a") }},
		{kernel.StandWaiting, kernel.CodeLockViolation, func() { f.Head.State = "retry_pending" }},
		{kernel.StandWaiting, kernel.CodeLeaseUntrusted, func() { f.Head.State = "working" }},
		{kernel.StandHeld, kernel.CodeLeaseHeld, func() { f.Head.LeaseExpired = true }},
		{kernel.StandWaiting, kernel.CodeLeaseUntrusted, func() { f.View.Seen, f.Head.Parent = head2, head1 }},
		{kernel.StandWaiting, kernel.CodeStateRollback, func() { f.Head.Parent = head2 }},
		{kernel.StandRefused, kernel.CodeInstructionChanged, func() { f.Current = digest("a") }},
		{kernel.StandRefused, kernel.CodeDispatchMalformed, func() { f.Input = nil }},
		{kernel.StandRefused, kernel.CodeAuthority, func() { f.Policy = nil }},
		{kernel.StandRefused, kernel.CodeEnvBuilder, func() { f.Environment = nil }},
	}
	for _, s := range steps {
		d := decide(t, f)
		if d.Standing != s.standing || !slices.Contains(d.Codes, s.code) || d.Action != kernel.ActionNone {
			t.Errorf("want %s for %s, got %s %s with %v", s.standing, s.code, d.Standing, d.Action, d.Codes)
		}
		s.mend()
	}
	if d := decide(t, f); d.Action != kernel.ActionTakeOver {
		t.Errorf("with nothing left to mend: %s", d.Action)
	}
}

// TestDecide_AllViolations: every rule is evaluated, all violations are listed,
// and the order doesn't depend on the order of the facts.
func TestDecide_AllViolations(t *testing.T) {
	f := at("open")
	f.Current = digest("d")
	f.Input = []kernel.Violation{
		{Code: kernel.CodeInstructionHidden, Subject: "title", Detail: "U+200B"},
		{Code: kernel.CodeDispatchMalformed, Subject: "expected_outcome", Detail: "missing"},
		{Code: kernel.CodeDispatchMalformed, Subject: "allowed_files", Detail: "missing"},
	}
	f.Policy = append(breaks(kernel.CodeBudgetExceeded), breaks(kernel.CodeAuthority)...)
	f.Environment = append(breaks(kernel.CodeEnvBuilder), breaks(kernel.CodeSandboxUnavailable)...)
	want := codes(kernel.CodeDispatchMalformed, kernel.CodeInstructionHidden, kernel.CodeInstructionChanged,
		kernel.CodeAuthority, kernel.CodeBudgetExceeded, kernel.CodeSandboxUnavailable, kernel.CodeEnvBuilder)
	d := decide(t, f)
	if diff := cmp.Diff(want, d.Codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	if n := len(d.Violations); n != 8 {
		t.Errorf("%d violations, want all 8: %v", n, d.Violations)
	}
	if d.Violations[0].Subject != "allowed_files" {
		t.Errorf("violations of one code are not in the order of their subjects: %v", d.Violations)
	}
	turned := f
	turned.Input, turned.Policy, turned.Environment = reversed(f.Input), reversed(f.Policy), reversed(f.Environment)
	again := decide(t, turned)
	again.Facts = d.Facts
	if diff := cmp.Diff(d, again); diff != "" {
		t.Errorf("the order of the facts shows (-want +got):\n%s", diff)
	}
}

func reversed(list []kernel.Violation) []kernel.Violation {
	out := slices.Clone(list)
	slices.Reverse(out)
	return out
}

// TestDecide_Tree: the reasons are a tree of all rules in their fixed order.
func TestDecide_Tree(t *testing.T) {
	for _, tt := range []struct {
		name  string
		facts kernel.Facts
		rules []string
	}{
		{"task", fresh(), []string{"kernel", "target", "binding", "event", "trust", "history", "lease", "consent", "input", "policy", "environment", "attempts", "interruptions"}},
		{"run", running(kernel.PhaseBuilt), []string{"kernel", "owner", "fence", "policy", "approved", "dispatch", "build", "scope", "message", "checks", "server"}},
	} {
		d := decide(t, tt.facts)
		var got []string
		for _, c := range d.Reasons.Children {
			got = append(got, c.Rule)
			if !c.Holds || len(c.Violations) > 0 {
				t.Errorf("%s: rule %s doesn't hold for sound facts", tt.name, c.Rule)
			}
		}
		if diff := cmp.Diff(tt.rules, got); diff != "" || d.Reasons.Rule != tt.name || !d.Reasons.Holds {
			t.Errorf("%s: rules (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestDecide_Golden is the whole record of one decision, byte for byte: same
// facts, same bytes, on any machine.
func TestDecide_Golden(t *testing.T) {
	f := at("working")
	f.Head.Trust, f.Head.LeaseExpired, f.Head.LeaseReason, f.Head.Interruptions = kernel.TrustListed, true, "expired", 1
	golden(t, "decision_take_over.json", []byte(marshal(t, decide(t, f))+"\n"))
	f = running(kernel.PhaseBuilt)
	f.Run.Scope = breaks(kernel.CodeScopeOutside)
	f.Run.Build = breaks(kernel.CodeExecutionExit)
	golden(t, "decision_rejected.json", []byte(marshal(t, decide(t, f))+"\n"))
}

// TestDecide_FactsHash: a decision names the facts that it rests on.
func TestDecide_FactsHash(t *testing.T) {
	f := fresh()
	want, err := canon.Hash(f)
	must(t, err)
	if d := decide(t, f); d.Facts != want {
		t.Errorf("facts_hash %s, want %s", d.Facts, want)
	}
	f.Actor = "\xff"
	if _, err := kernel.Decide(f); err == nil {
		t.Error("facts that can't be hashed were decided on")
	}
}

func TestValidate_OnlyWhereAClaimIsDue(t *testing.T) {
	bad := breaks(kernel.CodeDispatchMalformed)
	for _, tt := range []struct {
		name  string
		facts kernel.Facts
		want  int
	}{
		{"fresh", fresh(), 1}, {"open", at("open"), 1}, {"retry", at("retry_pending"), 1}, {"stalled", at("stalled"), 1},
		{"held", at("working"), 0}, {"completed", at("completed"), 0}, {"waiting", at("waiting"), 0},
		{"run", running(kernel.PhaseBuilding), 0},
		{"expired", with(at("working"), func(f *kernel.Facts) { f.Head.LeaseExpired = true }), 1},
		{"resumed", with(at("blocked"), func(f *kernel.Facts) { f.View.ResumedHead = head1 }), 1},
	} {
		tt.facts.Input = bad
		if got := kernel.Validate(tt.facts); len(got) != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
