package lease

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func boot(seconds int64) Clock {
	return Clock{WallMs: (epoch + seconds) * 1000, BootMs: seconds * 1000, BootID: "b"}
}

// TestL11_FenceTimetable: heartbeats after a third; one that can't renew any
// more kills its executor before the lease ends.
func TestL11_FenceTimetable(t *testing.T) {
	deadlines := NewDeadlines(boot(1000), 120, 15)
	for s, want := range map[int64]struct{ due, fence bool }{
		1000: {false, false}, 1039: {false, false}, 1040: {true, false}, 1060: {true, false}, 1104: {true, false}, 1105: {true, true}, 1120: {true, true},
	} {
		if due, fence := deadlines.RenewDue(boot(s)), deadlines.Overdue(boot(s)); due != want.due || fence != want.fence {
			t.Errorf("second %d: due %v, fence %v", s, due, fence)
		}
	}
	for _, c := range []struct{ lease, margin, want int64 }{
		{120, 0, 120}, {120, 120, 0}, {10, 15, 0}, {0, 0, 0}, {-5, 3, 0}, {60, -60, 60}, {math.MaxInt64, 0, MaxLeaseSeconds}, {60, math.MaxInt64, 0},
	} {
		got := NewDeadlines(boot(0), c.lease, c.margin)
		if got.RenewDeadlineBootMs != c.want*1000 || got.RenewBootMs > got.RenewDeadlineBootMs {
			t.Errorf("lease %d, margin %d: %+v", c.lease, c.margin, got)
		}
	}
}

// TestL16_SuspendPastTheLease: a machine that slept past its lease finds its
// deadline behind it when it wakes, whatever became of the wall clock.
func TestL16_SuspendPastTheLease(t *testing.T) {
	deadlines := NewDeadlines(boot(1000), 120, 15)
	asleep := int64(500)
	for name, wall := range map[string]int64{
		"wall clock right": epoch + 1000 + asleep, "wall clock stood still": epoch + 1000, "wall clock set back": epoch - hour,
	} {
		now := Clock{WallMs: wall * 1000, BootMs: (1000 + asleep) * 1000, BootID: "b"}
		if !deadlines.Overdue(now) || !deadlines.RenewDue(now) {
			t.Errorf("%s: not fenced after waking", name)
		}
	}
	// A wall clock that jumps ahead, without sleep, fences nobody.
	if deadlines.Overdue(Clock{WallMs: (epoch + 10*hour) * 1000, BootMs: 1_010_000, BootID: "b"}) {
		t.Error("fenced by the wall clock")
	}
}

// TestL16_ClockThatProvesNothingFences: another boot, none, or a clock that
// went back.
func TestL16_ClockThatProvesNothingFences(t *testing.T) {
	deadlines := NewDeadlines(boot(1000), 120, 15)
	for name, now := range map[string]Clock{
		"other boot": {BootMs: 1_001_000, BootID: "c"}, "no boot": {BootMs: 1_001_000}, "went back": {BootMs: 999_999, BootID: "b"},
	} {
		if !deadlines.Overdue(now) || !deadlines.RenewDue(now) {
			t.Errorf("%s: not fenced", name)
		}
	}
	if none := (Deadlines{}); !none.Overdue(Clock{}) {
		t.Error("no deadlines, no boot id: not fenced")
	}
}

// TestL9_FencedBeforeTakenOver: at the last moment before a holder's deadline
// no rival with a right clock may take its lease, even one that saw the commit
// as soon as it was made.
func TestL9_FencedBeforeTakenOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ttl := rapid.Int64Range(1, 2*MaxLeaseSeconds).Draw(t, "lease")
		margin := rapid.Int64Range(0, ttl).Draw(t, "margin")
		startMs := rapid.Int64Range(0, 1<<40).Draw(t, "start")
		pol := DefaultPolicy()
		pol.GraceSeconds = 0
		start := Clock{WallMs: epoch*1000 + startMs, BootMs: startMs, BootID: "b"}
		ev := leaseEvent(NextCommitterSeconds(0, start.WallMs), ttl)
		deadlines := NewDeadlines(start, ttl, margin)

		now := Clock{WallMs: epoch*1000 + deadlines.RenewDeadlineBootMs - 1, BootMs: deadlines.RenewDeadlineBootMs - 1, BootID: "b"}
		obs := Observe(nil, "r", ev.OID, start)
		if v := Judge(ev, obs, now, pol, false); v.MayTakeOver {
			t.Fatalf("a holder that runs until %d ms is taken over at %d ms: %+v", deadlines.RenewDeadlineBootMs, now.BootMs, v)
		}
	})
}

// TestA28_DatesOfOneRunNeverDecrease, though the clock is set back.
func TestA28_DatesOfOneRunNeverDecrease(t *testing.T) {
	for _, c := range []struct{ prev, wallMs, want int64 }{
		{0, 1999, 1}, {5, 1999, 5}, {5, 5999, 5}, {5, 6000, 6}, {epoch, (epoch - hour) * 1000, epoch}, {math.MinInt64, -1, -1}, {math.MinInt64, -1000, -1}, {math.MinInt64, -1001, -2},
	} {
		if got := NextCommitterSeconds(c.prev, c.wallMs); got != c.want {
			t.Errorf("after %d at %d ms: %d, want %d", c.prev, c.wallMs, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		last := rapid.Int64().Draw(t, "claim")
		for _, wall := range rapid.SliceOf(rapid.Int64()).Draw(t, "clock") {
			next := NextCommitterSeconds(last, wall)
			if next < last {
				t.Fatalf("%d after %d", next, last)
			}
			last = next
		}
	})
}
