package world_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/plan"
	"github.com/writbot/writ/kernel/world"
)

// wants asserts the fault, and that the error is one that tells its code.
func wants(t *testing.T, err error, f world.Fault) {
	t.Helper()
	var e *world.Error
	if !errors.Is(err, f) || !errors.As(err, &e) || !e.Code.Known() {
		t.Errorf("error %v, want %v", err, f)
	}
}

// replace swaps the only draft of a kind.
func replace(drafts []kernel.Draft, kind kernel.Kind, with ...kernel.Draft) []kernel.Draft {
	var out []kernel.Draft
	for _, d := range drafts {
		if d.Kind == kind {
			out = append(out, with...)
		} else {
			out = append(out, d)
		}
	}
	return out
}

// E3: no outcome without its intent, no intent while one is open.
func TestE3_IntentBeforeOutcome(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	wants(t, b.try(j.outcome(kernel.ActionClaim, kernel.OutcomeDone)), world.ErrNoIntent)
	b.round(j.claims()...)
	wants(t, b.try(j.outcome(kernel.ActionDispatch, kernel.OutcomeDone)), world.ErrNoIntent)
	wants(t, b.try(b.job(1, "r2").claims()...), world.ErrIntentOpen)
	if open := b.k.OpenIntents(1); len(open) != 1 || open[0].Intent.Key != "claim:r1" || len(b.k.UnknownIntents(1)) > 0 {
		t.Errorf("open %v", open)
	}
	b.round(j.outcome(kernel.ActionClaim, kernel.OutcomeUnknown))
	if len(b.k.OpenIntents(1)) > 0 || len(b.k.UnknownIntents(1)) != 1 {
		t.Error("the claim isn't unknown")
	}
	wants(t, b.try(b.job(1, "r2").claims()...), world.ErrIntentOpen)
	if err := b.try(j.claims()...); err != nil {
		t.Errorf("the very same push again: %v", err)
	}
	b.round(j.outcome(kernel.ActionClaim, kernel.OutcomeDone))
	wants(t, b.try(j.outcome(kernel.ActionClaim, kernel.OutcomeDone)), world.ErrNoIntent)
	wants(t, b.try(j.outcome(kernel.ActionClaim, "maybe")), world.ErrNoIntent)
}

// E3, KC9, KC21: an effect has a decision, a decision its facts.
func TestE3_DecisionBeforeIntent(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	claims := j.claims()
	wants(t, b.try(replace(claims, kernel.KindDecision)...), world.ErrNoDecision)
	wants(t, b.try(replace(claims, kernel.KindObservation)...), world.ErrUnknownProposal)
	deny := j.decided(j.facts("", ""), kernel.ActionClaim, kernel.TaskClaimed, denied)
	wants(t, b.try(replace(claims, kernel.KindDecision, deny[1])...), world.ErrNoDecision)
	b.round(claims...)
	b.round(j.outcome(kernel.ActionClaim, kernel.OutcomeDone))
	wants(t, b.try(j.intent(kernel.ActionHeartbeat, "")), world.ErrNoDecision)
	beat := j.decided(j.facts("working", kernel.PhaseBuilding), kernel.ActionHeartbeat, kernel.TaskClaimed)
	b.round(append(beat, j.intent(kernel.ActionHeartbeat, ""))...)
	b.round(j.outcome(kernel.ActionHeartbeat, kernel.OutcomeDone))
	wants(t, b.try(j.intent(kernel.ActionHeartbeat, "")), world.ErrNoDecision) // a decision is for one effect
	none := j.decided(j.facts("working", kernel.PhaseBuilding), kernel.ActionNone, kernel.TaskClaimed)
	wants(t, b.try(append(none, j.intent(kernel.ActionNone, ""))...), world.ErrNoDecision)
}

