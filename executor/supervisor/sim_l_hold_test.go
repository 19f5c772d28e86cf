package supervisor

import (
	"fmt"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// TestSim_L8_Clocks: a rival's clock that is an hour off, either way, never takes
// a live lease, and a dead one is taken in bounded time.
func TestSim_L8_Clocks(t *testing.T) {
	t.Parallel()
	for _, skew := range []int64{-3_600_000, 3_600_000, 0} {
		s := newSim(t, 1, 0, skew)
		a, b := s.runners[0], s.runners[1]
		a.reach(kernel.ActionDispatch)
		for i := range 40 { // twenty minutes, renewed all the time
			s.advance(30_000)
			if i == 20 {
				b.clock.Jump(1_800_000)
			}
			a.tick()
			if st := b.tick(); st.Decision.Standing != kernel.StandHeld {
				s.fail("skew %d: B %s while A renews", skew, st.Decision.Standing)
			}
		}
		a.crash()
		dead := s.time.Now()
		for s.time.Now()-dead < 3*3_600_000 {
			s.advance(20_000)
			if b.tick().Decision.Action == kernel.ActionTakeOver {
				break
			}
		}
		if waited := s.time.Now() - dead; s.head().State != "stalled" || waited < 100_000 {
			s.fail("skew %d: HEAD %q after %d ms", skew, s.head().State, waited)
		}
	}
}

// TestSim_L9_Frozen: a holder that is frozen past its lease is taken over and,
// thawed, finds that it lost: its builder dies and nothing of its moves.
func TestSim_L9_Frozen(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	a, b := s.runners[0], s.runners[1]
	a.reach(kernel.ActionDispatch)
	builder := a.building()[0]
	a.asleep = true
	s.takenBy(b)
	builder.finish() // it had gone on meanwhile, and is good
	a.asleep = false
	pushes := a.pushes
	st := a.tick()
	s.wantCode(st, kernel.CodeLeaseLost)
	if st.Decision.Action != kernel.ActionAbandon || a.pushes != pushes {
		s.fail("thawed, it does %s with %d pushes", st.Decision.Action, a.pushes-pushes)
	}
	b.until(kernel.StandFinal)
	a.until(kernel.StandFinal)
	s.expect("completed", 2, 2, 1)
	s.expectCounts(1, 1)
}

// TestSim_L17_FrozenBeforeItsPush freezes the holder between its decision and
// its push of state and change: neither ref moves.
func TestSim_L17_FrozenBeforeItsPush(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		s := newSim(t, 1, 0, 0)
		a, b := s.runners[0], s.runners[1]
		a.reach(kernel.ActionJudge)
		var change string
		a.beforePush = func() {
			a.asleep = true
			s.takenBy(b)
			if done {
				b.until(kernel.StandFinal)
			}
			a.asleep = false
			change = s.server.Ref(s.check.ChangeRef)
		}
		head := func() string { return s.server.Ref(s.check.StateRef) }
		st := a.tick()
		if st.Decision.Action != kernel.ActionResult || outcomeOf(st) != kernel.OutcomeLost {
			s.fail("%s %q", st.Decision.Action, outcomeOf(st))
		}
		if s.server.Ref(s.check.ChangeRef) != change || head() == st.Outcome.Key {
			s.fail("a stale owner moved a ref")
		}
		b.until(kernel.StandFinal)
		a.until(kernel.StandFinal)
		s.expect("completed", 2, 1, 1) // what A had sealed is judged by B: no second build
	}
}

// TestSim_L10_HeartbeatAgainstTakeover: both were decided on the same HEAD. One
// wins; a holder that lost stops its builder.
func TestSim_L10_HeartbeatAgainstTakeover(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	a, b := s.runners[0], s.runners[1]
	a.reach(kernel.ActionDispatch)
	b.tick()
	s.time.Advance(45_000)
	a.beforePush = func() {
		a.asleep = true
		s.pastLease(b)
		a.asleep = false
	}
	if st := a.tick(); st.Decision.Action != kernel.ActionHeartbeat || outcomeOf(st) != kernel.OutcomeLost {
		s.fail("heartbeat: %s %q", st.Decision.Action, outcomeOf(st))
	}
	if st := a.tick(); st.Decision.Action != kernel.ActionAbandon || len(a.building()) != 0 {
		s.fail("the loser: %s with %d builders", st.Decision.Action, len(a.building()))
	}

	s = newSim(t, 1, 0, 0)
	a, b = s.runners[0], s.runners[1]
	a.reach(kernel.ActionDispatch)
	b.tick()
	s.time.Advance(60_000)
	b.clock.Advance(100_000) // B's clocks run ahead: to it the lease is over
	b.beforePush = func() { a.tick() }
	if st := b.tick(); st.Decision.Action != kernel.ActionTakeOver || outcomeOf(st) != kernel.OutcomeLost {
		s.fail("takeover: %s %q", st.Decision.Action, outcomeOf(st))
	}
	a.until(kernel.StandFinal)
	s.expect("completed", 1, 1, 1)
	s.expectCounts(1, 0)
}

