package kernel_test

import (
	"slices"
	"testing"

	"github.com/writbot/writ/kernel"
)

// delivered is a task whose work was delivered on an earlier base, and somebody asks for it
// to be applied on the base as it is now.
func delivered(state, waitsFor string) kernel.Facts {
	return with(at(state), func(f *kernel.Facts) {
		f.Head.WaitingFor, f.Head.Approval, f.Head.Attempt, f.Head.Interruptions, f.Head.LastRun = waitsFor, f.Approved, 2, 1, ourRun
		f.View.AcceptedRun, f.View.AcceptedApproval = ourRun, f.Approved
		f.Refresh = &kernel.RefreshFacts{Run: ourRun, Base: head2, Resumes: theirs, Dispatch: digest("d"), Attempt: 2, Act: "5/comment:1", Faults: []kernel.Violation{}}
	})
}

// keptBack is what keeps back whatever is asked for with delivered work, by an act.
func keptBack(act func(*kernel.Facts) string) map[string]func(*kernel.Facts) {
	return map[string]func(*kernel.Facts){
		"nobody may any more":      func(f *kernel.Facts) { f.Policy = breaks(kernel.CodeAuthority) },
		"the text was edited":      func(f *kernel.Facts) { f.Current = digest("e") },
		"another text is approved": func(f *kernel.Facts) { f.Approved, f.Current = digest("e"), digest("e"); f.SameIssue = true },
		"the task is malformed":    func(f *kernel.Facts) { f.Input = breaks(kernel.CodeDispatchMalformed) },
		"there is no sandbox":      func(f *kernel.Facts) { f.Environment = breaks(kernel.CodeSandboxUnavailable) },
		"the server refused it":    func(f *kernel.Facts) { f.Refused = breaks(kernel.CodePushRefused) },
		"it was cut off just now":  func(f *kernel.Facts) { f.Head.RefreshAct, f.Head.RefreshOwed, f.Head.NotBefore = act(f), true, now+1 },
		"the work was turned down": func(f *kernel.Facts) { f.Undone = true },
		"pushes are shown late":    func(f *kernel.Facts) { f.LagUntil = now + 1 },
		"it is only looked at":     func(f *kernel.Facts) { f.Request = kernel.RequestLook },
	}
}

// TestE1_RefreshIsAskedLikeAClaim: delivered work is applied on another base only where
// anything could be claimed, and it is no attempt. Otherwise it stays as it is, and nothing
// is begun anew.
func TestE1_RefreshIsAskedLikeAClaim(t *testing.T) {
	for _, c := range [][2]string{{"completed", ""}, {"waiting", kernel.WaitMerge}} {
		f := delivered(c[0], c[1])
		if d := decide(t, f); d.Action != kernel.ActionClaim || d.Refreshes != ourRun || d.Resumes != theirs || d.Attempt != 2 || d.Interruptions != 1 {
			t.Errorf("%s: %s, refreshes %q, goes on with %q, attempt %d", c[0], d.Action, d.Refreshes, d.Resumes, d.Attempt)
		}
		standing := decide(t, with(f, func(f *kernel.Facts) { f.Refresh = nil }))
		no := keptBack(func(f *kernel.Facts) string { return f.Refresh.Act })
		no["its paths aren't accepted"] = func(f *kernel.Facts) { f.Paths = guardedBy("write", "a") }
		no["it doesn't apply"] = func(f *kernel.Facts) { f.Refresh.Faults = breaks(kernel.CodeBaseMoved) }
		for name, change := range no {
			if d := decide(t, with(delivered(c[0], c[1]), change)); d.Action != kernel.ActionNone || d.Standing != standing.Standing {
				t.Errorf("%s, %s: %s, stands %s", c[0], name, d.Action, d.Standing)
			}
		}
		if d := decide(t, with(f, func(f *kernel.Facts) { f.Head.Trust = kernel.TrustUnlisted })); d.Action != kernel.ActionNone {
			t.Errorf("%s by a stranger: %s", c[0], d.Action)
		}
	}
}

