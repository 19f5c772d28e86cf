package world_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/world"
)

// E1: one accepted result per approval, whatever became of the first push.
func TestE1_SecondAcceptance(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atJudged)
	b.round(j.results(kernel.TaskCompleted)...)
	b.round(j.outcome(kernel.ActionResult, kernel.OutcomeUnknown))
	b.round(j.outcome(kernel.ActionResult, kernel.OutcomeDone))
	if got := b.task(1).AcceptedRun; got != "r1" {
		t.Fatalf("accepted run %q", got)
	}
	second := b.job(1, "r2").to(atBuilt)
	wants(t, b.try(second.judged(kernel.TaskCompleted)...), world.ErrSecondAcceptance)
	if err := b.try(second.judged(kernel.TaskRetryPending)...); err != nil {
		t.Errorf("a rejection is no acceptance: %v", err)
	}
	second.title = "Another text, approved anew"
	b.round(second.draft(kernel.KindObservation, second.facts("working", kernel.PhaseChecked)))
	if err := b.try(second.judged(kernel.TaskCompleted)...); err != nil {
		t.Errorf("a new approval: %v", err)
	}
	b.round(b.job(1, "r2").act(kernel.ActResume, 1))
	if b.task(1).AcceptedRun != "" {
		t.Error("a resume doesn't start over")
	}
}

// E1: within a round, too, where the first is pushed but not settled.
func TestE1_SecondAcceptanceInOneRound(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atJudged)
	b.round(j.results(kernel.TaskCompleted)...)
	second := b.job(1, "r2")
	var drafts []kernel.Draft
	drafts = append(drafts, j.outcome(kernel.ActionResult, kernel.OutcomeDone))
	drafts = append(drafts, second.claims()...)
	drafts = append(drafts, second.outcome(kernel.ActionClaim, kernel.OutcomeDone))
	drafts = append(drafts, second.dispatches()...)
	drafts = append(drafts, second.outcome(kernel.ActionDispatch, kernel.OutcomeDone))
	drafts = append(drafts, second.proposed()...)
	if err := b.try(drafts...); err != nil {
		t.Fatal(err)
	}
	wants(t, b.try(append(drafts, second.judged(kernel.TaskCompleted)...)...), world.ErrSecondAcceptance)
}

// E1: a result whose push was lost is none; the next run may be accepted.
func TestE1_LostResultIsNone(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atJudged)
	b.round(j.results(kernel.TaskCompleted)...)
	b.round(j.outcome(kernel.ActionResult, kernel.OutcomeLost))
	same(t, "counters", world.Stats{Dispatched: 1, Accepted: 1}, b.stats("default"))
	b.job(1, "r2").to(atPushed)
	if got := b.task(1).AcceptedRun; got != "r2" {
		t.Errorf("accepted run %q", got)
	}
}

// KC14, KC39: nothing is accepted without its evidence.
func TestAcceptanceNeedsEvidence(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atBuilt)
	judged := j.judged(kernel.TaskCompleted)
	wants(t, b.try(judged[1:]...), world.ErrUnproven) // no run result
	other := j.facts("working", kernel.PhaseChecked)
	other.Run.RunID = "r9"
	wants(t, b.try(append([]kernel.Draft{j.checked()}, j.decided(other, kernel.ActionJudge, kernel.TaskCompleted)...)...), world.ErrUnproven)
	wants(t, b.try(j.results(kernel.TaskCompleted)...), world.ErrUnproven) // not judged
	unchecked := j.facts("working", kernel.PhaseBuilt)
	unchecked.Checks = 0
	if err := b.try(j.decided(unchecked, kernel.ActionJudge, kernel.TaskCompleted)...); err != nil {
		t.Errorf("a contract without checks: %v", err)
	}
	b.round(j.judged(kernel.TaskRetryPending)...)
	wants(t, b.try(j.decided(j.facts("working", kernel.PhaseChecked), kernel.ActionJudge, kernel.TaskCompleted)...), world.ErrUnproven)
	wants(t, b.try(b.job(2, "r2").decided(b.job(2, "r2").facts("working", kernel.PhaseChecked), kernel.ActionJudge, kernel.TaskCompleted)...), world.ErrUnproven)

	early := open(t, config())
	j = early.job(1, "r1").to(atDispatched)
	wants(t, early.try(j.decided(j.facts("working", kernel.PhaseBuilt), kernel.ActionJudge, kernel.TaskCompleted)...), world.ErrUnproven)
	wants(t, early.try(j.checked()), world.ErrOrder)
	early.round(j.proposed()...)
	again := j.proposed()[1]
	again.Body = kernel.Diff{Kind: string(kernel.KindDiff), Run: "r1", Base: "another"}
	wants(t, early.try(again), world.ErrOrder)
	late := early.job(1, "r0").proposed()
	if err := early.try(late...); err != nil {
		t.Errorf("what a run that is over still says is recorded: %v", err)
	}
}

