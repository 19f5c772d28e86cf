package supervisor

import (
	"context"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// lookPatience is how long git may leave a look unanswered before somebody who tells that
// there is something to see ends that look. It is five times as long after one that was
// ended so: whoever comments all the time doesn't keep a lease from being renewed.
const lookPatience = 2 * time.Second

// impatient returns the context of a look while something runs. A look that git leaves
// unanswered ends once somebody tells that there is something to see on the issue: he
// may want ended what runs, see [Task.heed]. looked ends the watching, and says so in the
// look's error.
func (t *Task) impatient(ctx context.Context) (_ context.Context, looked func(error) error) {
	if t.nudges == nil || t.worker.run == nil || t.worker.run.phase != kernel.PhaseBuilding && t.worker.run.phase != kernel.PhaseChecking {
		return ctx, func(err error) error { return err }
	}
	heard := !t.tracker.quiet // it looks since somebody told
	always := make(chan struct{}, 1)
	always <- struct{}{}
	ctx, cancel := context.WithCancel(ctx)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		every := time.NewTicker(t.s.patience / 4)
		defer every.Stop()
		for {
			var nudges <-chan struct{}
			if t.worker.askingNow().unanswered() > t.s.patience && time.Since(t.hurried) > 5*t.s.patience {
				if nudges = t.nudges; heard {
					nudges = always
				}
			}
			select {
			case <-done:
				return
			case <-every.C:
			case _, t.nudged = <-nudges:
				if t.nudged { // and not that nobody nudges any more
					t.hurried = time.Now()
					cancel()
				}
				return
			}
		}
	}()
	return ctx, func(err error) error {
		close(done)
		<-ended
		cancel()
		if err != nil && t.nudged {
			err = &git.Error{Code: git.CodeUnreachable, Msg: "the server leaves a look unanswered, which was ended since a person has something to say"}
		}
		return err
	}
}

// heed looks at the issue of a run whose repository can't be read: whoever takes the
// approval back while git is away has what runs killed all the same. What he did is
// kept with the run, and recorded and pushed once git can be read. It reports whether
// the issue was read.
func (t *Task) heed(ctx context.Context, quiet bool) bool {
	t.turn.Lock()
	defer t.turn.Unlock()
	r := t.worker.run
	if !t.remote || r == nil || r.phase != kernel.PhaseBuilding && r.phase != kernel.PhaseChecking || len(r.heeded.Human) > 0 {
		return true // there is nothing to be killed
	}
	now := t.s.now()
	if quiet && now.BootMs-t.tracker.looked < lookEvery {
		return false // nobody says that there is anything to see
	}
	ctx, cancel := context.WithTimeout(ctx, tellRunning)
	defer cancel()
	issue, err := t.issues.Issue(ctx, Terms{Trigger: r.intake.trigger, Prior: r.act, Live: r.act, Brief: true})
	if err != nil {
		t.say("the issue can't be read at the moment: %v", err)
		return false
	}
	t.tracker.looked = now.BootMs
	if len(issue.Human) == 0 {
		return true
	}
	r.heeded = Issue{Act: issue.Act, Human: issue.Human}
	t.say("git can't be read, and the run is stopped: %s", issue.Human[0].Detail)
	t.worker.kill()
	return true
}