// E4, P5: a dispatch is the allowed one, of the committed plan, and there is
// one per run.
func TestE4_Dispatch(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atClaimed)
	good := j.dispatches()
	hash := func(d kernel.Dispatch) canon.Digest {
		h, err := canon.Hash(d)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	changed := func(change func(*kernel.Dispatch)) []kernel.Draft {
		d := j.dispatch()
		change(&d)
		list := replace(good, kernel.KindDispatch, j.draft(kernel.KindDispatch, d))
		return replace(list, kernel.KindIntent, j.intent(kernel.ActionDispatch, hash(d)))
	}
	cases := []struct {
		name   string
		drafts []kernel.Draft
		want   world.Fault
	}{
		{"no decision", good[2:], world.ErrNoDecision},
		{"no decision, recorded only", good[2:3], world.ErrNoDecision},
		{"denied, recorded only", append(j.decided(j.facts("working", kernel.PhaseClaimed), kernel.ActionDispatch, kernel.TaskClaimed, denied), good[2]), world.ErrNoDecision},
		{"denied", append(j.decided(j.facts("working", kernel.PhaseClaimed), kernel.ActionDispatch, kernel.TaskClaimed, denied), good[2:]...), world.ErrNoDecision},
		{"nothing recorded", replace(good, kernel.KindDispatch), world.ErrDispatch},
		{"other bytes handed out", replace(good, kernel.KindIntent, j.intent(kernel.ActionDispatch, digest("f"))), world.ErrDispatch},
		{"malformed", changed(func(d *kernel.Dispatch) { d.Instruction = "" }), world.ErrDispatch},
		{"another plan", changed(func(d *kernel.Dispatch) { d.PlanHash = digest("f") }), world.ErrDispatch},
		{"another contract", changed(func(d *kernel.Dispatch) { d.GovernanceHash = digest("f") }), world.ErrDispatch},
		{"another base", changed(func(d *kernel.Dispatch) { d.BaseCommit = "2" }), world.ErrDispatch},
		{"another world", changed(func(d *kernel.Dispatch) { d.WorldID = "elsewhere" }), world.ErrForeign},
		{"another run", changed(func(d *kernel.Dispatch) { d.RunID = "r2" }), world.ErrForeign},
		{"good", good, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := b.try(c.drafts...); c.want != "" || err != nil {
				wants(t, err, c.want)
			}
		})
	}
	if b.k.Dispatched("r1") {
		t.Error("not dispatched yet")
	}
	j.step(kernel.ActionDispatch, good)
	if !b.k.Dispatched("r1") || b.k.Dispatched("r2") {
		t.Error("r1 was dispatched, r2 wasn't")
	}
	wants(t, b.try(j.dispatches()...), world.ErrSecondDispatch)
	b.round(j.decided(j.facts("working", kernel.PhaseClaimed), kernel.ActionDispatch, kernel.TaskClaimed)...)
	other := j.dispatch()
	other.Attempt = 2
	wants(t, b.try(j.draft(kernel.KindDispatch, other)), world.ErrSecondDispatch)
}

// E4: the dispatch may be recorded with the claim that it is pushed in.
func TestE4_DispatchWithTheClaim(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	b.round(append(j.claims(), j.draft(kernel.KindDispatch, j.dispatch()))...)
	b.round(j.outcome(kernel.ActionClaim, kernel.OutcomeDone))
	b.round(replace(j.dispatches(), kernel.KindDispatch)...)
}

// P5: a start that failed isn't repeated in the same run, and isn't the
// builder's work.
func TestP5_FailedStart(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atClaimed)
	b.round(j.dispatches()...)
	b.round(j.outcome(kernel.ActionDispatch, kernel.OutcomeFailed))
	wants(t, b.try(j.dispatches()...), world.ErrSecondDispatch)
	receipt := b.round(j.decided(j.facts("working", kernel.PhaseBuilt), kernel.ActionJudge, kernel.TaskRetryPending)...)
	if len(receipt.RejectedActionIDs) > 0 || b.stats("default") != (world.Stats{}) {
		t.Errorf("a builder that never ran was judged: %+v", b.stats("default"))
	}
}