// TestE1_RefreshPutsTheResultBack: whatever else than its own result such a run comes to,
// the delivered one stands again, also where the process is dead and whoever comes breaks
// its lease.
func TestE1_RefreshPutsTheResultBack(t *testing.T) {
	refreshing := func(f *kernel.Facts) {
		f.Head.Refreshes, f.Head.OriginState = ourRun, "waiting"
		if f.Run != nil {
			f.Run.Refreshes, f.Run.Resumes = theirs, theirs
		}
	}
	for name, c := range map[string]struct {
		f     kernel.Facts
		again bool
		cut   int64
	}{
		"its checks fail":           {with(running(kernel.PhaseChecked), func(f *kernel.Facts) { f.Run.CheckFails = breaks(kernel.CodeCheckFailed) }), false, 0},
		"the host can't run them":   {with(running(kernel.PhaseChecked), func(f *kernel.Facts) { f.Run.CheckFails = breaks(kernel.CodeSandboxUnavailable) }), true, 0},
		"the gateway is lost again": {with(running(kernel.PhaseChecked), func(f *kernel.Facts) { f.Run.CheckFails = breaks(kernel.CodeEgressLost) }), true, 1},
		"somebody stops it":         {with(running(kernel.PhaseChecking), func(f *kernel.Facts) { f.Request = kernel.RequestStop }), false, 0},
		"the process ends":          {with(running(kernel.PhaseChecking), func(f *kernel.Facts) { f.Request = kernel.RequestShutdown }), true, 1},
		"a person halts it":         {with(running(kernel.PhaseChecking), func(f *kernel.Facts) { f.Request = kernel.RequestHalt }), true, 0},
		"a rule refuses it": {with(running(kernel.PhaseJudged), func(f *kernel.Facts) {
			f.Run.Judgement = &kernel.Judgement{State: kernel.TaskWaiting, WaitingFor: kernel.WaitMerge}
			f.Run.Refused = breaks(kernel.CodePushRefused)
		}), false, 0},
		"the process is dead":   {with(at(kernel.HeadWorking), func(f *kernel.Facts) { f.Head.LeaseExpired, f.Head.Attempt = true, 1 }), true, 1},
		"nobody could renew it": {with(at(kernel.HeadWorking), func(f *kernel.Facts) { f.Head.LeaseExpired, f.Head.Attempt, f.Head.Unrenewed = true, 1, true }), true, 0},
	} {
		before := c.f.Head.Interruptions
		d := decide(t, with(c.f, refreshing))
		if d.Action != kernel.ActionRestore || d.State != kernel.TaskWaiting || d.WaitingFor != kernel.WaitMerge || d.Interruptions != before || d.AsksAgain != c.again || d.RefreshInterruptions != c.cut {
			t.Errorf("%s: %s to %s for %q, %d interruptions, asks again %t after %d", name, d.Action, d.State, d.WaitingFor, d.Interruptions, d.AsksAgain, d.RefreshInterruptions)
		}
	}
	waits := with(with(running(kernel.PhaseChecked), refreshing), func(f *kernel.Facts) {
		f.Paths, f.Head.RefreshInterruptions = guardedBy("write", "a"), 3
	})
	if d := decide(t, waits); d.Action != kernel.ActionRestore || d.WaitingFor != kernel.WaitMerge || !d.AsksAgain || d.RefreshWaits != kernel.WaitPaths || d.RefreshInterruptions != 3 || d.NotBefore != 0 {
		t.Errorf("its guarded paths aren't accepted: %s, asks again %t after %d, waits for %q until %d", d.Action, d.AsksAgain, d.RefreshInterruptions, d.RefreshWaits, d.NotBefore)
	}
	good := with(running(kernel.PhaseChecked), refreshing)
	if d := decide(t, good); d.Action != kernel.ActionJudge || d.State != kernel.TaskCompleted {
		t.Errorf("its checks pass: %s, %s", d.Action, d.State)
	}
	completed := with(good, func(f *kernel.Facts) {
		f.Head.OriginState, f.Run.CheckFails = "completed", breaks(kernel.CodeCheckFailed)
	})
	if d := decide(t, completed); d.Action != kernel.ActionRestore || d.State != kernel.TaskCompleted || d.WaitingFor != "" {
		t.Errorf("of a completed task: %s to %s for %q", d.Action, d.State, d.WaitingFor)
	}
}

