package supervisor

import (
	"slices"
	"testing"
	"time"

	"github.com/writbot/writ/kernel"
)

// TestG7_HealedWakesAll: while the server can't, nobody need begin until the next try, and
// the first push that it takes wakes each task that waits for it, once.
func TestG7_HealedWakesAll(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	var woken []int64
	r.a.sup.deps.Healed = func(tasks []int64) { woken = append(woken, tasks...) }
	r.hook(`echo "closed for today" >&2; exit 1`)
	want(t, r.a.tick(), kernel.ActionClaim, kernel.OutcomeRefused)
	want(t, r.a.tick(), kernel.ActionWait, kernel.OutcomeUnable)
	for n := range int64(3) {
		r.a.sup.outage.failed(n+2, r.a.clock.Now(), "closed for today", true, false)
	}
	rest := r.a.sup.Rest()
	if rest <= 0 || rest > outageFar {
		t.Errorf("it rests for %s", rest)
	}
	r.a.clock.advance(rest.Milliseconds() - 1)
	if r.a.sup.Rest() != time.Millisecond || len(woken) > 0 {
		t.Errorf("right before the try it rests for %s, woken: %v", r.a.sup.Rest(), woken)
	}
	r.a.clock.advance(1)
	if r.a.sup.Rest() != 0 {
		t.Errorf("at the try it rests for %s", r.a.sup.Rest())
	}
	r.hook("exit 0")
	want(t, r.a.tick(), kernel.ActionClaim, kernel.OutcomeDone)
	r.a.tick() // HEAD shows it
	if slices.Sort(woken); !slices.Equal(woken, []int64{2, 3, 4}) || r.a.sup.Rest() != 0 {
		t.Errorf("woken: %v, it rests for %s", woken, r.a.sup.Rest())
	}
}