// KC19, KC21, KC47, KC57 to KC59: seed pack, interpretation, spec, plan, in
// this order, each of the one before.
func TestKC19_OrderOfThePipeline(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	pack, p, planned := j.planned()
	spec, made := planned[2], planned[3]
	otherSpec := spec.Body.(plan.Spec)
	otherSpec.Pins.BaseCommit = "2"
	proposed := p
	proposed.Source = "planner-a"
	loose := proposed
	loose.Steps = append([]plan.Step{}, p.Steps...)
	loose.Steps[0].Safety.Network = true
	cases := []struct {
		name   string
		drafts []kernel.Draft
		want   world.Fault
	}{
		{"interpretation first", planned[1:], world.ErrOrder},
		{"spec without interpretation", []kernel.Draft{planned[0], spec}, world.ErrUnknownProposal},
		{"plan without spec", []kernel.Draft{planned[0], planned[1], made}, world.ErrPlan},
		{"spec with other pins", []kernel.Draft{planned[0], planned[1], j.draft(kernel.KindSpec, otherSpec)}, world.ErrPlan},
		{"plan not proposed", append(planned[:3:3], j.draft(kernel.KindPlan, proposed)), world.ErrUnknownProposal},
		{"plan proposed", append(planned[:3:3], j.draft(kernel.KindPlanProposal, plan.Propose(proposed)), j.draft(kernel.KindPlan, proposed)), ""},
		{"plan that asks for network", append(planned[:3:3], j.draft(kernel.KindPlanProposal, plan.Propose(loose)), j.draft(kernel.KindPlan, loose)), world.ErrPlan},
		{"proposal without spec", []kernel.Draft{planned[0], j.draft(kernel.KindPlanProposal, plan.Propose(proposed))}, world.ErrOrder},
		{"a new seed pack starts over", append(planned[:4:4], j.draft(kernel.KindSeedPack, pack), made), world.ErrPlan},
		{"good", planned, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := b.try(c.drafts...); c.want != "" || err != nil {
				wants(t, err, c.want)
			}
		})
	}
	b.round(planned[:3]...)
	wants(t, b.try(made), world.ErrOrder) // not in the round of its seed pack
}

// KC11, KC35: a refusal follows the decision that denies.
func TestRefusalNeedsDenial(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	refusal := j.draft(kernel.KindRefusal, kernel.NewRefusal(worldID, 1, kernel.Decision{}, nil))
	wants(t, b.try(refusal), world.ErrNoDecision)
	wants(t, b.try(append(j.decided(j.facts("", ""), kernel.ActionNone, kernel.TaskNone), refusal)...), world.ErrNoDecision)
	if err := b.try(append(j.decided(j.facts("", ""), kernel.ActionNone, kernel.TaskNone, denied), refusal)...); err != nil {
		t.Error(err)
	}
	foreign := j.draft(kernel.KindRefusal, kernel.NewRefusal("elsewhere", 1, kernel.Decision{}, nil))
	wants(t, b.try(foreign), world.ErrForeign)
}

// M2: halt and resume; a resume opens the next epoch.
func TestHaltAndResume(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atClaimed)
	b.round(j.act(kernel.ActHalt, 0))
	same(t, "view", kernel.TaskView{Task: 1, Halted: true, HaltReason: "looks odd", Unshown: "c-r1-claim"}, b.k.TaskView(1))
	wants(t, b.try(j.dispatches()...), world.ErrHalted)
	wants(t, b.try(b.job(1, "r2").claims()...), world.ErrHalted)
	abandon := j.decided(j.facts("working", kernel.PhaseClaimed), kernel.ActionAbandon, kernel.TaskClaimed)
	j.step(kernel.ActionAbandon, append(abandon, j.intent(kernel.ActionAbandon, "")))
	if results := b.answers(j.act(kernel.ActResume, 2)); *results[0].Error != kernel.CodeActionStale {
		t.Errorf("the epoch after the next is opened: %+v", results)
	}
	wants(t, b.try(j.act("shrug", 0)), world.ErrBody)
	b.round(j.act(kernel.ActResume, 1))
	same(t, "view", kernel.TaskView{Task: 1, Epoch: 1, ResumedHead: "c-head", Seen: "c-working", SeenSeq: 2}, b.k.TaskView(1))
	b.job(1, "r2").to(atPushed)
	policy := b.job(2, "r3")
	b.round(policy.decided(policy.facts("", ""), kernel.ActionNone, kernel.TaskNone, func(d *kernel.Decision) {
		d.Verdict = kernel.Halt
		d.Violations = []kernel.Violation{{Code: kernel.CodeLedgerRollback, Detail: "It is older."}}
	})...)
	if v := b.k.TaskView(2); !v.Halted || v.HaltReason != "ledger.rollback: It is older." {
		t.Errorf("a HALT didn't halt: %+v", v)
	}
}

