package supervisor

import (
	"slices"
	"testing"

	"github.com/writbot/writ/kernel"
)

// What scripts of the simulation are made of.

// until ticks until the runner's task stands as wanted.
func (r *simRunner) until(want kernel.Standing) Status {
	r.s.t.Helper()
	for range 60 {
		st := r.tick()
		if st.Decision.Standing == want {
			return st
		}
		for _, j := range r.building() {
			j.finish()
		}
		if d := st.Decision; d.Standing == kernel.StandDue {
			r.s.advance(d.Wake - r.clock.Now().WallMs)
		}
	}
	r.s.fail("%s never stands %s", r.name, want)
	return Status{}
}

// reach ticks until the runner has done an action, or tried to.
func (r *simRunner) reach(want kernel.Action) Status {
	r.s.t.Helper()
	for range 60 {
		st := r.tick()
		if st.Decision.Action == want {
			return st
		}
		if st.Decision.Standing == kernel.StandRunning {
			for _, j := range r.building() {
				j.finish()
			}
		}
		if d := st.Decision; d.Standing == kernel.StandDue {
			r.s.advance(d.Wake - r.clock.Now().WallMs)
		}
	}
	r.s.fail("%s never comes to %s", r.name, want)
	return Status{}
}

// dieAtPoint kills the runner's process at a fault point of its next ticks.
func (r *simRunner) dieAtPoint(at Point) {
	r.s.t.Helper()
	r.dieAt = at
	for range 60 {
		r.tick()
		if r.proc == nil {
			return
		}
		for _, j := range r.building() {
			j.finish()
		}
	}
	r.s.fail("%s never comes to %s", r.name, at)
}

// isolate makes a runner list nobody, and nobody list it.
func (s *sim) isolate() {
	for _, r := range s.runners {
		r.others = nil
		r.crash()
		r.up()
	}
}

// expect compares what the whole simulation came to.
func (s *sim) expect(state string, claims, dispatched, accepted int) {
	s.t.Helper()
	h := s.head()
	if h.State != state || s.check.Claims != claims || s.check.Dispatched() != dispatched || s.check.Accepted != accepted {
		s.fail("HEAD %q with %d claims, %d dispatched, %d accepted; want %q %d %d %d",
			h.State, s.check.Claims, s.check.Dispatched(), s.check.Accepted, state, claims, dispatched, accepted)
	}
	if change := s.server.Ref(s.check.ChangeRef); (change != "") != (accepted > 0) || change != h.Change {
		s.fail("the change branch is at %q, HEAD names %q", change, h.Change)
	}
}

func (s *sim) expectCounts(attempt, interruptions int64) {
	s.t.Helper()
	if h := s.head(); h.Attempt != attempt || h.Interruptions != interruptions {
		s.fail("attempt %d, interruptions %d; want %d, %d", h.Attempt, h.Interruptions, attempt, interruptions)
	}
}

// wantCode fails unless a status names a code.
func (s *sim) wantCode(st Status, code kernel.Code) {
	s.t.Helper()
	if !slices.Contains(st.Decision.Codes, code) {
		s.fail("codes %v, want %s", st.Decision.Codes, code)
	}
}

// outcomeOf is the status of an effect, "" where there was none.
func outcomeOf(st Status) kernel.OutcomeStatus {
	if st.Outcome == nil {
		return ""
	}
	return st.Outcome.Status
}

// pastLease lets more time pass than any lease lasts, grace included, while
// who is awake looks now and then, so that what they saw adds up.
func (s *sim) pastLease(lookers ...*simRunner) {
	for range 5 {
		s.advance(40_000)
		for _, r := range lookers {
			r.tick()
		}
	}
}

// takenBy lets time pass until a runner has taken the task from a dead or
// frozen holder, and holds a run of its own.
func (s *sim) takenBy(r *simRunner) {
	s.t.Helper()
	for range 20 {
		if r.proc.task.worker.run != nil {
			return
		}
		s.advance(20_000)
		r.tick()
	}
	s.fail("%s never takes the task", r.name)
}

// TestSim_Plain is one run without any fault.
func TestSim_Plain(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	s.runners[0].until(kernel.StandFinal)
	s.expect("completed", 1, 1, 1)
	s.expectCounts(1, 0)
}

// waitsForRepair: the runner leaves HEAD as it is, however long and often it looks.
func (s *sim) waitsForRepair(r *simRunner, code kernel.Code) {
	s.t.Helper()
	head, pushes := s.server.Ref(s.check.StateRef), r.pushes
	for range 3 {
		st := r.tick()
		s.wantCode(st, code)
		if st.Decision.Standing != kernel.StandWaiting || st.Decision.WaitingFor != kernel.WaitRepair {
			s.fail("%s stands %s, waiting for %q", r.name, st.Decision.Standing, st.Decision.WaitingFor)
		}
		s.advance(1_200_000)
	}
	if s.server.Ref(s.check.StateRef) != head || r.pushes != pushes {
		s.fail("%s moved what waits for a person", r.name)
	}
}
