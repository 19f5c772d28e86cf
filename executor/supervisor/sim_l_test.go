package supervisor

import (
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// TestSim_L1_SixteenClaims nests sixteen claims: each runner has read before any
// of them pushes. One wins, the others run nothing.
func TestSim_L1_SixteenClaims(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, make([]int64, 16)...)
	statuses := make([]Status, len(s.runners))
	for i := 0; i < len(s.runners)-1; i++ {
		s.runners[i].beforePush = func() { statuses[i+1] = s.runners[i+1].tick() }
	}
	statuses[0] = s.runners[0].tick()
	won := 0
	for _, st := range statuses {
		switch outcomeOf(st) {
		case kernel.OutcomeDone:
			won++
		case kernel.OutcomeLost:
			if st.Outcome.Code != kernel.CodeLeaseLost {
				s.fail("lost with %q", st.Outcome.Code)
			}
		default:
			s.fail("outcome %+v", st.Outcome)
		}
	}
	if won != 1 {
		s.fail("%d winners", won)
	}
	for _, r := range s.runners {
		r.tick()
	}
	s.expect("working", 1, 1, 0)
}

// TestSim_L2_IdenticalCommits: two processes of one installation (which its lock
// would keep apart) mint one run id in one second, so the same bytes. "Up to
// date" is lost.
func TestSim_L2_IdenticalCommits(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	twin := *a
	twin.ledger = &memLedger{r: &twin, chain: a.ledger.chain, records: a.ledger.records}
	twin.disks, twin.obs = 7, keptSightings{}
	for _, r := range a.ledger.records {
		sealed, err := r.Sealed()
		must(t, err)
		s.check.Stored(twin.instance(), sealed)
	}
	twin.start()
	a.fixedID, twin.fixedID = "33333333-3333-4333-8333-333333333333", "33333333-3333-4333-8333-333333333333"
	var second Status
	a.beforePush = func() { second = twin.tick(); s.check.Wrong = nil } // both intend the same bytes
	first := a.tick()
	if outcomeOf(first) != kernel.OutcomeLost || outcomeOf(second) != kernel.OutcomeDone || first.Outcome.Key != second.Outcome.Key {
		s.fail("first %+v, second %+v", first.Outcome, second.Outcome)
	}
	if a.proc.task.worker.run != nil || twin.proc.task.worker.run == nil {
		s.fail("the loser holds a run")
	}
}

// TestSim_L3_RefDeleted: a ref that is deleted between reading and pushing isn't
// made again by the push.
func TestSim_L3_RefDeleted(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionDispatch)
	s.advance(45_000)
	a.beforePush = func() { s.server.Force(s.check.StateRef, "") }
	st := a.tick()
	if st.Decision.Action != kernel.ActionHeartbeat || outcomeOf(st) != kernel.OutcomeLost || s.head().OID != "" {
		s.fail("%s %q, HEAD %q", st.Decision.Action, outcomeOf(st), s.head().OID)
	}
	if st = a.tick(); st.Decision.Action != kernel.ActionAbandon || len(a.building()) != 0 {
		s.fail("%s with %d builders", st.Decision.Action, len(a.building()))
	}
}

// TestSim_L4_RefRewound: an ancestor at HEAD is no place of ours any more.
func TestSim_L4_RefRewound(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionDispatch)
	s.advance(45_000)
	a.reach(kernel.ActionHeartbeat)
	earlier := s.head().Parent
	a.reach(kernel.ActionJudge)
	a.beforePush = func() { s.server.Force(s.check.StateRef, earlier) }
	st := a.tick()
	if st.Decision.Action != kernel.ActionResult || outcomeOf(st) != kernel.OutcomeLost || s.head().OID != earlier {
		s.fail("%s %q, HEAD %q", st.Decision.Action, outcomeOf(st), s.head().OID)
	}
	if s.server.Ref(s.check.ChangeRef) != "" {
		s.fail("the change branch moved")
	}
	s.wantCode(a.tick(), kernel.CodeLeaseLost)
	s.waitsForRepair(a, kernel.CodeStateRollback)
	must(t, a.proc.sup.Resume(t.Context(), 1, "alice", "I looked"))
	a.until(kernel.StandFinal)
	s.expect("completed", 2, 2, 1)
}

// TestSim_L5_TwoCreate: a ref that must not exist has one creator.
func TestSim_L5_TwoCreate(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	a, b := s.runners[0], s.runners[1]
	a.beforePush = func() { b.tick() }
	if st := a.tick(); outcomeOf(st) != kernel.OutcomeLost {
		s.fail("the second creator: %q", outcomeOf(st))
	}
	s.expect("working", 1, 0, 0)
	if st := a.tick(); st.Decision.Standing != kernel.StandHeld {
		s.fail("%s", st.Decision.Standing)
	}
}

