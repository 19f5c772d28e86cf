package scheduler_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/kernel"
)

// Short ticks don't wait behind long builds, nor behind those who wait for one.
func TestX8_TicksDontWaitBehindBuilds(t *testing.T) {
	inBubble(t, scheduler.Options{DriveSlots: 2, WorldDriveSlots: 2, BuildSlots: 2, WorldBuildSlots: 2}, func(b *bench) {
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if j.Key().Task <= 50 {
				return builds(30*time.Minute)(ctx, j)
			}
			return takes(100*time.Millisecond)(ctx, j)
		})
		for n := range int64(50) {
			b.mark(key("w", n+1))
		}
		b.start()
		b.pass(time.Minute)
		if n := len(b.s.Running()); n != 2 {
			t.Fatalf("%d run, want the two that build", n)
		}
		for n := range int64(20) {
			b.mark(key("w", n+51))
		}
		b.pass(2 * time.Second)
		for n := range int64(20) {
			if b.count(key("w", n+51)) != 1 {
				t.Errorf("tick %d waits", n+51)
			}
		}
	})
}

// builder counts who builds, and checks the bounds.
type builder struct {
	mu    sync.Mutex
	now   map[string]int
	order []scheduler.Key
	most  int
	world int
	ended map[scheduler.Key]bool
}

func (c *builder) build(d time.Duration, scope func(scheduler.Key) []string) behaviour {
	return func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
		release, ok := j.Build(scope(j.Key()))
		if !ok {
			return scheduler.Result{Outcome: "due"}, nil
		}
		defer release()
		c.mu.Lock()
		c.now[j.Key().World]++
		c.order = append(c.order, j.Key())
		sum := 0
		for _, n := range c.now {
			sum += n
		}
		c.most, c.world = max(c.most, sum), max(c.world, c.now[j.Key().World])
		c.mu.Unlock()
		err := wait(ctx, d)
		c.mu.Lock()
		c.now[j.Key().World]--
		c.ended[j.Key()] = true
		c.mu.Unlock()
		if err != nil {
			return scheduler.Result{}, err
		}
		return ends(ctx, j)
	}
}

// built lists who built, in the order they began.
func (c *builder) built() []scheduler.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}

func newBuilder() *builder {
	return &builder{now: map[string]int{}, ended: map[scheduler.Key]bool{}}
}

func nobody(scheduler.Key) []string { return nil }

// Build slots have their bounds, go round between the worlds, and within a world
// to who came first; a freed slot is used at once.
func TestX8_BuildSlotsInTurn(t *testing.T) {
	c := newBuilder()
	inBubble(t, scheduler.Options{BuildSlots: 2, WorldBuildSlots: 1}, func(b *bench) {
		b.do(c.build(10*time.Minute, nobody))
		b.start()
		for n := range int64(20) {
			b.mark(key("big", n+1))
			b.pass(time.Second)
		}
		for n := range int64(4) {
			b.mark(key("one", n+1), key("two", n+1))
			b.pass(time.Second)
		}
		b.pass(39 * time.Minute)
		var big []int64
		count := map[string]int{}
		for _, k := range c.built() {
			count[k.World]++
			if k.World == "big" {
				big = append(big, k.Task)
			}
		}
		if !slices.IsSorted(big) || count["big"] > 3 || count["one"] < 2 || count["two"] < 2 || len(c.built()) != 8 {
			t.Errorf("after four turns of two: %v", c.built())
		}
		if c.most != 2 || c.world != 1 {
			t.Errorf("%d built at once, %d of one world", c.most, c.world)
		}
	})
}

// A slot that is kept for a task is given on when the task doesn't use it: it
// fails, is over, or waits for something else now.
func TestX8_AKeptSlotThatIsNotUsed(t *testing.T) {
	c := newBuilder()
	inBubble(t, scheduler.Options{BuildSlots: 1, WorldBuildSlots: 1}, func(b *bench) {
		long := c.build(10*time.Minute, nobody)
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if b.count(j.Key()) == 2 {
				switch j.Key().Task {
				case 2:
					return fails(ctx, j)
				case 3:
					panic("oops")
				case 4:
					return scheduler.Result{Outcome: "waiting"}, nil
				}
			}
			return long(ctx, j)
		})
		b.start()
		for n := range int64(5) {
			b.mark(key("w", n+1))
			b.pass(100 * time.Millisecond)
		}
		b.pass(25 * time.Minute)
		if !c.ended[key("w", 1)] || len(c.built()) < 3 {
			t.Errorf("in 25 minutes these built: %v", c.built())
		}
	})
}