// G6: a verdict may be taken back before it is pushed, and not the other way.
func TestVerdictTakenBack(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atJudged)
	b.round(j.results(kernel.TaskCompleted)...)
	b.round(j.outcome(kernel.ActionResult, kernel.OutcomeRefused))
	receipt := b.round(j.decided(j.facts("working", kernel.PhaseJudged), kernel.ActionJudge, kernel.TaskBlocked)...)
	if len(receipt.RejectedActionIDs)+len(receipt.AcceptedActionIDs) > 0 {
		t.Error("a run is one action")
	}
	wants(t, b.try(j.results(kernel.TaskCompleted)...), world.ErrUnproven)
	j.step(kernel.ActionResult, j.results(kernel.TaskBlocked))
	same(t, "counters", world.Stats{Dispatched: 1, Accepted: 1, Interrupted: 1}, b.stats("default"))
	if task := b.task(1); task.State != kernel.TaskBlocked || task.AcceptedRun != "" {
		t.Errorf("task %+v", task)
	}
}

// TestE1_Revision: over the result that counts there is a revision, on facts that
// know of that very list and run, and its own result counts then.
func TestE1_Revision(t *testing.T) {
	b := open(t, config())
	b.job(1, "r1").to(atPushed)
	j := b.job(1, "r3")
	claims := func(change func(*kernel.Decision)) []kernel.Draft {
		f := j.facts(string(kernel.TaskCompleted), "")
		f.Head.LastRun = "r1"
		f.Fix = &kernel.FixFacts{Run: "r1", Head: strings.Repeat("2", 40), Digest: digest("f"), Act: "5/comment:1", Faults: []kernel.Violation{}, Left: []kernel.Violation{}}
		_, _, planned := j.planned()
		drafts := append(j.decided(f, kernel.ActionClaim, kernel.TaskClaimed, func(d *kernel.Decision) {
			d.Fixes, d.Fix = "r1", digest("f")
			change(d)
		}), planned...)
		return append(drafts, j.intent(kernel.ActionClaim, ""))
	}
	for name, change := range map[string]func(*kernel.Decision){
		"of another run":      func(d *kernel.Decision) { d.Fixes = "r2" },
		"with another list":   func(d *kernel.Decision) { d.Fix = digest("e") },
		"without a run":       func(d *kernel.Decision) { d.Fixes = "" },
		"with a refresh":      func(d *kernel.Decision) { d.Refreshes = "r1" },
		"with work":           func(d *kernel.Decision) { d.Resumes = "r1" },
		"that claims nothing": func(d *kernel.Decision) { d.Action = kernel.ActionNone },
	} {
		if err := b.try(claims(change)...); !errors.Is(err, world.ErrUnproven) {
			t.Errorf("a revision %s: %v", name, err)
		}
	}
	j.step(kernel.ActionClaim, claims(func(*kernel.Decision) {}))
	j.step(kernel.ActionDispatch, j.dispatches())
	j.step(kernel.ActionChecks, j.built())
	b.round(j.judged(kernel.TaskCompleted)...)
	j.step(kernel.ActionResult, j.results(kernel.TaskCompleted))
	if got := b.task(1).AcceptedRun; got != "r3" {
		t.Errorf("accepted run %q", got)
	}
}