// TestE1_InterruptedRefreshBacksOff: a run that was cut off is tried again after as long as
// a build would be, as often as one. Then a new word is needed, which begins to count anew.
// What the host couldn't do waits a minute, and counts nothing.
func TestE1_InterruptedRefreshBacksOff(t *testing.T) {
	dead := func(n int64) kernel.Decision {
		return decide(t, with(at(kernel.HeadWorking), func(f *kernel.Facts) {
			f.Head.LeaseExpired, f.Head.Attempt, f.Head.Refreshes, f.Head.OriginState, f.Head.RefreshInterruptions = true, 1, ourRun, "completed", n
		}))
	}
	budgets := at("completed").Budgets
	for n := int64(0); n < budgets.Interruptions; n++ {
		due := kernel.RetryAt(now, n, budgets.RetryBackoffMs, budgets.RetryBackoffMaxMs)
		if n == 0 {
			due = 0
		}
		if d := dead(n); !d.AsksAgain || d.RefreshInterruptions != n+1 || d.NotBefore != due {
			t.Errorf("after %d: again %t after %d, at %d, want %d", n, d.AsksAgain, d.RefreshInterruptions, d.NotBefore, due)
		}
	}
	if d := dead(budgets.Interruptions); d.AsksAgain || d.RefreshInterruptions != 0 || d.NotBefore != 0 || !slices.Contains(d.Codes, kernel.CodeInterruptionsSpent) {
		t.Errorf("after all: again %t after %d, %v", d.AsksAgain, d.RefreshInterruptions, d.Codes)
	}
	host := decide(t, with(running(kernel.PhaseChecked), func(f *kernel.Facts) {
		f.Head.Refreshes, f.Head.OriginState, f.Run.Refreshes, f.Run.Resumes, f.Head.RefreshInterruptions = ourRun, "completed", theirs, theirs, 2
		f.Run.CheckFails = breaks(kernel.CodeSandboxUnavailable)
	}))
	if !host.AsksAgain || host.RefreshInterruptions != 2 || host.NotBefore != now+60_000 {
		t.Errorf("the host: again %t after %d, at %d", host.AsksAgain, host.RefreshInterruptions, host.NotBefore)
	}
	owed := func(f *kernel.Facts) {
		f.Head.RefreshAct, f.Head.RefreshOwed, f.Head.RefreshInterruptions, f.Head.NotBefore = f.Refresh.Act, true, 2, now+5
	}
	f := with(delivered("completed", ""), owed)
	if d := decide(t, f); d.Action != kernel.ActionNone || d.Standing != kernel.StandFinal || d.Wake != now+5 {
		t.Errorf("before it is due: %s, wakes at %d", d.Action, d.Wake)
	}
	if d := decide(t, with(f, func(f *kernel.Facts) { f.Now = now + 5 })); d.Action != kernel.ActionClaim || d.RefreshInterruptions != 2 {
		t.Errorf("once it is due: %s after %d", d.Action, d.RefreshInterruptions)
	}
	if d := decide(t, with(f, func(f *kernel.Facts) { f.Refresh.Act = "6/comment:2" })); d.Action != kernel.ActionClaim || d.RefreshInterruptions != 0 {
		t.Errorf("by another word: %s after %d", d.Action, d.RefreshInterruptions)
	}
	for name, change := range map[string]func(*kernel.Facts){
		"the host lacks something": func(f *kernel.Facts) { f.Environment = breaks(kernel.CodeSandboxUnavailable) },
		"pushes are shown late":    func(f *kernel.Facts) { f.LagUntil = now + 7 },
	} {
		if d := decide(t, with(delivered("completed", ""), change)); d.Action != kernel.ActionNone || d.Wake <= now {
			t.Errorf("%s: %s, wakes at %d", name, d.Action, d.Wake)
		}
	}
}

