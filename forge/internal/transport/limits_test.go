package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writbot/writ/forge"
)

// TestF4_PausesAreHonoured: for as long as the forge says nothing is sent, and
// one second later it is.
func TestF4_PausesAreHonoured(t *testing.T) {
	for name, c := range map[string]struct {
		answer answer
		want   time.Duration
	}{
		"429 with Retry-After":      {answer{status: 429, header: "Retry-After: 30"}, 30 * time.Second},
		"403 with Retry-After":      {answer{status: 403, header: "Retry-After: 7"}, 7 * time.Second},
		"Retry-After as a date":     {answer{status: 429, header: "Retry-After: Sat, 01 Jan 2000 00:02:00 GMT\nDate: Sat, 01 Jan 2000 00:00:00 GMT"}, 2 * time.Minute},
		"403 and nothing left":      {answer{status: 403, header: "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 946685100"}, 300 * time.Second}, // synctest begins at 946684800
		"GitLab's names":            {answer{status: 429, header: "RateLimit-Remaining: 0\nRateLimit-Reset: 946684860"}, time.Minute},
		"a reset in seconds":        {answer{status: 429, header: "RateLimit-Remaining: 0\nRateLimit-Reset: 45"}, 45 * time.Second},
		"the forge's clock":         {answer{status: 403, header: "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000060\nDate: Fri, 15 Jan 2027 08:00:00 GMT"}, time.Minute},
		"429 without a word":        {answer{status: 429}, time.Minute},
		"secondary without a word":  {answer{status: 403, body: `{"message":"You have exceeded a secondary rate limit."}`}, time.Minute},
		"an absurd time":            {answer{status: 429, header: "Retry-After: 999999999"}, maxPause},
		"a reset that is long past": {answer{status: 403, header: "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 100000000"}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, tr := newFake(t, Limits{Interval: -1}, c.answer, answer{status: 200})
				e := failed(t, post(t, tr, Call{}), forge.Limited)
				if e.RetryAfter != c.want || e.Applied {
					t.Fatalf("refused for %s (applied: %v), want %s", e.RetryAfter, e.Applied, c.want)
				}
				pass(c.want - time.Millisecond)
				if e := failed(t, post(t, tr, Call{}), forge.Limited); e.RetryAfter != time.Millisecond || f.count() != 1 {
					t.Fatalf("before its end: %s to wait and %d requests", e.RetryAfter, f.count())
				}
				pass(time.Millisecond)
				ok(t, post(t, tr, Call{}))
			})
		})
	}
}

// TestF4_UnsaidPausesGrow: a forge that doesn't say for how long is left alone
// for twice as long each time, and a minute again after a success.
func TestF4_UnsaidPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr := newFake(t, Limits{Interval: -1}, answer{status: 429})
		want := time.Minute
		for range 10 {
			if e := failed(t, post(t, tr, Call{}), forge.Limited); e.RetryAfter != want {
				t.Fatalf("pause %s, want %s", e.RetryAfter, want)
			}
			pass(want)
			want = min(2*want, maxPause)
		}
		set := func(a answer) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.answers = []answer{a}
		}
		set(answer{status: 200})
		_, err := get(t, tr, Call{})
		ok(t, err)
		set(answer{status: 429})
		if e := failed(t, post(t, tr, Call{}), forge.Limited); e.RetryAfter != maxPause {
			t.Errorf("a read that passes tells nothing of writes, and yet the pause is %s", e.RetryAfter)
		}
		pass(maxPause)
		set(answer{status: 200})
		ok(t, post(t, tr, Call{}))
		set(answer{status: 429})
		if e := failed(t, post(t, tr, Call{}), forge.Limited); e.RetryAfter != time.Minute {
			t.Errorf("after a write that passed the pause is %s", e.RetryAfter)
		}
	})
}

// TestF4_ForbiddenIsNoLimit: a lack of permission pauses nothing.
func TestF4_ForbiddenIsNoLimit(t *testing.T) {
	_, tr := newFake(t, Limits{Interval: -1}, answer{status: 403, body: `{"message":"Resource not accessible by integration"}`}, answer{status: 200})
	refused(t, post(t, tr, Call{}), forge.Forbidden)
	ok(t, post(t, tr, Call{}))
}

// TestF4_LastOfTheAllowance: after the last request that the forge allows no
// other is sent, and the sweep stops before that.
func TestF4_LastOfTheAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := func(n int) answer {
			return answer{status: 200, header: fmt.Sprintf("X-RateLimit-Limit: 5000\nX-RateLimit-Remaining: %d\nX-RateLimit-Reset: %d", n, time.Now().Unix()+600)}
		}
		f, tr := newFake(t, Limits{}, left(1000), left(999), left(999), left(0), answer{status: 200})
		calls := []struct {
			lane Lane
			want bool
		}{{Sweep, true}, {Sweep, true}, {Sweep, false}, {Read, true}, {Read, true}, {Read, false}, {Sweep, false}}
		for i, c := range calls {
			if _, err := get(t, tr, Call{Account: "a", Lane: c.lane}); (err == nil) != c.want {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		if f.count() != 4 {
			t.Errorf("%d requests were sent, want 4", f.count())
		}
		_, err := get(t, tr, Call{Account: "b"})
		ok(t, err) // another account has its own
		pass(10 * time.Minute)
		_, err = get(t, tr, Call{Account: "a", Lane: Sweep})
		ok(t, err)
	})
}

