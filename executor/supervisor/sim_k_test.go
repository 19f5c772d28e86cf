package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

func TestSim_K1_KilledBeforeTheLeasePush(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.dieAtPoint(PointOf(kernel.ActionClaim, StageRecorded))
	if h := s.head(); h.OID != "" {
		s.fail("a lease was pushed: %v", h)
	}
	a.up()
	a.until(kernel.StandFinal)
	s.expect("completed", 1, 1, 1)
	s.expectCounts(1, 0)
}

func TestSim_K2_KilledBetweenLeaseAndDispatch(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{StageDone, StageSettled} {
		s := newSim(t, 1, 0)
		a := s.runners[0]
		a.dieAtPoint(PointOf(kernel.ActionClaim, stage))
		a.up()
		a.until(kernel.StandFinal)
		s.expect("completed", 2, 1, 1)
		s.expectCounts(1, 1)
	}
}

func TestSim_K3_KilledAroundTheStart(t *testing.T) {
	t.Parallel()
	for stage, dispatched := range map[string]int{StageDecided: 1, StageRecorded: 1, StageDone: 2, StageSettled: 2} {
		s := newSim(t, 1, 0)
		a := s.runners[0]
		a.dieAtPoint(PointOf(kernel.ActionDispatch, stage))
		a.up()
		a.until(kernel.StandFinal)
		s.expect("completed", 2, dispatched, 1)
		s.expectCounts(1, 1)
	}
}

func TestSim_K4_TheBuilderDiesWithItsSupervisor(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	a, b := s.runners[0], s.runners[1]
	a.reach(kernel.ActionDispatch)
	orphan := a.building()[0]
	a.crash()
	if !orphan.killed {
		s.fail("the builder outlives its supervisor")
	}
	s.pastLease(b)
	b.until(kernel.StandFinal)
	s.expect("completed", 2, 2, 1)
	s.expectCounts(1, 1)
}

// TestSim_K7_EveryPoint kills the process at each fault point, twice, and lets
// it go on with the same disk, or another installation that lists its key.
func TestSim_K7_EveryPoint(t *testing.T) {
	t.Parallel()
	for _, at := range Points() {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/other=%v", at, other), func(t *testing.T) {
				t.Parallel()
				s := newSim(t, 1, 0, 0)
				everyPoint(s, at, other, s.finishBy)
			})
		}
	}
}

func everyPoint(s *sim, at Point, other bool, finish func(*simRunner)) {
	a, b := s.runners[0], s.runners[1]
	for i := range 2 {
		a.build = "good"
		if i == 0 && strings.HasPrefix(string(at), string(kernel.ActionResult)) {
			a.build = "bad" // so that there are two results to die at
		}
		provoke(s, a, at)
		if a.proc != nil {
			s.fail("%s was not reached", at)
		}
		if other {
			break // A stays away
		}
		a.up()
	}
	next := a
	if other {
		next = b
		s.pastLease(b)
	}
	a.build = "good"
	finish(next)
	if s.check.Accepted != 1 || s.head().State != "completed" {
		s.fail("HEAD %q, %d results accepted", s.head().State, s.check.Accepted)
	}
}

// finishBy lets a runner bring the task to its end; a person moves on from what
// waits.
func (s *sim) finishBy(r *simRunner) {
	s.t.Helper()
	for range 80 {
		r.up()
		st := r.tick()
		for _, j := range r.building() {
			j.finish()
		}
		switch st.Decision.Standing {
		case kernel.StandFinal:
			return
		case kernel.StandWaiting:
			must(s.t, r.proc.sup.Resume(s.t.Context(), 1, "alice", "go on"))
		case kernel.StandDue, kernel.StandHeld:
			s.advance(max(st.Decision.Wake-r.clock.Now().WallMs, 1000))
		}
	}
	s.fail("it doesn't end")
}

// sealedAtHead reports whether HEAD holds sealed work.
func (s *sim) sealedAtHead() bool {
	tree := git.Tree{}
	err := (&simRepo{&simProc{r: s.runners[0]}}).walk(s.head().Tree, "", &tree)
	return err == nil && slices.ContainsFunc(tree.Entries, func(e git.Entry) bool { return e.Path == sealed.File })
}

