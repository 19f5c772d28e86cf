package supervisor

import (
	"fmt"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// newSimDelivered is a simulation whose work is delivered by its first runner and waits for
// its merge, on a base that moved since; the owner asks for a refresh.
func newSimDelivered(t *testing.T) *sim {
	s := newSimForged(t, 1, simContract+"close_on: merged\n", simRules, 0, 0)
	a := s.runners[0]
	a.until(kernel.StandWaiting)
	if h := s.head(); h.Waiting != kernel.WaitMerge {
		s.fail("nothing is delivered: HEAD is %s", h.State)
	}
	s.moveBase("a")
	s.says("/writ refresh")
	return s
}

// moveBase has a person move the base.
func (s *sim) moveBase(name string) {
	s.server.Force("refs/heads/main", s.commit(s.server.Ref("refs/heads/main"), "go on\n", map[string]string{"README": "hi\n", name: "x\n"}))
	s.logf("the base moves")
}

// settledBy lets a runner go on until the task waits for its merge, no lease is held, and
// the issue is told, for long enough that all is done that is due.
func (s *sim) settledBy(r *simRunner) {
	s.t.Helper()
	calm := 0
	for range 120 {
		r.up()
		s.showBranch()
		st := r.tick()
		if st.Decision.Standing == kernel.StandWaiting && !r.untold {
			if calm++; calm == 3 {
				return
			}
		} else {
			calm = 0
		}
		for _, j := range r.building() { // of a revision
			j.finish()
		}
		s.advance(max(min(st.Decision.Wake-r.clock.Now().WallMs, 40_000), 1_000))
	}
	s.fail("it doesn't settle")
}

// expectRefreshed: the one build's work is on the base as it is now, or it is as it was
// delivered first, and the merge completes either.
func (s *sim) expectRefreshed(is bool) {
	s.t.Helper()
	h := s.head()
	if h.Waiting != kernel.WaitMerge || (h.Refreshes != "") != is || (h.Base == s.server.Ref("refs/heads/main")) != is || h.RefreshAct == "" {
		s.fail("HEAD is %s of run %s, refreshes %q on %s", h.State, h.Of, h.Refreshes, h.Base)
	}
	if s.server.Ref(s.check.ChangeRef) != h.Change || s.check.Dispatched() != 1 || h.Attempt != 1 {
		s.fail("the branch is at %s, HEAD names %s; %d dispatched, attempt %d", s.server.Ref(s.check.ChangeRef), h.Change, s.check.Dispatched(), h.Attempt)
	}
	if n := map[bool]int{false: 1, true: 2}[is]; s.check.Accepted != n {
		s.fail("%d accepted", s.check.Accepted)
	}
}

// TestSim_K7_RefreshEveryPoint kills the process at each of the points of a refresh, while
// the forge tells the truth or loses its answer, and the same installation goes on or
// another. It comes out once, from the one build, and whatever it comes to the delivered
// result stands.
func TestSim_K7_RefreshEveryPoint(t *testing.T) {
	t.Parallel()
	actions := []kernel.Action{kernel.ActionClaim, kernel.ActionChecks, kernel.ActionJudge, kernel.ActionResult, kernel.ActionRestore}
	eachPointOf(t, actions, func(t *testing.T) (*sim, func(died)) {
		s := newSimDelivered(t)
		return s, func(d died) { s.expectRefreshed(d.holds()) }
	})
}

// died says where a process was killed, and whether another installation went on.
type died struct {
	at    Point
	other bool
}

// holds reports whether the run's work was to be delivered.
func (d died) holds() bool { return !d.at.of(kernel.ActionRestore) }

// eachPointOf kills the process at each point of these effects of a run over delivered work,
// while the forge tells the truth or loses its answer, and the same installation goes on or
// another. Begin makes the simulation, and what must hold at its end: that the run's work was
// delivered, or where its checks fail, that what was delivered before stands.
func eachPointOf(t *testing.T, actions []kernel.Action, begin func(t *testing.T) (s *sim, expect func(died))) {
	takeTurns(t, pointsOf(actions...), func(t *testing.T, at Point, other, lost bool) {
		s, expect := begin(t)
		first, next := s.runners[0], s.runners[0]
		if at.of(kernel.ActionRestore) {
			s.runners[0].build, s.runners[1].build = "fails", "fails"
		}
		if lost {
			first.client.Fail(forgetest.Writes(), 2, forgetest.Fault{Reason: forge.Unavailable, Applied: true})
		}
		first.dieAtPoint(at)
		first.client.Clear()
		if other {
			next = s.runners[1]
			s.pastLease(next)
		}
		s.settledBy(next)
		expect(died{at, other})
		s.settledBy(s.runners[0])
		s.settledBy(s.runners[1])
		expect(died{at, other})
	})
}

// TestSim_G7_RefreshWhileTheServerIsUnable: a server that can't take a push of a refresh, for
// a while or for longer than a lease, costs no build, no attempt and no result.
func TestSim_G7_RefreshWhileTheServerIsUnable(t *testing.T) {
	t.Parallel()
	for _, at := range []kernel.Action{kernel.ActionClaim, kernel.ActionChecks, kernel.ActionJudge} {
		for _, fault := range []kerneltest.Fault{kerneltest.Down, kerneltest.Disk} {
			for _, steps := range []int{5, 200} {
				t.Run(fmt.Sprintf("after %s/%s/%d", at, fault, steps), func(t *testing.T) {
					t.Parallel()
					s := newSimDelivered(t)
					a := s.runners[0]
					a.reach(at)
					s.broken = fault
					for range steps {
						a.step()
						s.advance(2_000)
					}
					s.broken = kerneltest.NoFault
					for range 40 {
						a.up()
						s.showBranch()
						a.step()
						s.advance(20_000)
					}
					s.settledBy(a)
					s.expectRefreshed(true)
				})
			}
		}
	}
}

// TestSim_E1_RefreshedTwice: the base moves twice, and other runners look meanwhile.
func TestSim_E1_RefreshedTwice(t *testing.T) {
	t.Parallel()
	s := newSimDelivered(t)
	a, b := s.runners[0], s.runners[1]
	s.settledBy(a)
	s.expectRefreshed(true)
	first := s.head()
	s.moveBase("b")
	s.says("/writ refresh")
	s.settledBy(b)
	if h := s.head(); h.Refreshes != first.Of || h.Base != s.server.Ref("refs/heads/main") || h.Resumes != first.Resumes || s.check.Accepted != 3 || s.check.Refreshed != 2 {
		s.fail("HEAD refreshes %q on %s; %d accepted, %d refreshed", h.Refreshes, h.Base, s.check.Accepted, s.check.Refreshed)
	}
	s.mergeChange()
	s.finishForged(b)
	s.finishForged(a)
	s.expectIssue("completed")
}

// TestSim_A5_RefreshByHalf: a server takes one of the two refs of a refresh's result, and
// whoever pushed it lives, or dies and comes back, or another goes on. It comes out once.
func TestSim_A5_RefreshByHalf(t *testing.T) {
	t.Parallel()
	for _, fault := range []kerneltest.Fault{kerneltest.Half, kerneltest.Rear} {
		for n := range 3 {
			t.Run(fmt.Sprintf("%s/%d", fault, n), func(t *testing.T) {
				t.Parallel()
				s := newSimDelivered(t)
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
				s.expectRefreshed(true)
				s.settledBy(s.runners[0])
				s.settledBy(s.runners[1])
				s.expectRefreshed(true)
			})
		}
	}
}
