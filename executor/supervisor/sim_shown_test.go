package supervisor

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/pushed"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// memPushes are the pushes that a disk keeps.
type memPushes struct{ list []pushed.Push }

func (m *memPushes) Keep(_ context.Context, _, _ int64, p pushed.Push) error {
	m.list = append(m.list, p)
	return nil
}

func (m *memPushes) Forget(_ context.Context, _ int64, head string) error {
	m.list = slices.DeleteFunc(m.list, func(p pushed.Push) bool { return p.Moves[0].New == head })
	return nil
}

func (m *memPushes) Since(_ context.Context, _ int64, from, head string) (way []pushed.Push, gap string, err error) {
	for _, p := range m.list {
		if p.Moves[0].Old == from && p.Moves[0].New == head {
			return []pushed.Push{p}, "", nil
		}
	}
	return nil, head, nil
}

// pushesNext makes the runner's next look the one that makes a push of the action.
func (s *sim) pushesNext(r *simRunner, at kernel.Action) {
	switch at {
	case kernel.ActionSeal:
		s.built(r)
	case kernel.ActionWait, kernel.ActionRelease:
		r.reach(kernel.ActionDispatch)
	default:
		s.upTo(r, at)
	}
}

// asks is the request that makes a push of the action.
func asks(at kernel.Action) kernel.Request {
	switch at {
	case kernel.ActionWait:
		return kernel.RequestStop
	case kernel.ActionRelease:
		return kernel.RequestShutdown
	}
	return kernel.RequestTick
}

// wonAndLost makes a push of the action, which the server acknowledges and loses.
func (s *sim) wonAndLost(r *simRunner, at kernel.Action, fault kerneltest.Fault) {
	s.t.Helper()
	s.pushesNext(r, at)
	r.push = fault
	st, err := r.ask(asks(at))
	if err != nil || st.Decision.Action != at || st.Outcome == nil || st.Outcome.Status != kernel.OutcomeDone {
		s.fail("%s: %+v, %v", st.Decision.Action, st.Outcome, err)
	}
}

// heals drives until the state is at HEAD and a look has shown it. Nobody is asked.
func (s *sim) heals(r *simRunner, state string, within time.Duration) {
	s.t.Helper()
	for until := s.time.Now() + within.Milliseconds(); ; {
		if s.time.Now() > until {
			s.fail("%s later HEAD is %q", within, s.head().State)
		}
		asked := r.step()
		if d := r.last.Decision; asked && d.WaitingFor == kernel.WaitRepair {
			s.fail("a person is asked: %v", d.Violations)
		}
		if asked && r.lastError == nil && s.head().State == state && r.last.Facts.Head.State == state {
			return
		}
		for _, j := range r.building() {
			j.finish()
		}
		if s.advance(100); asked && r.last.Decision.Standing == kernel.StandDue {
			s.advance(min(r.last.Decision.Wake-r.clock.Now().WallMs, 60_000))
		}
	}
}

// pushing are the actions that push.
var pushing = []kernel.Action{
	kernel.ActionClaim, kernel.ActionHeartbeat, kernel.ActionSeal, kernel.ActionWait,
	kernel.ActionResult, kernel.ActionTakeOver, kernel.ActionRelease,
}

