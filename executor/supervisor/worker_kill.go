package supervisor

import (
	"context"
	"fmt"

	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
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

// recordResults records results of builders in a round of their own; s.mu is held.
func (s *Supervisor) recordResults(ctx context.Context, list []kernel.Draft) error {
	if len(list) == 0 {
		return nil
	}
	return s.write(ctx, s.now().WallMs, list, true)
}

func (w *worker) setStopping(on bool) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.stopping = on
}

func (w *worker) isStopping() bool {
	w.guard.Lock()
	defer w.guard.Unlock()
	return w.stopping
}

func (w *worker) setRun(r *run) {
	w.guard.Lock()
	if old := w.run; old != r {
		w.killed = append(w.killed, old.untaken(w.number)...)
	}
	w.run = r
	w.guard.Unlock()
	id := ""
	if r != nil {
		id = r.id
	}
	w.tellRun(id, r != nil)
}

// keyOver is an error where this installation's own key counts no more in this world: what
// it signed would strand the task. What it has begun is ended, for nothing can come of it.
func (w *worker) keyOver(c *observation) error {
	acts, own := w.s.standing(c.intake.runners), git.Fingerprint(w.s.deps.Signer.PublicKey())
	if !acts.Over(own) {
		return nil
	}
	did := "replaced"
	if acts.Revoked(own) {
		did = "revoked"
	}
	if w.run != nil {
		w.kill()
		w.setRun(nil)
	}
	return &worldref.Error{Code: kernel.CodeKeyOver, Detail: fmt.Sprintf("This installation's key %s was %s, as %s says.", own, did, w.s.deps.Acts.Ref())}
}
