package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/executor/scheduler"
)

// hangs is a behaviour that waits for its server, with a build slot where it asks for
// one, and lends its slot meanwhile.
func hangs(d time.Duration, build bool) behaviour {
	return func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
		if build {
			if _, ok := j.Build(nil); !ok {
				return scheduler.Result{Outcome: "due"}, nil
			}
		}
		j.Idle()
		return takes(d)(ctx, j)
	}
}

// Worlds whose servers hang hold up nobody but themselves, however many they are, and
// have no more of their tasks wait at once than their bounds allow; when the servers
// answer, every slot is there again.
func TestG7_HangingWorldsHoldUpThemselves(t *testing.T) {
	for _, build := range []bool{false, true} {
		t.Run(fmt.Sprintf("builds %v", build), func(t *testing.T) {
			c := newBuilder()
			inBubble(t, scheduler.Options{DriveSlots: 3, WorldDriveSlots: 2, BuildSlots: 2, WorldBuildSlots: 2}, func(b *bench) {
				b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
					if strings.HasPrefix(j.Key().World, "well") {
						return c.build(time.Minute, nobody)(ctx, j)
					}
					return hangs(time.Hour, build)(ctx, j)
				})
				b.start()
				for n := range int64(5) {
					for w := range 5 {
						b.mark(key(fmt.Sprint("hangs", w), n+1))
					}
				}
				b.pass(time.Minute)
				if n := len(b.s.Running()); n != 10 {
					t.Errorf("%d wait for their servers, want two of each", n)
				}
				for n := range int64(6) {
					b.mark(key(fmt.Sprint("well", n%2), n+1))
				}
				b.pass(3*time.Minute + 10*time.Second)
				if len(c.ended) != 6 {
					t.Errorf("in three turns of two these were built: %v", c.built())
				}
				b.pass(3 * time.Hour)
				for n := range int64(6) {
					b.mark(key(fmt.Sprint("well", n%2), n+11))
				}
				b.pass(3*time.Minute + 10*time.Second)
				if len(c.ended) != 12 || c.most != 2 {
					t.Errorf("after their recovery these were built, %d at once: %v", c.most, c.built())
				}
			})
		})
	}
}

// Who has lent his slot reclaims it in turn: no more build than may, he hears of it,
// keeps his paths meanwhile, and no pause holds up what runs.
func TestG7_ALentSlotIsReclaimedInTurn(t *testing.T) {
	c := newBuilder()
	inBubble(t, scheduler.Options{BuildSlots: 1}, func(b *bench) {
		heard := make(chan struct{})
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if j.Key() != key("w", 1) {
				return c.build(10*time.Minute, func(k scheduler.Key) []string {
					if k.World == "w" {
						return []string{"src/a.go"}
					}
					return nil
				})(ctx, j)
			}
			if _, ok := j.Build([]string{"src/**"}); !ok {
				t.Error("there is no slot at all")
			}
			j.Idle()
			if err := wait(ctx, time.Minute); err != nil {
				return scheduler.Result{}, err
			}
			if _, ok := j.Build([]string{"src/**"}); ok {
				t.Error("the slot is his again while another builds")
			}
			b.pause("w")
			select {
			case <-j.Nudges():
				close(heard)
			case <-ctx.Done():
				return scheduler.Result{}, ctx.Err()
			}
			b.unpause("w")
			return c.build(10*time.Minute, func(scheduler.Key) []string { return []string{"src/**"} })(ctx, j)
		})
		b.start()
		b.mark(key("w", 1))
		b.pass(time.Second)
		b.mark(key("v", 1))
		b.pass(time.Second)
		b.mark(key("w", 2), key("v", 2))
		b.pass(9 * time.Minute)
		select {
		case <-heard:
			t.Error("he hears of it before his turn")
		default:
		}
		b.pass(time.Hour)
		<-heard
		order := c.built()
		if first := slices.Index(order, key("w", 1)); len(order) != 4 || c.most != 1 || slices.Index(order, key("w", 2)) < first {
			t.Errorf("%d at once, in this order: %v", c.most, order)
		}
	})
}

