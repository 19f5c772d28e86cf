package scheduler_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/executor/scheduler"
)

// A world with a thousand due tasks delays a world with one by one turn, also
// where its tasks are due for longer.
func TestX8_AWorldOfAThousandAndAWorldOfOne(t *testing.T) {
	inBubble(t, scheduler.Options{DriveSlots: 1, WorldDriveSlots: 1}, func(b *bench) {
		b.do(takes(time.Second))
		for n := range int64(1000) {
			b.mark(key("big", n+1))
		}
		b.pass(time.Minute) // the thousand are the older ones
		b.start()
		b.pass(10 * time.Second)
		for n := range int64(3) {
			b.mark(key("small", n+1))
			b.pass(2500 * time.Millisecond)
			if b.count(key("small", n+1)) != 1 {
				t.Fatalf("the world with one due task is still not served after two turns: %v", b.served())
			}
		}
		b.pass(1000 * time.Second)
		for n := range int64(1000) {
			if c := b.count(key("big", n+1)); c != 1 {
				t.Fatalf("task %d ran %d times", n+1, c)
			}
		}
	})
}

// Worlds with much to do are served in turn.
func TestX8_WorldsInTurn(t *testing.T) {
	inBubble(t, scheduler.Options{DriveSlots: 2, WorldDriveSlots: 2}, func(b *bench) {
		b.do(takes(time.Second))
		for n := range int64(400) {
			b.mark(key("a", n+1))
		}
		b.pass(time.Second)
		for _, w := range []string{"b", "c"} {
			for n := range int64(5) {
				b.mark(key(w, n+1))
			}
		}
		b.start()
		b.pass(7500 * time.Millisecond)
		count := map[string]int{}
		for _, k := range b.served() {
			count[k.World]++
		}
		if count["a"] > 6 || count["b"] != 5 || count["c"] != 5 {
			t.Errorf("after eight turns of two: %v", count)
		}
	})
}

// A world whose tasks all hang keeps within its bound.
func TestX8_AHangingWorldLeavesRoom(t *testing.T) {
	inBubble(t, scheduler.Options{DriveSlots: 6, WorldDriveSlots: 4}, func(b *bench) {
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if j.Key().World == "sick" {
				<-ctx.Done()
				return scheduler.Result{}, ctx.Err()
			}
			return takes(time.Second)(ctx, j)
		})
		for n := range int64(100) {
			b.mark(key("sick", n+1))
		}
		b.start()
		b.pass(time.Minute)
		if len(b.served()) != 4 {
			t.Fatalf("%d tasks of one world run", len(b.served()))
		}
		for n := range int64(10) {
			b.mark(key("well", n+1))
		}
		b.pass(5500 * time.Millisecond)
		for n := range int64(10) {
			if b.count(key("well", n+1)) != 1 {
				t.Errorf("task %d of the other world waits", n+1)
			}
		}
		if b.most != 6 {
			t.Errorf("%d at once, want 6", b.most)
		}
	})
}

// Sixty-four who mark at once, all the time: never two executors of the task.
func TestL1_OneExecutorOfATask(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		b.do(func(ctx context.Context, _ *scheduler.Job) (scheduler.Result, error) {
			return scheduler.Result{Outcome: "due", Next: time.Now().UnixMilli()}, wait(ctx, 3*time.Millisecond)
		})
		b.start()
		k := key("w", 1)
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 50 {
					b.mark(k)
					<-time.After(time.Millisecond)
				}
			})
		}
		wg.Wait()
		if n := b.count(k); n < 10 {
			t.Errorf("it ran %d times only", n)
		}
	})
}

// The table of running tasks holds even if the schedule forgets who has what.
func TestL1_OneExecutorThoughTheScheduleForgets(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		b.do(takes(time.Minute))
		b.start()
		b.mark(key("w", 1))
		b.pass(time.Second)
		b.mem.Restart()
		b.mark(key("w", 1))
		b.pass(30 * time.Second)
		if n := b.count(key("w", 1)); n != 1 {
			t.Errorf("it was started %d times", n)
		}
	})
}

// Marks during a run cause exactly one more run, whatever the first one said.
func TestW6_MarksDuringARunCauseOneMore(t *testing.T) {
	for name, res := range map[string]scheduler.Result{
		"over": {Outcome: "final", Ended: true}, "later": {Outcome: "due", Next: 1 << 50}, "sweep": {Outcome: "waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, scheduler.Options{}, func(b *bench) {
				b.do(func(ctx context.Context, _ *scheduler.Job) (scheduler.Result, error) {
					return res, wait(ctx, 10*time.Second)
				})
				b.start()
				k := key("w", 1)
				b.mark(k)
				b.pass(time.Second)
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() { b.mark(k) })
				}
				wg.Wait()
				b.pass(time.Hour)
				if n := b.count(k); n != 2 {
					t.Errorf("%d runs, want 2", n)
				}
			})
		})
	}
}

// A mark reaches the task that runs, not only the run after it.
func TestF7_AMarkReachesARunningTask(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		looks := 0
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			end := time.After(time.Minute)
			for {
				select {
				case <-j.Nudges():
					looks++
				case <-end:
					return ends(ctx, j)
				}
			}
		})
		b.start()
		b.mark(key("w", 1))
		b.pass(time.Second)
		for range 5 {
			b.mark(key("w", 1))
		}
		for range 5 {
			b.s.Marked(key("w", 1), key("w", 2))
		}
		b.pass(time.Second)
		if looks < 1 || looks > 5 {
			t.Errorf("it looked %d times", looks)
		}
		b.pass(10 * time.Minute)
		if n := b.count(key("w", 1)); n != 2 {
			t.Errorf("%d runs", n)
		}
	})
}

// What is due later runs then, and not before; what gives no time, at the sweep.
func TestW12_EveryOpenTaskHasItsNextTime(t *testing.T) {
	inBubble(t, scheduler.Options{Resync: time.Hour}, func(b *bench) {
		b.do(func(_ context.Context, j *scheduler.Job) (scheduler.Result, error) {
			switch j.Key().Task {
			case 1:
				return scheduler.Result{Outcome: "due", Next: time.Now().Add(90 * time.Second).UnixMilli()}, nil
			case 2:
				return scheduler.Result{Outcome: "waiting"}, nil
			case 3: // a time that somebody wrote into a trailer
				return scheduler.Result{Outcome: "held", Next: 1<<53 - 1}, nil
			case 4:
				return scheduler.Result{Outcome: "due", Next: 1}, nil
			}
			return scheduler.Result{Outcome: "final", Ended: true}, nil
		})
		for n := range int64(5) {
			b.mark(key("w", n+1))
		}
		b.start()
		b.pass(time.Hour + time.Second)
		at := b.began(key("w", 1))
		if len(at) < 3 || at[1] < 90*time.Second || at[1] > 90*time.Second+100*time.Millisecond {
			t.Errorf("the retry: %v", at[:min(len(at), 3)])
		}
		for n := int64(2); n <= 3; n++ {
			if at := b.began(key("w", n)); len(at) != 2 || at[1] < 54*time.Minute {
				t.Errorf("task %d without a time of its own: %v", n, at)
			}
		}
		if n := b.count(key("w", 4)); n > 3602 {
			t.Errorf("a task that is always due ran %d times in an hour", n)
		}
		if n := b.count(key("w", 5)); n != 1 {
			t.Errorf("a task that is over ran %d times", n)
		}
	})
}
