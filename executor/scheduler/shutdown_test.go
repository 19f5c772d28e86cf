package scheduler_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/executor/scheduler/schedulertest"
)

// Ten deploys in the middle of one build: each task parts, is due at once for
// the next process, and no failure is counted.
func TestK10_TenDeploysInTheMiddleOfABuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := schedulertest.NewMemory()
		k := key("w", 1)
		for n := range 10 {
			b := newBench(t, mem, scheduler.Options{})
			parted := false
			b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
				release, _ := j.Build(nil)
				defer release()
				<-ctx.Done()
				<-time.After(3 * time.Second) // gives its lease back
				parted = true
				return scheduler.Result{}, ctx.Err()
			})
			if n == 0 {
				b.mark(k)
			}
			b.start()
			b.pass(time.Minute)
			if b.count(k) != 1 {
				t.Fatalf("deploy %d: it was not taken up at once", n)
			}
			if left := b.stop(); len(left) != 0 || !parted {
				t.Fatalf("left %v, parted %v", left, parted)
			}
			if due, taken := mem.At(k); taken || due != time.Now().UnixMilli() {
				t.Errorf("due at %d, taken %v", due, taken)
			}
			if got := b.outcome(k); got != scheduler.OutcomeShutdown || b.note(k).Failures != 0 {
				t.Errorf("%q, %d failures", got, b.note(k).Failures)
			}
		}
	})
}

// When it shuts down nothing more is taken.
func TestK10_NothingIsTakenWhenItShutsDown(t *testing.T) {
	inBubble(t, scheduler.Options{DriveSlots: 1}, func(b *bench) {
		b.do(func(ctx context.Context, _ *scheduler.Job) (scheduler.Result, error) {
			<-ctx.Done()
			<-time.After(5 * time.Second)
			return scheduler.Result{}, ctx.Err()
		})
		for n := range int64(10) {
			b.mark(key("w", n+1))
		}
		b.start()
		b.pass(time.Second)
		if left := b.stop(); len(left) != 0 || len(b.served()) != 1 {
			t.Errorf("left %v, %d were started", left, len(b.served()))
		}
		for n := range int64(10) {
			if due, taken := b.mem.At(key("w", n+1)); due == 0 || taken {
				t.Errorf("task %d: due %d, taken %v", n+1, due, taken)
			}
		}
	})
}

// A task that is being taken while it shuts down is given back as it was.
func TestK10_ATaskInTheMiddleOfBeingTaken(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		b.mem.SetFault(func(op string, _ scheduler.Key) error {
			if op == "Load" {
				<-time.After(3 * time.Second)
			}
			return nil
		})
		k := key("w", 1)
		b.mark(k)
		due, _ := b.mem.At(k)
		b.pass(time.Second)
		b.start()
		b.pass(time.Second)
		b.stop()
		if at, taken := b.mem.At(k); taken || at != due || b.count(k) != 0 {
			t.Errorf("due %d, was %d; taken %v; %d runs", at, due, taken, b.count(k))
		}
	})
}

// What does not part in time is killed, and listed if that doesn't help.
func TestK10_WhatHangsIsKilledAndListed(t *testing.T) {
	inBubble(t, scheduler.Options{ShutdownTime: 20 * time.Second}, func(b *bench) {
		killed := [4]chan struct{}{1: make(chan struct{}), 2: make(chan struct{}), 3: make(chan struct{})}
		free := make(chan struct{})
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			n := j.Key().Task
			j.OnKill(func() { close(killed[n]) })
			switch n {
			case 1:
				<-ctx.Done()
			case 2:
				<-killed[2]
			case 3:
				<-free
			}
			return scheduler.Result{}, ctx.Err()
		})
		b.mark(key("w", 1), key("w", 2), key("v", 3))
		b.start()
		b.pass(time.Second)
		before := time.Now()
		left := b.stop()
		if !slices.Equal(left, []scheduler.Key{key("v", 3)}) {
			t.Errorf("left: %v", left)
		}
		if d := time.Since(before); d < 20*time.Second || d > 23*time.Second {
			t.Errorf("it took %s", d)
		}
		select {
		case <-killed[1]:
			t.Error("a task that parted was killed")
		case <-killed[3]:
		default:
			t.Error("the task that was left was not killed")
		}
		close(free)
	})
}

// Until the time is over nothing is killed, and it doesn't wait longer than it
// has to.
func TestK10_ItEndsWithTheLastTask(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			<-ctx.Done()
			<-time.After(time.Duration(j.Key().Task) * time.Second)
			return scheduler.Result{}, ctx.Err()
		})
		b.mark(key("w", 1), key("w", 7), key("v", 3))
		b.start()
		b.pass(time.Second)
		before := time.Now()
		if left := b.stop(); len(left) != 0 || time.Since(before) != 7*time.Second {
			t.Errorf("left %v after %s", left, time.Since(before))
		}
	})
}

// The line for a build slot is in memory only. Who stood in it when the process
// ended is looked at as soon as the next one starts, in the same order.
func TestK10_TheLineForASlotOutlivesTheProcess(t *testing.T) {
	inBubble(t, scheduler.Options{BuildSlots: 1, WorldBuildSlots: 1}, func(b *bench) {
		b.do(builds(time.Minute))
		for n := range int64(4) {
			b.mark(key("w", n+1))
			b.pass(time.Millisecond)
		}
		b.start()
		b.pass(time.Second)
		b.stop()
		b.mem.Restart()
		next := newBench(t, b.mem, scheduler.Options{BuildSlots: 1, WorldBuildSlots: 1})
		next.do(builds(time.Second))
		next.start()
		next.pass(5 * time.Second)
		for n := range int64(4) {
			if next.outcome(key("w", n+1)) != "final" {
				t.Errorf("task %d still waits: %v", n+1, next.began(key("w", n+1)))
			}
		}
		next.stop()
	})
}
