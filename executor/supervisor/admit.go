package supervisor

import "github.com/writbot/writ/kernel"

// Admit says whether there is room now for a builder, or for the checks of what was
// pushed to a change. scope are the task's allowed files where its contract wants
// overlapping tasks to take turns, nil elsewhere. Once it has said yes it isn't
// asked again in the same drive.
type Admit func(scope []string) bool

// unadmitted is how a task stands that would be claimed now if there were room
// for its builder. Nothing was decided, so nothing is recorded; whoever drives
// the task comes back when there is room.
func (t *Task) unadmitted(c *cycle) (Status, bool, error) {
	if t.admit == nil || t.admitted || t.run != nil || c.facts.Request != kernel.RequestTick && c.facts.Request != kernel.RequestTell {
		return Status{}, false, nil
	}
	d, err := kernel.Decide(c.facts)
	if err != nil || d.Action != kernel.ActionClaim && d.Action != kernel.ActionReview {
		return Status{}, false, err
	}
	if d.Action == kernel.ActionReview {
		t.admitted = t.admit(nil) // it changes no files that others wait for
		return Status{Decision: d, Facts: c.facts, Intake: c.intake, Head: c.head, crowded: true}, !t.admitted, nil
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
