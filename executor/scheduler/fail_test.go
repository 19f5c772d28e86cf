package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/executor/scheduler/schedulertest"
)

var errAway = errors.New("the forge does not answer")

func fails(context.Context, *scheduler.Job) (scheduler.Result, error) {
	return scheduler.Result{}, errAway
}

// The wait after a failure doubles up to its cap, and differs between tasks.
func TestK8_TheWaitGrowsUpToItsCap(t *testing.T) {
	o := scheduler.Options{BackoffFirst: time.Second, BackoffMost: time.Minute, PoisonAfter: 1000}
	inBubble(t, o, func(b *bench) {
		b.do(fails)
		for n := range int64(20) {
			b.mark(key("w", n+1))
		}
		b.start()
		b.pass(10 * time.Minute)
		second := map[time.Duration]bool{}
		for n := range int64(20) {
			at := b.began(key("w", n+1))
			second[at[1]] = true
			for i := 1; i < len(at); i++ {
				most := min(time.Second<<min(i-1, 10), time.Minute)
				if gap := at[i] - at[i-1]; gap < most/2 || gap > most+5*time.Millisecond {
					t.Fatalf("task %d waited %s after failure %d, want %s to %s", n+1, gap, i, most/2, most)
				}
			}
			if len(at) < 10 {
				t.Errorf("task %d was tried %d times in ten minutes", n+1, len(at))
			}
		}
		if len(second) < 10 {
			t.Errorf("twenty tasks that failed together came back at %d times", len(second))
		}
	})
}

// lagging is a schedule whose list of due tasks is always some time behind.
type lagging struct {
	*schedulertest.Memory
	was []scheduler.Key
}

func (l *lagging) Due(ctx context.Context, now int64, limit int) ([]scheduler.Key, error) {
	keys, err := l.Memory.Due(ctx, now, limit)
	if len(keys) > 0 {
		l.was = keys
	}
	return l.was, err
}

// A list that was read before a task's last run ended doesn't start it before
// its next time.
func TestK8_NotBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := schedulertest.NewMemory()
		b := newBench(t, mem, scheduler.Options{})
		s, err := scheduler.New(&lagging{Memory: mem}, mem, b, scheduler.Options{
			BackoffFirst: time.Minute, BackoffMost: time.Minute, NewID: func() string { return "1" }})
		b.must(err)
		b.s = s
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			_ = wait(ctx, 100*time.Millisecond)
			return fails(ctx, j)
		})
		b.start()
		b.mark(key("w", 1))
		b.pass(25 * time.Second)
		if n := b.count(key("w", 1)); n != 1 {
			t.Errorf("%d runs before half a minute is over", n)
		}
		b.pass(2 * time.Minute)
		if n := b.count(key("w", 1)); n < 2 || n > 6 {
			t.Errorf("%d runs in two minutes and a bit", n)
		}
	})
}

// Failures in a row are counted over restarts, a good run ends the row, and a
// task that fails too often leaves the rotation until it is marked.
func TestK8_FailuresAreCountedOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := schedulertest.NewMemory()
		k := key("w", 1)
		total := 0
		var b *bench
		for range 5 {
			b = newBench(t, mem, scheduler.Options{PoisonAfter: 8, Resync: 4 * time.Hour})
			b.do(fails)
			if total == 0 {
				b.mark(k)
			}
			b.start()
			for i := 0; b.count(k) < 2 && i < 1000; i++ {
				b.pass(time.Second)
			}
			total += b.count(k)
			if got := b.note(k).Failures; got != total {
				t.Fatalf("%d failures are remembered as %d", total, got)
			}
			if total >= 8 {
				break
			}
			b.stop()
			mem.Restart()
		}
		if got := b.outcome(k); total != 8 || got != scheduler.OutcomePoison {
			t.Errorf("after %d failures: %q", total, got)
		}
		b.pass(3 * time.Hour)
		if n := b.note(k).Failures; n != 8 {
			t.Errorf("a poisoned task was tried again: %d failures", n)
		}
		b.do(func(context.Context, *scheduler.Job) (scheduler.Result, error) {
			return scheduler.Result{Outcome: "waiting"}, nil
		})
		b.mark(k)
		b.pass(time.Second)
		if n := b.note(k).Failures; n != 0 || b.outcome(k) != "waiting" {
			t.Errorf("after a mark and a good run: %d failures, %q", n, b.outcome(k))
		}
	})
}

// A halted task is not tried until somebody moves on; that is no failure.
func TestM2_AHaltedTaskLeavesTheRotation(t *testing.T) {
	inBubble(t, scheduler.Options{Resync: 2 * time.Hour}, func(b *bench) {
		b.do(func(context.Context, *scheduler.Job) (scheduler.Result, error) {
			return scheduler.Result{}, fmt.Errorf("epoch 3: %w", scheduler.ErrHalted)
		})
		k := key("w", 1)
		b.mark(k)
		b.start()
		b.pass(90 * time.Minute)
		if n := b.count(k); n != 1 || b.outcome(k) != scheduler.OutcomeHalted || b.note(k).Failures != 0 {
			t.Errorf("%d runs, %q, %d failures", n, b.outcome(k), b.note(k).Failures)
		}
		b.must(b.s.Ask(context.Background(), k, "resume", "17", "mended"))
		b.pass(time.Second)
		if n := b.count(k); n != 2 {
			t.Errorf("%d runs after a person moved on", n)
		}
		b.pass(2 * time.Hour)
		if n := b.count(k); n < 3 {
			t.Error("the sweep did not look at it")
		}
	})
}