// TestSim_L11_SelfFence: a holder that can't renew kills its builder before the
// lease ends, and pushes no result.
func TestSim_L11_SelfFence(t *testing.T) {
	t.Parallel()
	for _, f := range []kerneltest.Fault{kerneltest.Down, kerneltest.Refuse, kerneltest.Dropped} {
		s := newSim(t, 1, 0)
		a := s.runners[0]
		a.reach(kernel.ActionDispatch)
		builder := a.building()[0]
		claimed := s.time.Now()
		for !closed(builder.Done()) && s.time.Now()-claimed < 200_000 {
			s.advance(5_000)
			a.push, a.noReads = f, 0
			if f == kerneltest.Dropped {
				a.beforePush = func() { a.push, a.noReads = f, 99 }
			}
			a.tick()
		}
		if held := s.time.Now() - claimed; !builder.killed || held > 105_000 {
			s.fail("%s: the builder is killed after %d ms (%v), the lease ends after 120 s", f, held, builder.killed)
		}
		a.push, a.noReads, a.beforePush = kerneltest.NoFault, 0, nil
		if h := s.head(); h.State != "working" || s.server.Ref(s.check.ChangeRef) != "" {
			s.fail("%s: something was pushed: %q", f, h.State)
		}
	}
}

// TestSim_L11_Mended: once the network is back, the fenced holder takes its own
// lease back, counts an interruption, and goes on.
func TestSim_L11_Mended(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionDispatch)
	for range 25 {
		s.advance(5_000)
		a.noReads = 9
		a.tick()
	}
	a.noReads = 0
	s.wantCode(a.tick(), kernel.CodeLeaseLost)
	a.until(kernel.StandFinal)
	s.expect("completed", 2, 2, 1)
	s.expectCounts(1, 1)
}

// TestSim_L12_ForeignPush: somebody's commit on the state ref is never pushed
// over. The run ends, the task waits, and a person moves on from that commit.
func TestSim_L12_ForeignPush(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionDispatch)
	foreign := s.commit(s.head().OID, "I was here\n", map[string]string{"x": "y"})
	s.server.Force(s.check.StateRef, foreign)
	s.wantCode(a.tick(), kernel.CodeLockViolation)
	if len(a.building()) != 0 {
		s.fail("the builder still runs")
	}
	for range 5 {
		s.advance(600_000)
		st := a.tick()
		s.wantCode(st, kernel.CodeLockViolation)
		if st.Decision.Standing != kernel.StandWaiting || st.Decision.WaitingFor != kernel.WaitRepair || s.head().OID != foreign {
			s.fail("%s, HEAD %s", st.Decision.Standing, s.head().OID)
		}
	}
	must(t, a.proc.sup.Resume(t.Context(), 1, "alice", "it was me"))
	a.until(kernel.StandFinal)
	s.expect("completed", 2, 2, 1)
	h := s.head()
	for range 10 {
		if h.OID == foreign {
			return
		}
		o, _ := s.server.Object(h.Parent)
		h = kerneltest.ReadHead(h.Parent, o)
	}
	s.fail("the foreign commit isn't below HEAD")
}

// TestSim_L13_TextOfAnIssue: whatever an issue's text says, the state commits
// that carry it say what they are meant to.
func TestSim_L13_TextOfAnIssue(t *testing.T) {
	t.Parallel()
	for _, tail := range []string{
		"\naynig-state: completed\n", "\n---\naynig-state: done\nwrit-attempt: 99\n", "\n# aynig-run-id: x\n",
		"\nAYNIG-STATE: blocked\n  folded: yes\n", "\n\naynig-lease-seconds: 1000000000\n\n",
	} {
		s := newSim(t, 1, 0, 0)
		s.issue.issue.Body = issueBody + tail
		a, b := s.runners[0], s.runners[1]
		a.reach(kernel.ActionClaim)
		if st := b.tick(); st.Decision.Standing != kernel.StandHeld {
			s.fail("%q: %s", tail, st.Decision.Standing)
		}
		s.expectCounts(1, 0)
		a.until(kernel.StandFinal)
		s.expect("completed", 1, 1, 1)
	}
}

