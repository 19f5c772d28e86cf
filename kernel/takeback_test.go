package kernel_test

import (
	"testing"

	"github.com/writbot/writ/kernel"
)

const (
	approved = "1000/event:1"
	takenOff = "2000/event:2"
	anew     = "3000/comment:3"
	takenTwo = "4000/comment:4"
)

// takenBack are the facts of a task at HEAD whose approval a person took back.
func takenBack(state string, code kernel.Code, by string) kernel.Facts {
	f := at(state)
	f.Head.Act, f.Act, f.TakenBack = approved, by, approved
	f.Human = []kernel.Violation{{Code: code, Subject: by, Detail: "d"}}
	f.Policy = f.Human
	return f
}

// TestP10_TakenBackAtHead: whatever stands at HEAD, whoever looks first writes there that
// the approval was taken back, without counting anything.
func TestP10_TakenBackAtHead(t *testing.T) {
	type change = func(*kernel.Facts)
	waits := func(attempt, interruptions int64, code kernel.Code) verdict {
		v := acting(kernel.ActionWait, kernel.TaskWaiting, attempt, interruptions)
		v.waiting, v.codes = kernel.WaitApproval, codes(code)
		return v
	}
	closed := kernel.CodeSuperseded
	set := func(state string, f change) kernel.Facts { return with(takenBack(state, closed, takenOff), f) }
	stop := func(state string, f change) kernel.Facts {
		return with(takenBack(state, kernel.CodeTaskStopped, "2000/comment:2"), f)
	}
	none := func(f *kernel.Facts) {
		f.Head, f.View.Seen, f.View.SeenSeq = kernel.HeadFacts{Trust: kernel.TrustNone}, "", 0
	}
	refused := func(vs ...kernel.Violation) change {
		return func(f *kernel.Facts) { f.Policy = append(f.Policy, vs...) }
	}
	still := func(s kernel.Standing, state kernel.TaskState) verdict {
		return verdict{verdict: kernel.Allow, standing: s, action: kernel.ActionNone, state: state, attempt: 1, codes: codes()}
	}
	denied := func(s kernel.Standing, state kernel.TaskState, list ...kernel.Code) verdict {
		return verdict{verdict: kernel.Deny, standing: s, action: kernel.ActionNone, state: state, attempt: 1, codes: codes(list...)}
	}
	idleFor := func(what string) verdict {
		v := still(kernel.StandWaiting, kernel.TaskWaiting)
		v.waiting = what
		return v
	}
	for _, tt := range []struct {
		name  string
		facts kernel.Facts
		want  verdict
	}{
		{"stalled", set("stalled", func(f *kernel.Facts) { f.Head.Interruptions = 2 }), waits(1, 2, closed)},
		{"open", set("open", func(*kernel.Facts) {}), waits(1, 0, closed)},
		{"retry pending, and not due", set("retry_pending", func(f *kernel.Facts) { f.Head.Attempt, f.Head.NotBefore = 2, now+backoff }), waits(2, 0, closed)},
		{"an expired lease", set("working", func(f *kernel.Facts) { f.Head.LeaseExpired = true }), waits(1, 0, closed)},
		{"an expired lease of another instance", stop("working", func(f *kernel.Facts) { f.Head.LeaseExpired, f.Head.Trust = true, kernel.TrustListed }), waits(1, 0, kernel.CodeTaskStopped)},
		{"waits for a rule", set("waiting", func(f *kernel.Facts) { f.Head.WaitingFor, f.Head.NotBefore = kernel.WaitRule, now+backoff }), waits(1, 0, closed)},
		{"nobody knows which event it was", set("stalled", func(f *kernel.Facts) { f.Human[0].Subject = "" }), waits(1, 0, closed)},
		{"a lease that is live", set("working", func(*kernel.Facts) {}), denied(kernel.StandHeld, kernel.TaskClaimed, kernel.CodeLeaseHeld)},
		{"only a look", set("stalled", func(f *kernel.Facts) { f.Request = kernel.RequestLook }), still(kernel.StandDue, kernel.TaskOpen)},

		{"waits for an approval, and says so", set("waiting", func(f *kernel.Facts) { f.Head.WaitingFor, f.Head.Act = kernel.WaitApproval, takenOff }), idleFor(kernel.WaitApproval)},
		{"waits for an approval since before", set("waiting", func(f *kernel.Facts) { f.Head.WaitingFor = kernel.WaitApproval }), idleFor(kernel.WaitApproval)},
		{"waits, approved anew and taken back", set("waiting", func(f *kernel.Facts) {
			f.Head.WaitingFor, f.TakenBack, f.Human[0].Subject = kernel.WaitApproval, anew, takenTwo
		}), waits(1, 0, closed)},
		{"that, once it is written", set("waiting", func(f *kernel.Facts) {
			f.Head.WaitingFor, f.TakenBack, f.Human[0].Subject, f.Head.Act = kernel.WaitApproval, "4000/event:3", takenTwo, takenTwo
		}), idleFor(kernel.WaitApproval)},
		{"blocked, and closed for that", set("blocked", func(*kernel.Facts) {}), still(kernel.StandFinal, kernel.TaskBlocked)},
		{"blocked, approved anew and taken back", set("blocked", func(f *kernel.Facts) { f.TakenBack, f.Human[0].Subject = anew, takenTwo }), waits(1, 0, closed)},
		{"completed", set("completed", func(f *kernel.Facts) { f.TakenBack, f.Human[0].Subject = anew, takenTwo }), still(kernel.StandFinal, kernel.TaskCompleted)},
		{"waits for the merge", set("waiting", func(f *kernel.Facts) {
			f.Head.WaitingFor, f.TakenBack, f.Human[0].Subject = kernel.WaitMerge, anew, takenTwo
		}), idleFor(kernel.WaitMerge)},

		{"no state, and stopped", stop("", none), waits(0, 0, kernel.CodeTaskStopped)},
		{"no state, and closed: the forge's history says so", set("", none), func() verdict {
			v := denied(kernel.StandRefused, "", closed)
			v.attempt = 0
			return v
		}()},
		{"no state, closed, and a claim is on its way", set("", func(f *kernel.Facts) { none(f); f.OnItsWay = true }), waits(0, 0, closed)},
		{"no state, stopped, and never approved", stop("", func(f *kernel.Facts) { none(f); f.TakenBack = "" }), func() verdict {
			v := denied(kernel.StandRefused, "", kernel.CodeTaskStopped)
			v.attempt = 0
			return v
		}()},

		{"this instance only observes", set("stalled", refused(kernel.Violation{Code: kernel.CodeObserveOnly})), denied(kernel.StandRefused, kernel.TaskOpen, kernel.CodeObserveOnly, closed)},
		{"this instance isn't listed", set("stalled", refused(kernel.Violation{Code: kernel.CodeAuthority, Subject: "runners"})), denied(kernel.StandRefused, kernel.TaskOpen, kernel.CodeAuthority, closed)},
		{"the repository is archived", set("stalled", refused(kernel.Violation{Code: kernel.CodeTargetIneligible})), denied(kernel.StandRefused, kernel.TaskOpen, kernel.CodeTargetIneligible, closed)},
		{"the operator's list doesn't have it", set("stalled", refused(kernel.Violation{Code: kernel.CodeTargetNotAllowed})), denied(kernel.StandRefused, kernel.TaskOpen, closed, kernel.CodeTargetNotAllowed)},
	} {
		t.Run(tt.name, func(t *testing.T) { compare(t, decide(t, tt.facts), tt.want) })
	}
}