// TestL18_ReplacedResultCountsNoMore: where the result that a dead lease is to replace
// doesn't count any more, only a person moves on; a live run for it gives up.
func TestL18_ReplacedResultCountsNoMore(t *testing.T) {
	gone := func(f *kernel.Facts) {
		f.Head.Refreshes, f.Head.OriginState = ourRun, "completed"
		f.View.AcceptedRun, f.View.AcceptedApproval = ourRun, f.Approved
		f.Head.Unrestorable = &breaks(kernel.CodeLeaseUntrusted)[0]
		if f.Run != nil {
			f.Run.Refreshes, f.Run.Resumes = theirs, theirs
		}
	}
	dead := with(with(at(kernel.HeadWorking), gone), func(f *kernel.Facts) { f.Head.LeaseExpired, f.Head.Attempt = true, 1 })
	if d := decide(t, dead); d.Action != kernel.ActionNone || d.WaitingFor != kernel.WaitRepair || !slices.Contains(d.Codes, kernel.CodeLeaseUntrusted) {
		t.Errorf("%s, waits for %q, %v", d.Action, d.WaitingFor, d.Codes)
	}
	moved := with(dead, func(f *kernel.Facts) {
		f.View.ResumedHead, f.View.AcceptedRun, f.View.AcceptedApproval = f.Head.OID, "", ""
	})
	if d := decide(t, moved); d.Action != kernel.ActionClaim || d.Attempt != 1 || d.Refreshes != "" {
		t.Errorf("once a person moved on: %s, refreshes %q", d.Action, d.Refreshes)
	}
	if d := decide(t, with(running(kernel.PhaseChecking), gone)); d.Action != kernel.ActionAbandon {
		t.Errorf("a live run: %s", d.Action)
	}
}

// TestE1_AutoAct: the act by which a contract asks is newer than those that HEAD rests on and
// older than any later one, names a base once, and is counted from the last act of a person.
func TestE1_AutoAct(t *testing.T) {
	for _, c := range []struct {
		act, refreshAct string
		owed            bool
		want            string
		nth             int64
	}{
		{"", "", false, "1/auto:1:b", 1},
		{"7/event:1", "", false, "8/auto:1:b", 1},
		{"7/event:1", "5/comment:1", false, "8/auto:1:b", 1},
		{"7/event:1", "9/comment:1", false, "10/auto:1:b", 1},
		{"7/event:1", "9/auto:4:a", false, "10/auto:5:b", 5},
		{"7/event:1", "9/auto:4:b", false, "", 4},
		{"7/event:1", "9/auto:4:b", true, "9/auto:4:b", 4},
		{"11/event:1", "9/auto:4:a", false, "12/auto:1:b", 1},
		{"7/event:1", "9/auto:0:a", false, "10/auto:1:b", 1},
		{"7/event:1", "9/auto:x:a", false, "10/auto:1:b", 1},
		{"7/event:1", "9/4:a", false, "10/auto:1:b", 1},
		{"9223372036854775807/event:1", "", false, "9007199254740991/auto:1:b", 1},
	} {
		h := kernel.HeadFacts{Act: c.act, RefreshAct: c.refreshAct, RefreshOwed: c.owed}
		id, nth := kernel.AutoAct(h, "b")
		if id != c.want || nth != c.nth {
			t.Errorf("%+v: %q, %d", c, id, nth)
		}
		if id != "" && !c.owed && kernel.ActTime(c.act) < 1<<53 && !(kernel.NewerAct(id, c.act) && kernel.NewerAct(id, c.refreshAct)) {
			t.Errorf("%q isn't newer than %q and %q", id, c.act, c.refreshAct)
		}
	}
}

// TestE1_AutoIsBounded: what a contract asks for by itself waits until it is due, and isn't
// done oftener than the contract lets it.
func TestE1_AutoIsBounded(t *testing.T) {
	auto := func(nth, most, due int64) kernel.Facts {
		return with(delivered("waiting", kernel.WaitMerge), func(f *kernel.Facts) {
			f.Refresh.Auto = &kernel.AutoRefresh{Nth: nth, Most: most, Due: due}
		})
	}
	if d := decide(t, auto(2, 2, now)); d.Action != kernel.ActionClaim {
		t.Errorf("it is due: %s", d.Action)
	}
	if d := decide(t, auto(2, 2, now+1)); d.Action != kernel.ActionNone || d.Wake != now+1 {
		t.Errorf("it isn't due: %s, wakes at %d", d.Action, d.Wake)
	}
	if d := decide(t, auto(3, 2, now)); d.Action != kernel.ActionNone || d.Wake != 0 {
		t.Errorf("it is spent: %s, wakes at %d", d.Action, d.Wake)
	}
}
