package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// step is one turn of a drive in virtual time: it waits as a drive does, and asks
// when that may. It reports whether it asked.
func (r *simRunner) step() bool {
	t := r.proc.task
	now := r.clock.Now()
	if until, ok := t.s.outage.take(t.number, now); !ok {
		r.s.advance(min(until-now.BootMs, 1000))
		t.worker.giveUpIfOverdue()
		return false
	}
	d := &drive{task: t}
	st, err := r.ask(kernel.RequestTick)
	d.tried(st, err)
	if r.s.forged != nil && err == nil && speaksAt(st) {
		r.tell(st)
	}
	if err != nil && unreadable(err) {
		t.worker.unable(words(err), errors.Is(err, ErrUnsettled), false)
	}
	t.worker.giveUpIfOverdue()
	if st.Decision.Standing == kernel.StandRunning {
		r.s.advance(1000)
	}
	return true
}

// TestSim_G7_E8_AtEachPush: the server is unable from one of a task's pushes on, for
// a second, a minute, an hour, and two minutes later the task is done: with the one
// execution that was judged before, nothing counted, nobody asked, and no more than
// a try a minute meanwhile.
func TestSim_G7_E8_AtEachPush(t *testing.T) {
	t.Parallel()
	for _, at := range []kernel.Action{kernel.ActionClaim, kernel.ActionHeartbeat, kernel.ActionResult, kernel.ActionTakeOver} {
		for _, lasts := range []time.Duration{time.Second, time.Minute, time.Hour} {
			for _, how := range []struct {
				name  string
				fault kerneltest.Fault
				blind bool
			}{{"disk", kerneltest.Disk, false}, {"down", kerneltest.Down, true}, {"silent", kerneltest.Dropped, false}} {
				t.Run(fmt.Sprintf("%s %s %s", at, lasts, how.name), func(t *testing.T) {
					s := newSim(t, 1, 0)
					s.check.Outage = true
					a := s.runners[0]
					s.upTo(a, at)
					s.broken, s.blind = how.fault, how.blind
					pushes, from := a.pushes, s.time.Now()
					tries := 0
					for s.time.Now() < from+lasts.Milliseconds() {
						if a.step() {
							tries++
						}
					}
					if most := 8 + int(lasts/time.Minute); tries > most+4 || a.pushes-pushes > 2*most+8 {
						s.fail("%d looks and %d pushes in an outage of %s", tries, a.pushes-pushes, lasts)
					}
					s.broken, s.blind = kerneltest.NoFault, false
					s.healed(a)
					dispatched := 1
					if at == kernel.ActionHeartbeat && lasts > time.Minute || at == kernel.ActionTakeOver {
						dispatched = 2 // the builder was killed with its lease
					}
					claims := dispatched
					if at == kernel.ActionClaim && lasts > time.Minute && how.name == "silent" {
						claims = 2 // the first one came through when its lease was over
					}
					s.expect("completed", claims, dispatched, 1)
					interrupted := int64(0)
					if at == kernel.ActionTakeOver {
						interrupted = 1 // by the process that died
					}
					s.expectCounts(1, interrupted)
				})
			}
		}
	}
}

// upTo brings a task to right before a push.
func (s *sim) upTo(r *simRunner, at kernel.Action) {
	switch at {
	case kernel.ActionHeartbeat:
		r.reach(kernel.ActionDispatch)
		s.advance(r.proc.task.renewIn().Milliseconds())
	case kernel.ActionResult:
		r.reach(kernel.ActionJudge)
	case kernel.ActionTakeOver:
		r.reach(kernel.ActionDispatch)
		r.crash()
		r.up()
	}
}

// healed drives until the task is at its end, which is soon.
func (s *sim) healed(r *simRunner) {
	s.t.Helper()
	for until := s.time.Now() + (2 * time.Minute).Milliseconds(); s.head().State != "completed"; {
		if s.time.Now() > until {
			s.fail("two minutes after the server's recovery HEAD is %q", s.head().State)
		}
		r.step()
		for _, j := range r.building() {
			j.finish()
		}
	}
}

// TestSim_G7_OneTriesForAll: the first push that the server takes wakes whoever
// waits, and until then one asks for all.
func TestSim_G7_OneTriesForAll(t *testing.T) {
	t.Parallel()
	o := newOutage()
	now := kerneltest.NewClock(kerneltest.NewTime(), 0).Now()
	for n := range int64(5) {
		if _, ok := o.take(n, now); !ok {
			t.Fatalf("task %d may not ask a server that works", n)
		}
	}
	for n := range int64(5) {
		o.failed(n, now, "full", true, false)
	}
	if rest := o.rest(now); rest > outageNext {
		t.Errorf("after what began at once failed at once, nobody tries for %s", rest)
	}
	tries := 0
	for range 3600 {
		now.BootMs, now.WallMs = now.BootMs+1000, now.WallMs+1000
		for n := range int64(5) {
			if _, ok := o.take(n, now); ok {
				tries++
				if _, again := o.take((n+1)%5, now); again {
					t.Fatal("two try at once")
				}
				o.failed(n, now, "full", true, false)
			}
		}
	}
	if tries < 55 || tries > 70 {
		t.Errorf("%d tries in an hour", tries)
	}
	if shown, lasts := o.shown(); !lasts || shown.Words != "full" || shown.Tasks != 5 {
		t.Errorf("%+v", shown)
	}
	now.BootMs += 60_000
	var woken []int64
	for n := range int64(5) {
		if _, ok := o.take(n, now); ok {
			woken = o.won(n, "")
			break
		}
	}
	if len(woken) != 4 || o.rest(now) != 0 {
		t.Errorf("woken: %v, rest %v", woken, o.rest(now))
	}
}

