package supervisor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// newSimReviewed is a simulation whose work is delivered by its first runner and waits for
// its merge; the owner asks for a revision.
func newSimReviewed(t *testing.T) (s *sim, was kerneltest.Head) {
	s = newSimForged(t, 1, simContract+"close_on: merged\n", simRules, 0, 0)
	s.runners[0].until(kernel.StandWaiting)
	s.settledBy(s.runners[0]) // its change is opened
	was = s.head()
	s.advance(2_000)
	s.says("/writ fix say it twice")
	return s, was
}

// expectRevised: one commit was added to the delivered one, or that stands as it was.
func (s *sim) expectRevised(is bool, was kerneltest.Head) {
	s.t.Helper()
	h := s.head()
	if h.Waiting != kernel.WaitMerge || h.RefreshAct == "" || h.Attempt != 1 || h.Interruptions != was.Interruptions || s.server.Ref(s.check.ChangeRef) != h.Change {
		s.fail("HEAD is %s of run %s, attempt %d, with %s; the branch is at %s", h.State, h.Of, h.Attempt, h.Change, s.server.Ref(s.check.ChangeRef))
	}
	if is && (h.Fixes != was.Of || h.Base != was.Change || h.Change == was.Change || s.check.Accepted != 2) {
		s.fail("HEAD fixes %q on %s; %d accepted", h.Fixes, h.Base, s.check.Accepted)
	}
	if !is && (h.Of != was.Of || h.Change != was.Change || s.check.Accepted != 1) {
		s.fail("HEAD is of run %s with %s; %d accepted", h.Of, h.Change, s.check.Accepted)
	}
}

// TestSim_K7_FixEveryPoint kills the process at each of the points of a revision, while the
// forge tells the truth or loses its answer, and the same installation goes on or another.
// It comes out once, and whatever it comes to the delivered result stands. Once its builder
// has ended no second one is paid: its work is at HEAD, or in the store of who had it.
func TestSim_K7_FixEveryPoint(t *testing.T) {
	t.Parallel()
	actions := []kernel.Action{kernel.ActionClaim, kernel.ActionDispatch, kernel.ActionSeal, kernel.ActionChecks, kernel.ActionJudge, kernel.ActionResult, kernel.ActionRestore}
	eachPointOf(t, actions, func(t *testing.T) (*sim, func(died)) {
		s, was := newSimReviewed(t)
		return s, func(d died) {
			s.expectRevised(d.holds(), was)
			_, stage, _ := strings.Cut(string(d.at), ":")
			pushed := stage == StageDone || stage == StageSettled
			builders := 2
			if d.at.of(kernel.ActionDispatch) && pushed || d.at.of(kernel.ActionSeal) && d.other && !pushed {
				builders++ // died with its process, or lies where nobody else looks
			}
			if n := s.check.Dispatched(); d.holds() && n != builders {
				s.fail("%d builders, want %d", n, builders)
			}
		}
	})
}

// TestSim_A5_FixByHalf: a server takes one of the two refs of a revision's result, and
// whoever pushed it lives, or dies and comes back, or another goes on. It comes out once.
func TestSim_A5_FixByHalf(t *testing.T) {
	t.Parallel()
	for _, fault := range []kerneltest.Fault{kerneltest.Half, kerneltest.Rear} {
		for n := range 3 {
			t.Run(fmt.Sprintf("%s/%d", fault, n), func(t *testing.T) {
				t.Parallel()
				s, was := newSimReviewed(t)
				first, next := s.runners[0], s.runners[0]
				first.reach(kernel.ActionJudge)
				first.push = fault
				if n > 0 {
					first.dieAtPoint(PointOf(kernel.ActionResult, StageDone))
				}
				if n == 2 {
					next = s.runners[1]
					s.pastLease(next)
				}
				s.settledBy(next)
				s.expectRevised(true, was)
				s.settledBy(s.runners[0])
				s.settledBy(s.runners[1])
				s.expectRevised(true, was)
			})
		}
	}
}

// TestSim_K11_FixSealedWithItsEnd: who comes back finds the work of his revision in his store,
// and seals it in the push that puts the delivered result back. Another instance may then go on
// with it.
func TestSim_K11_FixSealedWithItsEnd(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{StageDone, StageSettled} {
		s, was := newSimReviewed(t)
		a, b := s.runners[0], s.runners[1]
		a.dieAtPoint(PointOf(kernel.ActionSeal, StageRecorded))
		a.up()
		a.dieAtPoint(PointOf(kernel.ActionRestore, stage))
		s.settledBy(b)
		s.expectRevised(true, was)
		if n := s.check.Dispatched(); n != 2 || s.check.Resumed != 1 {
			s.fail("%d builders, %d went on", n, s.check.Resumed)
		}
	}
}

// TestSim_K11_FixOfAStranger: what a revision has sealed under a writer who isn't listed any
// more is of no use, though whoever put the result back still is.
func TestSim_K11_FixOfAStranger(t *testing.T) {
	t.Parallel()
	s, was := newSimReviewed(t)
	a, b := s.runners[0], s.runners[1]
	a.dieAtPoint(PointOf(kernel.ActionChecks, StageDone))
	for n := 0; b.tick().Decision.Action != kernel.ActionRestore; n++ {
		if s.advance(20_000); n > 20 {
			s.fail("the result is never put back")
		}
	}
	b.others = nil
	b.crash()
	s.settledBy(b)
	s.expectRevised(true, was)
	if n := s.check.Dispatched(); n != 3 || s.check.Resumed != 0 {
		s.fail("%d builders, %d went on", n, s.check.Resumed)
	}
}
