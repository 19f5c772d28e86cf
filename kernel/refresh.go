package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/kernel/canon"
)

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
	// Auto says that nobody asks for it but the contract; nil where somebody does.
	Auto *AutoRefresh `json:"auto,omitempty"`
	// Faults are why it can't be done.
	Faults []Violation `json:"faults"`
}

// AutoRefresh bounds what a contract asks for by itself (refresh: auto).
type AutoRefresh struct {
	Nth  int64 `json:"nth"`  // time of this result's approval
	Most int64 `json:"most"` // budgets.refreshes
	Due  int64 `json:"due"`  // before when it isn't done, Unix milliseconds
}

// AutoEvery is how long a delivered result stands, at least, before the contract has it
// applied on another base, in milliseconds: a busy base would have its checks run for ever.
const AutoEvery = int64(3_600_000)

// AutoAct is the act by which a contract asks that the result at HEAD is applied on a base,
// and which time of that it is; "" where it was tried there last. It is newer than the
// acts that HEAD rests on, and older than any that a person does afterwards. Where somebody
// asked in between, it is counted from there.
func AutoAct(h HeadFacts, base string) (id string, nth int64) {
	after := h.RefreshAct
	if !NewerAct(after, h.Act) {
		after = h.Act
	}
	nth, tried, _ := ReadAutoAct(after)
	if tried == base {
		if h.RefreshOwed {
			return after, nth
		}
		return "", nth
	}
	return fmt.Sprintf("%d/auto:%d:%s", min(ActTime(after), lastTime-1)+1, nth+1, base), nth + 1
}

// ReadAutoAct reads such an act; ok is false of any other.
func ReadAutoAct(id string) (nth int64, base string, ok bool) {
	_, act, _ := strings.Cut(id, "/")
	number, base, ok := strings.Cut(strings.TrimPrefix(act, "auto:"), ":")
	nth, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || nth < 1 || !strings.HasPrefix(act, "auto:") {
		return 0, "", false
	}
	return nth, base, true
}

// autoSpent: the contract asked as often as its budget lets it.
func (f Facts) autoSpent() []Violation {
	if f.Refresh == nil || f.Refresh.Auto == nil || f.Refresh.Auto.Nth <= f.Refresh.Auto.Most {
		return nil
	}
	return one(CodeTargetIneligible, "budgets.refreshes", "The contract asked for it %d times, which is as often as it may.", f.Refresh.Auto.Most)
}

// wantsRefresh reports whether the delivered work at HEAD is to be applied on the base as
// it is now, and can be.
func (f Facts) wantsRefresh() bool {
	return f.Run == nil && f.Refresh != nil && len(f.Refresh.Faults)+len(f.autoSpent()) == 0 && f.Delivered() && !f.Undone
}

// Refreshable reports whether a claim may apply the delivered work at HEAD on the base as
// it is now: whoever approved it still may, the text is the approved one, contract and
// target allow a claim, what a run needs is there, it is due, no revision comes first, and
// the guarded paths that the work changes there are accepted.
// Where one of these doesn't hold the delivered work stays as it is.
func (f Facts) Refreshable() bool {
	return f.RefreshNext() && len(f.RefusesRefresh())+len(f.Environment) == 0 && f.refreshDue() <= f.Now && !f.Paths.Held()
}

// asksAgain reports whether the act that asks for it is the one that asked last: the run
// that was begun for that came to nothing, for no fault of the work's.
func (f Facts) asksAgain(act string) bool { return f.Head.RefreshOwed && act == f.Head.RefreshAct }

// againDue is before when what an act asks for isn't tried again, Unix milliseconds.
// Another act doesn't wait.
func (f Facts) againDue(act string) int64 {
	if f.asksAgain(act) {
		return f.Head.NotBefore
	}
	return 0
}

// ReplacementHeld reports whether what is asked of the delivered work waits for nothing but
// somebody to accept its guarded paths.
func (f Facts) ReplacementHeld() bool {
	due := f.RefreshNext() && len(f.RefusesRefresh()) == 0 && f.refreshDue() <= f.Now
	return f.Paths.Held() && (due || f.ResumesFix() && len(f.RefusesFix()) == 0)
}

// refreshDue is before when the delivered work isn't applied on another base. What the
// contract asks for waits, too.
func (f Facts) refreshDue() int64 {
	if a := f.Refresh.Auto; a != nil && !f.asksAgain(f.Refresh.Act) {
		return a.Due
	}
	return f.againDue(f.Refresh.Act)
}

// replaceWake is when to look again, Unix milliseconds, where nothing but time or this
// host's failure keeps something from being done with the delivered work; 0 otherwise.
func (f Facts) replaceWake() int64 {
	var due int64
	switch {
	case f.Request != RequestTick || len(f.refusesAgain()) > 0:
		return 0
	case f.RefreshNext():
		if due = f.refreshDue(); due <= f.Now && f.Paths.Held() {
			return 0
		}
	case f.wantsFix():
		due = max(f.againDue(f.Fix.Act), f.budgetWake())
	default:
		return 0
	}
	if len(f.Environment) > 0 {
		return f.Now + hostWait
	}
	return max(due, f.LagUntil)
}

// refreshFirst reports whether of two acts that ask for something with the delivered work
// the one that asks for a refresh is done first: it is the older one, and a person's.
func (f Facts) refreshFirst() bool {
	return f.Fix == nil || f.Refresh != nil && f.Refresh.Auto == nil && !NewerAct(f.Refresh.Act, f.Fix.Act)
}

// RefreshNext reports whether a refresh is what is done next with the delivered work. What
// waits for its guarded paths is next all the same: of two acts the older one comes first. A
// revision that waited, and that nobody begins again by itself, keeps no refresh waiting.
func (f Facts) RefreshNext() bool {
	return f.wantsRefresh() && (f.refreshFirst() || !f.wantsFix() || f.heldFixGone())
}

