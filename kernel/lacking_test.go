package kernel_test

import (
	"testing"

	"github.com/writbot/writ/kernel"
)

// lacking is a task whose work waits for what its checks lack.
func lacking(change func(*kernel.Facts)) kernel.Facts {
	f := interrupted()
	f.Head.State, f.Head.WaitingFor, f.Head.Act = "waiting", kernel.WaitEnvironment, approved
	f.Act = approved
	return with(f, change)
}

// TestK8_LackingWaits: checks that fail for nothing but what the base's lack as well end no
// attempt. The work waits, and its builder counts as an interruption once; where something
// else failed, too, that counts as ever.
func TestK8_LackingWaits(t *testing.T) {
	f := running(kernel.PhaseChecked)
	f.Run.CheckFails = append(breaks(kernel.CodeLacksNetwork), breaks(kernel.CodeLacksProgram)...)
	d := decide(t, f)
	if d.Action != kernel.ActionWait || d.WaitingFor != kernel.WaitEnvironment || d.Attempt != f.Run.Attempt || d.Interruptions != f.Head.Interruptions+1 || len(d.Codes) != 2 {
		t.Errorf("%s for %q, %d interruptions, %v", d.Action, d.WaitingFor, d.Interruptions, d.Codes)
	}
	f.Run.Resumes, f.Run.Phase = theirs, kernel.PhaseChecked
	if d := decide(t, f); d.Action != kernel.ActionWait || d.Interruptions != f.Head.Interruptions || d.NotBefore != 0 {
		t.Errorf("no builder ran: %s, %d interruptions", d.Action, d.Interruptions)
	}
	f.Run.CheckFails = append(f.Run.CheckFails, breaks(kernel.CodeCheckFailed)...)
	if d := decide(t, f); d.Action != kernel.ActionJudge || d.State != kernel.TaskRetryPending {
		t.Errorf("beside a failure: %s, %s", d.Action, d.State)
	}
}

// TestK8_LackingGoesOn: a person, another configuration or contract, or another commit on
// the base have it tried again; nothing else does. On another base its work is no use, and
// as many builders as there are attempts are paid for that.
func TestK8_LackingGoesOn(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*kernel.Facts)
		action  kernel.Action
		resumes string
	}{
		"nothing moved":          {func(*kernel.Facts) {}, kernel.ActionNone, ""},
		"configuration":          {func(f *kernel.Facts) { f.Mended = true }, kernel.ActionClaim, theirs},
		"before its time":        {func(f *kernel.Facts) { f.Mended, f.Head.NotBefore = true, f.Now+1 }, kernel.ActionClaim, theirs},
		"a person resumes it":    {func(f *kernel.Facts) { f.View.ResumedHead = f.Head.OID }, kernel.ActionClaim, theirs},
		"a person approves anew": {func(f *kernel.Facts) { f.Head.Reapproved = true }, kernel.ActionClaim, ""},
		"another contract":       {func(f *kernel.Facts) { f.Mended, f.Sealed.Governance = true, digest("e") }, kernel.ActionClaim, ""},
		"the base":               {func(f *kernel.Facts) { f.BaseMoved = true }, kernel.ActionClaim, ""},
		"both":                   {func(f *kernel.Facts) { f.BaseMoved, f.Mended = true, true }, kernel.ActionClaim, ""},
		"the base, too soon":     {func(f *kernel.Facts) { f.BaseMoved, f.Head.NotBefore = true, f.Now+1 }, kernel.ActionNone, ""},
		"the base, too often":    {func(f *kernel.Facts) { f.BaseMoved, f.Head.Interruptions = true, f.Budgets.Attempts }, kernel.ActionNone, ""},
		"too often in all":       {func(f *kernel.Facts) { f.Mended, f.Head.Interruptions = true, f.Budgets.Interruptions+1 }, kernel.ActionResult, ""},
		"by an unlisted writer":  {func(f *kernel.Facts) { f.Mended, f.Head.Trust = true, kernel.TrustUnlisted }, kernel.ActionNone, ""},
		"while halted":           {func(f *kernel.Facts) { f.Mended, f.View.Halted = true, true }, kernel.ActionNone, ""},
		"the text was edited":    {func(f *kernel.Facts) { f.Mended, f.Current = true, digest("e") }, kernel.ActionNone, ""},
		"it only looks":          {func(f *kernel.Facts) { f.Mended, f.Request = true, kernel.RequestLook }, kernel.ActionNone, ""},
	} {
		if d := decide(t, lacking(tt.change)); d.Action != tt.action || d.Resumes != tt.resumes {
			t.Errorf("%s: %s %s, goes on with %q, %v", name, d.Standing, d.Action, d.Resumes, d.Codes)
		}
	}
	if d := decide(t, lacking(func(f *kernel.Facts) { f.Mended = true })); d.Attempt != 2 || d.Interruptions != 1 {
		t.Errorf("attempt %d, %d interruptions", d.Attempt, d.Interruptions)
	}
}

// TestP10_LackingIsEnded: what takes an approval back ends that wait, and so does an
// operator's stop.
func TestP10_LackingIsEnded(t *testing.T) {
	for _, code := range []kernel.Code{kernel.CodeTaskStopped, kernel.CodeSuperseded} {
		f := lacking(func(f *kernel.Facts) {
			f.TakenBack, f.Act = approved, takenOff
			f.Human = []kernel.Violation{{Code: code, Subject: takenOff}}
			f.Policy = f.Human
		})
		if d := decide(t, f); d.Action != kernel.ActionWait || d.WaitingFor != kernel.WaitApproval || d.Codes[0] != code {
			t.Errorf("%s: %s for %q, %v", code, d.Action, d.WaitingFor, d.Codes)
		}
	}
	if d := decide(t, lacking(func(f *kernel.Facts) { f.Request = kernel.RequestStop })); d.Action != kernel.ActionWait || d.WaitingFor != kernel.WaitApproval {
		t.Errorf("an operator's stop: %s for %q", d.Action, d.WaitingFor)
	}
}