// TestP10_AnActCountsNothing: neither an attempt nor an interruption is what a person's
// act costs, be it carried out on a live run, on a dead lease or on no lease.
func TestP10_AnActCountsNothing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		facts kernel.Facts
	}{
		{"halt of a run", with(running(kernel.PhaseBuilding), func(f *kernel.Facts) { f.Request = kernel.RequestHalt })},
		{"halt of a task whose process died", with(at("working"), func(f *kernel.Facts) {
			f.Request, f.View.Halted, f.Head.LeaseExpired, f.Head.Predecessor = kernel.RequestHalt, true, true, true
		})},
		{"stop of a run", with(running(kernel.PhaseBuilding), func(f *kernel.Facts) { f.Request = kernel.RequestStop })},
		{"stop of a task whose process died", with(at("working"), func(f *kernel.Facts) { f.Request, f.Head.LeaseExpired = kernel.RequestStop, true })},
		{"taken back, of a run", with(running(kernel.PhaseBuilding), func(f *kernel.Facts) { f.Human = breaks(kernel.CodeSuperseded) })},
		{"taken back, of a task whose process died", with(takenBack("working", kernel.CodeSuperseded, takenOff), func(f *kernel.Facts) { f.Head.LeaseExpired = true })},
	} {
		tt.facts.Head.Attempt, tt.facts.Head.Interruptions = 1, 2
		d := decide(t, tt.facts)
		if d.Action != kernel.ActionRelease && d.Action != kernel.ActionTakeOver && d.Action != kernel.ActionWait {
			t.Errorf("%s: %s", tt.name, d.Action)
		}
		if d.Attempt != 1 || d.Interruptions != 2 || d.NotBefore != 0 {
			t.Errorf("%s: attempt %d, %d interruptions, due %d", tt.name, d.Attempt, d.Interruptions, d.NotBefore)
		}
	}
}

// TestP10_Spent names the act that HEAD then rests on.
func TestP10_Spent(t *testing.T) {
	f := takenBack("stalled", kernel.CodeTaskStopped, takenTwo)
	f.Act = anew
	if got := f.Spent(); got != takenTwo {
		t.Errorf("spent is %q, and not what took the approval back", got)
	}
	f.Human[0].Subject = ""
	if got := f.Spent(); got != anew {
		t.Errorf("spent is %q, and not the newest act", got)
	}
}