// TestSim_G7_OneTaskAlone: what only one task meets keeps nobody else waiting, and
// that the others get through doesn't make it ask all the time.
func TestSim_G7_OneTaskAlone(t *testing.T) {
	t.Parallel()
	o := newOutage()
	now := kerneltest.NewClock(kerneltest.NewTime(), 0).Now()
	tries := 0
	for range 3600 {
		if _, ok := o.take(1, now); ok {
			tries++
			o.failed(1, now, "a page that can't be read", false, false)
		}
		now.BootMs += 1000
		if _, ok := o.take(2, now); ok {
			o.read(2)
		}
	}
	if tries > 80 {
		t.Errorf("%d tries in an hour", tries)
	}
}

// TestSim_G7_Space: what the server has no room for is tried every minute for an hour and
// then every ten, and keeps nobody else waiting.
func TestSim_G7_Space(t *testing.T) {
	t.Parallel()
	o := newOutage()
	now := kerneltest.NewClock(kerneltest.NewTime(), 0).Now()
	tries, others := [2]int{}, 0
	for i := range 2 * 3600 {
		if _, ok := o.take(1, now); ok {
			tries[i/3600]++
			o.failed(1, now, "remote: fatal: pack exceeds maximum allowed size", true, true)
		}
		now.BootMs += 1000
		if _, ok := o.take(2, now); ok {
			others++
			o.back(2, true)
		}
	}
	if tries[0] < 55 || tries[0] > 75 || tries[1] < 5 || tries[1] > 8 || others < 100 {
		t.Errorf("%d tries in two hours, others may try %d times", tries, others)
	}
}

// TestSim_G7_Told: what the issue is told of an outage stays the same while it lasts.
func TestSim_G7_Told(t *testing.T) {
	t.Parallel()
	o := newOutage()
	now := kerneltest.NewClock(kerneltest.NewTime(), 0).Now()
	for i := range 20 {
		o.failed(1, now, fmt.Sprint("full, try ", i), true, false)
		words, since, fresh := o.lasts(1, now)
		if told := since != 0; told && (words != "full, try 0" || fresh != (i == 5)) || told != (i >= 5) {
			t.Errorf("after %d minutes: %q since %d, new %v", i, words, since, fresh)
		}
		if fresh {
			o.tell(1)
		}
		now.BootMs, now.WallMs = now.BootMs+60_000, now.WallMs+60_000
	}
	o.won(1, "")
	if _, since, _ := o.lasts(1, now); since != 0 {
		t.Error("it is told of after its end")
	}
}

// sealedWork is what a server with a rule against sealed work looks for.
func sealedWork(o kerneltest.Object) bool {
	return o.Kind == "tree" && bytes.Contains(o.Data, []byte(sealed.File))
}

// built has a runner's builder end.
func (s *sim) built(a *simRunner) {
	s.t.Helper()
	a.reach(kernel.ActionDispatch)
	for _, j := range a.building() {
		j.finish()
	}
}

// untilChecks drives a runner until its checks run, or for half an hour. It returns how
// often it asked.
func (s *sim) untilChecks(a *simRunner) (asked int) {
	s.t.Helper()
	for until := s.time.Now() + (30 * time.Minute).Milliseconds(); s.time.Now() < until; {
		if a.step() {
			asked++
		}
		if r := a.proc.task.worker.run; r != nil && r.phase == kernel.PhaseChecking {
			return asked
		}
	}
	s.fail("the checks never began")
	return 0
}

// TestSim_G7_SealIsNeverTaken: a server that is unable to take the sealed work for good,
// and takes all else, costs the insurance only: one heartbeat shows it, and words about
// space need none.
func TestSim_G7_SealIsNeverTaken(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	s.rule, s.vague = sealedWork, true
	a := s.runners[0]
	s.built(a)
	began := s.time.Now()
	asked := s.untilChecks(a)
	if a.shelf.run == "" || s.sealedAtHead() {
		s.fail("the store keeps nothing, or it was sealed")
	}
	if lasted := s.time.Now() - began; asked > 20 || lasted > (3*time.Minute).Milliseconds() {
		s.fail("the checks began after %d looks and %d ms", asked, lasted)
	}
	s.finishBy(a)
	s.expect("completed", 1, 1, 1)
	s.expectCounts(1, 0)
	if a.shelf.run != "" {
		s.fail("the store still keeps the work of run %s", a.shelf.run)
	}

	s = newSim(t, 1, 0)
	a = s.runners[0]
	s.built(a)
	a.push = kerneltest.Disk
	a.tick()
	if st := a.tick(); st.Decision.Action != kernel.ActionChecks || a.shelf.run == "" {
		s.fail("%s comes after the seal that there was no room for", st.Decision.Action)
	}
}