// A slot that is granted to a task while it runs for another reason is given on
// when that run has no use for it.
func TestX8_AGrantedSlotOfATaskThatRuns(t *testing.T) {
	c := newBuilder()
	inBubble(t, scheduler.Options{BuildSlots: 1}, func(b *bench) {
		long := c.build(10*time.Minute, nobody)
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if j.Key().Task == 2 && b.count(j.Key()) == 2 {
				return takes(10*time.Minute)(ctx, j)
			}
			return long(ctx, j)
		})
		b.start()
		for n := range int64(3) {
			b.mark(key("w", n+1))
			b.pass(time.Second)
		}
		b.mark(key("w", 2)) // and runs while the first ends
		b.pass(15 * time.Minute)
		if got := c.built(); !slices.Equal(got, []scheduler.Key{key("w", 1), key("w", 3)}) {
			t.Errorf("these built: %v", got)
		}
	})
}

// A slot that somebody waits for can't be snatched by who gives it back.
func TestX8_AFreedSlotIsForTheFirstInLine(t *testing.T) {
	inBubble(t, scheduler.Options{BuildSlots: 1}, func(b *bench) {
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			release, ok := j.Build(nil)
			if !ok {
				return scheduler.Result{}, nil
			}
			if err := wait(ctx, time.Minute); err != nil {
				return scheduler.Result{}, err
			}
			release()
			if _, ok := j.Build(nil); ok && j.Key().Task == 1 {
				t.Error("it has the slot again, though another task waits")
			}
			return ends(ctx, j)
		})
		b.start()
		b.mark(key("w", 1))
		b.pass(time.Second)
		b.mark(key("w", 2))
		b.pass(5 * time.Minute)
		if got := b.outcome(key("w", 2)); got != "final" {
			t.Errorf("the one who waited: %q", got)
		}
	})
}

// Tasks whose paths overlap take turns in the order they came; others pass them.
func TestX8_OverlappingScopesTakeTurns(t *testing.T) {
	c := newBuilder()
	scopes := map[int64][]string{
		1: {"calc/**"}, 2: {"calc/a.go", "docs/**"}, 3: {"docs/x.md"}, 4: {"web/**"}, 5: nil, 6: {"calc/b.go"},
	}
	inBubble(t, scheduler.Options{BuildSlots: 6, WorldBuildSlots: 6}, func(b *bench) {
		b.do(c.build(10*time.Minute, func(k scheduler.Key) []string { return scopes[k.Task] }))
		b.start()
		for n := range int64(6) {
			b.mark(key("w", n+1))
			b.pass(time.Second)
		}
		b.mark(key("v", 2)) // another world has paths of its own
		b.pass(time.Second)
		want := []scheduler.Key{key("w", 1), key("w", 4), key("w", 5), key("v", 2)}
		if !slices.Equal(c.built(), want) {
			t.Errorf("first: %v", c.built())
		}
		b.pass(10 * time.Minute)
		// 3 was behind 2, which it overlaps, though it was free all the time.
		want = append(want, key("w", 2), key("w", 6))
		got := c.built()
		slices.SortFunc(got[min(len(got), 4):], byTask)
		if !slices.Equal(got, want) {
			t.Errorf("then: %v", got)
		}
		b.pass(10 * time.Minute)
		if got = c.built(); len(got) != 7 || got[6] != key("w", 3) {
			t.Errorf("at last: %v", got)
		}
	})
}

func byTask(a, b scheduler.Key) int { return int(a.Task - b.Task) }

// Many tasks of one path: one at a time, none forgotten, none passed over.
func TestX8_ManyTasksOfOnePath(t *testing.T) {
	c := newBuilder()
	inBubble(t, scheduler.Options{BuildSlots: 4, WorldBuildSlots: 4, Recheck: time.Hour}, func(b *bench) {
		b.do(c.build(10*time.Second, func(scheduler.Key) []string { return []string{"go.mod"} }))
		b.start()
		for n := range int64(100) {
			b.mark(key("w", n+1))
			b.pass(100 * time.Millisecond)
		}
		b.pass(1001 * time.Second)
		if len(c.built()) != 100 || c.most != 1 || !slices.IsSortedFunc(c.built(), byTask) {
			t.Errorf("%d built, %d at once: %v", len(c.built()), c.most, c.built())
		}
	})
}

// While a task waits for a slot a stop reaches it at once.
func TestX5_StopReachesATaskThatWaitsForASlot(t *testing.T) {
	inBubble(t, scheduler.Options{BuildSlots: 1}, func(b *bench) {
		m := &machine{}
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if len(j.Acts()) > 0 {
				return m.obeys(ctx, j)
			}
			return builds(time.Hour)(ctx, j)
		})
		b.start()
		b.mark(key("w", 1))
		b.pass(time.Second)
		b.mark(key("w", 2))
		b.pass(time.Second)
		b.must(b.s.Ask(context.Background(), key("w", 2), kernel.ActStop, "17", ""))
		b.pass(time.Second)
		if len(m.acts) != 1 || b.outcome(key("w", 2)) != "waiting" {
			t.Errorf("told %+v, %q", m.acts, b.outcome(key("w", 2)))
		}
		b.pass(3 * time.Hour)
		if n := len(b.s.Running()); n != 0 {
			t.Errorf("%d run: the slot of a stopped task is kept", n)
		}
	})
}

