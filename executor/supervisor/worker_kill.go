package supervisor

import (
	"context"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
)

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