// What is kept for a run that waits for its server again goes to the others, and so does
// what a run that ends has asked for in vain.
func TestG7_WhatIsKeptForWhoHangsIsGivenOn(t *testing.T) {
	for _, again := range []bool{true, false} {
		t.Run(fmt.Sprintf("hangs again %v", again), func(t *testing.T) {
			c := newBuilder()
			inBubble(t, scheduler.Options{BuildSlots: 1}, func(b *bench) {
				b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
					if j.Key().World != "hangs" {
						return c.build(10*time.Minute, nobody)(ctx, j)
					}
					if _, ok := j.Build(nil); !ok {
						return scheduler.Result{}, nil
					}
					j.Idle()
					if err := wait(ctx, time.Minute); err != nil {
						return scheduler.Result{}, err
					}
					j.Build(nil)
					if !again {
						return ends(ctx, j)
					}
					<-j.Nudges() // the slot is kept for it now
					j.Idle()
					return takes(24*time.Hour)(ctx, j)
				})
				b.start()
				b.mark(key("hangs", 1))
				b.pass(time.Second)
				for n := range int64(3) {
					b.mark(key("v", n+1))
				}
				b.pass(31 * time.Minute)
				if len(c.ended) != 3 || c.most != 1 {
					t.Errorf("%d at once, these: %v", c.most, c.built())
				}
			})
		})
	}
}

// A slot that is granted to a task that is being looked at, whose look hangs, goes to who
// can use it.
func TestG7_NoSlotForALookThatHangs(t *testing.T) {
	c := newBuilder()
	inBubble(t, scheduler.Options{BuildSlots: 1}, func(b *bench) {
		build := c.build(10*time.Minute, nobody)
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if j.Key().World == "hangs" && b.count(j.Key()) == 2 {
				j.Idle()
				return takes(24*time.Hour)(ctx, j)
			}
			return build(ctx, j)
		})
		b.start()
		b.mark(key("v", 1))
		b.pass(time.Second)
		b.mark(key("hangs", 1))
		b.pass(time.Second)
		b.mark(key("hangs", 1), key("v", 2)) // the look hangs while it stands in line
		b.pass(time.Second)
		for _, w := range b.s.Queue() {
			if w.Key.World == "hangs" && w.Why != scheduler.WaitServer {
				t.Errorf("the list says %q of it", w.Why)
			}
		}
		if why := b.s.Why(key("hangs", 1)); why != scheduler.WaitSlots {
			t.Errorf("the look itself is told %q", why)
		}
		b.pass(21 * time.Minute)
		if !c.ended[key("v", 2)] {
			t.Errorf("these were built: %v", c.built())
		}
	})
}

// TestG7_WhoLentItsSlotComesBack: a run that ends while others have the slot that it lent
// stands in no line any more. It is run again soon.
func TestG7_WhoLentItsSlotComesBack(t *testing.T) {
	inBubble(t, scheduler.Options{BuildSlots: 1}, func(b *bench) {
		lender, refused := key("w", 1), 0
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if j.Key() != lender {
				return builds(10*time.Minute)(ctx, j)
			}
			if _, ok := j.Build(nil); !ok {
				return scheduler.Result{Outcome: "due"}, nil
			}
			if b.count(lender) > 1 {
				return ends(ctx, j)
			}
			j.Idle()
			if err := wait(ctx, time.Minute); err != nil {
				return scheduler.Result{}, err
			}
			if _, ok := j.Build(nil); ok {
				t.Error("nobody has its slot")
			}
			refused++
			return scheduler.Result{Outcome: "due"}, nil
		})
		b.start()
		b.mark(lender)
		b.pass(time.Second)
		b.mark(key("v", 2))
		b.pass(20 * time.Minute)
		if refused != 1 || b.count(lender) < 3 {
			t.Errorf("refused %d times, run %d times", refused, b.count(lender))
		}
	})
}
