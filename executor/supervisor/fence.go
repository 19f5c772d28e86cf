package supervisor

import (
	"context"
	"time"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel/lease"
)

// Guard kills what runs if the lease can't be renewed in time any more. It is
// called often, on its own, because a tick may hang in the network. It reports
// whether it had to.
func (t *Task) Guard(now lease.Clock) bool {
	t.guard.Lock()
	r := t.run
	due := r != nil && (r.build != nil || r.checks != nil) && r.tenure.MustFence(now)
	if due && (t.telling || t.asking.unanswered() > t.s.patience) { // nobody renews meanwhile
		r.late = true
	}
	t.guard.Unlock()
	if due {
		t.kill()
	}
	return due
}

// wasLate reports whether a run's lease ended while an answer was waited for.
func (t *Task) wasLate(r *run) bool {
	t.guard.Lock()
	defer t.guard.Unlock()
	return r.late
}

// kill ends every process of the live run. It returns when nothing runs.
func (t *Task) kill() {
	t.guard.Lock()
	var b executor.Build
	var c executor.Checks
	if t.run != nil {
		b, c = t.run.build, t.run.checks
	}
	var again executor.Checks
	if done := t.again.done(); done != nil && !closed(done) {
		t.cut = t.again.head
		again, t.again = t.again.checks, nil // what is cut off says nothing
	}
	t.guard.Unlock()
	if b != nil {
		b.Kill()
	}
	if c != nil {
		c.Kill()
	}
	if again != nil {
		again.Kill()
	}
}

// startGuard looks at the fence on its own, for a tick may hang in the network.
func (t *Task) startGuard() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(guardEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				t.Guard(t.s.now())
				t.lend()
				t.noteSilence()
			}
		}
	}()
	return func() { cancel(); <-done }
}

// giveUpIfFenced forgets a run whose lease can't be kept because nothing can be
// read: its processes are dead, and HEAD decides what becomes of the task. What a builder
// left meanwhile is kept.
func (t *Task) giveUpIfFenced() {
	t.keepEnded()
	if t.run != nil && !t.judged() && t.run.tenure.MustFence(t.s.now()) {
		t.kill()
		t.lapsed = t.run.head
		t.gaveUp(t.run)
		t.say("the lease could not be renewed; the run is given up")
	}
}
