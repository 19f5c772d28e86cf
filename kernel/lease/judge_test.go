package lease

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	epoch = 1_700_000_000 // Unix seconds at which the table's leases are dated
	hour  = 3600          // seconds
)

// leaseEvent is a well-formed lease at HEAD.
func leaseEvent(committer, seconds int64) Event {
	return Event{OID: oidA, State: StateWorking, OriginState: "open", RunID: runA, RunnerID: "h", LeaseSeconds: seconds, CommitterSeconds: committer}
}

// seenFor is an observation of oidA that is `seconds` old at now.
func seenFor(seconds int64, now Clock) Sighting {
	return Sighting{Ref: "r", OID: oidA, BootID: now.BootID, FirstSeenBootMs: now.BootMs - seconds*1000}
}

func at(wallSeconds int64) Clock {
	return Clock{WallMs: wallSeconds * 1000, BootMs: 1_000_000_000, BootID: "boot-1"}
}

// TestL8_TakeoverTable is A30 at its edges: strictly later, with and without
// grace, and never on one clock alone.
func TestL8_TakeoverTable(t *testing.T) {
	const ttl = 100
	for _, grace := range []int64{0, 10} {
		pol := DefaultPolicy()
		pol.GraceSeconds = grace
		deadline := epoch + ttl + grace
		for _, c := range []struct {
			name     string
			now      int64
			seen     int64
			expired  bool
			reason   Reason
			untilSec int64
		}{
			{"-1 s", deadline - 1, ttl, false, ReasonDate, deadline + 1},
			{"0 s", deadline, ttl, false, ReasonDate, deadline + 1},
			{"+1 s", deadline + 1, ttl, true, ReasonExpired, 0},
			{"+1 s, seen 1 s too short", deadline + 1, ttl - 1, false, ReasonUnobserved, deadline + 2},
			{"+1 h, just seen", deadline + hour, 0, false, ReasonUnobserved, deadline + hour + ttl},
			// To a clock that slow the date is in the far future.
			{"-1 h, seen long", deadline - hour, 10 * hour, true, ReasonExpiredUnchanged, 0},
			{"-1 h, just seen", deadline - hour, 0, false, ReasonMalformed, deadline - hour + DefaultLeaseSeconds},
			{"dated now, just seen", epoch, 0, false, ReasonDate, deadline + 1},
			{"before the deadline, just seen", deadline - 5, 0, false, ReasonDate, deadline - 5 + ttl},
		} {
			t.Run(fmt.Sprintf("grace %d, %s", grace, c.name), func(t *testing.T) {
				now := at(c.now)
				v := Judge(leaseEvent(epoch, ttl), seenFor(c.seen, now), now, pol, false)
				if v.MayTakeOver != c.expired || v.Reason != c.reason || v.UntilWallMs != c.untilSec*1000 {
					t.Errorf("%+v; want expired %v, reason %s, until %d s", v, c.expired, c.reason, c.untilSec)
				}
			})
		}
	}
}

// TestL8_WholeSeconds: git drops the fraction of a date, so a fraction of a
// second past the deadline may be before it.
func TestL8_WholeSeconds(t *testing.T) {
	pol := DefaultPolicy()
	deadlineMs := int64(epoch+100+DefaultGraceSeconds) * 1000
	for ms, want := range map[int64]bool{deadlineMs: false, deadlineMs + 999: false, deadlineMs + 1000: true} {
		now := Clock{WallMs: ms, BootMs: 1_000_000_000, BootID: "b"}
		if v := Judge(leaseEvent(epoch, 100), seenFor(100, now), now, pol, false); v.MayTakeOver != want {
			t.Errorf("%d ms past the deadline: %+v", ms-deadlineMs, v)
		}
	}
}

