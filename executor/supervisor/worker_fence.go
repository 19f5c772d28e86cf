package supervisor

import (
	"context"
	"time"

	"github.com/writbot/writ/kernel/lease"
)

// Guard kills what runs if the lease can't be renewed in time any more. It is
// called often, on its own, because a tick may hang in the network. It reports
// whether it had to.
func (w *worker) Guard(now lease.Clock) bool {
	w.guard.Lock()
	r := w.run
	due := r != nil && (r.build != nil || r.checks != nil) && r.tenure.MustFence(now)
	if due && (w.telling || w.asking.unanswered() > w.s.patience) { // nobody renews meanwhile
		r.late = true
	}
	w.guard.Unlock()
	if due {
		w.kill()
	}
	return due
}

// wasLate reports whether a run's lease ended while an answer was waited for.
func (w *worker) wasLate(r *run) bool {
	w.guard.Lock()
	defer w.guard.Unlock()
	return r.late
}

// startGuard looks at the fence on its own, for a tick may hang in the network.
func (w *worker) startGuard() (stop func()) {
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
				w.Guard(w.s.now())
				w.lend()
				w.noteSilence()
			}
		}
	}()
	return func() { cancel(); <-done }
}

// giveUpIfFenced forgets a run whose lease can't be kept because nothing can be
// read: its processes are dead, and HEAD decides what becomes of the task. What a builder
// left meanwhile is kept.
func (w *worker) giveUpIfFenced() {
	w.keepEnded()
	if w.run != nil && !w.judged() && w.run.tenure.MustFence(w.s.now()) {
		w.kill()
		w.lapsed = w.run.head
		w.gaveUp(w.run)
		w.say("the lease could not be renewed; the run is given up")
	}
}
