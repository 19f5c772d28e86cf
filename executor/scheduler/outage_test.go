package scheduler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/kernel"
)

// TestG7_ARestingWorld: while its server is in an outage no task of a world is started,
// and the others are; a person's act is handed over all the same, and when the outage is
// over all are started that are due.
func TestG7_ARestingWorld(t *testing.T) {
	var until atomic.Int64
	outage := func(world string) bool { return world == "w" && time.Now().UnixNano() < until.Load() }
	inBubble(t, scheduler.Options{Outage: outage}, func(b *bench) {
		until.Store(time.Now().Add(time.Minute).UnixNano())
		b.start()
		b.mark(key("w", 1), key("w", 2), key("v", 1))
		b.pass(30 * time.Second)
		if b.count(key("w", 1))+b.count(key("w", 2)) != 0 || b.count(key("v", 1)) != 1 {
			t.Errorf("in the outage: %v", b.served())
		}
		go func() { _ = b.s.Ask(context.Background(), key("w", 1), kernel.ActStop, "17", "") }()
		b.pass(20 * time.Second)
		if b.count(key("w", 1)) == 0 || b.count(key("w", 2)) != 0 {
			t.Errorf("after a stop: %v", b.served())
		}
		b.pass(20 * time.Second)
		if b.count(key("w", 2)) != 1 {
			t.Errorf("after the outage: %v", b.served())
		}
	})
}