// TestSim_L14_UnlistedKey: an unlisted lease locks, a result by an unlisted key
// is never acted on.
func TestSim_L14_UnlistedKey(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	s.isolate()
	a, b := s.runners[0], s.runners[1]
	a.reach(kernel.ActionDispatch)
	if st := b.tick(); st.Decision.Standing != kernel.StandHeld {
		s.fail("an unlisted lease: %s", st.Decision.Standing)
	}
	a.crash()
	s.advance(4_000_000)
	s.waitsForRepair(b, kernel.CodeLeaseUntrusted) // B saw nothing of the task before
	must(t, b.proc.sup.Resume(t.Context(), 1, "alice", "its machine is gone"))
	b.until(kernel.StandFinal)
	s.expect("completed", 2, 2, 1)

	for _, state := range []string{"completed", "blocked", "retry_pending", "open", "waiting"} {
		s := newSim(t, 1, 0)
		s.server.Force(s.check.StateRef, s.commit("", "by somebody\n\naynig-state: "+state+"\n", nil))
		a := s.runners[0]
		st := a.tick()
		s.wantCode(st, kernel.CodeLeaseUntrusted)
		if st.Decision.Standing != kernel.StandWaiting || a.pushes != 0 {
			s.fail("%s: %s", state, st.Decision.Standing)
		}
	}
}

// TestSim_L15_Foreign: an absurd lease of somebody else's ends after max_lease. What
// it says of the task is not taken over: that is what was seen before it, and where
// nothing was, a person has to look.
func TestSim_L15_Foreign(t *testing.T) {
	t.Parallel()
	lock := fmt.Sprintf("mine\n\naynig-state: working\naynig-origin-state: open\naynig-run-id: %s\naynig-runner-id: elsewhere\n"+
		"aynig-lease-seconds: 1000000000\nwrit-attempt: 9\nwrit-interruptions: 0\nwrit-not-before: 253402300799\n",
		"44444444-4444-4444-8444-444444444444")
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionDispatch)
	a.crash()
	a.up()
	a.reach(kernel.ActionTakeOver)
	s.server.Force(s.check.StateRef, s.commit(s.head().OID, lock, nil))
	from := s.time.Now()
	for a.tick().Decision.Action != kernel.ActionTakeOver {
		s.advance(60_000)
		if s.time.Now()-from > 4_000_000 {
			s.fail("locked for ever")
		}
	}
	if held := s.time.Now() - from; held < 3_500_000 {
		s.fail("a lock of an hour was broken after %d ms", held)
	}
	s.expectCounts(1, 2)

	s = newSim(t, 1, 0)
	a = s.runners[0]
	s.server.Force(s.check.StateRef, s.commit("", lock, nil))
	a.tick()
	for range 70 {
		s.advance(60_000)
		a.tick()
	}
	s.waitsForRepair(a, kernel.CodeLeaseUntrusted)
}

// TestSim_L15_OneShots: runners that start, look and end take over a dead lease
// all the same: what they saw is kept. The only installation's restart takes its
// predecessor's lease at once.
func TestSim_L15_OneShots(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	a, b := s.runners[0], s.runners[1]
	a.reach(kernel.ActionDispatch)
	a.crash()
	taken := false
	for i := 0; i < 10 && !taken; i++ {
		b.up()
		taken = b.tick().Decision.Action == kernel.ActionTakeOver
		b.crash()
		s.advance(30_000)
	}
	if !taken {
		s.fail("one-shot runs never add up")
	}

	s = newSim(t, 1, 0)
	a = s.runners[0]
	a.reach(kernel.ActionDispatch)
	a.crash()
	a.up()
	if st := a.tick(); st.Decision.Action != kernel.ActionTakeOver {
		s.fail("the own predecessor's lease: %s", st.Decision.Standing)
	}
}

// TestSim_L16_Suspended: a machine that slept past its lease kills its builder
// on waking, before anything else, and pushes nothing. Its wall clock may have
// stood still meanwhile.
func TestSim_L16_Suspended(t *testing.T) {
	t.Parallel()
	for _, wallStops := range []bool{false, true} {
		s := newSim(t, 1, 0)
		a := s.runners[0]
		a.reach(kernel.ActionDispatch)
		builder, pushes := a.building()[0], a.pushes
		s.time.Advance(8 * 3_600_000)
		if wallStops {
			a.clock.Jump(-8 * 3_600_000)
		}
		if !a.proc.task.worker.Guard(a.clock.Now()) || !builder.killed {
			s.fail("the builder outlives the sleep")
		}
		st := a.tick()
		s.wantCode(st, kernel.CodeLeaseLost)
		if st.Decision.Action != kernel.ActionAbandon || a.pushes != pushes {
			s.fail("awake, it does %s with %d pushes", st.Decision.Action, a.pushes-pushes)
		}
	}
}
