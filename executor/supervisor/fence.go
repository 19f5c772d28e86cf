package supervisor

import (
	"context"
	"time"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
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

// kill ends every process of the live run. It returns when nothing runs.
func (w *worker) kill() {
	w.guard.Lock()
	var b executor.Build
	var c executor.Checks
	if w.run != nil {
		b, c = w.run.build, w.run.checks
	}
	var again executor.Checks
	if done := w.again.done(); done != nil && !closed(done) {
		w.cut = w.again.head
		again, w.again = w.again.checks, nil // what is cut off says nothing
	}
	w.guard.Unlock()
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

// untaken is the result of a builder that was killed and whose run is given up before that
// was taken in. It is recorded for what the builder used of models: without it all that was
// reserved for the run would stay spent.
func (r *run) untaken(task int64) []kernel.Draft {
	if r == nil || r.phase != kernel.PhaseBuilding || r.build == nil || !closed(r.build.Done()) {
		return nil
	}
	return []kernel.Draft{{Kind: kernel.KindBuilderResult, Task: task, Run: r.id, Body: bounded(r.build.Outcome()).Result}}
}

// takeKilled are the results of killed builders that are to be recorded, once.
func (w *worker) takeKilled() (list []kernel.Draft) {
	w.guard.Lock()
	defer w.guard.Unlock()
	list, w.killed = w.killed, nil
	return list
}

// recordKilled records what killed builders used whose runs were given up beside an effect:
// before the request that follows, of which the records belong to another run.
func (t *Task) recordKilled(ctx context.Context) (err error) {
	t.s.locked(func() { err = t.s.recordResults(ctx, t.worker.takeKilled()) })
	return err
}

// recordResults records results of builders in a round of their own; s.mu is held.
func (s *Supervisor) recordResults(ctx context.Context, list []kernel.Draft) error {
	if len(list) == 0 {
		return nil
	}
	return s.write(ctx, s.now().WallMs, list, true)
}