// TestL8_DatesOutOfThisWorld: a lease dated in the far future, before 1970 or
// not at all ends by observation, neither at once nor never.
func TestL8_DatesOutOfThisWorld(t *testing.T) {
	const year2100 = 4102444800
	good := mustWorking(t, claimA())
	for _, c := range []struct {
		name string
		head Head
	}{
		{"year 2100", Head{oidA, good, year2100, true}},
		{"one second beyond the skew", Head{oidA, good, epoch + DefaultFutureSkewSeconds + 1, true}},
		{"year 9999", Head{oidA, good, MaxCommitterSeconds, true}},
		{"negative", Head{oidA, good, -1, true}},
		{"least number", Head{oidA, good, math.MinInt64, true}},
		{"largest number", Head{oidA, good, math.MaxInt64, true}},
		{"no date", Head{oidA, good, 0, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev, err := ReadEvent(c.head)
			if err != nil {
				t.Fatal(err)
			}
			now := at(epoch)
			held := Judge(ev, seenFor(119, now), now, DefaultPolicy(), false)
			if held.MayTakeOver || held.Reason != ReasonMalformed || held.UntilWallMs != (epoch+1)*1000 || len(held.Faults) != 1 {
				t.Errorf("seen for 119 s: %+v", held)
			}
			v := Judge(ev, seenFor(120, now), now, DefaultPolicy(), false)
			if !v.MayTakeOver || v.Reason != ReasonExpiredUnchanged || len(v.Faults) != 1 || v.Faults[0].Subject != SubjectCommitterDate {
				t.Errorf("seen for 120 s: %+v", v)
			}
		})
	}
	now := at(epoch)
	if v := Judge(leaseEvent(epoch+DefaultFutureSkewSeconds, 100), seenFor(hour, now), now, DefaultPolicy(), false); v.Reason != ReasonDate {
		t.Errorf("a date within the skew: %+v", v)
	}
}

// TestL8_SlowClockRespectsLongLeases: to a clock that is an hour slow every
// honest lease lies in the far future. Its own time counts, not the default.
func TestL8_SlowClockRespectsLongLeases(t *testing.T) {
	now := at(epoch - hour)
	ev := leaseEvent(epoch, 1800)
	for seen, want := range map[int64]bool{DefaultLeaseSeconds: false, 1799: false, 1800: true} {
		if v := Judge(ev, seenFor(seen, now), now, DefaultPolicy(), false); v.MayTakeOver != want || v.LeaseSeconds != 1800 {
			t.Errorf("seen for %d s: %+v", seen, v)
		}
	}
}

// TestL8_ExtremesDoNotOverflow: no number makes a live lease expire, or end
// before now.
func TestL8_ExtremesDoNotOverflow(t *testing.T) {
	extremes := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, epoch * 1000, math.MaxInt64 - 1, math.MaxInt64}
	for _, wall := range extremes {
		for _, committer := range extremes {
			for _, first := range extremes {
				now := Clock{WallMs: wall, BootMs: 5000, BootID: "b"}
				obs := Sighting{OID: oidA, BootID: "b", FirstSeenBootMs: first}
				for _, seconds := range []int64{math.MinInt64, 0, 6, math.MaxInt64} {
					// The boot clock shows 5 s: nothing can have been seen for longer.
					v := Judge(leaseEvent(committer, seconds), obs, now, DefaultPolicy(), false)
					if v.MayTakeOver || v.UntilWallMs < wall {
						t.Fatalf("wall %d, date %d, first %d, lease %d: %+v", wall, committer, first, seconds, v)
					}
				}
			}
		}
	}
}

// TestA30_OtherStatesAreNeverTakenOver, expired or own as they may seem; nor is
// anything by a policy that doesn't validate.
func TestA30_OtherStatesAreNeverTakenOver(t *testing.T) {
	now := at(epoch + 10*hour)
	for _, state := range []string{"", "open", "done", StateStalled, "Working"} {
		ev := leaseEvent(epoch, 1)
		ev.State = state
		if diff := cmp.Diff(Verdict{Reason: ReasonNotWorking}, Judge(ev, seenFor(hour, now), now, DefaultPolicy(), true)); diff != "" {
			t.Errorf("state %q (-want +got):\n%s", state, diff)
		}
	}
	if diff := cmp.Diff(Verdict{Reason: ReasonPolicyInvalid}, Judge(leaseEvent(epoch, 1), seenFor(hour, now), now, Policy{}, false)); diff != "" {
		t.Errorf("no policy (-want +got):\n%s", diff)
	}
}

// holder is an honest runner of the simulation: it takes the state ref at second
// 0, renews after a third of its lease and falls silent at second dies.
type holder struct{ ttl, dies, clockOff int64 }

// head is the lease at HEAD at second s of true time.
func (h holder) head(s int64) Event {
	every := max(1, h.ttl/3)
	renewal := min(s, h.dies) / every
	ev := leaseEvent(epoch+renewal*every+h.clockOff, h.ttl)
	ev.OID = fmt.Sprintf("%040d", renewal+1)
	return ev
}

func (h holder) lastRenewal() int64 { return h.dies - h.dies%max(1, h.ttl/3) }

