package transport

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writbot/writ/forge"
)

// TestF4_NoTurnIsLost: who can't wait for a turn is refused at once and told when
// to come back, one after the other, and those who can wait don't wait for turns
// that nobody takes.
func TestF4_NoTurnIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr := newFake(t, Limits{}, answer{status: 201})
		ok(t, post(t, tr, Call{}))
		began := time.Now()
		for i := range 4 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			_, err := ask(ctx, tr, http.MethodPost, "https://forge.example/x", Call{})
			cancel()
			e := failed(t, err, forge.Limited)
			if want := time.Second + time.Duration(i)*comeBack*time.Second; e.RetryAfter != want || e.Applied {
				t.Errorf("the caller %d is to come back after %s, want %s", i, e.RetryAfter, want)
			}
		}
		ok(t, post(t, tr, Call{}))
		if took := time.Since(began); took != time.Second || f.count() != 2 {
			t.Errorf("who could wait waited for %s; %d requests", took, f.count())
		}
	})
}

// TestF4_PointsAMinute: no minute sees more than GitHub allows, reads included, the
// sweep stops before the others, and all of it is used.
func TestF4_PointsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr := newFake(t, Limits{Interval: time.Millisecond, Creates: -1}, answer{status: 200})
		end := time.Now().Add(5 * time.Minute)
		var all sync.WaitGroup
		swept := 0
		for i := range 30 {
			all.Go(func() {
				for time.Now().Before(end) {
					var err error
					switch i {
					case 0:
						err = post(t, tr, Call{})
					case 1:
						if _, err := get(t, tr, Call{Lane: Sweep}); err == nil {
							swept++
						}
						pass(time.Second)
						continue
					default:
						_, err = get(t, tr, Call{})
					}
					if err != nil {
						pass(failed(t, err, forge.Limited).RetryAfter)
					}
				}
			})
		}
		all.Wait()
		weight := func(i int) int {
			if f.requests[i].Method == http.MethodPost {
				return writePoints
			}
			return 1
		}
		total := 0
		for i, from := range f.times {
			total += weight(i)
			sum := 0
			for j := i; j < len(f.times) && f.times[j].Sub(from) < time.Minute; j++ {
				sum += weight(j)
			}
			if sum > 900 {
				t.Fatalf("from %s on %d points in a minute", from, sum)
			}
		}
		if total < 5*DefaultPoints || swept > 3 {
			t.Errorf("%d points were used in five minutes, and %d sweeps came through", total, swept)
		}
	})
}

// TestF4_NotMoreThanIsLeft: what is under way counts against what the forge says is
// left, so that none of it is refused.
func TestF4_NotMoreThanIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &slow{proceed: make(chan struct{}), header: http.Header{
			"X-Ratelimit-Limit": {"5000"}, "X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Reset": {fmt.Sprint(time.Now().Unix() + 600)},
		}}
		tr, err := New(Config{Hosts: []string{"forge.example"}, Base: base})
		ok(t, err)
		one := func() error { _, err := get(t, tr, Call{}); return err }
		var all sync.WaitGroup
		all.Go(func() { ok(t, one()) })
		synctest.Wait()
		base.proceed <- struct{}{}
		all.Wait()
		for range 3 {
			all.Go(func() { ok(t, one()) })
		}
		synctest.Wait()
		if e := failed(t, one(), forge.Limited); e.RetryAfter != 10*time.Minute || base.now != 4 {
			t.Errorf("the fourth of three is to come back after %s; %d were sent", e.RetryAfter, base.now)
		}
		close(base.proceed)
		all.Wait()
	})
}

// TestF4_UrgentHasItsOwn: what somebody asks who holds a lease comes through at once
// while others wait for their points.
func TestF4_UrgentHasItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr := newFake(t, Limits{}, answer{status: 200})
		var all sync.WaitGroup
		for range DefaultBurst {
			all.Go(func() { _, _ = get(t, tr, Call{}) }) // the last are refused
		}
		synctest.Wait()
		began := time.Now()
		for range 20 {
			_, err := get(t, tr, Call{})
			refused(t, err, forge.Limited)
			_, err = ask(forge.Urgent(t.Context()), tr, http.MethodGet, "https://forge.example/x", Call{})
			ok(t, err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("what is urgent waited for %s", took)
		}
		all.Wait()
	})
}
