package scheduler_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/executor/scheduler"
)

// TestQueue_SaysWhy: each task that waits for a build slot is listed with what keeps it
// and its place, and leaves the list when it starts.
func TestQueue_SaysWhy(t *testing.T) {
	const long = 30 * time.Minute
	down := map[string]bool{}
	inBubble(t, scheduler.Options{BuildSlots: 3, WorldBuildSlots: 2, DriveSlots: 9, WorldDriveSlots: 9, Outage: func(world string) bool { return down[world] }}, func(b *bench) {
		b.do(builds(long, "same/**"))
		b.start()
		b.mark(key("paths", 1))
		b.pass(time.Second)
		b.mark(key("paths", 2))
		b.pass(time.Second)
		want := func(list ...scheduler.Waiting) {
			t.Helper()
			if diff := cmp.Diff(list, b.s.Queue()); diff != "" {
				t.Error(diff)
			}
		}
		paths := scheduler.Waiting{Key: key("paths", 2), Why: scheduler.WaitPaths, Place: 1}
		want(paths)
		b.do(builds(long))
		b.mark(key("v", 1), key("v", 2))
		b.pass(time.Second)
		b.mark(key("v", 3), key("w", 1), key("x", 1))
		b.pass(time.Second)
		at := func(world string, task int64, why string) scheduler.Waiting {
			return scheduler.Waiting{Key: key(world, task), Why: why, Place: 1}
		}
		want(paths, at("v", 3, scheduler.WaitSlots), at("w", 1, scheduler.WaitSlots), at("x", 1, scheduler.WaitSlots))
		b.pause("w")
		down["x"] = true
		b.pass(time.Second)
		want(paths, at("v", 3, scheduler.WaitSlots), at("w", 1, scheduler.WaitPause), at("x", 1, scheduler.WaitServer))
		delete(down, "x")
		b.unpause("w")
		b.pass(3 * long)
		want([]scheduler.Waiting(nil)...)
	})
}

// TestQueue_TheWorldsOwnSlots: a world with all of its own slots in use waits for those,
// though the server has others.
func TestQueue_TheWorldsOwnSlots(t *testing.T) {
	inBubble(t, scheduler.Options{BuildSlots: 3, WorldBuildSlots: 1}, func(b *bench) {
		b.do(builds(time.Hour))
		b.start()
		b.mark(key("w", 1), key("w", 2))
		b.pass(time.Second)
		list := b.s.Queue()
		if len(list) != 1 || list[0].Why != scheduler.WaitWorld || list[0].Place != 1 {
			t.Errorf("waiting: %+v", list)
		}
	})
}
