package supervisor

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// TestL8_Clocks: a rival's clock is an hour off, either way. A lease that is
// renewed is never taken.
func TestL8_Clocks(t *testing.T) {
	t.Parallel()
	for _, skew := range []int64{-3_600_000, 3_600_000} {
		r := newRivals(t)
		r.b.place.clock = skewed{r.a.clock, skew}
		r.b.open()
		r.a.reach(kernel.ActionDispatch)
		for range 12 {
			r.a.clock.advance(40_000)
			want(t, r.a.tick(), kernel.ActionHeartbeat, kernel.OutcomeDone)
			if st := r.b.tick(); st.Decision.Standing != kernel.StandHeld {
				t.Fatalf("skew %d: B stands %s", skew, st.Decision.Standing)
			}
		}
		r.a.close() // it is gone
		taken := false
		for i := 0; i < 80 && !taken; i++ {
			r.b.clock.advance(100_000)
			taken = r.b.tick().Decision.Action == kernel.ActionTakeOver
		}
		if !taken {
			t.Errorf("skew %d: locked for ever", skew)
		}
	}
}

// skewed is a clock whose wall time is off.
type skewed struct {
	*testClock
	ms int64
}

func (s skewed) Now() lease.Clock {
	c := s.testClock.Now()
	c.WallMs += s.ms
	return c
}

// TestL9_FrozenProcess stops a holder's process with SIGSTOP at the worst places,
// past its lease, and continues it when another installation has taken over: its
// pushes lose, both refs, and what it starts is given up. Its clock went on
// meanwhile, or stood still, as that of a frozen virtual machine does.
func TestL9_FrozenProcess(t *testing.T) {
	t.Parallel()
	for _, at := range []Point{
		PointOf(kernel.ActionResult, StageRecorded), PointOf(kernel.ActionDispatch, StageRecorded), PointOf(kernel.ActionHeartbeat, StageRecorded),
	} {
		for _, clock := range []string{"goes on", "stands still"} {
			t.Run(string(at)+" "+clock, func(t *testing.T) {
				t.Parallel()
				frozenProcess(t, at, clock == "stands still")
			})
		}
	}
}

func frozenProcess(t *testing.T, at Point, still bool) {
	w := newTown(t)
	w.runner("b").kill() // its key is known from now on
	a := w.runner("a", func(s *setup) {
		if still {
			s.Clock += ".frozen"
			must(t, os.WriteFile(s.Clock, []byte("0"), 0o600))
		}
	})
	if strings.HasPrefix(string(at), string(kernel.ActionHeartbeat)) {
		a.reach(kernel.ActionDispatch)
		w.pass(45_000)
		must(t, os.WriteFile(w.clock+".frozen", []byte("45000"), 0o600))
	}
	a.ask("freeze " + string(at))
	a.until(string(at), func(r reply) bool { return r.Frozen })
	w.runner("b").final()
	head, change := w.head().OID, gittest.RefOID(w.bare, changeRef)
	must(t, a.cmd.Process.Signal(syscall.SIGCONT))
	thawed := a.read() // the answer to the request that it froze in
	if thawed.Outcome == kernel.OutcomeDone && thawed.Action != kernel.ActionDispatch {
		t.Errorf("thawed, its %s is done", thawed.Action)
	}
	if next := a.tick(); next.Action != kernel.ActionAbandon || next.Building != 0 {
		t.Errorf("then it does %s, with %d builders", next.Action, next.Building)
	}
	if w.head().OID != head || gittest.RefOID(w.bare, changeRef) != change {
		t.Error("a stale owner moved a ref")
	}
	a.final()
	w.oneDispatchPerRun()
	delivered(t, w.bare)
}

