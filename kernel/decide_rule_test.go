package kernel_test

import (
	"testing"

	"github.com/writbot/writ/kernel"
)

// awaitsRule are the facts of a run whose work waits for a rule at HEAD.
func awaitsRule(change func(*kernel.Facts)) kernel.Facts {
	return with(running(kernel.PhaseJudged), func(f *kernel.Facts) {
		ruled(f)
		if change != nil {
			change(f)
		}
	})
}

func ruled(f *kernel.Facts) {
	f.Head.State, f.Head.WaitingFor, f.Head.LastRun, f.Head.RunID = "waiting", kernel.WaitRule, f.Head.RunID, ""
	f.Head.Kept, f.Head.NotBefore = true, now+kernel.RuleLeft
}

// leavesWork has a dead process of ours have left work that can be gone on with.
func leavesWork(f *kernel.Facts) {
	f.Head.Predecessor = true
	f.Sealed = &kernel.SealedFacts{Run: f.Head.LastRun, Attempt: 1, Approval: f.Approved, Governance: f.Governance}
}

// TestG6_Decide_Rule: what the server refused is followed by the small commit of the
// wait, whose push shows whether a rule refused it; from there the work is pushed again,
// stopped, begun anew, and moved on by others only when its owner has left it.
func TestG6_Decide_Rule(t *testing.T) {
	wait := acting(kernel.ActionWait, kernel.TaskWaiting, 1, 0)
	wait.waiting, wait.notBefore, wait.codes = kernel.WaitRule, now+kernel.RuleLeft, codes(kernel.CodePushRefused)
	due := verdict{verdict: kernel.Allow, standing: kernel.StandDue, action: kernel.ActionNone, state: kernel.TaskClaimed, waiting: kernel.WaitRule, attempt: 1, wake: now + 60_000, codes: codes(kernel.CodePushRefused)}
	stopped := acting(kernel.ActionWait, kernel.TaskWaiting, 1, 0)
	stopped.waiting, stopped.codes = kernel.WaitApproval, codes(kernel.CodeTaskStopped)
	abandon := acting(kernel.ActionAbandon, kernel.TaskClaimed, 1, 0)
	abandon.standing = kernel.StandAbandoned
	left := due
	left.state, left.wake = kernel.TaskWaiting, now+kernel.RuleLeft
	leftLate := left
	leftLate.interruptions = 2
	refused := wait
	refused.attempt, refused.notBefore = 2, now+60_000
	waitAtEnd, refusedAtEnd := wait, refused
	waitAtEnd.notBefore, refusedAtEnd.notBefore = maxInt, maxInt
	spent := acting(kernel.ActionResult, kernel.TaskBlocked, 1, 2)
	spent.codes = codes(kernel.CodeEscalationBlocked, kernel.CodeInterruptionsSpent)
	look := left
	look.waiting, look.codes = "", nil
	judged := func(change func(*kernel.Facts)) kernel.Facts { return with(running(kernel.PhaseJudged), change) }
	waits := func(change func(*kernel.Facts)) kernel.Facts {
		return with(at("waiting"), func(f *kernel.Facts) { ruled(f); change(f) })
	}
	for _, tt := range []struct {
		name  string
		facts kernel.Facts
		want  verdict
	}{
		{"refused", judged(func(f *kernel.Facts) { f.Run.Refused = breaks(kernel.CodePushRefused) }), wait},
		{"a blocked result is refused, too", judged(func(f *kernel.Facts) {
			f.Run.Refused, f.Run.Judgement.State = breaks(kernel.CodePushRefused), kernel.TaskBlocked
		}), wait},
		{"refused, at the last moment that a record can hold", judged(func(f *kernel.Facts) { f.Run.Refused, f.Now = breaks(kernel.CodePushRefused), maxInt }), waitAtEnd},
		{"by a rule", awaitsRule(func(f *kernel.Facts) { f.Run.Refused, f.Run.Again = breaks(kernel.CodePushRefused), now+60_000 }), due},
		{"its time has come", awaitsRule(nil), acting(kernel.ActionResult, kernel.TaskCompleted, 1, 0)},
		{"stopped", awaitsRule(func(f *kernel.Facts) { f.Request = kernel.RequestStop }), stopped},
		{"stopped on the forge", awaitsRule(func(f *kernel.Facts) { f.Human = breaks(kernel.CodeTaskStopped) }), stopped},
		{"begun anew", awaitsRule(func(f *kernel.Facts) { f.Head.Reapproved = true }), abandon},
		{"halted: there is no lease to give back", awaitsRule(func(f *kernel.Facts) { f.Request = kernel.RequestHalt }), abandon},

		{"another instance leaves it", waits(func(*kernel.Facts) {}), left},
		{"it only looks", waits(func(f *kernel.Facts) { f.Request = kernel.RequestLook }), look},
		{"it is left: who had the work has lost it", waits(func(f *kernel.Facts) { f.Head.NotBefore = now }), acting(kernel.ActionClaim, kernel.TaskClaimed, 1, 1)},
		{"it is left too often", waits(func(f *kernel.Facts) { f.Head.NotBefore, f.Head.Interruptions = now, 2 }), spent},
		{"it isn't left yet, with all interruptions", waits(func(f *kernel.Facts) { f.Head.Interruptions = 2 }), leftLate},
		{"a person begins anew", waits(func(f *kernel.Facts) { f.Head.Reapproved = true }), acting(kernel.ActionClaim, kernel.TaskClaimed, 1, 0)},
		{"a person stops it", waits(func(f *kernel.Facts) { f.Request = kernel.RequestStop }), stopped},
		{"an unlisted writer's word", waits(func(f *kernel.Facts) { f.Head.Trust = kernel.TrustUnlisted }), func() verdict {
			v := verdict{verdict: kernel.Deny, standing: kernel.StandWaiting, action: kernel.ActionNone, state: kernel.TaskWaiting, waiting: kernel.WaitRepair, attempt: 1}
			v.codes = codes(kernel.CodeLeaseUntrusted)
			return v
		}()},

		{"our own process died, and its work is there", waits(leavesWork), acting(kernel.ActionClaim, kernel.TaskClaimed, 1, 0)},
		{"it died long ago", waits(func(f *kernel.Facts) { leavesWork(f); f.Head.NotBefore = now }), acting(kernel.ActionClaim, kernel.TaskClaimed, 1, 0)},
		{"a person asks for the work, and it is another's", waits(func(f *kernel.Facts) { f.Head.Urged = true }), left},
		{"who had it has left it", waits(func(f *kernel.Facts) { f.Head.Urged, f.Head.NotBefore = true, now }), acting(kernel.ActionClaim, kernel.TaskClaimed, 1, 1)},
		{"it is left too often, and asked for", waits(func(f *kernel.Facts) { f.Head.Urged, f.Head.NotBefore, f.Head.Interruptions = true, now, 2 }), spent},
		{"a person asks for the work, and it is there", waits(func(f *kernel.Facts) { leavesWork(f); f.Head.Urged = true }), acting(kernel.ActionClaim, kernel.TaskClaimed, 1, 0)},
		{"a person asks for the work, and we lost it", waits(func(f *kernel.Facts) { leavesWork(f); f.Head.Urged, f.Sealed = true, nil }), acting(kernel.ActionClaim, kernel.TaskClaimed, 1, 1)},
		{"we lost it too often", waits(func(f *kernel.Facts) { leavesWork(f); f.Head.Urged, f.Sealed, f.Head.Interruptions = true, nil, 2 }), spent},
		{"resumed, and the work is there", waits(func(f *kernel.Facts) { leavesWork(f); f.View.ResumedHead = f.Head.OID }), acting(kernel.ActionClaim, kernel.TaskClaimed, 1, 0)},
		{"resumed, and we lost the work", waits(func(f *kernel.Facts) { leavesWork(f); f.View.ResumedHead, f.Sealed = f.Head.OID, nil }), acting(kernel.ActionClaim, kernel.TaskClaimed, 1, 1)},
		{"resumed, and the work is another's", waits(func(f *kernel.Facts) { f.View.ResumedHead = f.Head.OID }), left},
		{"resumed, and it is a claim that waits", waits(func(f *kernel.Facts) {
			f.View.ResumedHead, f.Head.Kept, f.Head.Attempt = f.Head.OID, false, 2
		}), acting(kernel.ActionClaim, kernel.TaskClaimed, 2, 0)},
		{"its work isn't there", waits(func(f *kernel.Facts) { leavesWork(f); f.Sealed = nil }), left},
		{"it is another's work", waits(func(f *kernel.Facts) { leavesWork(f); f.Head.Predecessor = false }), left},

		{"a claim was refused", with(at("retry_pending"), func(f *kernel.Facts) { f.Refused, f.RuleWait = breaks(kernel.CodePushRefused), 60_000 }), refused},
		{"a claim was refused, at the last moment that a record can hold", with(at("retry_pending"), func(f *kernel.Facts) {
			f.Refused, f.RuleWait, f.Now = breaks(kernel.CodePushRefused), 60_000, maxInt
		}), refusedAtEnd},
		{"its time has come from there", waits(func(f *kernel.Facts) { f.Head.Kept, f.Head.NotBefore, f.Head.Attempt = false, now, 2 }), acting(kernel.ActionClaim, kernel.TaskClaimed, 2, 0)},
	} {
		t.Run(tt.name, func(t *testing.T) { compare(t, decide(t, tt.facts), tt.want) })
	}
}
