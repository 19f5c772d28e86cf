package supervisor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// TestSim_K5_KilledBeforeTheClose: recovery closes once and dispatches nothing,
// be it the same installation or another that lists its key.
func TestSim_K5_KilledBeforeTheClose(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{StageDone, StageSettled} {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/other=%v", stage, other), func(t *testing.T) {
				s := newSimForged(t, 1, simContract, simRules, 0, 0)
				a, b := s.runners[0], s.runners[1]
				a.dieAtPoint(PointOf(kernel.ActionResult, stage))
				if i, _ := s.onForge(); i.State != forge.Open {
					s.fail("closed before the result was known to be")
				}
				if other {
					s.finishForged(b)
				} else {
					s.finishForged(a)
				}
				s.expect("completed", 1, 1, 1)
				s.expectIssue("completed")
				s.finishForged(a)
				s.finishForged(b)
				s.expectIssue("completed")
			})
		}
	}
}

// TestSim_K6_EveryPointOfTheIssue kills the process at each point of each effect
// on the issue, while the forge tells the truth and while it does what is asked
// and loses its answer. Whoever goes on, the issue ends with one report, one
// label, one close.
func TestSim_K6_EveryPointOfTheIssue(t *testing.T) {
	t.Parallel()
	takeTurns(t, IssuePoints(), func(t *testing.T, at Point, other, lost bool) {
		everyIssuePoint(at, other, lost, func(terms string, rules kerneltest.Rules) *sim {
			return newSimForged(t, 1, terms, rules, 0, 0)
		})
	})
}

// takeTurns runs a test for each point, with the same installation going on or another, and
// with answers of the forge that are lost or not. The suite has each of these once at each
// point, which makes two runs of four; make seeds, with more seeds than the suite, all four.
func takeTurns(t *testing.T, points []Point, test func(t *testing.T, at Point, other, lost bool)) {
	for i, at := range points {
		for n := range 4 {
			other, lost := n&1 > 0, n&2 > 0
			if !noTurns() && (i+i/4+n+n/2)%2 > 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/other=%v/lost=%v", at, other, lost), func(t *testing.T) {
				t.Parallel()
				test(t, at, other, lost)
			})
		}
	}
}

// blockedOnce is a contract whose first failure is the last, of which somebody is told.
const blockedOnce = "version: 1\nchecks: [{name: test, run: ['true']}]\nbudgets: {attempts: 1}\nnotify: [ana]\n"

func everyIssuePoint(at Point, other, lost bool, begun func(terms string, rules kerneltest.Rules) *sim) {
	action, _, _ := strings.Cut(string(at), ":")
	terms, state := simContract, "completed"
	if kernel.Action(action) == kernel.ActionAlert {
		terms, state = blockedOnce, "blocked"
	}
	if kernel.Action(action) == kernel.ActionComplete {
		terms = simContract + "close_on: merged\n"
	}
	rules := simRules
	if state == "blocked" {
		rules.Attempts = 1
	}
	s := begun(terms, rules)
	a, b := s.runners[0], s.runners[1]
	s.setStage(kernel.Action(action), a)
	if lost {
		a.client.Fail(forgetest.Writes(), 2, forgetest.Fault{Reason: forge.Unavailable, Applied: true})
	}
	a.dieAt = at
	for range 40 {
		if a.proc == nil {
			break
		}
		st := a.tick()
		for _, j := range a.building() {
			j.finish()
		}
		if d := st.Decision; d.Standing == kernel.StandDue {
			s.advance(d.Wake - a.clock.Now().WallMs)
		}
	}
	if a.proc != nil {
		s.fail("%s was not reached", at)
	}
	a.client.Clear()
	a.build, b.build = "good", "good"
	if state == "blocked" {
		a.build, b.build = "fails", "fails"
	}
	next := a
	if other {
		next = b
		s.pastLease(b)
	}
	s.finishForged(next)
	s.expectIssue(state)
	s.finishForged(a)
	s.finishForged(b)
	s.expectIssue(state)
	if n := s.comments("alert"); state == "blocked" && n != 1 {
		s.fail("%d alerts", n)
	}
	if n := s.comments("answer"); (at.of(kernel.ActionReact) || at.of(kernel.ActionAnswer)) != (n == 1) {
		s.fail("%d answers", n)
	}
	s.expectAnswers()
}