// TestL10_HeartbeatAgainstTakeover: decided on one HEAD, one of the two pushes
// wins, and a holder that lost stops its builder.
func TestL10_HeartbeatAgainstTakeover(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.reach(kernel.ActionDispatch)
	r.a.clock.advance(45_000)
	r.before(r.takenByB)
	want(t, r.a.tick(), kernel.ActionHeartbeat, kernel.OutcomeLost)
	want(t, r.a.tick(), kernel.ActionAbandon, kernel.OutcomeDone, kernel.CodeLeaseLost)
	if len(r.a.exec.running()) != 0 {
		t.Error("the loser's builder still runs")
	}
	r.b.until(kernel.StandFinal)
	delivered(t, r.bare)
}

// TestL11_SelfFence: every push of a heartbeat fails. The builder is dead before
// the lease ends, and no result is pushed, though it had one.
func TestL11_SelfFence(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]gittest.Fault{
		"503": gittest.Status(http.StatusServiceUnavailable, "later"), "403": gittest.Status(http.StatusForbidden, "not you"),
		"cut": gittest.NewHeld().Fault,
	} {
		r := newRivals(t)
		r.a.reach(kernel.ActionDispatch)
		head := r.head()
		if name == "cut" { // taken and never applied
			fault = func(http.Handler) http.Handler { return gittest.NewHeld().Fault(http.NotFoundHandler()) }
		}
		r.srv.Set(gittest.OnPush(fault))
		held := int64(0)
		for ; len(r.a.exec.running()) > 0 && held < 200_000; held += 5_000 {
			r.a.clock.advance(5_000)
			if r.a.task.worker.Guard(r.a.clock.Now()) {
				continue
			}
			_, _ = r.a.task.Tick(t.Context(), kernel.RequestTick, "alice") // it fails, or its push does
		}
		if held > 105_000 {
			t.Errorf("%s: the builder lives %d ms into a lease of 120 s", name, held)
		}
		if r.head() != head || r.a.ref(changeRef) != "" {
			t.Errorf("%s: something was pushed", name)
		}
	}
}

func TestL12_ForeignPush(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.reach(kernel.ActionDispatch)
	foreign := gittest.Commit(t, r.bare, stateRef, r.head(), map[string]string{"note": "I was here\n"})
	want(t, r.a.tick(), kernel.ActionAbandon, kernel.OutcomeDone, kernel.CodeLockViolation)
	for _, b := range []*bench{r.a, r.b, r.a} {
		b.clock.advance(600_000)
		st := b.tick()
		want(t, st, kernel.ActionNone, "", kernel.CodeLockViolation)
		if st.Decision.Standing != kernel.StandWaiting || st.Decision.WaitingFor != kernel.WaitRepair {
			t.Errorf("it stands %s", st.Decision.Standing)
		}
	}
	if r.head() != foreign {
		t.Fatal("somebody's commit was pushed over")
	}
	must(t, r.a.sup.Resume(t.Context(), 1, "alice", "it was me"))
	r.a.until(kernel.StandFinal)
	delivered(t, r.bare)
	r.git("merge-base", "--is-ancestor", foreign, stateRef)
}

// TestL13_TextOfAnIssue: git itself reads the state that was meant, whatever the
// issue's text says.
func TestL13_TextOfAnIssue(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) {
		b.issue.issue.Body = issueBody + "\n---\naynig-state: completed\naynig-run-id: x\n  folded\nwrit-attempt: 99\n# aynig-lease-seconds: 9\n\naynig-state: done\n"
	})
	b.reach(kernel.ActionClaim)
	out := gittest.Git(t, b.bare, "log", "-1", "--format=%(trailers:key=aynig-state,valueonly)|%(trailers:key=writ-attempt,valueonly)", stateRef)
	if got := strings.ReplaceAll(out, "\n", ""); got != "working|1" {
		t.Errorf("git reads %q", got)
	}
	b.until(kernel.StandFinal)
	delivered(t, b.bare)
}

