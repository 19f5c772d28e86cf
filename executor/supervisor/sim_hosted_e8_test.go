package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// outOfOrder is how a forge fails: its git server, and with it its API.
type outOfOrder struct {
	name  string
	git   kerneltest.Fault
	api   forgetest.Lie // "" for one that works
	bound time.Duration // from its end until everything is done
}

// outOfOrders are the kinds. A rule is there for comparison: it says nothing of when to
// come back, and is tried again within the hour.
var outOfOrders = []outOfOrder{
	{"no space", kerneltest.Disk, "", 2 * time.Minute},
	{"down", kerneltest.Down, forgetest.Broken, 2 * time.Minute},
	{"reset", kerneltest.Dropped, forgetest.Down, 2 * time.Minute},
	{"maintenance", kerneltest.Down, forgetest.LimitedSilently, 2 * time.Minute},
	{"hook declined", kerneltest.Refuse, "", time.Hour},
}

// ends ends it; whoever looks finds out by himself.
func (o outOfOrder) ends(s *sim) {
	s.broken, s.blind = kerneltest.NoFault, false
	for _, r := range s.runners {
		r.liar.Stop()
	}
}

func (o outOfOrder) begins(s *sim) {
	s.broken, s.blind = o.git, o.api != ""
	for _, r := range s.runners {
		if o.api != "" {
			r.liar.Order(o.api, 1<<30, nil)
		}
	}
}

// upToHosted brings a task to right before a push.
func (s *sim) upToHosted(r *simRunner, at kernel.Action) {
	switch at {
	case kernel.ActionSeal:
		s.built(r)
	case kernel.ActionWait:
		r.reach(kernel.ActionDispatch)
		s.says("/writ stop")
	case kernel.ActionAbandon: // somebody's commit is at HEAD, and a person says to go on
		s.server.Force(s.check.StateRef, s.commit("", "hello from a person\n", map[string]string{"x": "y"}))
		r.tell(r.tick())
		s.says("/writ retry")
	default:
		s.upTo(r, at)
	}
}

// goes drives while a condition holds, for so long at the most.
func (s *sim) goes(r *simRunner, most time.Duration, on func() bool) {
	for until := s.time.Now() + most.Milliseconds(); s.time.Now() < until && on(); {
		if !r.step() || r.last.Decision.Action == kernel.ActionNone {
			s.advance(5_000)
		}
	}
}

// TestSim_G7_E8_OnForges: a hosted forge is out of order from one of a task's pushes on,
// for a second, a minute or an hour. Two minutes after its end what was judged is
// delivered, every other task has run, a stop is carried out, and the issue shows it,
// with nobody asked and nothing built twice whose builder had ended. The suite takes
// turns: each push and each kind on each forge; make seeds does all of them.
func TestSim_G7_E8_OnForges(t *testing.T) {
	t.Parallel()
	pushes := []kernel.Action{kernel.ActionClaim, kernel.ActionHeartbeat, kernel.ActionSeal, kernel.ActionWait, kernel.ActionResult, kernel.ActionTakeOver, kernel.ActionAbandon}
	worlds := hostedWorlds(t)
	for i, at := range pushes {
		for j, how := range outOfOrders {
			turn := i + j
			for f, name := range slices.Sorted(maps.Keys(worlds)) {
				for l, lasts := range []time.Duration{time.Second, time.Minute, time.Hour} {
					if !noTurns() && (turn%2 != f || turn%3 != l) {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s %s %s", name, at, lasts, how.name), func(t *testing.T) {
						t.Parallel()
						outOfOrderAt(newSimHosted(t, 1, worlds[name], 0), at, lasts, how)
					})
				}
			}
		}
	}
}

func outOfOrderAt(s *sim, at kernel.Action, lasts time.Duration, how outOfOrder) {
	s.check.Outage = true
	a := s.runners[0]
	s.upToHosted(a, at)
	how.begins(s)
	s.goes(a, lasts, func() bool { return true })
	how.ends(s)
	ends := func() bool {
		if at == kernel.ActionWait {
			return s.head().State != kernel.HeadWorking && len(a.building()) == 0 && standsStill(a.last) && !a.untold
		}
		return a.last.Decision.Standing == kernel.StandFinal && !a.untold
	}
	s.goes(a, how.bound, func() bool {
		for _, j := range a.building() {
			if at != kernel.ActionWait {
				j.finish()
			}
		}
		return !ends()
	})
	if !ends() {
		s.fail("%s after its end HEAD is %q, the issue is behind: %v", how.bound, s.head().State, a.untold)
	}
	builds, interrupted := 1, int64(0)
	switch {
	case at == kernel.ActionTakeOver:
		builds, interrupted = 2, 1 // by the process that died
	case at == kernel.ActionHeartbeat && lasts >= time.Minute && s.check.Dispatched() == 2:
		builds = 2 // the builder was killed with its lease, a minute before whose end it is renewed
	case at == kernel.ActionWait:
		s.says("/writ retry")
		s.finishForged(a)
		builds = 2
	}
	s.expectIssue("completed")
	if h := s.head(); s.check.Accepted != 1 || s.check.Dispatched() != builds || h.Attempt != 1 || h.Interruptions != interrupted {
		s.fail("%d accepted, %d dispatched, attempt %d, %d interruptions; want 1 %d 1 %d", s.check.Accepted, s.check.Dispatched(), h.Attempt, h.Interruptions, builds, interrupted)
	}
}