// provoke brings a runner to a fault point, where it dies.
func provoke(s *sim, r *simRunner, at Point) {
	action, _, _ := strings.Cut(string(at), ":")
	if s.head().State == string(kernel.TaskWaiting) || r.proc.sup.View(1).Stop != "" { // where the first death left it
		must(s.t, r.proc.sup.Resume(s.t.Context(), 1, "alice", "go on"))
	}
	if a := kernel.Action(action); (s.sealedAtHead() || r.shelf.run != "") && (a == kernel.ActionSeal || a == kernel.ActionResult) {
		if s.head().State == kernel.HeadWorking {
			r.reach(kernel.ActionTakeOver)
		}
		_, _ = r.ask(kernel.RequestStop) // what a person stopped is built anew
		must(s.t, r.proc.sup.Resume(s.t.Context(), 1, "alice", "go on"))
	}
	switch kernel.Action(action) {
	case kernel.ActionHeartbeat:
		r.reach(kernel.ActionDispatch)
		s.advance(45_000)
	case kernel.ActionTakeOver:
		if s.head().State != kernel.HeadWorking { // the second time it still is
			r.reach(kernel.ActionDispatch)
			r.crash()
			r.up()
		}
	case kernel.ActionRelease, kernel.ActionWait:
		r.reach(kernel.ActionDispatch)
		request := map[kernel.Action]kernel.Request{kernel.ActionRelease: kernel.RequestShutdown, kernel.ActionWait: kernel.RequestStop}
		r.dieAt = at
		_, _ = r.ask(request[kernel.Action(action)]) // it dies under it
		return
	case kernel.ActionAbandon:
		if r.tick().Decision.WaitingFor == kernel.WaitRepair { // since the first death
			must(s.t, r.proc.sup.Resume(s.t.Context(), 1, "alice", "go on"))
		}
		r.reach(kernel.ActionDispatch)
		s.server.Force(s.check.StateRef, s.head().Parent)
	case kernel.ActionNone:
		if s.head().State == "" {
			r.reach(kernel.ActionDispatch) // then it waits for the builder
		}
	}
	r.dieAt = at
	for range 60 {
		if r.proc == nil {
			return
		}
		st := r.tick()
		switch st.Decision.Standing {
		case kernel.StandWaiting:
			if r.proc != nil {
				must(s.t, r.proc.sup.Resume(s.t.Context(), 1, "alice", "go on"))
			}
		case kernel.StandDue:
			s.advance(max(st.Decision.Wake-r.clock.Now().WallMs, 1))
		}
		if kernel.Action(action) != kernel.ActionNone {
			for _, j := range r.building() {
				j.finish()
			}
		}
	}
}

// TestSim_K8_BlockedAfterN lets builders fail and processes die in between:
// blocked after exactly N counted attempts.
func TestSim_K8_BlockedAfterN(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 3} {
		terms := fmt.Sprintf("version: 1\nchecks: [{name: test, run: [\"true\"]}]\nbudgets: {attempts: %d, interruptions: 10, retry_backoff: 30s, retry_backoff_max: 5m}\n", n)
		s := newSimUnder(t, 1, terms, kerneltest.Rules{Attempts: n, Interruptions: 10}, 0, 0)
		a, b := s.runners[0], s.runners[1]
		a.build, b.build = "bad", "leaks"
		for i := range int(n) {
			r := s.runners[i%2]
			r.reach(kernel.ActionDispatch) // and dies: no attempt
			r.crash()
			r.up()
			r.reach(kernel.ActionResult)
			if i%2 == 0 {
				r.crash()
				r.up()
			}
		}
		s.expect("blocked", 2*int(n), 2*int(n), 0)
		s.expectCounts(n, n)
		for _, r := range s.runners {
			st := r.until(kernel.StandFinal)
			if st.Decision.State != kernel.TaskBlocked {
				s.fail("%s says %s", r.name, st.Decision.State)
			}
		}
		if pushes := a.pushes + b.pushes; pushes == 0 {
			s.fail("nobody pushed")
		}
		before := a.pushes + b.pushes
		for range 3 {
			s.advance(3_600_000)
			a.tick()
			b.tick()
		}
		if a.pushes+b.pushes != before {
			s.fail("a blocked task is pushed to")
		}
	}
}

// TestSim_K9_LostDisk: whatever instance finds the task goes on, or vouches for
// it, from git alone; one that doesn't list the other's key waits for a person.
func TestSim_K9_LostDisk(t *testing.T) {
	t.Parallel()
	for _, last := range []kernel.Action{kernel.ActionClaim, kernel.ActionDispatch, kernel.ActionJudge, kernel.ActionResult} {
		s := newSim(t, 1, 0, 0)
		a, b := s.runners[0], s.runners[1]
		a.reach(last)
		a.crash()
		a.newDisk()
		s.pastLease(b)
		s.finishBy(b)
		if s.check.Accepted != 1 {
			s.fail("after %s: %d accepted", last, s.check.Accepted)
		}
	}
	s := newSim(t, 1, 0, 0)
	a, b := s.runners[0], s.runners[1]
	a.build = "bad"
	a.reach(kernel.ActionResult)
	a.crash()
	a.newDisk()
	b.until(kernel.StandFinal)
	s.expect("completed", 2, 2, 1)
	s.expectCounts(2, 0)
}

func TestSim_K9_Unlisted(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	s.isolate()
	a, b := s.runners[0], s.runners[1]
	a.until(kernel.StandFinal)
	st := b.tick()
	s.wantCode(st, kernel.CodeLeaseUntrusted)
	if st.Decision.Standing != kernel.StandWaiting || b.pushes != 0 {
		s.fail("%s with %d pushes", st.Decision.Standing, b.pushes)
	}
}

// TestSim_K10_TenDeploys restarts the only installation ten times in the middle
// of its builds, gracefully and not.
func TestSim_K10_TenDeploys(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	for i := range 10 {
		a.reach(kernel.ActionDispatch)
		if i%2 == 0 {
			if st, _ := a.ask(kernel.RequestShutdown); st.Decision.Action != kernel.ActionRelease {
				s.fail("a shutdown does %s", st.Decision.Action)
			}
		}
		a.crash()
		a.up()
	}
	a.until(kernel.StandFinal)
	s.expect("completed", 11, 11, 1)
	s.expectCounts(1, 10)
}

// TestSim_K10_TooMany: the eleventh interruption is one too many.
func TestSim_K10_TooMany(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	for range 11 {
		a.reach(kernel.ActionDispatch)
		a.crash()
		a.up()
	}
	st := a.reach(kernel.ActionResult)
	s.wantCode(st, kernel.CodeInterruptionsSpent)
	s.expect("blocked", 11, 11, 0)
	s.expectCounts(1, 11)
}
