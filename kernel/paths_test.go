package kernel_test

import (
	"testing"

	"github.com/writbot/writ/kernel"
)

// guardedBy are the facts of guarded paths that somebody with a permission has accepted by
// naming a digest; "" is nobody.
func guardedBy(permission string, named string) *kernel.PathsFacts {
	p := &kernel.PathsFacts{Digest: digest("a"), Needs: "maintain", Paths: []kernel.GuardedPath{{Path: "ci.yml", Why: "w"}}}
	if permission != "" {
		p.Accepted = &kernel.Acceptance{Act: "2000/comment:2", Actor: "7:ann", Permission: permission, Digest: digest(named)}
	}
	return p
}

// TestP1_GuardedPathsAreHeld: only the recorded act of somebody with at least the
// contract's permission, on exactly this digest, lets work go that changes guarded paths.
func TestP1_GuardedPathsAreHeld(t *testing.T) {
	for name, c := range map[string]struct {
		p    *kernel.PathsFacts
		held bool
	}{
		"none":                 {nil, false},
		"nobody":               {guardedBy("", ""), true},
		"who may":              {guardedBy("maintain", "a"), false},
		"who may do more":      {guardedBy("admin", "a"), false},
		"who may do less":      {guardedBy("write", "a"), true},
		"what is none":         {guardedBy("owner", "a"), true},
		"another digest":       {guardedBy("admin", "b"), true},
		"no digest":            {&kernel.PathsFacts{Needs: "maintain", Accepted: &kernel.Acceptance{Actor: "7:ann", Permission: "admin"}}, true},
		"no account":           {func() *kernel.PathsFacts { p := guardedBy("admin", "a"); p.Accepted.Actor = ""; return p }(), true},
		"a contract of nobody": {func() *kernel.PathsFacts { p := guardedBy("admin", "a"); p.Needs = "nobody"; return p }(), true},
		"a contract of all":    {func() *kernel.PathsFacts { p := guardedBy("read", "a"); p.Needs = "read"; return p }(), true},
	} {
		if c.p.Held() != c.held {
			t.Errorf("%s: held %v", name, !c.held)
		}
	}
}

// TestP1_GuardedWorkWaits: wherever a run comes to its end with work that is good, and
// whatever else holds, guarded paths that nobody accepted make it wait, and nothing is
// judged.
func TestP1_GuardedWorkWaits(t *testing.T) {
	for name, f := range map[string]kernel.Facts{
		"without checks":            with(running(kernel.PhaseBuilt), func(f *kernel.Facts) { f.Checks = 0 }),
		"sealed, without checks":    with(running(kernel.PhaseSealed), func(f *kernel.Facts) { f.Checks = 0 }),
		"checked":                   running(kernel.PhaseChecked),
		"sealed and checked before": with(running(kernel.PhaseSealed), func(f *kernel.Facts) { f.Run.Checked, f.Run.Resumes = true, theirs }),
		"that waits for its merge":  with(running(kernel.PhaseChecked), func(f *kernel.Facts) { f.CloseOn = kernel.CloseMerged }),
	} {
		if d := decide(t, f); d.Action != kernel.ActionJudge {
			t.Fatalf("%s: %s without guarded paths", name, d.Action)
		}
		f.Paths = guardedBy("write", "a")
		if d := decide(t, f); d.Action != kernel.ActionWait || d.WaitingFor != kernel.WaitPaths || d.Codes[0] != kernel.CodePathGuarded || d.Attempt != f.Run.Attempt {
			t.Errorf("%s: %s for %q, %v", name, d.Action, d.WaitingFor, d.Codes)
		}
		f.Paths = guardedBy("maintain", "a")
		if d := decide(t, f); d.Action != kernel.ActionJudge {
			t.Errorf("%s: accepted, and %s", name, d.Action)
		}
	}
	f := with(running(kernel.PhaseChecked), func(f *kernel.Facts) {
		f.Paths, f.Run.CheckFails = guardedBy("admin", "a"), breaks(kernel.CodeCheckFailed)
	})
	if d := decide(t, f); d.State != kernel.TaskRetryPending {
		t.Errorf("accepted, and its check fails: %s", d.State)
	}
}

// held is a task whose work waits for its guarded paths.
func held() kernel.Facts {
	f := interrupted()
	f.Head.State, f.Head.WaitingFor, f.Head.Act = "waiting", kernel.WaitPaths, approved
	f.Act, f.Paths = approved, guardedBy("", "")
	return f
}