// TestK11_ResumedRevision: a revision goes on with sealed work on facts that know of it, for
// this very act and list, and starts no builder.
func TestK11_ResumedRevision(t *testing.T) {
	b := open(t, config())
	b.job(1, "r1").to(atPushed)
	j := b.job(1, "r3")
	claims := func(run string, change func(*kernel.Facts)) []kernel.Draft {
		f := j.facts(string(kernel.TaskCompleted), "")
		f.Head.LastRun, f.Head.RefreshAct, f.Head.RefreshOwed = "r1", "5/comment:1", true
		f.Fix = &kernel.FixFacts{Run: "r1", Head: strings.Repeat("2", 40), Digest: digest("f"), Act: "5/comment:1", Faults: []kernel.Violation{}, Left: []kernel.Violation{}}
		f.Sealed = &kernel.SealedFacts{Run: "r2", Attempt: 1, Approval: f.Approved, Governance: f.Governance, Base: f.Fix.Head, Fix: f.Fix.Digest, Dispatch: digest("d"), Faults: []kernel.Violation{}}
		change(&f)
		_, _, planned := j.planned()
		drafts := append(j.decided(f, kernel.ActionClaim, kernel.TaskClaimed, func(d *kernel.Decision) {
			d.Fixes, d.Fix, d.Resumes = "r1", digest("f"), run
		}), planned...)
		return append(drafts, j.intent(kernel.ActionClaim, ""))
	}
	wants(t, b.try(claims("r1", func(*kernel.Facts) {})...), world.ErrUnproven)
	for name, change := range map[string]func(*kernel.Facts){
		"for another list": func(f *kernel.Facts) { f.Sealed.Fix = digest("e") },
		"of another act":   func(f *kernel.Facts) { f.Head.RefreshAct = "4/comment:1" },
		"of no run":        func(f *kernel.Facts) { f.Sealed = nil },
	} {
		if err := b.try(claims("r2", change)...); !errors.Is(err, world.ErrUnproven) {
			t.Errorf("work %s: %v", name, err)
		}
	}
	j.step(kernel.ActionClaim, claims("r2", func(*kernel.Facts) {}))
	if err := b.try(j.dispatches()...); err == nil {
		t.Error("it starts a builder")
	}
	j.step(kernel.ActionChecks, j.built())
	b.round(j.judged(kernel.TaskCompleted)...)
	j.step(kernel.ActionResult, j.results(kernel.TaskCompleted))
	if got := b.task(1).AcceptedRun; got != "r3" {
		t.Errorf("accepted run %q", got)
	}
}

// TestE1_RefreshOfAnothersResult: a result that somebody else's run put in the place of ours
// may be applied on another base; that of any other run may not.
func TestE1_RefreshOfAnothersResult(t *testing.T) {
	b := open(t, config())
	b.job(1, "r1").to(atPushed)
	j := b.job(1, "r3")
	claims := func(named string) []kernel.Draft {
		f := j.facts(string(kernel.TaskCompleted), "")
		f.Head.LastRun = "r2"
		f.Refresh = &kernel.RefreshFacts{Run: "r2", Base: strings.Repeat("2", 40), Resumes: "r2", Dispatch: digest("d"), Attempt: 1, Act: "5/comment:1", Faults: []kernel.Violation{}}
		_, _, planned := j.planned()
		drafts := append(j.decided(f, kernel.ActionClaim, kernel.TaskClaimed, func(d *kernel.Decision) { d.Resumes, d.Refreshes = "r2", named }), planned...)
		return append(drafts, j.intent(kernel.ActionClaim, ""))
	}
	wants(t, b.try(claims("r1")...), world.ErrUnproven)
	j.step(kernel.ActionClaim, claims("r2"))
	j.step(kernel.ActionChecks, j.built())
	b.round(j.judged(kernel.TaskCompleted)...)
	j.step(kernel.ActionResult, j.results(kernel.TaskCompleted))
	if got := b.task(1).AcceptedRun; got != "r3" {
		t.Errorf("accepted run %q", got)
	}
}