// TestSim_G7_SealInAnOutage: an outage alone doesn't cost the insurance.
func TestSim_G7_SealInAnOutage(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	s.built(a)
	s.rule, s.vague = func(kerneltest.Object) bool { return true }, true
	for from := s.time.Now(); s.time.Now() < from+(30*time.Second).Milliseconds(); {
		a.step()
	}
	s.rule = nil
	s.untilChecks(a)
	if !s.sealedAtHead() {
		s.fail("the checks began and nothing is sealed")
	}
	s.finishBy(a)
	s.expect("completed", 1, 1, 1)
}

// TestSim_G7_StoredWorkIsNeverTaken: a server that is unable to take what only our store
// has, for good, costs neither the task nor another build, and an outage doesn't, either.
func TestSim_G7_StoredWorkIsNeverTaken(t *testing.T) {
	t.Parallel()
	for _, heals := range []bool{false, true} {
		t.Run(fmt.Sprintf("heals=%v", heals), func(t *testing.T) {
			s := newSim(t, 1, 0)
			a := s.runners[0]
			a.dieAtPoint(PointOf(kernel.ActionSeal, StageRecorded))
			s.rule, s.vague = sealedWork, true
			a.up()
			a.proc.task.worker.bare = heals // the outage begins when it is taken over without the work
			for heals && s.head().State != kernel.HeadStalled {
				s.advance(10_000)
				a.tick()
			}
			if heals {
				s.rule = func(kerneltest.Object) bool { return true }
			}
			s.pastLease(a)
			for until := s.time.Now() + (4 * time.Hour).Milliseconds(); s.head().State != "completed"; {
				if s.time.Now() > until {
					s.fail("it is not done")
				}
				if s.time.Now() > until-(3*time.Hour).Milliseconds() && heals {
					s.rule = nil
				}
				a.step()
				if r := a.proc.task.worker.run; r == nil {
					s.advance(1000)
				} else if kept := a.shelf.run != ""; kept == heals && a.proc.task.worker.unseen == nil {
					s.fail("it is claimed, and the store keeps the work: %v", kept)
				}
				for _, j := range a.building() {
					j.finish()
				}
			}
			if n := s.check.Dispatched(); n != 1 || s.check.Resumed != 1 {
				s.fail("%d dispatches, %d resumed", n, s.check.Resumed)
			}
		})
	}
}

// TestSim_G7_StopIsNeverTaken: the last word goes without its report where the server is
// unable to take that for good.
func TestSim_G7_StopIsNeverTaken(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionDispatch)
	s.rule, s.vague = func(o kerneltest.Object) bool { return o.Kind == "blob" }, true
	for range 2 * ruleTries {
		if _, err := a.ask(kernel.RequestStop); err != nil {
			s.fail("%v", err)
		}
		if s.head().State == string(kernel.TaskWaiting) {
			return
		}
	}
	s.fail("HEAD is %q", s.head().State)
}

// TestSim_G6_AccountCostsNoWork: a rule about the account says nothing about what was
// pushed: the store keeps what the builder left, and it is gone on with.
func TestSim_G6_AccountCostsNoWork(t *testing.T) {
	t.Parallel()
	for _, at := range []kernel.Action{kernel.ActionSeal, kernel.ActionTakeOver, kernel.ActionClaim} {
		t.Run(string(at), func(t *testing.T) {
			s := newSim(t, 1, 0)
			a := s.runners[0]
			s.rule, s.account = sealedWork, true
			if at == kernel.ActionSeal {
				s.built(a)
				a.tick()
				if st := a.tick(); st.Decision.Action != kernel.ActionChecks {
					s.fail("%s comes after the refused seal", st.Decision.Action)
				}
			} else {
				a.dieAtPoint(PointOf(kernel.ActionSeal, StageRecorded))
				a.up()
				a.proc.task.worker.bare = at == kernel.ActionClaim // it is taken over without the work
				s.pastLease(a)
			}
			if h := s.head().State; a.shelf.run == "" || (h == kernel.HeadStalled) != (at == kernel.ActionClaim) {
				s.fail("HEAD is %q, the store keeps %q", h, a.shelf.run)
			}
			s.rule, s.account = nil, false
			a.crash()
			a.up()
			s.pastLease(a)
			s.finishBy(a)
			if n := s.check.Dispatched(); n != 1 || s.check.Resumed != 1 {
				s.fail("%d dispatches, %d resumed", n, s.check.Resumed)
			}
		})
	}
}