// TestP1_AcceptedPathsGoOn: accepted work is gone on with, by its own attempt and without
// a builder; what keeps that from being so leaves it waiting, and starts nothing.
func TestP1_AcceptedPathsGoOn(t *testing.T) {
	if d := decide(t, held()); d.Standing != kernel.StandWaiting || d.Action != kernel.ActionNone || d.WaitingFor != kernel.WaitPaths {
		t.Fatalf("it stands %s, %s", d.Standing, d.Action)
	}
	accepted := func() kernel.Facts {
		return with(held(), func(f *kernel.Facts) { f.Paths = guardedBy("admin", "a") })
	}
	if d := decide(t, accepted()); d.Action != kernel.ActionClaim || d.Resumes != theirs || d.Attempt != 2 || d.Interruptions != 1 {
		t.Fatalf("accepted: %s, goes on with %q, attempt %d, %d interruptions", d.Action, d.Resumes, d.Attempt, d.Interruptions)
	}
	for name, change := range map[string]func(*kernel.Facts){
		"the base was rewritten":  func(f *kernel.Facts) { f.Sealed.Faults = breaks(kernel.CodeTargetIneligible) },
		"nothing is sealed":       func(f *kernel.Facts) { f.Sealed = nil },
		"under another contract":  func(f *kernel.Facts) { f.Sealed.Governance = digest("e") },
		"for another text":        func(f *kernel.Facts) { f.Sealed.Approval = digest("e") },
		"by nobody who may":       func(f *kernel.Facts) { f.Paths = guardedBy("write", "a") },
		"by an unlisted writer":   func(f *kernel.Facts) { f.Head.Trust = kernel.TrustUnlisted },
		"while halted":            func(f *kernel.Facts) { f.View.Halted = true },
		"while others are listed": func(f *kernel.Facts) { f.Policy = breaks(kernel.CodeAuthority) },
		"and the text was edited": func(f *kernel.Facts) { f.Current = digest("e") },
		"and nothing is read":     func(f *kernel.Facts) { f.Paths = nil },
	} {
		if d := decide(t, with(accepted(), change)); d.Action != kernel.ActionNone {
			t.Errorf("accepted, %s: %s, goes on with %q", name, d.Action, d.Resumes)
		}
	}
	halt := with(held(), func(f *kernel.Facts) { f.View.ResumedHead = f.Head.OID })
	if d := decide(t, halt); d.Action != kernel.ActionNone || d.WaitingFor != kernel.WaitPaths {
		t.Errorf("a halt was taken back: %s for %q", d.Action, d.WaitingFor)
	}
	anewAsked := with(accepted(), func(f *kernel.Facts) { f.Head.Reapproved = true })
	if d := decide(t, anewAsked); d.Action != kernel.ActionClaim || d.Resumes != "" {
		t.Errorf("approved anew: %s, goes on with %q", d.Action, d.Resumes)
	}
}

// TestP10_HeldWorkIsEnded: what takes an approval back ends work that waits for its
// guarded paths, be they accepted or not, and so does an operator's stop.
func TestP10_HeldWorkIsEnded(t *testing.T) {
	for _, p := range []*kernel.PathsFacts{guardedBy("", ""), guardedBy("admin", "a")} {
		for _, code := range []kernel.Code{kernel.CodeTaskStopped, kernel.CodeSuperseded} {
			f := with(held(), func(f *kernel.Facts) {
				f.Paths, f.TakenBack, f.Act = p, approved, takenOff
				f.Human = []kernel.Violation{{Code: code, Subject: takenOff}}
				f.Policy = f.Human
			})
			if d := decide(t, f); d.Action != kernel.ActionWait || d.WaitingFor != kernel.WaitApproval || d.Codes[0] != code {
				t.Errorf("%s: %s for %q, %v", code, d.Action, d.WaitingFor, d.Codes)
			}
		}
		f := with(held(), func(f *kernel.Facts) { f.Paths, f.Request = p, kernel.RequestStop })
		if d := decide(t, f); d.Action != kernel.ActionWait || d.WaitingFor != kernel.WaitApproval {
			t.Errorf("an operator's stop: %s for %q", d.Action, d.WaitingFor)
		}
	}
}

// TestP1_PathsDigest: another result, base, mode, blob, path, dispatch, task or world is
// another digest.
func TestP1_PathsDigest(t *testing.T) {
	diff := func(change func(*kernel.Diff)) kernel.Diff {
		d := kernel.Diff{Kind: "diff", Run: ourRun, Base: head1, Discarded: []string{}, Violations: []kernel.Violation{},
			Changes: []kernel.Change{
				{Path: "ci.yml", Op: kernel.OpModify, BeforeID: head1, BeforeMode: "100644", AfterID: head2, AfterMode: "100644", AfterHash: digest("a"), Size: 3},
				{Path: "main.go", Op: kernel.OpAdd, AfterID: head1, AfterMode: "100644", AfterHash: digest("b"), Size: 3},
			},
			Guarded: []kernel.GuardedPath{{Path: "ci.yml", Why: "w"}}}
		if change != nil {
			change(&d)
		}
		return d
	}
	of := func(world string, task int64, dispatch string, d kernel.Diff) string {
		x, err := kernel.PathsDigest(world, task, digest(dispatch), d)
		must(t, err)
		return string(x)
	}
	seen := map[string]string{of("w", 1, "a", diff(nil)): "the work"}
	for name, x := range map[string]string{
		"another world":      of("v", 1, "a", diff(nil)),
		"another task":       of("w", 2, "a", diff(nil)),
		"another dispatch":   of("w", 1, "b", diff(nil)),
		"another base":       of("w", 1, "a", diff(func(d *kernel.Diff) { d.Base = head2 })),
		"another mode":       of("w", 1, "a", diff(func(d *kernel.Diff) { d.Changes[0].AfterMode = "100755" })),
		"another mode then":  of("w", 1, "a", diff(func(d *kernel.Diff) { d.Changes[0].BeforeMode = "100755" })),
		"another blob":       of("w", 1, "a", diff(func(d *kernel.Diff) { d.Changes[0].AfterID = head1 })),
		"another blob then":  of("w", 1, "a", diff(func(d *kernel.Diff) { d.Changes[0].BeforeID = head2 })),
		"another result":     of("w", 1, "a", diff(func(d *kernel.Diff) { d.Changes[1].AfterID = head2 })),
		"another is guarded": of("w", 1, "a", diff(func(d *kernel.Diff) { d.Guarded[0].Path = "main.go" })),
	} {
		if other, twice := seen[x]; twice {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[x] = name
	}
}