// TestSim_L6_AnswerLost: the push came through and its answer didn't. The runner
// finds its own commit at HEAD and goes on; there is no second lease.
func TestSim_L6_AnswerLost(t *testing.T) {
	t.Parallel()
	for _, action := range []kernel.Action{kernel.ActionClaim, kernel.ActionResult} {
		s := newSim(t, 1, 0)
		a := s.runners[0]
		if action == kernel.ActionResult {
			a.reach(kernel.ActionJudge)
		}
		a.push = kerneltest.LostAnswer
		if st := a.tick(); st.Decision.Action != action || outcomeOf(st) != kernel.OutcomeDone {
			s.fail("%s %q", st.Decision.Action, outcomeOf(st))
		}
		a.until(kernel.StandFinal)
		s.expect("completed", 1, 1, 1)
		s.expectCounts(1, 0)
	}
}

// TestSim_L6_NobodyAnswers: the network is gone just then. Nothing else is tried
// until the outcome is known, by however many ticks.
func TestSim_L6_NobodyAnswers(t *testing.T) {
	t.Parallel()
	for _, f := range []kerneltest.Fault{kerneltest.LostAnswer, kerneltest.Dropped, kerneltest.Delayed} {
		s := newSim(t, 1, 0)
		a := s.runners[0]
		a.beforePush = func() { a.push, a.noReads = f, 5 }
		if st := a.tick(); outcomeOf(st) != kernel.OutcomeUnknown {
			s.fail("%s: %q", f, outcomeOf(st))
		}
		for a.noReads > 0 {
			if _, err := a.ask(kernel.RequestTick); err == nil {
				s.fail("%s: a request while the own push is unknown", f)
			}
		}
		a.until(kernel.StandFinal)
		s.server.Deliver()
		s.expect("completed", 1, 1, 1)
		s.expectCounts(1, 0)
	}
}

// TestSim_L7_AppliedLater: a push that timed out may still arrive. The same
// objects are pushed again; whichever comes first, there is one lease.
func TestSim_L7_AppliedLater(t *testing.T) {
	t.Parallel()
	for _, f := range []kerneltest.Fault{kerneltest.Dropped, kerneltest.Delayed} {
		for _, action := range []kernel.Action{kernel.ActionClaim, kernel.ActionHeartbeat, kernel.ActionResult} {
			s := newSim(t, 1, 0)
			a := s.runners[0]
			switch action {
			case kernel.ActionHeartbeat:
				a.reach(kernel.ActionDispatch)
				s.advance(45_000)
			case kernel.ActionResult:
				a.reach(kernel.ActionJudge)
			}
			a.push = f
			if st := a.tick(); st.Decision.Action != action || outcomeOf(st) != kernel.OutcomeDone {
				s.fail("%s: %s %q", f, st.Decision.Action, outcomeOf(st))
			}
			s.server.Deliver()
			a.until(kernel.StandFinal)
			s.expect("completed", 1, 1, 1)
		}
	}
}

// TestSim_L7_DiesMeanwhile: the process dies while its claim is on the way. The
// next one's claim and the late one exclude each other.
func TestSim_L7_DiesMeanwhile(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		s := newSim(t, 1, 0)
		a := s.runners[0]
		a.push, a.dieAt = kerneltest.Delayed, PointOf(kernel.ActionClaim, StageDone)
		a.beforePush = func() { a.noReads = 99 }
		a.tick()
		a.noReads = 0
		a.up()
		if !late {
			s.server.Deliver()
		}
		a.reach(kernel.ActionDispatch)
		s.server.Deliver()
		a.until(kernel.StandFinal)
		if s.check.Accepted != 1 || s.check.Dispatched() != 1 {
			s.fail("%d accepted, %d dispatched", s.check.Accepted, s.check.Dispatched())
		}
	}
}

// TestSim_L7_RepetitionNeverLeaves: a claim timed out, and the repetition never
// left this machine. The claim may still arrive, so nothing else is minted.
func TestSim_L7_RepetitionNeverLeaves(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	var down func()
	down = func() { a.push, a.beforePush = kerneltest.Down, down }
	a.beforePush = func() { a.push, a.beforePush = kerneltest.Delayed, down }
	if st := a.tick(); outcomeOf(st) != kernel.OutcomeUnknown {
		s.fail("%q", outcomeOf(st))
	}
	for range 3 {
		if _, err := a.ask(kernel.RequestTick); err == nil {
			s.fail("a request while the own push is unknown")
		}
	}
	s.server.Deliver()
	a.push, a.beforePush = kerneltest.NoFault, nil
	a.until(kernel.StandFinal)
	s.expect("completed", 1, 1, 1)
	s.expectCounts(1, 0)
}
