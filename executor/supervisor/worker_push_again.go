package supervisor

import (
	"context"
	"errors"
	"fmt"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// errTakenBack says that a person's word is against pushing a result again.
var errTakenBack = errors.New("supervisor: a person took back what would be pushed again")

// errActFirst says that a person's act is to be carried out first.
var errActFirst = errors.New("supervisor: a person's act comes before what would be pushed again")

// mayRepeat is why a push whose answer was lost isn't made again, nil where it is. A
// result isn't, once a person has stopped or halted the task or has taken the approval
// back on the issue, which is read before accepted work is pushed again. What he did there
// is kept with the run. An edit takes back nothing that is judged, as ever.
func (w *worker) mayRepeat(ctx context.Context, req kernel.Request, p *push) error {
	switch {
	case !p.delivers():
		return nil
	case req == kernel.RequestHalt, req == kernel.RequestStop && p.result():
		return errTakenBack
	case req != kernel.RequestStop && w.isStopping():
		return errActFirst
	}
	r := w.run
	if !p.accepted || r == nil {
		return nil
	}
	issue, err := w.askAgain(ctx, Terms{Trigger: r.intake.trigger, Prior: r.act, Live: r.act})
	if err != nil {
		return err
	}
	if len(issue.Human) > 0 {
		r.heeded = Issue{Act: issue.Act, Human: issue.Human}
		return errTakenBack
	}
	if r.waitsAtHead() && w.beganAnew(r, issue) {
		return errTakenBack
	}
	return nil
}

// askAgain reads what persons did on the issue, before a result is pushed again. What is
// no issue on a forge has nothing of the kind.
func (w *worker) askAgain(ctx context.Context, terms Terms) (Issue, error) {
	if !w.remote {
		return Issue{}, nil
	}
	terms.Brief = true
	issue, err := w.issues.Issue(forge.Urgent(ctx), terms)
	if err != nil {
		return Issue{}, fmt.Errorf("the issue can't be read: %w", err)
	}
	return issue, nil
}

// delivers reports whether a push moves the task on for good.
func (p *push) delivers() bool {
	switch p.action {
	case kernel.ActionResult, kernel.ActionComplete, kernel.ActionRedeliver:
		return true
	}
	return false
}

func (w *worker) setDelivering(on bool) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.delivering = on
}

// unsettledResult reports whether the server left the push of a result without an answer,
// or took it and no look has shown it.
func unsettledResult(pending, unseen *push) bool {
	return pending != nil && pending.result() || unseen != nil && unseen.result()
}

// Unsettled reports what a stop of the task would meet though nothing of it runs: a result that
// was pushed, and of which nobody knows yet what became, for it has no answer or no look has
// shown it; or work that is judged and that the server couldn't take yet.
func (s *Supervisor) Unsettled(number int64) (onItsWay, undelivered bool) {
	s.locked(func() {
		if t := s.open[number]; t != nil {
			t.worker.guard.Lock()
			defer t.worker.guard.Unlock()
			onItsWay, undelivered = t.worker.delivering, t.worker.undelivered
		} else if p := s.parked[number]; p != nil {
			onItsWay, undelivered = unsettledResult(p.pending, p.unseen), p.run != nil
		}
	})
	return onItsWay, undelivered
}