// TestSim_E8_WonAndLost: the server acknowledges a push and has nothing of it, for once or
// for an hour; the process lives, is restarted, or is restarted without what was kept of
// the push. Nothing was rolled back, so nobody is asked: the same push is made again, and
// the task ends as if it had lasted, by one execution where that was kept.
func TestSim_E8_WonAndLost(t *testing.T) {
	t.Parallel()
	for _, at := range pushing {
		for _, how := range []string{"lives", "restarted", "nothing kept", "an hour"} {
			t.Run(fmt.Sprintf("%s %s", at, how), func(t *testing.T) {
				s := newSim(t, 1, 0)
				a := s.runners[0]
				s.wonAndLost(a, at, kerneltest.Forgotten)
				switch how {
				case "restarted":
					a.crash()
				case "nothing kept":
					a.crash()
					a.kept = &memPushes{}
				case "an hour":
					s.check.Outage = true // a lease ends over it
					s.broken = kerneltest.Forgotten
					pushes, tries := a.pushes, 0
					for until := s.time.Now() + time.Hour.Milliseconds(); s.time.Now() < until; {
						if a.step() {
							tries++
						}
					}
					if !errors.Is(a.lastError, ErrUnsettled) || tries > 75 || a.pushes-pushes > tries {
						s.fail("%d tries, %d pushes, and then %v", tries, a.pushes-pushes, a.lastError)
					}
					s.broken = kerneltest.NoFault
				}
				a.up()
				state := string(kernel.TaskCompleted)
				if at == kernel.ActionWait {
					state = string(kernel.TaskWaiting)
				}
				s.heals(a, state, 10*time.Minute)
				if s.check.Accepted > 1 || at == kernel.ActionResult && how != "nothing kept" && s.check.Dispatched() != 1 ||
					at == kernel.ActionClaim && s.check.Dispatched() != 1 || s.check.Dispatched() > 2 {
					s.fail("%d accepted, %d dispatched", s.check.Accepted, s.check.Dispatched())
				}
			})
		}
	}
}

// TestSim_E8_LostAndRefused: a rule refuses a lost result for an hour, and its process lives
// or not. It is pushed once a minute, costs nothing, and is there within two minutes after
// the rule is gone.
func TestSim_E8_LostAndRefused(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		s := newSim(t, 1, 0)
		s.check.Outage = true // its lease ends over it
		a := s.runners[0]
		s.wonAndLost(a, kernel.ActionResult, kerneltest.Forgotten)
		s.rule = func(kerneltest.Object) bool { return true }
		pushes, began := a.pushes, s.time.Now()
		for half := began + (30 * time.Minute).Milliseconds(); s.time.Now() < began+time.Hour.Milliseconds(); s.advance(5_000) {
			if crashed && s.time.Now() > half {
				crashed = false
				a.crash()
				a.up()
			}
			if a.step(); a.lastError == nil && a.last.Decision.WaitingFor != kernel.WaitRule {
				s.fail("it waits for %q", a.last.Decision.WaitingFor)
			}
		}
		if n := a.pushes - pushes; n < 50 || n > 65 {
			s.fail("%d pushes", n)
		}
		s.rule = nil
		s.heals(a, string(kernel.TaskCompleted), 2*time.Minute)
		s.expect("completed", 1, 1, 1)
		s.expectCounts(1, 0)
	}
}

// TestSim_E8_WonAndLostToAnother: whoever pushes first onto the HEAD that is there wins, be
// it one who had seen what we didn't. Ours is lost then, and the result is one.
func TestSim_E8_WonAndLostToAnother(t *testing.T) {
	t.Parallel()
	for _, at := range pushing {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s restarted=%v", at, restarted), func(t *testing.T) {
				s := newSim(t, 1, 0, 0)
				s.check.Outage = true
				a, b := s.runners[0], s.runners[1]
				s.wonAndLost(a, at, kerneltest.Forgotten)
				lost := a.proc.task.worker.unseen.to()
				if restarted {
					a.crash()
				}
				a.asleep = true
				old, met, want, accepted := s.head().OID, false, string(kernel.TaskCompleted), 1
				if at == kernel.ActionWait { // a person's stop outlives its push
					want, accepted = string(kernel.TaskWaiting), 0
				}
				for range 400 {
					if !met && s.head().OID != old { // the other's first push
						a.up()
						for range 4 {
							a.step()
						}
						a.asleep, met = true, true
						if s.server.Ref(s.check.ChangeRef) != "" && s.head().State != string(kernel.TaskCompleted) {
							s.fail("half of what was lost to another was pushed")
						}
					}
					if s.head().State == want {
						break
					}
					if b.step(); b.last.Decision.Standing == kernel.StandHeld {
						s.advance(20_000)
					}
					for _, j := range b.building() {
						j.finish()
					}
				}
				a.up()
				s.heals(a, want, 10*time.Minute)
				if s.check.Accepted != accepted {
					s.fail("%d accepted", s.check.Accepted)
				}
				if _, there := s.server.Object(string(lost)); there {
					s.fail("what was lost to another was pushed")
				}
			})
		}
	}
}