// Paused worlds get no slots; the others get them instead, and at once.
func TestX5_NoSlotsForAPausedWorld(t *testing.T) {
	c := newBuilder()
	inBubble(t, scheduler.Options{BuildSlots: 1}, func(b *bench) {
		b.do(c.build(10*time.Minute, nobody))
		b.start()
		worlds := []string{"a", "b", "c", "d"}
		for n, w := range append(worlds, "v") {
			b.mark(key(w, int64(n+1)))
			b.pass(time.Second)
		}
		b.mark(key("a", 9))
		b.pass(time.Second)
		for _, w := range worlds {
			b.pause(w)
		}
		b.pass(10*time.Minute - 6*time.Second + 100*time.Millisecond)
		if got := c.built(); !slices.Equal(got, []scheduler.Key{key("a", 1), key("v", 5)}) {
			t.Errorf("while they were paused: %v", got)
		}
		b.pass(25 * time.Minute)
		for _, w := range worlds {
			b.unpause(w)
		}
		b.pass(time.Second)
		if got := c.built(); len(got) != 3 {
			t.Errorf("after the pause: %v", got)
		}
	})
}

// A slot that is kept for a task of a world goes to another one when the world
// is paused before the task could start.
func TestX5_NoSlotIsKeptForAPausedWorld(t *testing.T) {
	c := newBuilder()
	inBubble(t, scheduler.Options{BuildSlots: 1}, func(b *bench) {
		b.do(c.build(10*time.Minute, nobody))
		b.start()
		for _, k := range []scheduler.Key{key("w", 1), key("a", 2), key("v", 3)} {
			b.mark(k)
			b.pass(time.Second)
		}
		b.pass(8 * time.Minute)
		b.mem.SetFault(func(op string, _ scheduler.Key) error {
			if op == "Due" {
				return errors.New("database is locked")
			}
			return nil
		})
		b.pass(2*time.Minute - 3*time.Second + time.Millisecond) // the first has just ended
		b.pause("a")
		b.mem.SetFault(nil)
		b.pass(time.Minute)
		if got := c.built(); !slices.Equal(got, []scheduler.Key{key("w", 1), key("v", 3)}) {
			t.Errorf("while it was paused: %v", got)
		}
	})
}

// release may be called early and twice; a second question in one run is
// answered like the first.
func TestX8_BuildTwiceInARun(t *testing.T) {
	inBubble(t, scheduler.Options{BuildSlots: 1, WorldBuildSlots: 1}, func(b *bench) {
		var one *scheduler.Job
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			one = j
			release, ok := j.Build([]string{"a"})
			again, ok2 := j.Build([]string{"a"})
			other, ok3 := j.Build([]string{"b"})
			if !ok || !ok2 || !ok3 || !b.s.Running()[0].Build {
				t.Error("the slot it holds was refused")
			}
			release()
			again()
			if !b.s.Running()[0].Build {
				t.Error("a release of what was held before gave the slot back")
			}
			other()
			other()
			if b.s.Running()[0].Build {
				t.Error("the slot is still held")
			}
			if _, ok := j.Build(nil); !ok {
				t.Error("a second build of the run was refused")
			}
			return ends(ctx, j)
		})
		b.start()
		for n := range int64(5) {
			b.mark(key("w", n+1))
			b.pass(time.Second)
			if b.outcome(key("w", n+1)) != "final" {
				t.Errorf("task %d: %q", n+1, b.outcome(key("w", n+1)))
			}
		}
		if _, ok := one.Build(nil); ok {
			t.Error("a run that is over got a slot")
		}
	})
}

// A task that stands in line is looked at when it has something to do, and keeps its place.
func TestX8_WhoWaitsMayBeLookedAtBefore(t *testing.T) {
	inBubble(t, scheduler.Options{BuildSlots: 1, Recheck: time.Hour}, func(b *bench) {
		var looks []time.Duration
		began := time.Now()
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if j.Key() == key("w", 1) {
				return builds(10*time.Minute)(ctx, j)
			}
			looks = append(looks, time.Since(began).Round(time.Second))
			r := scheduler.Result{Outcome: "looked"}
			if _, ok := j.Build(nil); !ok && len(looks) == 1 {
				r.Next = time.Now().Add(15 * time.Second).UnixMilli()
			}
			return r, nil
		})
		b.start()
		b.mark(key("w", 1))
		b.pass(time.Second)
		b.mark(key("w", 2))
		b.pass(5 * time.Minute)
		if why := b.s.Why(key("w", 2)); why != scheduler.WaitSlots || b.s.Why(key("w", 1)) != "" {
			t.Errorf("it waits for %q", why)
		}
		b.pass(6 * time.Minute)
		if want := []time.Duration{time.Second, 16 * time.Second, 10 * time.Minute}; !slices.Equal(looks, want) {
			t.Errorf("looked at after %v, want %v", looks, want)
		}
	})
}
