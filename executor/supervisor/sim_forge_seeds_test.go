package supervisor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// TestSim_F5_LyingForge lets three runners work on one issue while processes die,
// pushes are lost, and the forge loses requests and answers, lags behind and asks
// to be left alone; people stop, comment and close meanwhile. E2, E3 and E7 are
// looked at with every write to the forge; at the end the issue shows what HEAD
// says, whatever happened (cases K5, K6, F5, F7, L12).
func TestSim_F5_LyingForge(t *testing.T) {
	t.Parallel()
	if *simSeed != 0 {
		s := simulateForged(t, *simSeed)
		for _, line := range s.trace {
			t.Log(line)
		}
		return
	}
	for seed := int64(1); seed <= int64(max(*simSeeds/3, 1)); seed++ { // each takes three times a plain one
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			simulateForged(t, seed)
		})
	}
}

func simulateForged(t testing.TB, seed int64) *sim {
	c := kerneltest.NewChoice(-seed)
	s := newSimForged(t, seed, simContract, simRules, c.Between(-40_000, 40_000), c.Between(-4_000_000, 4_000_000), c.Between(-2_000, 2_000))
	s.trace = append([]string{fmt.Sprintf("rerun with -run TestSim_F5_LyingForge -seed %d", seed)}, s.trace...)
	steps := 20 + s.choice.Intn(60)
	refreshes := s.choice.Intn(3)
	if seed%4 == 0 { // what goes wrong does so around refreshes
		s.runners[0].until(kernel.StandFinal)
		s.refreshed = true
		steps, refreshes = min(steps, 40), 3
	}
	for faults := 2 + s.choice.Intn(8); steps > 0; steps-- {
		switch h := s.head(); {
		case refreshes > 0 && h.Change != "" && s.server.Ref(s.check.ChangeRef) == h.Change && s.choice.Chance(25):
			refreshes--
			steps, faults = max(steps, refreshSteps), max(faults, 2)
			s.refresh()
		case faults > 0 && s.choice.Chance(12):
			faults--
			s.disturb()
		case faults > 0 && s.choice.Chance(15):
			faults--
			s.lie()
		}
		s.proceed()
	}
	s.calm()
	for _, r := range s.runners {
		if r.client != nil {
			r.client.Clear()
		}
	}
	s.settleForged()
	return s
}

// refreshSteps is how many steps are left at least once somebody asks for a refresh.
const refreshSteps = 12

// refresh has the base move, mostly beside the delivered work, and the owner ask for that
// to be applied there. Now and then the word comes before.
func (s *sim) refresh() {
	s.refreshed = true
	path := fmt.Sprintf("beside-%d", s.server.Version)
	if s.choice.Chance(15) {
		path = "out.txt"
	}
	if s.choice.Chance(20) {
		s.says("/writ refresh")
	}
	s.moveBase(path)
	s.says("/writ refresh")
}

// lie is one fault of the forge, or one thing that somebody does there.
func (s *sim) lie() {
	r, f, ctx := kerneltest.Pick(s.choice, s.runners), s.forged, context.Background()
	times := 1 + s.choice.Intn(4)
	fault := forgetest.Fault{Reason: forge.Unavailable}
	lies := []func(){
		func() { fault.Applied = true; r.client.Fail(forgetest.Writes(), times, fault) },
		func() { fault.Applied = true; r.client.Fail(forgetest.Writes(), times, fault) },
		func() { r.client.Fail(forgetest.Writes(), times, fault) },
		func() { r.client.Fail(forgetest.Any(), 4*times, fault) },
		func() {
			r.client.Fail(forgetest.Any(), times, forgetest.Fault{Reason: forge.Limited, RetryAfter: time.Minute})
		},
		func() { s.check.Stale = true; must(s.t, r.client.Stale(ctx, f.Repo, 1, 3*times)) },
		s.twice,
		func() {
			if i, _ := s.onForge(); i.State == forge.Open && s.head().State != "completed" {
				f.slips++
				must(s.t, f.Robot.SetState(ctx, f.Repo, 1, forge.Closed))
			}
		},
		func() { s.says("/writ stop") },
		func() { s.says("/writ retry") },
		func() { s.says("/writ explain") },
		func() {
			_, err := f.Reader.AddComment(ctx, f.Repo, 1, "/writ stop")
			must(s.t, err)
		},
	}
	n := s.choice.Intn(len(lies))
	s.logf("the forge: %d, to %s", n, r.name)
	lies[n]()
}

// settleForged is settle over a forge: the owner asks again for what waits.
func (s *sim) settleForged() {
	from, asked := s.time.Now(), false
	for s.time.Now()-from < boundMs {
		ended, waits := true, false
		wake := int64(20_000)
		for _, r := range s.runners {
			r.up()
			r.build = "good"
			if !r.idle() {
				r.tick()
			}
			st := r.last
			switch {
			case r.older():
				ended = false
				s.logf("a person adopts the ledger of %s", r.name)
				r.adopt()
			case r.lastError != nil || r.untold || !standsStill(st) || st.Decision.Wake > 0:
				ended = false
			case st.Decision.Standing != kernel.StandFinal || st.Decision.State == kernel.TaskBlocked:
				waits = true
			}
			if st.Decision.Standing == kernel.StandActing {
				wake = 0
			}
			for _, j := range r.building() {
				j.finish()
			}
		}
		switch {
		case ended && !waits:
			s.expectIssue("completed")
			s.expectAnswers()
			if h := s.head(); s.server.Ref(s.check.ChangeRef) != h.Change {
				s.fail("the branch is at %s, HEAD names %s", s.server.Ref(s.check.ChangeRef), h.Change)
			}
			return
		case ended && s.server.Ref(s.check.ChangeRef) != "" && (s.head().OID == "" || s.delivered(asked)):
			return // somebody took the state ref of a delivered task away: nothing is done twice
		case ended:
			if i, _ := s.onForge(); i.State == forge.Closed && s.head().OID == "" {
				must(s.t, s.forged.Owner.SetState(context.Background(), s.forged.Repo, 1, forge.Open))
			}
			asked = true
			s.says("/writ retry")
			for _, r := range s.runners {
				r.looked = -1
			}
		}
		s.advance(max(wake, 1))
	}
	s.fail("E8: HEAD is still %q", s.head().State)
}

// delivered reports whether the change branch keeps everybody from going on who
// doesn't see the task completed: how a delivered task stands whose state ref
// somebody has overwritten, or whose writer lost the key that he signed it with. He himself
// waits for repair, where others for whom it counts have answered that it is completed.
func (s *sim) delivered(asked bool) bool {
	final := slices.ContainsFunc(s.runners, func(r *simRunner) bool { return r.last.Decision.Standing == kernel.StandFinal })
	return !slices.ContainsFunc(s.runners, func(r *simRunner) bool {
		d := r.last.Decision
		kept := d.Standing == kernel.StandRefused && slices.Contains(d.Codes, kernel.CodeBranchTaken)
		lost := asked && final && d.WaitingFor == kernel.WaitRepair && slices.Equal(d.Codes, []kernel.Code{kernel.CodeLeaseUntrusted})
		return !kept && !lost && (d.Standing != kernel.StandFinal || d.State != kernel.TaskCompleted)
	})
}
