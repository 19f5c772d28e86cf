package supervisor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// TestSim_G6_Refused: a server that refuses by a rule is not asked again with
// the same bytes. A result falls back to hashes, then it is kept with the server's
// words and pushed again after an hour; what has no result is given up with them.
func TestSim_G6_Refused(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionJudge)
	a.push = kerneltest.Refuse
	full := a.tick()
	st := a.tick()
	s.wantCode(st, kernel.CodePushRefused)
	if !strings.Contains(fmt.Sprint(st.Decision.Violations), "pre-receive hook declined") {
		s.fail("the server's words are lost: %v", st.Decision.Violations)
	}
	s.expect("waiting", 1, 1, 0)
	a.push = kerneltest.Refuse
	again := a.tick()
	a.push = kerneltest.Refuse
	slim := a.tick()
	if outcomeOf(full) != kernel.OutcomeRefused || outcomeOf(again) != kernel.OutcomeRefused || outcomeOf(slim) != kernel.OutcomeRefused || full.Outcome.Key == slim.Outcome.Key {
		s.fail("%+v then %+v", full.Outcome, slim.Outcome)
	}
	if st = a.tick(); st.Decision.Standing != kernel.StandDue || st.Decision.WaitingFor != kernel.WaitRule {
		s.fail("%s for %q", st.Decision.Standing, st.Decision.WaitingFor)
	}
	s.advance(ruleSoon.Milliseconds())
	a.tick()
	s.expect("completed", 1, 1, 1)
	s.expectCounts(1, 0)

	s = newSim(t, 1, 0)
	a = s.runners[0]
	a.push = kerneltest.Refuse
	a.tick()
	st = a.tick()
	s.wantCode(st, kernel.CodePushRefused)
	if h := s.head(); h.State != "waiting" || h.Waiting != "rule" || h.Attempt != 0 {
		s.fail("HEAD is %+v", h)
	}
	if st = a.tick(); st.Decision.Standing != kernel.StandDue || a.pushes != 2 {
		s.fail("%s after %d pushes", st.Decision.Standing, a.pushes)
	}
	a.until(kernel.StandFinal)
	s.expect("completed", 1, 1, 1)
	s.expectCounts(1, 0)
}

// TestSim_G6_RefusedUnknown: the refusal may come by way of an unknown answer.
func TestSim_G6_RefusedUnknown(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionJudge)
	a.beforePush = func() { a.push, a.noReads = kerneltest.Dropped, 9 }
	a.tick()
	a.noReads = 0
	a.push = kerneltest.Refuse // what the repetition of that push meets
	pushes := a.pushes
	a.push = kerneltest.Refuse
	a.tick() // settles as refused, and asks what else is taken
	if a.pushes != pushes+2 || s.head().Waiting != kernel.WaitRule {
		s.fail("%d pushes, HEAD is %+v", a.pushes-pushes, s.head())
	}
	a.tick()
	s.expect("completed", 1, 1, 1)
}