// RefusesRefresh is why delivered work isn't applied on the base as it is now, which is
// answered in words. What only the host lacks is no such reason: it is waited for.
func (f Facts) RefusesRefresh() []Violation {
	var out []Violation
	if f.Refresh != nil {
		out = append(out, f.Refresh.Faults...)
	}
	return append(append(out, f.autoSpent()...), f.refusesAgain()...)
}

// RefusesReplacement is why what is asked next of delivered work isn't done.
func (f Facts) RefusesReplacement() []Violation {
	switch {
	case !f.Delivered():
		return nil
	case f.RefreshNext():
		return f.RefusesRefresh()
	case f.Fix != nil:
		return f.RefusesFix()
	}
	return nil
}

// refusesAgain is why nothing is done again with delivered work, whoever asks.
func (f Facts) refusesAgain() []Violation {
	out := consentRule(f)
	if f.Approved != f.Head.Approval {
		out = append(out, one(CodeInstructionChanged, "", "The work is for the text %s, approved is %s.", f.Head.Approval, f.Approved)...)
	}
	for _, list := range [][]Violation{f.Input, f.Policy, f.Refused} {
		out = append(out, list...)
	}
	return out
}

// replacing reports whether a run is live, or died, that is to replace a delivered result:
// it applies that on another base, or is a revision of it. Whatever else than its own
// result it comes to, that one is put back.
func (f Facts) replacing() bool {
	if f.Run != nil {
		return f.Run.Refreshes+f.Run.Fixes != ""
	}
	return f.Head.State == HeadWorking && f.Head.Refreshes+f.Head.Fixes != "" && f.Head.Trusted() && f.Head.Unrestorable == nil
}

// refreshed is the state of the result that a lease at HEAD is to replace.
func (h HeadFacts) refreshed() (s TaskState, waitsFor string) {
	if h.OriginState == string(TaskWaiting) {
		return TaskWaiting, WaitMerge
	}
	return TaskCompleted, ""
}

// replaces claims the task for what is to be done with its delivered work, if something is
// due: that is applied on the base as it is now, without a builder, or revised by one, or by
// what one left that was cut off. It
// counts nothing against that work: whatever else than a result of its own the run comes to,
// the delivered one is put back as it was, and interruptions are counted for the act that
// asked.
func replaces(f Facts, d Decision) (Decision, bool) {
	next := f.RefreshNext()
	var act string
	switch {
	case f.Request != RequestTick || f.LagUntil > f.Now:
		return d, false
	case next && f.Refreshable():
		act, d.Resumes, d.Refreshes = f.Refresh.Act, f.Refresh.Resumes, f.Refresh.Run
	case !next && f.Fixable():
		act, d.Fixes, d.Fix = f.Fix.Act, f.Fix.Run, f.Fix.Digest
		if f.ResumesFix() {
			d.Resumes = f.Sealed.Run
		}
	default:
		return d, false
	}
	d.Standing, d.Action, d.State = StandActing, ActionClaim, TaskClaimed
	d.Attempt, d.Interruptions = max(f.Head.Attempt, 1), f.Head.Interruptions
	if f.asksAgain(act) {
		d.RefreshInterruptions = f.Head.RefreshInterruptions
	}
	return d, true
}

// replacedRule: what a lease at HEAD is to replace must still count, to be put back.
func replacedRule(f Facts) []Violation {
	if v := f.Head.Unrestorable; v != nil && f.Run == nil && !f.movedOn() {
		return []Violation{*v}
	}
	return nil
}

// putBack is what becomes of the decision on a run that replaces a delivered result: where
// it ends otherwise than with a result of its own, that one stands again. It bears no
// interruption of such a run, which are counted for the act that asked for it: that is done
// again, after as long as a build would be, unless it was cut off too often. What the host
// couldn't do counts nothing. What waits for its guarded paths is done again once these are
// accepted. Where the result doesn't count any more, nothing is made of it.
func putBack(f Facts, d Decision) Decision {
	if v := f.Head.Unrestorable; v != nil {
		d.Standing, d.Action, d.Violations = StandAbandoned, ActionAbandon, []Violation{*v}
		return d
	}
	switch d.Action {
	case ActionTakeOver, ActionRelease:
		d = askAgain(f, d)
	case ActionWait:
		if d.NotBefore = 0; d.WaitingFor == WaitPaths {
			d.AsksAgain, d.RefreshWaits, d.RefreshInterruptions = true, WaitPaths, f.Head.RefreshInterruptions
		}
	case ActionJudge, ActionResult:
		if (Judgement{State: d.State, WaitingFor: d.WaitingFor}).Accepted() {
			return d
		}
		d.NotBefore = 0
	default:
		return d
	}
	d.Action, d.Interruptions = ActionRestore, f.Head.Interruptions
	d.State, d.WaitingFor = f.Head.refreshed()
	return d
}

// askAgain leaves the act that asked for a run to be done again.
func askAgain(f Facts, d Decision) Decision {
	n := f.Head.RefreshInterruptions
	if d.Interruptions > f.Head.Interruptions {
		n++
		d.NotBefore = interruptedUntil(f.Budgets, n, f.Now)
	}
	if n > f.Budgets.Interruptions {
		d.NotBefore = 0
		d.Violations = append(slices.Clone(d.Violations), one(CodeInterruptionsSpent, "interruptions", "It was interrupted %d times, %d are allowed. A new command has it tried again.", n, f.Budgets.Interruptions)...)
		return d
	}
	d.AsksAgain, d.RefreshInterruptions = true, n
	return d
}
