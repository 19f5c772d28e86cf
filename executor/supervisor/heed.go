package supervisor

import (
	"context"

	"github.com/writbot/writ/kernel"
)

// heed looks at the issue of a run whose repository can't be read: whoever takes the
// approval back while git is away has what runs killed all the same. What he did is
// kept with the run, and recorded and pushed once git can be read. It reports whether
// the issue was read.
func (t *Task) heed(ctx context.Context, quiet bool) bool {
	t.turn.Lock()
	defer t.turn.Unlock()
	r := t.run
	if !t.remote || r == nil || r.phase != kernel.PhaseBuilding && r.phase != kernel.PhaseChecking || len(r.heeded.Human) > 0 {
		return true // there is nothing to be killed
	}
	now := t.s.now()
	if quiet && now.BootMs-t.looked < lookEvery {
		return false // nobody says that there is anything to see
	}
	ctx, cancel := context.WithTimeout(ctx, tellRunning)
	defer cancel()
	issue, err := t.issues.Issue(ctx, Terms{Trigger: r.intake.trigger, Prior: r.act, Brief: true})
	if err != nil {
		t.say("the issue can't be read at the moment: %v", err)
		return false
	}
	t.looked = now.BootMs
	if len(issue.Human) == 0 {
		return true
	}
	r.heeded = Issue{Act: issue.Act, Human: issue.Human}
	t.say("git can't be read, and the run is stopped: %s", issue.Human[0].Detail)
	t.kill()
	return true
}
