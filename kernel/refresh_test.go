package kernel_test

import (
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
		for name, change := range map[string]func(*kernel.Facts){
			"it doesn't apply":         func(f *kernel.Facts) { f.Refresh.Faults = breaks(kernel.CodeBaseMoved) },
			"nobody may any more":      func(f *kernel.Facts) { f.Policy = breaks(kernel.CodeAuthority) },
			"the text was edited":      func(f *kernel.Facts) { f.Current = digest("e") },
			"another text is approved": func(f *kernel.Facts) { f.Approved, f.Current = digest("e"), digest("e"); f.SameIssue = true },
			"the task is malformed":    func(f *kernel.Facts) { f.Input = breaks(kernel.CodeDispatchMalformed) },
			"there is no sandbox":      func(f *kernel.Facts) { f.Environment = breaks(kernel.CodeSandboxUnavailable) },
			"the server refused it":    func(f *kernel.Facts) { f.Refused = breaks(kernel.CodePushRefused) },
			"it was cut off too often": func(f *kernel.Facts) { f.Head.Interruptions = 3 },
			"the work was turned down": func(f *kernel.Facts) { f.Undone = true },
			"pushes are shown late":    func(f *kernel.Facts) { f.LagUntil = now + 1 },
			"it is only looked at":     func(f *kernel.Facts) { f.Request = kernel.RequestLook },
		} {
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
		f           kernel.Facts
		interrupted int64
	}{
		"its checks fail":   {with(running(kernel.PhaseChecked), func(f *kernel.Facts) { f.Run.CheckFails = breaks(kernel.CodeCheckFailed) }), 0},
		"somebody stops it": {with(running(kernel.PhaseChecking), func(f *kernel.Facts) { f.Request = kernel.RequestStop }), 0},
		"the process ends":  {with(running(kernel.PhaseChecking), func(f *kernel.Facts) { f.Request = kernel.RequestShutdown }), 1},
		"a person halts it": {with(running(kernel.PhaseChecking), func(f *kernel.Facts) { f.Request = kernel.RequestHalt }), 0},
		"a rule refuses it": {with(running(kernel.PhaseJudged), func(f *kernel.Facts) {
			f.Run.Judgement = &kernel.Judgement{State: kernel.TaskWaiting, WaitingFor: kernel.WaitMerge}
			f.Run.Refused = breaks(kernel.CodePushRefused)
		}), 0},
		"the process is dead": {with(at(kernel.HeadWorking), func(f *kernel.Facts) { f.Head.LeaseExpired, f.Head.Attempt = true, 1 }), 1},
	} {
		before := c.f.Head.Interruptions
		d := decide(t, with(c.f, refreshing))
		if d.Action != kernel.ActionRestore || d.State != kernel.TaskWaiting || d.WaitingFor != kernel.WaitMerge || d.Interruptions != before+c.interrupted {
			t.Errorf("%s: %s to %s for %q, %d interruptions", name, d.Action, d.State, d.WaitingFor, d.Interruptions)
		}
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