// TestL8_NeitherTheftNorEndlessLock simulates an honest holder and a rival with
// wrong clocks, the rival's jumping once. The rival's own clock never makes it
// steal a live lease, and a dead one it gets within a bounded time.
func TestL8_NeitherTheftNorEndlessLock(t *testing.T) {
	pol := DefaultPolicy()
	offset := rapid.OneOf(rapid.SampledFrom([]int64{-hour, -61, -60, -1, 0, 1, 60, 61, hour}), rapid.Int64Range(-hour, hour))
	rapid.Check(t, func(t *rapid.T) {
		h := holder{
			ttl:      rapid.SampledFrom([]int64{1, 10, 120, 600}).Draw(t, "lease"),
			dies:     rapid.Int64Range(0, 900).Draw(t, "dies"),
			clockOff: offset.Draw(t, "holder's clock"),
		}
		before, after := offset.Draw(t, "clock before the jump"), offset.Draw(t, "clock after")
		jump, poll := rapid.Int64Range(0, 2000).Draw(t, "jump"), rapid.Int64Range(1, 40).Draw(t, "poll")
		var obs *Sighting
		// One lease time, grace and skew; again if the clock jumps in between.
		bound := h.dies + 2*(max(h.ttl, pol.DefaultLeaseSeconds)+pol.GraceSeconds+pol.FutureSkewSeconds+2*poll)
		for s := int64(0); ; s += poll {
			off := before
			if s >= jump {
				off = after
			}
			now := Clock{WallMs: (epoch + s + off) * 1000, BootMs: s * 1000, BootID: "b"}
			ev := h.head(s)
			o := Observe(obs, "r", ev.OID, now)
			obs = &o
			if Judge(ev, o, now, pol, false).MayTakeOver {
				if s < h.lastRenewal()+h.ttl {
					t.Fatalf("taken at %d s, alive until %d s", s, h.lastRenewal()+h.ttl)
				}
				return
			}
			if s > bound {
				t.Fatalf("still held at %d s, dead since %d s", s, h.dies)
			}
		}
	})
}

// TestA31_EveryMalformedLeaseEnds: whatever is wrong with a lease, another
// runner owns the state ref within the default lease time of looking, or the
// lease's own, if that can be read.
func TestA31_EveryMalformedLeaseEnds(t *testing.T) {
	for _, c := range malformedLeases(t, epoch) {
		t.Run(c.name, func(t *testing.T) {
			var obs *Sighting
			for s := int64(0); s <= DefaultLeaseSeconds; s += 5 {
				now := Clock{WallMs: (epoch + s) * 1000, BootMs: 77 + s*1000, BootID: "b"}
				ev, err := ReadEvent(c.head)
				if err != nil {
					t.Fatal(err)
				}
				o := Observe(obs, "r", ev.OID, now)
				obs = &o
				v := Judge(ev, o, now, DefaultPolicy(), false)
				if v.MayTakeOver != (s == DefaultLeaseSeconds) {
					t.Fatalf("after %d s: %+v", s, v)
				}
				if !v.MayTakeOver && v.UntilWallMs != (epoch+DefaultLeaseSeconds)*1000 {
					t.Fatalf("after %d s: until %d", s, v.UntilWallMs)
				}
			}
		})
	}
}

// TestL15_ObservationsAddUp: runners that start, look once and end, each with
// what the last one wrote down, together see a dead lease long enough.
func TestL15_ObservationsAddUp(t *testing.T) {
	var kept []byte
	for minute := int64(0); ; minute++ {
		var prev *Sighting
		if kept != nil {
			prev = new(Sighting)
			if err := json.Unmarshal(kept, prev); err != nil {
				t.Fatal(err)
			}
		}
		now := Clock{WallMs: (epoch + hour + minute*60) * 1000, BootMs: 5000 + minute*60_000, BootID: "b"}
		obs := Observe(prev, "r", oidA, now)
		v := Judge(leaseEvent(epoch, 600), obs, now, DefaultPolicy(), false)
		if v.MayTakeOver != (minute == 10) {
			t.Fatalf("minute %d: %+v", minute, v)
		}
		if v.MayTakeOver {
			return
		}
		if v.Reason != ReasonUnobserved || v.UntilWallMs != (epoch+hour+600)*1000 {
			t.Fatalf("minute %d: %+v", minute, v)
		}
		var err error
		if kept, err = json.Marshal(obs); err != nil {
			t.Fatal(err)
		}
	}
}