// TestF4_WritesArePaced: a second apart, whoever makes them; reads don't wait,
// and neither does another account.
func TestF4_WritesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr := newFake(t, Limits{}, answer{status: 201})
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() { ok(t, post(t, tr, Call{Account: "a", Lane: Create + Lane(i%2)})) })
		}
		synctest.Wait()
		began := time.Now()
		_, err := get(t, tr, Call{Account: "a"})
		ok(t, err)
		ok(t, post(t, tr, Call{Account: "b"}))
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a read and another account's write waited for %s", waited)
		}
		all.Wait()
		if took := time.Since(began); took != 9*time.Second {
			t.Errorf("ten writes took %s, want nine seconds", took)
		}
		if f.count() != 12 {
			t.Errorf("%d requests", f.count())
		}
	})
}

// TestF4_QueueIsBounded: who would have to wait too long is told at once.
func TestF4_QueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr := newFake(t, Limits{MaxWait: 3 * time.Second}, answer{status: 201})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { ok(t, post(t, tr, Call{})) })
		}
		synctest.Wait()
		e := failed(t, post(t, tr, Call{}), forge.Limited)
		if e.RetryAfter != 4*time.Second || e.Applied || !errors.Is(e, errQueue) {
			t.Errorf("refused by %v for %s", e, e.RetryAfter)
		}
		all.Wait()
		if f.count() != 4 {
			t.Errorf("%d requests", f.count())
		}
	})
}

// TestF4_HourlyBudgets: what is created is counted apart from what is changed.
func TestF4_HourlyBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr := newFake(t, Limits{Interval: -1, Creates: 3, Edits: 5}, answer{status: 201})
		for range 3 {
			ok(t, post(t, tr, Call{Lane: Create}))
			pass(time.Minute)
		}
		e := failed(t, post(t, tr, Call{Lane: Create}), forge.Limited)
		if e.RetryAfter != 57*time.Minute {
			t.Errorf("the fourth is to wait for %s", e.RetryAfter)
		}
		for range 5 {
			ok(t, post(t, tr, Call{Lane: Edit}))
		}
		refused(t, post(t, tr, Call{Lane: Edit}), forge.Limited)
		pass(e.RetryAfter)
		ok(t, post(t, tr, Call{Lane: Create}))
		refused(t, post(t, tr, Call{Lane: Create}), forge.Limited)
	})
}

// TestF4_DefaultsKeepThePublishedLimits: no minute sees more than 80 writes, no
// hour more than 500 creations, however many are wanted.
func TestF4_DefaultsKeepThePublishedLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr := newFake(t, Limits{}, answer{status: 201})
		end := time.Now().Add(3 * time.Hour)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for time.Now().Before(end) {
					if err := post(t, tr, Call{}); err != nil {
						pass(failed(t, err, forge.Limited).RetryAfter)
					}
				}
			})
		}
		all.Wait()
		for i, from := range f.times {
			in := func(d time.Duration) (n int) {
				for _, at := range f.times[i:] {
					if at.Sub(from) < d {
						n++
					}
				}
				return n
			}
			if m, h := in(time.Minute), in(time.Hour); m > 80 || h > 500 {
				t.Fatalf("from %s on %d in a minute, %d in an hour", from, m, h)
			}
		}
		if len(f.times) < 3*DefaultCreates {
			t.Errorf("only %d were sent in three hours", len(f.times))
		}
	})
}

// TestF4_PauseReachesThoseWhoWait: a limit that comes while a write waits for its
// turn holds it back, too.
func TestF4_PauseReachesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr := newFake(t, Limits{}, answer{status: 200, body: "first"}, answer{status: 429, header: "Retry-After: 100"})
		ok(t, post(t, tr, Call{}))
		var all sync.WaitGroup
		for range 3 { // all take their turn in the queue before the first refusal
			all.Go(func() { refused(t, post(t, tr, Call{}), forge.Limited) })
		}
		all.Wait()
		if f.count() != 2 {
			t.Errorf("%d requests were sent, want two", f.count())
		}
	})
}

// TestTransport_EndedWhileWaiting: who gives up leaves nothing behind that was sent.
func TestTransport_EndedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr := newFake(t, Limits{}, answer{status: 201})
		ok(t, post(t, tr, Call{}))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err := ask(ctx, tr, http.MethodPost, "https://forge.example/x", Call{})
		e := failed(t, err, forge.Unavailable)
		if !errors.Is(err, context.Canceled) || e.Applied || f.count() != 1 {
			t.Errorf("%v, applied %v, %d requests", err, e.Applied, f.count())
		}
	})
}

// TestTransport_AtOnce: no more requests of one account than the limit are under way.
func TestTransport_AtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &slow{proceed: make(chan struct{})}
		tr, err := New(Config{Hosts: []string{"forge.example"}, Base: base, Limits: Limits{Concurrent: 3}})
		ok(t, err)
		var all sync.WaitGroup
		for range 9 {
			all.Go(func() {
				_, err := get(t, tr, Call{})
				ok(t, err)
			})
		}
		synctest.Wait()
		if base.now != 3 {
			t.Errorf("%d are under way, want 3", base.now)
		}
		close(base.proceed)
		all.Wait()
	})
}

type slow struct {
	mu      sync.Mutex
	now     int
	proceed chan struct{}
	header  http.Header
}

func (s *slow) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.now++
	s.mu.Unlock()
	<-s.proceed
	return &http.Response{StatusCode: 200, Header: s.header.Clone(), Body: http.NoBody, Request: req}, nil
}
