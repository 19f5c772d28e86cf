package supervisor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// TestSim_G6_Refused: a server that refuses by a rule is not asked again with
// the same bytes. A result falls back to hashes, then the task is blocked with
// the server's words; what has no result is given up with them.
func TestSim_G6_Refused(t *testing.T) {
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionJudge)
	a.push = kerneltest.Refuse
	full := a.tick()
	a.push = kerneltest.Refuse
	slim := a.tick()
	if outcomeOf(full) != kernel.OutcomeRefused || outcomeOf(slim) != kernel.OutcomeRefused || full.Outcome.Key == slim.Outcome.Key {
		s.fail("%+v then %+v", full.Outcome, slim.Outcome)
	}
	st := a.reach(kernel.ActionResult)
	s.wantCode(st, kernel.CodePushRefused)
	if !strings.Contains(fmt.Sprint(st.Decision.Violations), "pre-receive hook declined") {
		s.fail("the server's words are lost: %v", st.Decision.Violations)
	}
	s.expect("blocked", 1, 1, 0)
	s.expectCounts(1, 0)

	s = newSim(t, 1, 0)
	a = s.runners[0]
	a.push = kerneltest.Refuse
	a.tick()
	for range 5 {
		st := a.tick()
		s.wantCode(st, kernel.CodePushRefused)
		if st.Decision.Standing != kernel.StandRefused {
			s.fail("%s", st.Decision.Standing)
		}
		s.advance(60_000)
	}
	if a.pushes != 1 {
		s.fail("%d pushes of a claim that was refused", a.pushes)
	}
}

// TestSim_G6_RefusedUnknown: the refusal may come by way of an unknown answer.
func TestSim_G6_RefusedUnknown(t *testing.T) {
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionJudge)
	a.beforePush = func() { a.push, a.noReads = kerneltest.Dropped, 9 }
	a.tick()
	a.noReads = 0
	a.push = kerneltest.Refuse // what the repetition of that push meets
	pushes := a.pushes
	a.push = kerneltest.Refuse
	a.tick() // settles as refused, and goes on with less
	if a.pushes != pushes+2 {
		s.fail("%d pushes", a.pushes-pushes)
	}
	s.expect("completed", 1, 1, 1)
	tree := s.head().Tree
	if o, _ := s.server.Object(tree); strings.Contains(string(o.Data), "records.jsonl") {
		s.fail("what the server refused is pushed again unchanged")
	}
}
