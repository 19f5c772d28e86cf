package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/writbot/writ/kernel"
)

// mayTry waits until this task may ask something of the server. Where nothing of
// ours runs and the driver wants its place back, yield says so; d.resting is then
// when to come back. A build or check that ends is taken in meanwhile, a person's
// act is obeyed, and the fence holds.
func (d *drive) mayTry(ctx context.Context) (now, yield bool) {
	t := d.task
	d.resting, t.worker.resting = 0, false
	clock := t.s.now()
	until, ok := t.s.outage.take(t.number, clock)
	switch {
	case ok:
		return true, false
	case d.running() && t.jobDone() != nil && t.jobDone() != d.takenIn && closed(t.jobDone()):
		d.takenIn, t.worker.resting = t.jobDone(), true // what it came to is taken in, and no lease is renewed
		return true, false
	case !d.running() && d.o.Yield:
		d.resting = clock.WallMs + max(until-clock.BootMs, 1)
		return false, true
	}
	done := t.jobDone()
	if done == d.takenIn {
		done = nil
	}
	_ = d.pause(ctx, time.Duration(until-clock.BootMs)*time.Millisecond, done)
	t.worker.giveUpIfFenced()
	return false, false
}

// tried gives leave back where a look came to its end without asking for anything
// that the server couldn't do, or ended for another reason than the server.
func (d *drive) tried(st Status, err error) {
	if err != nil && (!unreadable(err) || errors.Is(err, errActFirst)) {
		d.task.s.outage.back(d.task.number, false)
	}
	if err != nil || unabled(st) {
		return
	}
	if d.task.worker.wakes(); d.task.worker.resting {
		return
	}
	d.task.s.outage.back(d.task.number, st.Decision.Action == kernel.ActionNone)
}

// running reports whether something of the task runs here, or is to be started: it
// isn't left alone by whoever drives.
func (d *drive) running() bool { return d.task.worker.run != nil && !d.task.worker.judged() }

// unabled reports whether a request's effect met a server that can't.
func unabled(st Status) bool {
	return st.Outcome != nil && !st.Outcome.Effect.OnForge() &&
		(st.Outcome.Status == kernel.OutcomeUnable || st.Outcome.Status == kernel.OutcomeUnknown)
}

// tellOutage says on the issue that the server can't, once, where the forge can be asked
// all the same. Whatever is told next replaces it.
func (d *drive) tellOutage(ctx context.Context) {
	t := d.task
	if _, _, fresh := t.s.outage.lasts(t.number, t.s.now()); !fresh || !t.remote {
		return
	}
	if d.tellOf(ctx, d.o.Actor, tellMost) { // otherwise with a later try
		t.s.outage.tell(t.number)
		d.told = "" // what is told next replaces it
	}
}

// tellNoBase says on the issue that there is no base branch, where that lasts. Of what else
// can't be read the issue can't be told.
func (d *drive) tellNoBase(ctx context.Context, err error) {
	if _, lacks := errors.AsType[*noBaseError](err); lacks {
		d.tellOutage(ctx)
	}
}

// errResting answers what a person asked of a task whose server can't take it. It is
// asked again.
var errResting = errors.New("supervisor: the server can't take it now; it is tried again")

// notDone is what a drive that ends so answers to what wasn't carried out.
func (d *drive) notDone(err error) error {
	if err == nil && d.resting > 0 {
		return errResting
	}
	return err
}
