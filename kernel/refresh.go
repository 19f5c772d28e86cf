package kernel

import "github.com/writbot/writ/kernel/canon"

// RefreshFacts is what it takes to apply the delivered work at HEAD on the base as it is
// now, where somebody asks for that: its verified diff, judged and checked again, without
// a builder.
type RefreshFacts struct {
	Run      string       `json:"run_id"`        // whose result HEAD is
	Base     string       `json:"base_commit"`   // as it is now
	Resumes  string       `json:"resumes"`       // run that was dispatched, be it an earlier one
	Dispatch canon.Digest `json:"dispatch_hash"` // of that
	Attempt  int64        `json:"attempt"`       // that it was dispatched as
	// Act is the act on the forge that asks for it, and Actor who did it: account's
	// number, a colon, and its name.
	Act   string `json:"act,omitempty"`
	Actor string `json:"actor,omitempty"`
	// Faults are why it can't be done.
	Faults []Violation `json:"faults"`
}

// wantsRefresh reports whether the delivered work at HEAD is to be applied on the base as
// it is now, and can be.
func (f Facts) wantsRefresh() bool {
	return f.Run == nil && f.Refresh != nil && len(f.Refresh.Faults) == 0 && f.Delivered() && !f.Undone
}

// Refreshable reports whether a claim may apply the delivered work at HEAD on the base as
// it is now: whoever approved it still may, the text is the approved one, contract and
// target allow a claim, and what a run needs is there. Where one of these doesn't hold the
// delivered work stays as it is.
func (f Facts) Refreshable() bool { return f.wantsRefresh() && len(f.KeepsFromRefresh()) == 0 }

// KeepsFromRefresh is what keeps delivered work from being applied on the base as it is
// now.
func (f Facts) KeepsFromRefresh() []Violation {
	var out []Violation
	if f.Refresh != nil {
		out = append(out, f.Refresh.Faults...)
	}
	if out = append(out, consentRule(f)...); f.Approved != f.Head.Approval {
		out = append(out, one(CodeInstructionChanged, "", "The work is for the text %s, approved is %s.", f.Head.Approval, f.Approved)...)
	}
	for _, list := range [][]Violation{f.Input, f.Policy, f.Environment, f.Refused} {
		out = append(out, list...)
	}
	if n := f.Head.Interruptions; n > f.Budgets.Interruptions {
		out = append(out, one(CodeInterruptionsSpent, "interruptions", "%d interruptions, %d are allowed.", n, f.Budgets.Interruptions)...)
	}
	return out
}

// refreshing reports whether a run is live, or died, that applies a delivered result on
// another base. Whatever else than its own result it comes to, that one is put back.
func (f Facts) refreshing() bool {
	if f.Run != nil {
		return f.Run.Refreshes != ""
	}
	return f.Head.State == HeadWorking && f.Head.Refreshes != "" && f.Head.Trusted()
}

// refreshed is the state of the result that a lease at HEAD is to replace.
func (h HeadFacts) refreshed() (s TaskState, waitsFor string) {
	if h.OriginState == string(TaskWaiting) {
		return TaskWaiting, WaitMerge
	}
	return TaskCompleted, ""
}

// refresh claims the task to apply its delivered work on the base as it is now. It is no
// attempt, and no builder is started.
func refresh(f Facts, d Decision) Decision {
	d.Standing, d.Action, d.State = StandActing, ActionClaim, TaskClaimed
	d.Attempt, d.Interruptions = max(f.Head.Attempt, 1), f.Head.Interruptions
	d.Resumes, d.Refreshes = f.Refresh.Resumes, f.Refresh.Run
	return d
}

// putBack is what becomes of the decision on a run that replaces a delivered result: where
// it ends otherwise than with a result of its own, that one stands again.
func putBack(f Facts, d Decision) Decision {
	switch d.Action {
	case ActionTakeOver, ActionRelease, ActionWait:
	case ActionJudge, ActionResult:
		if (Judgement{State: d.State, WaitingFor: d.WaitingFor}).Accepted() {
			return d
		}
	default:
		return d
	}
	d.Action, d.NotBefore = ActionRestore, 0
	d.State, d.WaitingFor = f.Head.refreshed()
	return d
}