// A panic costs its own task a failure, and nobody else anything.
func TestX8_APanicIsContained(t *testing.T) {
	var log strings.Builder
	o := scheduler.Options{DriveSlots: 1, BuildSlots: 1, Log: slog.New(slog.NewTextHandler(&log, nil))}
	inBubble(t, o, func(b *bench) {
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			switch j.Key().Task {
			case 1:
				_, _ = j.Build([]string{"a/**"})
				panic("index out of range")
			case 2:
				_, _ = j.Build([]string{"a/**"})
				runtime.Goexit()
			}
			return builds(time.Second, "a/**")(ctx, j)
		})
		b.mark(key("w", 1), key("w", 2), key("w", 3))
		b.start()
		b.pass(10 * time.Minute)
		for n, want := range map[int64]string{1: scheduler.OutcomePanic, 2: scheduler.OutcomeError, 3: "final"} {
			if got := b.outcome(key("w", n)); got != want {
				t.Errorf("task %d: %q, want %q", n, got, want)
			}
		}
		if f := b.note(key("w", 1)).Failures; f < 5 {
			t.Errorf("the task that panics was tried again %d times", f)
		}
		b.stop()
		if !strings.Contains(log.String(), "fail_test.go") || !strings.Contains(log.String(), "task=1") {
			t.Error("the log names neither task nor line")
		}
	})
}

// The store may be away for a while: nothing runs twice, nothing is forgotten,
// and it is left alone more and more.
func TestW10_TheStoreIsAway(t *testing.T) {
	for _, op := range []string{"Due", "Next", "Take", "Done", "Load", "Settle"} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, scheduler.Options{}, func(b *bench) {
				b.do(func(_ context.Context, j *scheduler.Job) (scheduler.Result, error) {
					if op == "Settle" && b.count(j.Key()) == 1 {
						return scheduler.Result{}, errAway
					}
					return scheduler.Result{Outcome: "final", Ended: true}, nil
				})
				asked := 0
				b.mem.SetFault(func(o string, _ scheduler.Key) error {
					if o == op {
						asked++
						return errors.New("database is locked")
					}
					return nil
				})
				k := key("w", 1)
				b.mark(k)
				b.start()
				b.pass(10 * time.Minute)
				ran := b.count(k)
				if ran > 1 || asked > 120 {
					t.Errorf("%d runs, asked %d times in ten minutes", ran, asked)
				}
				b.mem.SetFault(nil)
				b.pass(time.Minute)
				want := 1
				if op == "Settle" {
					want = 2
				}
				if n := b.count(k); n != want || b.outcome(k) != "final" {
					t.Errorf("%d runs, then %q", n, b.outcome(k))
				}
			})
		})
	}
}

// TestJ2_APanicOfTheStore: a store that panics is one that doesn't answer, wherever
// it is asked, and everything goes on when it is mended.
func TestJ2_APanicOfTheStore(t *testing.T) {
	for _, op := range []string{"Hasten", "Due", "Next", "Take", "Done", "Load", "Settle"} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, scheduler.Options{}, func(b *bench) {
				b.do(func(_ context.Context, j *scheduler.Job) (scheduler.Result, error) {
					if op == "Settle" && b.count(j.Key()) == 1 {
						return scheduler.Result{}, errAway
					}
					return scheduler.Result{Outcome: "final", Ended: true}, nil
				})
				asked := 0
				b.mem.SetFault(func(o string, _ scheduler.Key) error {
					if o == op {
						asked++
						panic("index out of range")
					}
					return nil
				})
				b.mark(key("w", 1))
				b.start()
				b.pass(10 * time.Minute)
				if asked == 0 || asked > 120 {
					t.Errorf("asked %d times in ten minutes", asked)
				}
				b.mem.SetFault(nil)
				b.pass(time.Minute)
				if b.outcome(key("w", 1)) != "final" {
					t.Errorf("it came to %q", b.outcome(key("w", 1)))
				}
			})
		})
	}
}

// panicky are metrics that panic.
type panicky struct{ scheduler.Metrics }

func (panicky) Load(scheduler.Load)                        { panic("no metrics") }
func (panicky) Started(scheduler.Key)                      { panic("no metrics") }
func (panicky) Ended(scheduler.Key, string, time.Duration) { panic("no metrics") }

// TestJ2_APanicOfTheObserver: who only watches ends nothing.
func TestJ2_APanicOfTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := schedulertest.NewMemory()
		ran := 0
		run := runs(func(context.Context, *scheduler.Job) (scheduler.Result, error) {
			ran++
			return scheduler.Result{Ended: true}, nil
		})
		s, err := scheduler.New(mem, mem, run, scheduler.Options{NewID: func() string { return "id" }, Metrics: panicky{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := mem.Mark(t.Context(), key("w", 1), time.Now().UnixMilli()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if left := s.Run(ctx); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	})
}

type runs func(context.Context, *scheduler.Job) (scheduler.Result, error)

func (r runs) Drive(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
	return r(ctx, j)
}