// T49: the path space has two bounds, both at the limit and one over it.
func TestT49_Land(t *testing.T) {
	b := open(t, config()) // 8 paths, 4 deep
	j := b.job(1, "r1")
	j.files = []string{"a", "b", "c", "d", "e"}
	j.to(atClaimed)
	k := b.job(2, "r2")
	k.files = []string{"a", "b", "c", "d"}
	wants(t, b.try(k.claims()...), world.ErrLand)
	if list := b.k.Admit(2, k.files); len(list) != 1 || list[0].Code != kernel.CodeBudgetExceeded {
		t.Errorf("admitted: %v", list)
	}
	k.files = []string{"a", "b", "a/b/c/d"}
	if list := b.k.Admit(2, k.files); len(list) > 0 {
		t.Error(list)
	}
	k.to(atClaimed)
	wants(t, b.try(append(b.job(3, "r3").claims()[:2], b.job(3, "r3").draft(kernel.KindSeedPack, func() kernel.SeedPack {
		p := b.job(3, "r3").pack()
		p.Spec.AllowedFiles = []string{"a/b/c/d/e"}
		return p
	}()))...), world.ErrLand)
	same(t, "land", world.Land{Shape: [2]int64{8, 4}, Reserved: []world.Reservation{{Task: 1, Paths: j.files}, {Task: 2, Paths: k.files}}}, snapshot(t, b.k).Land)
}

// A claim has a run id of its own, and one that is lost leaves no trace in the
// land.
func TestClaimLost(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	b.round(j.claims()...)
	b.round(j.outcome(kernel.ActionClaim, kernel.OutcomeLost))
	wants(t, b.try(j.claims()...), world.ErrOrder)
	if s := snapshot(t, b.k); len(s.Land.Reserved) > 0 || b.stats("default") != (world.Stats{}) {
		t.Errorf("land %v, counters %+v", s.Land, b.stats("default"))
	}
	b.job(1, "r2").to(atPushed)
}

// K2, K10: a run that ends without a result was interrupted, once.
func TestInterruptions(t *testing.T) {
	for _, end := range []kernel.Action{kernel.ActionRelease, kernel.ActionWait, kernel.ActionTakeOver, kernel.ActionAbandon} {
		b := open(t, config())
		j := b.job(1, "r1").to(atDispatched)
		ends := j.decided(j.facts("working", kernel.PhaseBuilding), end, kernel.TaskOpen, func(d *kernel.Decision) { d.Interruptions = 1 })
		j.step(end, append(ends, j.intent(end, "")))
		same(t, string(end), world.Stats{Dispatched: 1, Interrupted: 1}, b.stats("default"))
		if task := b.task(1); task.Interruptions != 1 || !task.Run.Over || task.State != kernel.TaskOpen {
			t.Errorf("%s: task %+v", end, task)
		}
		wants(t, b.try(append(j.decided(j.facts("working", kernel.PhaseBuilding), kernel.ActionHeartbeat, kernel.TaskClaimed), j.intent(kernel.ActionHeartbeat, ""))...), world.ErrOrder)
	}
	b := open(t, config())
	b.job(1, "r1").to(atDispatched)
	b.job(1, "r2").to(atClaimed) // the first run's end was never seen
	same(t, "superseded", world.Stats{Dispatched: 1, Interrupted: 1}, b.stats("default"))
}

// HEAD decides; what isn't trusted there isn't copied, but a lease is a lock.
func TestHeadIsCopied(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	see := func(change func(*kernel.Facts)) world.Task {
		f := j.facts("retry_pending", "")
		f.Head.Attempt, f.Head.Interruptions, f.Head.NotBefore = 2, 1, start
		change(&f)
		b.round(j.draft(kernel.KindObservation, f))
		return b.task(1)
	}
	if task := see(func(*kernel.Facts) {}); task.State != kernel.TaskRetryPending || task.Attempts != 2 || task.Interruptions != 1 || task.NotBefore != start {
		t.Errorf("task %+v", task)
	}
	task := see(func(f *kernel.Facts) {
		f.Head.State, f.Head.Trust, f.Head.Attempt = "completed", kernel.TrustUnlisted, 9
	})
	if task.State != kernel.TaskRetryPending || task.Attempts != 2 || task.Head != "c-retry_pending" {
		t.Errorf("an unlisted result was copied: %+v", task)
	}
	if task = see(func(f *kernel.Facts) { f.Head.State, f.Head.Trust = "working", kernel.TrustUnlisted }); task.State != kernel.TaskClaimed {
		t.Errorf("an unlisted lease is no lock: %+v", task)
	}
	if task = see(func(f *kernel.Facts) { f.Head = kernel.HeadFacts{Trust: kernel.TrustNone} }); task.State != kernel.TaskClaimed || task.Head != "" {
		t.Errorf("a ref that is gone took the task's state along: %+v", task)
	}
	see(func(f *kernel.Facts) { f.Governance = digest("c") })
	contracts := snapshot(t, b.k).ActiveContracts
	if len(contracts) != 1 || contracts[0].GovernanceHash != digest("c") || contracts[0].SinceRound != 5 {
		t.Errorf("contracts %v", contracts)
	}
}