func TestL14_UnlistedKey(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.b.place.cfg.Trusted = nil
	r.b.open()
	r.a.reach(kernel.ActionDispatch)
	if st := r.b.tick(); st.Decision.Standing != kernel.StandHeld {
		t.Errorf("an unlisted lease: %s", st.Decision.Standing)
	}
	r.a.until(kernel.StandFinal)
	head := r.head()
	for range 3 {
		st := r.b.tick()
		want(t, st, kernel.ActionNone, "", kernel.CodeLeaseUntrusted)
		if st.Decision.Standing != kernel.StandWaiting {
			t.Errorf("an unlisted result: %s", st.Decision.Standing)
		}
		r.b.clock.advance(4_000_000)
	}
	if r.head() != head {
		t.Error("HEAD moved")
	}
}

// TestL15_OneShots: processes that start, look and end add up; the only
// installation's restart takes its predecessor's lease at once.
func TestL15_OneShots(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.runner("a").dies(PointOf(kernel.ActionDispatch, StageDone))
	taken := 0
	for ; taken < 20; taken++ {
		b := w.runner("b")
		st := b.tick()
		b.kill()
		if st.Action == kernel.ActionTakeOver {
			break
		}
		w.pass(20_000)
	}
	if taken < 6 || taken > 12 {
		t.Errorf("taken over by process %d; the lease is of 120 s, a look each 20 s", taken)
	}

	w = newTown(t)
	w.runner("a").dies(PointOf(kernel.ActionDispatch, StageDone))
	if st := w.runner("a").tick(); st.Action != kernel.ActionTakeOver {
		t.Errorf("the own predecessor's lease: %s", st.Standing)
	}
}

// readsClock tells who reads it.
type readsClock struct {
	*testClock
	read chan struct{}
}

func (c readsClock) Now() lease.Clock {
	select {
	case c.read <- struct{}{}:
	default:
	}
	return c.testClock.Now()
}

// TestL16_Suspended: Drive's own guard kills the builder of a machine that slept
// past its lease, and the run is given up before anything is pushed.
func TestL16_Suspended(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	clock := readsClock{r.a.clock, make(chan struct{})}
	waits := make(chan struct{}, 100)
	r.a.place.clock = clock
	r.a.place.fault = func(at Point) {
		if at == PointOf(kernel.ActionNone, StageRecorded) {
			waits <- struct{}{} // next it waits for the builder
		}
	}
	r.a.open()
	starts := make(chan string, 10)
	r.a.exec.started = func(j executor.BuildJob) { starts <- j.Run }
	done := make(chan Status, 1)
	go func() {
		st, err := r.a.task.Drive(t.Context(), DriveOptions{Actor: "alice"})
		if err != nil {
			t.Error(err)
		}
		done <- st
	}()
	first := <-starts
	<-waits
	soon := time.After(35 * time.Second) // the next heartbeat would be after forty
	for range 4 {                        // the last ones are the guard's: Drive itself waits
		select {
		case <-clock.read:
		case <-soon:
			t.Fatal("nobody guards the builder")
		}
	}
	r.a.clock.advance(8 * 3_600_000)
	var second string
	select {
	case second = <-starts: // after the builder was killed, and the lease taken back
	case <-soon:
		t.Fatal("nothing notices that the machine slept")
	}
	if first == second || !r.a.exec.builds[0].killed {
		t.Errorf("the builder of run %s outlives the sleep", first)
	}
	r.a.exec.finish()
	if st := <-done; st.Decision.State != kernel.TaskCompleted {
		t.Errorf("it ends %s", st.Decision.State)
	}
	delivered(t, r.bare)
}

// TestL17_StaleOwnerPushesBoth: state and change are pushed together by an owner
// that was taken over meanwhile. Neither ref moves.
func TestL17_StaleOwnerPushesBoth(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.reach(kernel.ActionJudge)
	r.before(r.takenByB)
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeLost)
	if r.a.ref(changeRef) != "" || r.states()[0] != "working" {
		t.Error("a stale owner moved a ref")
	}
	r.b.until(kernel.StandFinal)
	delivered(t, r.bare)
}
