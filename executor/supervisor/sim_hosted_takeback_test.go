package supervisor

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// TestSim_P10_HostedForges: on GitHub and GitLab, as their adapters tell of it, a closing
// takes back what was approved before it, whoever opens the issue again: before anything
// was claimed, and of a task whose process died. An installation that never saw it goes on
// with nothing. What is approved after it starts.
func TestSim_P10_HostedForges(t *testing.T) {
	t.Parallel()
	for name, place := range hostedWorlds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimHosted(t, 1, place, 0, 0)
			a, b := s.runners[0], s.runners[1]
			s.sets(forge.Closed)
			s.stands(a, kernel.StandRefused)
			s.sets(forge.Open)
			s.stands(b, kernel.StandRefused)
			if head := s.head(); head.OID != "" || s.check.Claims > 0 {
				s.fail("%d claims, HEAD is %q", s.check.Claims, head.State)
			}
			s.says("/writ retry")
			a.reach(kernel.ActionDispatch)
			a.crash()
			s.sets(forge.Closed)
			a.up()
			a.reach(kernel.ActionWait)
			s.sets(forge.Open)
			b.newDisk()
			for _, r := range s.runners {
				r.crash()
				r.up()
				s.stands(r, kernel.StandWaiting)
			}
			if head := s.head(); head.Waiting != kernel.WaitApproval || head.Interruptions != 0 || s.check.Dispatched() != 1 {
				s.fail("HEAD waits for %q, %d interruptions, %d builders", head.Waiting, head.Interruptions, s.check.Dispatched())
			}
			s.says("/writ retry")
			s.finishForged(a)
			s.expectIssue("completed")
		})
	}
}

// stands has a runner look, and expects that it does nothing.
func (s *sim) stands(r *simRunner, want kernel.Standing) {
	s.t.Helper()
	st := r.tick()
	if r.lastError != nil || st.Decision.Standing != want || st.Decision.Action != kernel.ActionNone {
		s.fail("%s finds it %s and does %s (%v)", r.name, st.Decision.Standing, st.Decision.Action, r.lastError)
	}
}

// sets has the owner close the issue, or put it back open, in another second of the
// forge's than what was said before it and what is said after it.
func (s *sim) sets(to forge.State) {
	s.t.Helper()
	f, ctx := s.forged, context.Background()
	s.nextSecond()
	must(s.t, f.Owner.SetState(ctx, f.Repo, 1, to))
	if to == forge.Closed {
		list, err := f.Owner.History(ctx, f.Repo, 1)
		must(s.t, err)
		at := slices.IndexFunc(list, func(e forge.Event) bool { return e.Kind == forge.EventClosed })
		if at < 0 {
			s.fail("the history has no closing: %v", list)
		}
		for _, e := range list[at:] {
			if e.Kind == forge.EventClosed {
				s.check.TakenBack(e.At.UnixMilli())
			}
		}
	}
	s.nextSecond()
}

// nextSecond waits until the forge's clock shows another second, for it counts in those:
// the fake's passes with the simulation, the emulator's is the machine's.
func (s *sim) nextSecond() {
	s.advance(1_000)
	now := time.Now()
	<-time.After(now.Truncate(time.Second).Add(time.Second).Sub(now))
}
