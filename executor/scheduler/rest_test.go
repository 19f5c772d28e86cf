package scheduler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/kernel"
)

// TestG7_ARestingWorld: while its server asks for a rest no task of a world is begun, and
// the others are; a person's act is handed over all the same, and when the rest is over
// all are begun that are due.
func TestG7_ARestingWorld(t *testing.T) {
	var until atomic.Int64
	rest := func(world string) time.Duration {
		if world != "w" {
			return 0
		}
		return time.Duration(until.Load() - time.Now().UnixNano())
	}
	inBubble(t, scheduler.Options{Rest: rest}, func(b *bench) {
		until.Store(time.Now().Add(time.Minute).UnixNano())
		b.start()
		b.mark(key("w", 1), key("w", 2), key("v", 1))
		b.pass(30 * time.Second)
		if b.count(key("w", 1))+b.count(key("w", 2)) != 0 || b.count(key("v", 1)) != 1 {
			t.Errorf("while it rests: %v", b.served())
		}
		go func() { _ = b.s.Ask(context.Background(), key("w", 1), kernel.ActStop, "17", "") }()
		b.pass(20 * time.Second)
		if b.count(key("w", 1)) == 0 || b.count(key("w", 2)) != 0 {
			t.Errorf("after a stop: %v", b.served())
		}
		b.pass(20 * time.Second)
		if b.count(key("w", 2)) != 1 {
			t.Errorf("after the rest: %v", b.served())
		}
	})
}