// TestL15_ObserveStartsAnew: time counts for this commit at this ref in this
// boot only.
func TestL15_ObserveStartsAnew(t *testing.T) {
	first := Clock{WallMs: 1000, BootMs: 50_000, BootID: "b"}
	later := Clock{WallMs: 2000, BootMs: 60_000, BootID: "b"}
	prev := Observe(nil, "r", oidA, first)
	if diff := cmp.Diff(Sighting{Ref: "r", OID: oidA, FirstSeenBootMs: 50_000, BootID: "b", FirstSeenWallMs: 1000}, prev); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(prev, Observe(&prev, "r", oidA, later)); diff != "" {
		t.Errorf("the same HEAD again (-want +got):\n%s", diff)
	}
	noBoot := prev
	noBoot.BootID = ""
	damaged := prev
	damaged.FirstSeenBootMs = -1 << 62
	for _, c := range []struct {
		name     string
		prev     Sighting
		ref, oid string
		now      Clock
	}{
		{"other commit", prev, "r", oidB, later},
		{"other ref", prev, "s", oidA, later},
		{"other boot", prev, "r", oidA, Clock{WallMs: 9e12, BootMs: 60_000, BootID: "c"}},
		{"clock of the same boot went back", prev, "r", oidA, Clock{BootMs: 49_999, BootID: "b"}},
		{"no boot id", noBoot, "r", oidA, Clock{BootMs: 60_000}},
		{"damaged record", damaged, "r", oidA, later},
	} {
		got := Observe(&c.prev, c.ref, c.oid, c.now)
		want := Sighting{Ref: c.ref, OID: c.oid, FirstSeenBootMs: c.now.BootMs, BootID: c.now.BootID, FirstSeenWallMs: c.now.WallMs}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	// What Observe wouldn't keep, Judge doesn't count either.
	now := at(epoch + hour)
	foreign := seenFor(hour, now)
	foreign.OID = oidB
	if v := Judge(leaseEvent(epoch, 10), foreign, now, DefaultPolicy(), false); v.MayTakeOver {
		t.Errorf("an observation of another commit: %+v", v)
	}
}

// TestL15_ForeignLeaseIsCapped: 10^9 seconds are an hour.
func TestL15_ForeignLeaseIsCapped(t *testing.T) {
	ev := mustEvent(t, leaseText(t, lineLease, KeyLeaseSeconds+": 1000000000"), epoch)
	if ev.Malformed() || ev.LeaseSeconds != 1e9 {
		t.Fatalf("%+v", ev)
	}
	deadline := int64(epoch + MaxLeaseSeconds + DefaultGraceSeconds)
	for now, want := range map[int64]bool{deadline: false, deadline + 1: true} {
		if v := Judge(ev, seenFor(MaxLeaseSeconds, at(now)), at(now), DefaultPolicy(), false); v.MayTakeOver != want || v.LeaseSeconds != MaxLeaseSeconds {
			t.Errorf("%d s: %+v", now-epoch, v)
		}
	}
	ev.CommitterSeconds = epoch * 2 // malformed besides: the cap holds as well
	if v := Judge(ev, seenFor(MaxLeaseSeconds, at(epoch)), at(epoch), DefaultPolicy(), false); !v.MayTakeOver {
		t.Errorf("far future: %+v", v)
	}
}

// TestL15_OwnPredecessor: a restarted instance takes its dead run's lease
// at once, whatever clocks and observations say, a malformed one too.
func TestL15_OwnPredecessor(t *testing.T) {
	now := at(epoch)
	spoilt := leaseEvent(epoch, 100)
	spoilt.Faults = []Fault{{FaultMissing, KeyRunnerID}}
	for _, ev := range []Event{leaseEvent(epoch, 100), leaseEvent(epoch*2, 100), spoilt} {
		want := Verdict{MayTakeOver: true, Reason: ReasonOwnPredecessor}
		if diff := cmp.Diff(want, Judge(ev, Sighting{}, now, DefaultPolicy(), true)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if v := Judge(ev, Sighting{}, now, DefaultPolicy(), false); v.MayTakeOver {
			t.Errorf("somebody else's: %+v", v)
		}
	}
}

// TestPolicy_Validate: the limits of each number.
func TestPolicy_Validate(t *testing.T) {
	if err := DefaultPolicy().Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Policy){
		"grace_seconds":         func(p *Policy) { p.GraceSeconds = -1 },
		"default_lease_seconds": func(p *Policy) { p.DefaultLeaseSeconds = p.MaxLeaseSeconds + 1 },
		"max_lease_seconds":     func(p *Policy) { p.MaxLeaseSeconds = MaxPolicySeconds + 1 },
		"future_skew_seconds":   func(p *Policy) { p.FutureSkewSeconds = math.MaxInt64 },
	} {
		p := DefaultPolicy()
		spoil(&p)
		err := p.Validate()
		if e, ok := asError(err); !ok || e.Code != CodePolicyInvalid || e.Fault != (Fault{FaultOutOfRange, name}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
