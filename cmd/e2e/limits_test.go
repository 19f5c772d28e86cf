package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel/lease"
)

// TestF4_TwoHundredTasks: two hundred issues of one repository are approved at one
// moment, and worked on at once. Nothing of what the forge publishes is exceeded,
// no lease runs out while its task waits for its turn, and each task is done once.
func TestF4_TwoHundredTasks(t *testing.T) {
	for name, crowded := range crowds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := min(crowded.most, manyTasks)
			inside := crowded.make(t, n)
			synctest.Test(t, func(t *testing.T) {
				b := &bubble{t: t, build: 3 * time.Minute}
				c := inside(t, b)
				b.open(n)
				took := b.finish(c)
				if len(c.front.refusals) > 0 {
					t.Errorf("the forge refused %d requests: %q", len(c.front.refusals), c.front.refusals[:min(5, len(c.front.refusals))])
				}
				b.wantOnce(c)
				t.Logf("%d tasks at once cost %d requests, %d each, and took %s of the forge's time; at most %d requests were under way",
					len(c.numbers), len(c.front.requests), len(c.front.requests)/len(c.numbers), took, c.front.most)
			})
		})
	}
}

// TestF4_RefusedInTheMiddle: a forge that refuses again and again, with a time and
// without one, and whose allowance runs out, is left alone for as long as it wants;
// its sweep stops first, git goes on, and each task is done once.
func TestF4_RefusedInTheMiddle(t *testing.T) {
	const few = 3
	for name, crowded := range crowds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inside := crowded.make(t, few)
			synctest.Test(t, func(t *testing.T) {
				b := &bubble{t: t, build: 30 * time.Minute}
				c := inside(t, b)
				c.front.every, c.front.wait, c.front.lot = 37, time.Minute, rand.New(rand.NewPCG(37, 1))
				c.front.quota.most, c.front.quota.in = 80, 15*time.Minute
				b.open(few)
				took := b.finish(c)
				b.wantOnce(c)
				if len(c.front.impatient) > 0 || c.front.swept > 0 {
					t.Errorf("in the pauses there were %d requests, %q, and %d sweeps in the last of the allowance", len(c.front.impatient), c.front.impatient, c.front.swept)
				}
				if len(c.front.refusals) < 3 {
					t.Errorf("only %d requests were refused", len(c.front.refusals))
				}
				t.Logf("%d of %d requests were refused, it took %s", len(c.front.refusals), len(c.front.requests), took)
			})
		})
	}
}

// finish has all tasks of a crowd done, and returns how long it took.
func (b *bubble) finish(c *crowd) time.Duration {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	began, ended := time.Now(), make(chan struct{})
	for _, n := range c.numbers {
		b.must(b.schedule.Mark(ctx, scheduler.Key{World: bubbleWorld, Task: n}, began.UnixMilli()))
	}
	go b.sweep(ctx, 5*time.Minute)
	go func() { b.sched.Run(ctx); close(ended) }()
	for {
		<-time.After(time.Minute)
		open := b.notDone(c)
		if open == 0 {
			break
		}
		if time.Since(began) > 24*time.Hour {
			b.t.Errorf("%d tasks are not done after %s", open, time.Since(began))
			break
		}
	}
	took := time.Since(began)
	stop()
	<-ended
	return took
}

// notDone counts the issues that don't show a completed task.
func (b *bubble) notDone(c *crowd) (open int) {
	b.t.Helper()
	closed := map[int64]bool{}
	b.must(c.client.ListIssues(b.t.Context(), c.repo, time.Time{}, func(i forge.Issue) error {
		closed[i.Number] = i.State == forge.Closed && slices.Contains(i.Labels, "writ:completed") && !slices.Contains(i.Labels, "writ:claimed")
		return nil
	}))
	for _, n := range c.numbers {
		if !closed[n] {
			open++
		}
	}
	return open
}

// wantOnce fails unless each task has one builder, one result, one report and one
// closing, and no lease with a builder was ever lost.
func (b *bubble) wantOnce(c *crowd) {
	b.t.Helper()
	var longest time.Duration
	for _, n := range c.numbers {
		beat := b.repo.beats[fmt.Sprint(supervisor.DefaultRefPrefix, n)]
		if beat == nil {
			b.t.Fatalf("#%d was never claimed", n)
		}
		longest = max(longest, beat.longest)
		if b.t.Failed() && n > 3 {
			continue // the first few tell enough
		}
		if b.builds[n] != 1 || strings.Count(strings.Join(beat.states, " "), "completed") != 1 {
			b.t.Errorf("#%d had %d builders, and went through %v", n, b.builds[n], beat.states)
		}
	}
	if longest >= lease.DefaultLeaseSeconds*time.Second {
		b.t.Errorf("a lease was not renewed for %s", longest)
	}
	b.t.Logf("%d pushes; no lease waited longer than %s for its renewal", b.repo.pushes, longest)
}
