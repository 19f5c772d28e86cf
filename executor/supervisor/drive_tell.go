package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

const (
	// tellMost bounds the effects of one pass: a task has a handful.
	tellMost = 24
	// tellRunning bounds one effect while a run is live, as the renewal that is due then
	// does, but for tellLeast: the lease comes first.
	tellRunning = 10 * time.Second
	tellLeast   = time.Second
	// tellAgain is when to look again after the forge gave no answer, where it
	// didn't say itself.
	tellAgain = 30 * time.Second
)

// tell moves the issue as far as it can be moved now. The forge's trouble is
// never the task's: what can't be told is told later, and nothing is counted.
func (d *drive) tell(ctx context.Context, st Status) error {
	t := d.task
	if !t.remote {
		return nil
	}
	now := t.s.now().WallMs
	if at := t.tracker.provenBy(st, now); at > 0 && d.o.Yield {
		d.tellWake = at
		return nil
	}
	key := strings.Join([]string{
		t.tracker.runID(), st.Facts.Head.State, st.Facts.Head.RunID, string(st.Decision.Standing), fmt.Sprint(st.Decision.Codes), decimal(t.tracker.asked),
	}, " ")
	if key == d.told && (d.tellWake == 0 || now < d.tellWake) {
		return nil
	}
	d.told, d.tellWake = key, 0
	defer t.tells()()
	failed := 0
	for range tellMost {
		if ctx.Err() != nil || d.waiting() {
			d.told = ""
			return nil
		}
		told, err := t.tellOnce(ctx, d.o.Actor)
		switch {
		case err != nil && !Passing(err):
			return err
		case err != nil:
			d.tellLater(err)
			return nil // the forge's trouble isn't the task's: it is told later
		case told.crowded:
			d.tellWake = t.s.now().WallMs + tellAgain.Milliseconds()
			return nil // whoever drives comes back when there is room
		case told.Decision.Action == kernel.ActionComplete:
			d.told = ""
			if d.moved = told.Outcome != nil && told.Outcome.Status == kernel.OutcomeDone; d.moved {
				return nil // HEAD is another: how the task stands now is asked anew
			}
			d.tellLater(nil)
			return nil
		case told.Decision.Action == kernel.ActionNone && t.tracker.kept != nil && t.tracker.kept.since && st.Decision.Standing == kernel.StandFinal:
			t.tracker.kept = nil // an ended task is left as it really is, which a last look shows
		case told.Decision.Action == kernel.ActionNone:
			if failed > 0 || told.noBase {
				d.tellLater(nil) // a lost answer may still be carried out, a branch be made again
			} else {
				d.tellWake = max(told.Decision.Wake, mergeWake(told.Facts))
			}
			return nil
		case told.Outcome != nil && told.Outcome.Status != kernel.OutcomeDone && told.Outcome.Status != kernel.OutcomeRefused:
			if failed++; failed > 1 || forge.IsReason(told.forgeErr, forge.Limited) {
				d.tellLater(told.forgeErr) // at once where it was said when to come back
				return nil
			}
		}
	}
	d.tellLater(nil)
	return nil
}

// speaksAt reports whether there may be something to say once a task stands so:
// not while it goes on at once, nor while somebody else holds it who answers for that.
func speaksAt(st Status) bool {
	switch st.Decision.Standing {
	case kernel.StandActing, kernel.StandAbandoned:
		return false
	case kernel.StandHeld:
		return st.Facts.StrangersLease()
	}
	return st.Facts.Request == kernel.RequestTick || st.Facts.Request == kernel.RequestStop
}

// tellOnce is one effect, or the finding that none is due.
func (t *Task) tellOnce(ctx context.Context, actor string) (Status, error) {
	if t.worker.run != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, min(tellRunning, max(t.renewIn(), tellLeast)))
		defer cancel()
	}
	return t.Tick(ctx, kernel.RequestTell, actor)
}

// tellLater notes when to look at the issue again.
func (d *drive) tellLater(err error) {
	wait := tellAgain
	var fe *forge.Error
	if errors.As(err, &fe) && fe.RetryAfter > wait {
		wait = fe.RetryAfter
	}
	d.tellWake = d.task.s.now().WallMs + wait.Milliseconds()
	if err != nil {
		d.task.say("the issue can't be moved at the moment: %s", words(err))
	}
}

// tells notes that the issue is moved, until it is called back.
func (t *Task) tells() (told func()) {
	set := func(on bool) {
		t.worker.guard.Lock()
		t.worker.telling = on
		t.worker.guard.Unlock()
	}
	set(true)
	return func() {
		set(false)
		t.tracker.kept = nil
	}
}

// tellOf says on the issue how the task stands, with so many effects at most. What can't
// be told isn't. It reports whether all is told.
func (d *drive) tellOf(ctx context.Context, actor string, most int) bool {
	t := d.task
	if !t.remote {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, tellRunning)
	defer cancel()
	defer t.tells()()
	for range most {
		told, err := t.Tick(ctx, kernel.RequestTell, actor)
		if err != nil || told.Outcome == nil || told.Outcome.Status != kernel.OutcomeDone {
			return err == nil && told.Decision.Action == kernel.ActionNone
		}
	}
	return false
}