// of reports whether a point is one of an action's.
func (p Point) of(a kernel.Action) bool { return strings.HasPrefix(string(p), string(a)+":") }

// comments counts those with a marker.
func (s *sim) comments(kind string) (n int) {
	list, err := s.forged.Owner.Comments(context.Background(), s.forged.Repo, 1)
	must(s.t, err)
	for _, k := range list {
		if strings.HasPrefix(k.Body, "<!-- writ:"+kind+":") {
			n++
		}
	}
	return n
}

// expectAnswers: each of the owner's commands bears one reaction.
func (s *sim) expectAnswers() {
	s.t.Helper()
	if s.forged.hosted != nil {
		return // nobody's client reads reactions
	}
	list, err := s.forged.Owner.Comments(context.Background(), s.forged.Repo, 1)
	must(s.t, err)
	for _, k := range list {
		if k.Author.ID == s.forged.owner && strings.HasPrefix(k.Body, "/writ ") && len(s.forged.Reactions(s.forged.Repo, k.ID)) == 0 {
			s.fail("nobody answered %q", k.Body)
		}
	}
}

// setStage brings about what an effect is due for.
func (s *sim) setStage(a kernel.Action, r *simRunner) {
	ctx, f := context.Background(), s.forged
	switch a {
	case kernel.ActionAlert:
		r.build = "fails"
	case kernel.ActionRevise, kernel.ActionUnlabel:
		r.build = "fails"
		r.until(kernel.StandDue)
		r.build = "good"
	case kernel.ActionReopen:
		r.build = "fails"
		r.until(kernel.StandDue)
		r.build = "good"
		must(s.t, f.Robot.SetState(ctx, f.Repo, 1, forge.Closed))
		f.slips++
	case kernel.ActionReview:
		r.until(kernel.StandFinal)
		r.looked = -1
		s.server.Force(s.check.ChangeRef, s.commit(s.server.Ref(s.check.ChangeRef), "a reviewer's\n", map[string]string{"README": "hi\n", "out.txt": "hello again\n"}))
		s.showBranch()
	case kernel.ActionReact, kernel.ActionAnswer:
		s.says("/writ help")
	case kernel.ActionComplete:
		r.until(kernel.StandWaiting)
		r.looked = -1
		s.mergeChange()
	case kernel.ActionUncomment:
		r.until(kernel.StandFinal)
		s.twice()
		s.twice()
	case kernel.ActionAmend:
		r.reach(kernel.ActionResult)
		s.showBranch()
		_, err := f.Robot.OpenChange(ctx, f.Repo, forge.Change{Title: "older", Body: "<!-- writ:task:" + r.ledger.chain.World + ":1 run=older -->\n", Head: "writ/change/1", Base: "main"})
		must(s.t, err)
	}
}

// mergeChange has a person merge the change, as it was verified.
func (s *sim) mergeChange() {
	s.t.Helper()
	s.logf("the change is merged")
	ctx, f := context.Background(), s.forged
	oid := s.commit(s.server.Ref("refs/heads/main"), "merge\n", map[string]string{"README": "hi\n", "out.txt": "hello\n"})
	s.server.Force("refs/heads/main", oid)
	found, err := f.Scene.Owner.FindChange(ctx, f.Repo, "writ/change/1", "")
	must(s.t, err)
	must(s.t, f.Scene.Owner.Merge(ctx, f.Repo, found.Number, oid))
}

// twice leaves a second status comment, as two replicas do that tell at once.
func (s *sim) twice() {
	f := s.forged
	_, err := f.Robot.AddComment(context.Background(), f.Repo, 1, "<!-- writ:task:"+s.runners[0].ledger.chain.World+":1 run=twin -->\ntwin\n")
	must(s.t, err)
}
