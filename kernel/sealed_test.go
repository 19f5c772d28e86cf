package kernel_test

import (
	"testing"

	"github.com/writbot/writ/kernel"
)

// interrupted is a task whose run was broken off after its work had been sealed.
func interrupted() kernel.Facts {
	f := fresh()
	f.Head = kernel.HeadFacts{
		OID: head1, State: kernel.HeadStalled, Trust: kernel.TrustListed, Format: kernel.StateFormat, Seq: 3, Binding: kernel.BindHere,
		Approval: f.Approved, Attempt: 2, Interruptions: 1, LastRun: theirs,
	}
	f.Sealed = &kernel.SealedFacts{Run: theirs, Attempt: 2, Approval: f.Approved, Governance: f.Governance}
	return f
}

// TestK11_WhatIsGoneOnWith: a claim goes on with sealed work of this very approval,
// attempt and contract, at a trusted HEAD at which no person begins the task anew;
// otherwise it starts a builder. The interruption was counted where the lease was broken.
func TestK11_WhatIsGoneOnWith(t *testing.T) {
	if d := decide(t, interrupted()); d.Action != kernel.ActionClaim || d.Resumes != theirs || d.Attempt != 2 || d.Interruptions != 1 {
		t.Fatalf("%s, goes on with %q, attempt %d, %d interruptions", d.Action, d.Resumes, d.Attempt, d.Interruptions)
	}
	halted := interrupted() // and resumed
	halted.View.ResumedHead, halted.Head.NotBefore = head1, now+1
	if d := decide(t, halted); d.Action != kernel.ActionClaim || d.Resumes != theirs || d.Attempt != 2 || d.Interruptions != 1 {
		t.Fatalf("after a halt: %s, goes on with %q, attempt %d, %d interruptions", d.Action, d.Resumes, d.Attempt, d.Interruptions)
	}
	for name, change := range map[string]func(*kernel.Facts){
		"nothing is sealed":      func(f *kernel.Facts) { f.Sealed = nil },
		"a fault was found":      func(f *kernel.Facts) { f.Sealed.Faults = breaks(kernel.CodeEvidenceInvalid) },
		"of another approval":    func(f *kernel.Facts) { f.Sealed.Approval = digest("e") },
		"under another contract": func(f *kernel.Facts) { f.Sealed.Governance = digest("e") },
		"of another attempt":     func(f *kernel.Facts) { f.Sealed.Attempt = 1 },
		"of no run":              func(f *kernel.Facts) { f.Sealed.Run = "" },
		"approved anew":          func(f *kernel.Facts) { f.Head.Reapproved = true },
		"a person repaired it": func(f *kernel.Facts) {
			f.View.ResumedHead, f.View.Seen, f.View.SeenSeq = head1, head2, 9
		},
		"an unlisted writer's":     func(f *kernel.Facts) { f.Head.Trust = kernel.TrustUnlisted },
		"bound to another place":   func(f *kernel.Facts) { f.Head.Binding = kernel.BindElsewhere },
		"at the end of an attempt": func(f *kernel.Facts) { f.Head.State = "retry_pending" },
		"while it waits":           func(f *kernel.Facts) { f.Head.State = "waiting" },
		"at an open event":         func(f *kernel.Facts) { f.Head.State = "open" },
	} {
		f := interrupted()
		change(&f)
		if d := decide(t, f); d.Resumes != "" || f.Resumable() {
			t.Errorf("%s: %s goes on with %q", name, d.Action, d.Resumes)
		}
	}
}

// TestI5_StandingBeforeTheChecks: who goes on with sealed work is asked for again before
// the checks, as a builder's start is.
func TestI5_StandingBeforeTheChecks(t *testing.T) {
	f := running(kernel.PhaseSealed)
	f.Asked, f.Policy = true, breaks(kernel.CodeAuthorityRevoked)
	if d := decide(t, f); d.Action != kernel.ActionChecks {
		t.Errorf("in the run that was dispatched: %s", d.Action)
	}
	f.Run.Resumes = theirs
	if d := decide(t, f); d.Action != kernel.ActionWait {
		t.Errorf("in a run that goes on: %s", d.Action)
	}
	f.Policy, f.Run.Dispatch = nil, breaks(kernel.CodeGovernanceMismatch)
	if d := decide(t, f); d.Action != kernel.ActionRelease {
		t.Errorf("under another contract: %s", d.Action)
	}
}
