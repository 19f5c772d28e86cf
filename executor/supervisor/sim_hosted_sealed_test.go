package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// TestSim_K5_K9_K10_L11_Sealed: the deaths and outages of cases K5, K9, K10 and L11 once
// the work is sealed, over the hosted forges: one build, one report, one closing, whoever goes on.
func TestSim_K5_K9_K10_L11_Sealed(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		fault         func(*sim, *simRunner, *simRunner)
		interruptions int64
	}{
		"K5": {func(s *sim, a, b *simRunner) {
			a.dieAtPoint(PointOf(kernel.ActionResult, StageDone))
			s.finishForged(b)
		}, 0},
		"K9": {func(s *sim, a, b *simRunner) {
			a.crash()
			a.newDisk()
			s.pastLease(b)
			s.finishForged(b)
		}, 1},
		"K10": {func(_ *sim, a, _ *simRunner) {
			for i := range 10 {
				if i%2 == 0 {
					_, _ = a.ask(kernel.RequestShutdown)
				}
				a.crash()
				a.up()
				a.reach(kernel.ActionChecks)
			}
		}, 10},
		"L11": {func(s *sim, a, _ *simRunner) {
			s.broken, s.blind = kerneltest.Down, true
			for range 100 {
				a.step()
				s.advance(2_000)
			}
			if a.proc.task.worker.run != nil || s.server.Ref(s.check.ChangeRef) != "" {
				s.fail("it goes on without a lease")
			}
			s.broken, s.blind = kerneltest.NoFault, false
		}, 0},
	}
	worlds := hostedWorlds(t)
	for name, c := range cases {
		for at, place := range worlds {
			t.Run(name+"/"+at, func(t *testing.T) {
				t.Parallel()
				s := newSimHosted(t, 1, place, 0, 0)
				a, b := s.runners[0], s.runners[1]
				s.sealedBy(a)
				c.fault(s, a, b)
				for _, r := range []*simRunner{a, b, a} {
					s.finishForged(r)
				}
				s.expectIssue("completed")
				if n := s.check.Dispatched(); n != 1 || s.check.Accepted != 1 {
					s.fail("%d dispatched, %d accepted", n, s.check.Accepted)
				}
				s.expectCounts(1, c.interruptions)
			})
		}
	}
}

// turnsOn runs a test for each point, over each hosted forge, with the same installation
// going on or another, and with answers of the forge that are lost or not. The suite
// takes turns at every second point, since the simulated forge has all of them; make seeds
// does everything.
func turnsOn(t *testing.T, points []Point, test func(t *testing.T, place hostedPlace, at Point, other, lost bool)) {
	worlds := hostedWorlds(t)
	for i, at := range points {
		for n := range 8 {
			name, other, lost := slices.Sorted(maps.Keys(worlds))[n%2], n&2 > 0, n&4 > 0
			if !noTurns() && (i+i/4)%16 != 2*n { // of an action's four stages, too
				continue
			}
			t.Run(fmt.Sprintf("%s/%s/other=%v/lost=%v", name, at, other, lost), func(t *testing.T) {
				t.Parallel()
				test(t, worlds[name], at, other, lost)
			})
		}
	}
}

// TestSim_K6_EveryPointOfTheIssueSealed kills the process at each point of each effect on
// an issue of a hosted forge, after work was sealed: one report, one label, one close.
func TestSim_K6_EveryPointOfTheIssueSealed(t *testing.T) {
	t.Parallel()
	points := slices.DeleteFunc(IssuePoints(), func(p Point) bool { return p.of(kernel.ActionComplete) }) // no merge reaches the model
	turnsOn(t, points, func(t *testing.T, place hostedPlace, at Point, other, lost bool) {
		everyIssuePoint(at, other, lost, func(terms string, rules kerneltest.Rules) *sim {
			return newSimHostedUnder(t, 1, place, terms, rules, 0, 0)
		})
	})
}

// TestSim_K7_EveryPointSealed kills the process at each of its points, twice, while the
// task's issue is on a hosted forge, whose answers may be lost: one result, one report,
// one close.
func TestSim_K7_EveryPointSealed(t *testing.T) {
	t.Parallel()
	turnsOn(t, Points(), func(t *testing.T, place hostedPlace, at Point, other, lost bool) {
		s := newSimHosted(t, 1, place, 0, 0)
		a, b := s.runners[0], s.runners[1]
		if lost {
			a.liar.Order(forgetest.Lost, 2, forgetest.WritesTo)
		}
		everyPoint(s, at, other, func(next *simRunner) {
			for _, r := range []*simRunner{next, a, b} {
				s.finishForged(r)
			}
		})
		s.expectIssue("completed")
	})
}

// TestSim_K8_BlockedAfterNSealed: checks fail on sealed work, and processes die in them,
// after them and after the alert. The task on a hosted forge is blocked after exactly N
// attempts and as many builds, and those whom the contract names are told once.
func TestSim_K8_BlockedAfterNSealed(t *testing.T) {
	t.Parallel()
	for name, place := range hostedWorlds(t) {
		for _, n := range []int64{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				t.Parallel()
				terms := fmt.Sprintf("version: 1\nchecks: [{name: test, run: ['true']}]\nnotify: [ana]\nbudgets: {attempts: %d, interruptions: 10, retry_backoff: 30s, retry_backoff_max: 5m}\n", n)
				s := newSimHostedUnder(t, 1, place, terms, kerneltest.Rules{Attempts: n, Interruptions: 10}, 0, 0)
				a, b := s.runners[0], s.runners[1]
				a.build, b.build = "fails", "fails"
				for i := range int(n) {
					r := s.runners[i%2]
					s.sealedBy(r)
					r.crash()
					r.up()
					r.reach(kernel.ActionChecks)
					r.dieAtPoint(PointOf(kernel.ActionResult, StageDone))
					r.up()
				}
				a.dieAtPoint(PointOf(kernel.ActionAlert, StageDone))
				for _, r := range []*simRunner{b, a, b} {
					s.finishForged(r)
				}
				s.expectIssue("blocked")
				s.expect("blocked", 2*int(n), int(n), 0)
				s.expectCounts(n, n)
				if alerts := s.comments("alert"); alerts != 1 {
					s.fail("%d alerts", alerts)
				}
			})
		}
	}
}