// An observation from before an effect of the same round doesn't undo it.
func TestStaleObservation(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	b.round(append(j.claims(), j.outcome(kernel.ActionClaim, kernel.OutcomeDone))...)
	if task := b.task(1); task.State != kernel.TaskClaimed || task.Head != "c-r1-claim" {
		t.Errorf("task %+v", task)
	}
}

// Facts are the fold's, and of this task and world.
func TestFactsAgreeWithTheFold(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	f := j.facts("", "")
	f.View.Epoch = 3
	wants(t, b.try(j.draft(kernel.KindObservation, f)), world.ErrView)
	f = j.facts("", "")
	f.World = "elsewhere"
	wants(t, b.try(j.draft(kernel.KindObservation, f)), world.ErrForeign)
	wants(t, b.try(b.job(2, "r1").draft(kernel.KindObservation, j.facts("", ""))), world.ErrForeign)
}

// Bodies are strict, canonical, and of their kind.
func TestBodies(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	f := j.facts("", "")
	f.Kind = "decision"
	cases := []struct {
		name  string
		draft kernel.Draft
		want  world.Fault
	}{
		{"other kind inside", j.draft(kernel.KindObservation, f), world.ErrBody},
		{"unknown field", j.draft(kernel.KindOutcome, map[string]any{"kind": "outcome", "extra": 1}), world.ErrBody},
		{"float", j.draft(kernel.KindOutcome, map[string]any{"kind": 1.5}), world.ErrBody},
		{"no task", kernel.Draft{Kind: kernel.KindObservation, Body: f}, world.ErrBody},
		{"run id that isn't text", kernel.Draft{Kind: kernel.KindObservation, Task: 1, Run: "\xff", Body: f}, world.ErrBody},
		{"unknown kind", j.draft("gossip", f), world.ErrOrder},
		{"a receipt", j.draft(kernel.KindReceipt, f), world.ErrOrder},
		{"a second genesis", j.draft(kernel.KindGenesis, f), world.ErrOrder},
		{"an audit entry of another kind", j.draft(kernel.KindAudit, f), world.ErrBody},
		{"an audit entry with more", j.draft(kernel.KindAudit, map[string]any{"kind": "audit", "whatever": 1}), world.ErrBody},
		{"an audit entry that says another kind", j.draft(kernel.KindAudit, machine.Entry{Kind: "decision"}), world.ErrBody},
		{"an audit entry", j.draft(kernel.KindAudit, audit(1)), ""},
		{"a report", j.draft(kernel.KindReport, map[string]any{"kind": "report", "whatever": 1}), ""},
		{"a report of another kind", j.draft(kernel.KindReport, f), world.ErrBody},
		{"evidence of another run", j.draft(kernel.KindDiff, kernel.Diff{Kind: "diff", Run: "r2"}), world.ErrForeign},
		{"a verdict of its own", j.decided(j.facts("", ""), kernel.ActionNone, "", func(d *kernel.Decision) { d.Verdict = "MAYBE" })[1], world.ErrUnknownProposal},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := b.try(c.draft); c.want != "" || err != nil {
				wants(t, err, c.want)
			}
		})
	}
	wants(t, b.try(j.decided(j.facts("", ""), kernel.ActionNone, "", func(d *kernel.Decision) { d.Verdict = "MAYBE" })...), world.ErrBody)
	if err := b.try(j.draft("gossip", f)); !strings.Contains(err.Error(), "gossip") {
		t.Errorf("the error doesn't say what it is about: %v", err)
	}
}