// TestSim_E8_LostToAnotherIsOver: a result that was lost to another's push isn't on its way
// any more, though its change branch isn't there and the other still works.
func TestSim_E8_LostToAnotherIsOver(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	s.check.Outage = true
	a, b := s.runners[0], s.runners[1]
	s.wonAndLost(a, kernel.ActionResult, kerneltest.Forgotten)
	onItsWay, _ := a.proc.sup.Unsettled(1)
	a.asleep = true
	for n := 0; n < 40 && b.last.Decision.Action != kernel.ActionClaim; n++ {
		if b.step(); b.last.Decision.Standing == kernel.StandHeld {
			s.advance(20_000)
		}
	}
	a.up()
	st := a.tick()
	if still, _ := a.proc.sup.Unsettled(1); !onItsWay || still || st.Decision.Standing != kernel.StandHeld {
		s.fail("it was on its way: %v, and is: %v; the task is %s", onItsWay, still, st.Decision.Standing)
	}
}

// TestSim_L19_ShownAndGone: what a look did show and is then gone was rolled back, and
// waits for a person.
func TestSim_L19_ShownAndGone(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionClaim)
	before := s.head().Parent
	a.reach(kernel.ActionDispatch) // a look showed the claim
	s.server.Force(s.check.StateRef, before)
	a.crash()
	a.up()
	st := a.tick()
	if st.Decision.WaitingFor != kernel.WaitRepair {
		s.fail("it stands %s", st.Decision.Standing)
	}
	s.wantCode(st, kernel.CodeStateRollback)
}

// TestSim_A5_HalfAResult: a server that moves the state ref and not the change branch, and
// says that all was won, has not taken the result until both show it.
func TestSim_A5_HalfAResult(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		s := newSim(t, 1, 0)
		a := s.runners[0]
		s.wonAndLost(a, kernel.ActionResult, kerneltest.Half)
		if restarted {
			a.crash()
			a.up()
		}
		if s.head().State != string(kernel.TaskCompleted) || s.server.Ref(s.check.ChangeRef) != "" {
			s.fail("the server took all of it")
		}
		a.push = kerneltest.Forgotten
		if st := a.tick(); st.Decision.Action != kernel.ActionRedeliver {
			s.fail("it counts: %s", st.Decision.Action)
		}
		if st := a.tick(); st.Decision.Standing != kernel.StandDue {
			s.fail("the branch is pushed again at once: %s", st.Decision.Action)
		}
		s.advance(time.Minute.Milliseconds())
		s.heals(a, string(kernel.TaskCompleted), time.Minute)
		s.expect("completed", 1, 1, 1)
	}
}

// TestSim_L11_HiddenRenewal: a renewal that no look shows renews nothing. The builder is
// dead before the lease ends that others see, and runs on where the renewal is shown.
func TestSim_L11_HiddenRenewal(t *testing.T) {
	t.Parallel()
	for _, lasts := range []bool{false, true} {
		s := newSim(t, 1, 0)
		a := s.runners[0]
		claimed := s.time.Now()
		s.wonAndLost(a, kernel.ActionHeartbeat, kerneltest.Forgotten)
		s.check.Outage = true
		if lasts {
			s.broken = kerneltest.Forgotten
		}
		for s.time.Now() < claimed+110_000 {
			a.step()
		}
		if n := len(a.building()); (n == 0) != lasts {
			s.fail("%d builders run 110 s after the claim", n)
		}
		s.broken = kerneltest.NoFault
		s.heals(a, string(kernel.TaskCompleted), 10*time.Minute)
	}
}

