package supervisor

import "github.com/writbot/writ/kernel"

// Admit says whether there is room for a builder now. scope are the task's
// allowed files where its contract wants overlapping tasks to take turns, nil
// elsewhere. Once it has said yes it isn't asked again in the same drive.
type Admit func(scope []string) bool

// unadmitted is how a task stands that would be claimed now if there were room
// for its builder. Nothing was decided, so nothing is recorded; whoever drives
// the task comes back when there is room.
func (t *Task) unadmitted(c *cycle) (Status, bool, error) {
	if t.admit == nil || t.admitted || t.run != nil || c.facts.Request != kernel.RequestTick {
		return Status{}, false, nil
	}
	d, err := kernel.Decide(c.facts)
	if err != nil || d.Action != kernel.ActionClaim {
		return Status{}, false, err
	}
	var scope []string
	if c.intake != nil && c.intake.TakeTurns {
		scope = c.intake.Spec.AllowedFiles
	}
	if t.admitted = t.admit(scope); t.admitted {
		return Status{}, false, nil
	}
	look := c.facts
	look.Request = kernel.RequestLook
	if d, err = kernel.Decide(look); err != nil {
		return Status{}, false, err
	}
	return Status{Decision: d, Facts: look, Intake: c.intake, Head: c.head}, true, nil
}
