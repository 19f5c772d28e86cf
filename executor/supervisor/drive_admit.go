package supervisor

import (
	"context"
	"time"

	"github.com/writbot/writ/kernel"
)

// unadmitted is how a task stands of which something would be claimed or started now if
// there were room for it. Nothing was decided, so nothing is recorded. Of a claim whoever
// drives the task comes back when there is room; a lease is kept meanwhile.
func (t *Task) unadmitted(c *observation) (Status, bool) {
	if t.worker.admission.admit == nil || c.facts.Request != kernel.RequestTick && c.facts.Request != kernel.RequestTell {
		return Status{}, false
	}
	d := kernel.DecideOn(c.facts, "")
	starts := d.Action == kernel.ActionReview || d.Action == kernel.ActionDispatch || d.Action == kernel.ActionChecks
	if !starts && d.Action != kernel.ActionClaim {
		return Status{}, false
	}
	var scope []string // what was pushed to a change is in nobody's way
	if c.intake != nil && c.intake.TakeTurns && d.Action != kernel.ActionReview {
		scope = c.intake.Spec.AllowedFiles
	}
	if t.worker.mayRun(scope, starts) {
		return Status{}, false
	}
	st := Status{Decision: d, Facts: c.facts, Intake: c.intake, Head: c.head, crowded: starts}
	if !starts {
		st.Facts.Request = kernel.RequestLook
		st.Decision = kernel.DecideOn(st.Facts, "")
		st.queued = t.worker.queuedOf(c)
	}
	return st, true
}

// awaitAdmission waits until there is room, or the lease is to be renewed.
func (d *drive) awaitAdmission(ctx context.Context) error {
	d.task.worker.waitsSince(time.Time{})
	defer d.task.worker.wakes()
	return d.pause(ctx, max(d.task.renewIn(), guardEvery), nil)
}