// TestSim_E8_WonAndLostKey: what was lost under a key that was replaced meanwhile isn't
// pushed again, for nobody would follow it.
func TestSim_E8_WonAndLostKey(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	s.wonAndLost(a, kernel.ActionClaim, kerneltest.Forgotten)
	lost := a.proc.task.worker.unseen.to()
	a.crash()
	seed := make([]byte, ed25519.SeedSize)
	s.choice.Bytes(seed)
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
	must(t, err)
	a.signer = git.NewSigner(key)
	a.up()
	s.heals(a, string(kernel.TaskCompleted), 10*time.Minute)
	if _, there := s.server.Object(string(lost)); there {
		s.fail("the old key's claim was pushed")
	}
}

// TestSim_E8_RenewalLostAndBuilderEnded: a renewal is acknowledged and lost until shortly
// before the lease ends, or for longer, and the builder ends meanwhile. It is paid once:
// the look that shows the renewal comes right after the push that the server took, and its
// work is delivered by the run that it was built in; where the lease is over by then, it is
// kept although nothing is decided before the push is seen.
func TestSim_E8_RenewalLostAndBuilderEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lasts  time.Duration
		claims int
	}{{31 * time.Second, 1}, {5 * time.Minute, 2}} {
		s := newSim(t, 1, 0)
		s.check.Outage = true
		a := s.runners[0]
		s.wonAndLost(a, kernel.ActionHeartbeat, kerneltest.Forgotten)
		s.broken = kerneltest.Forgotten
		for _, j := range a.building() {
			j.finish()
		}
		for until := s.time.Now() + c.lasts.Milliseconds(); s.time.Now() < until; {
			a.step()
		}
		if (a.proc.task.worker.run == nil) != (c.claims > 1) {
			s.fail("the run is given up: %v", a.proc.task.worker.run == nil)
		}
		s.broken = kerneltest.NoFault
		s.healed(a)
		s.expect("completed", c.claims, 1, 1)
	}
}

// TestSim_E8_TakenAndShownAtOnce: the look that shows a push that was made again comes with
// it. Where that one doesn't show it, either, the server is left alone for a while: it isn't
// pushed once more.
func TestSim_E8_TakenAndShownAtOnce(t *testing.T) {
	t.Parallel()
	for _, shown := range []bool{true, false} {
		s := newSim(t, 1, 0)
		a := s.runners[0]
		s.wonAndLost(a, kernel.ActionHeartbeat, kerneltest.Forgotten)
		lost := a.proc.task.worker.unseen.to()
		if _, err := a.ask(kernel.RequestTick); !errors.Is(err, ErrUnsettled) {
			s.fail("%v", err)
		}
		if !shown {
			a.push = kerneltest.Forgotten
		}
		pushes := a.pushes
		st, err := a.ask(kernel.RequestTick)
		if shown && (err != nil || st.Facts.Head.OID != string(lost)) {
			s.fail("HEAD is %s, %v", st.Facts.Head.OID, err)
		}
		if !shown && (!errors.Is(err, ErrUnsettled) || a.pushes-pushes != 1) {
			s.fail("%d pushes, %v", a.pushes-pushes, err)
		}
	}
}

// TestSim_A5_ToAnother: whichever half of a result the server took, whoever looks next ends
// the task by one execution, though the owner never comes back.
func TestSim_A5_ToAnother(t *testing.T) {
	t.Parallel()
	for _, half := range []kerneltest.Fault{kerneltest.Half, kerneltest.Rear} {
		s := newSim(t, 1, 0, 0)
		a, b := s.runners[0], s.runners[1]
		s.pushesNext(a, kernel.ActionResult)
		a.push = half
		_ = a.tick()
		a.crash()
		for range 60 {
			if b.tick(); b.last.Decision.Standing == kernel.StandFinal {
				break
			}
			s.advance(10_000)
		}
		if b.last.Decision.Standing != kernel.StandFinal || s.server.Ref(s.check.ChangeRef) != s.head().Change || s.check.Dispatched() != 1 || s.check.Accepted != 1 {
			s.fail("%s: %s, the branch is at %q, %d dispatched, %d accepted", half, b.last.Decision.Standing, s.server.Ref(s.check.ChangeRef), s.check.Dispatched(), s.check.Accepted)
		}
	}
}
