package supervisor

import (
	"context"

	"github.com/writbot/writ/kernel"
)

// Act is what a person asks of a task that is being driven.
type Act struct {
	Kind   string // kernel.ActStop, kernel.ActHalt, or kernel.ActResume that takes back a halt before it
	Actor  string
	Reason string
	Key    string       // makes it the same act however often it is handed over; "" for one of its own
	Done   chan<- error // answered once, if not nil
}

func (a *Act) answer(err error) {
	if a.Done != nil {
		a.Done <- err
	}
}

// watchActs takes a person's acts while the drive may be hanging in the network.
// What runs dies at once; the rest is the drive's, when it comes to it. The
// function it returns ends the watch.
func (d *drive) watchActs(ctx context.Context) (stop func()) {
	if d.o.Acts == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case a, ok := <-d.o.Acts:
				if !ok {
					return // nobody asks any more
				}
				d.take(a)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// take notes an act before it kills, so that what then ends isn't taken for the
// builder's failure.
func (d *drive) take(a Act) {
	d.mu.Lock()
	d.task.worker.setStopping(true)
	d.queue = append(d.queue, a)
	d.mu.Unlock()
	select {
	case d.came <- struct{}{}:
	default: // it knows
	}
	d.task.worker.kill()
}

// takeLeft takes the acts that were asked for as the watch ended: who asked waits for an answer.
func (d *drive) takeLeft() {
	for {
		select {
		case a, ok := <-d.o.Acts:
			if !ok {
				return
			}
			d.take(a)
		default:
			return
		}
	}
}

// waiting reports whether an act came that isn't begun.
func (d *drive) waiting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.queue) > 0
}

// obeyAll begins what persons asked meanwhile.
func (d *drive) obeyAll(ctx context.Context) {
	d.mu.Lock()
	list := d.queue
	d.queue = nil
	d.mu.Unlock()
	for _, a := range list {
		d.obey(ctx, a)
	}
}

// obey begins what a person asked. What runs is killed again, whatever becomes
// of the words: a start may have been under way when the act came. A stop is
// asked for again until it is carried out.
func (d *drive) obey(ctx context.Context, a Act) {
	d.task.worker.kill()
	switch a.Kind {
	case kernel.ActHalt:
		a.answer(d.halt(ctx, a))
	case kernel.ActStop:
		if d.task.tracker.stopReview(a.Actor) {
			d.told = "" // its check is to say so
		}
		d.task.recordStop(ctx, a)
		d.task.wishes = append(d.task.wishes, a)
	case kernel.ActResume:
		d.answerStops(nil) // what was asked before is no longer meant
		a.answer(d.task.s.resumeBy(context.WithoutCancel(ctx), d.task.number, a))
	default:
		a.answer(nil)
		d.task.worker.setStopping(len(d.task.wishes) > 0)
	}
}

// recordStop has the stop outlive this process, until it is carried out or a person moves
// on. What can't be recorded is refused by what follows, too.
func (t *Task) recordStop(ctx context.Context, a Act) {
	t.turn.Lock()
	defer t.turn.Unlock()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	err := t.s.act(context.WithoutCancel(ctx), t.number, kernel.OperatorAct{Act: kernel.ActStop, Actor: a.Actor, Reason: a.Reason, Key: a.Key})
	if err != nil {
		t.log().Warn("a stop is not recorded", "error", err)
	}
}

// stopFirst has a look carry out the stop that isn't obeyed yet, if there is one.
func (t *Task) stopFirst(req kernel.Request, actor string) (kernel.Request, string) {
	var stop string
	t.s.locked(func() { stop = t.view().Stop })
	if stop == "" || req != kernel.RequestTick {
		return req, actor
	}
	return kernel.RequestStop, stop
}

// answerStops answers the stops that are carried out, or can't be any more.
func (d *drive) answerStops(err error) {
	list := d.task.wishes
	d.task.wishes = nil
	d.task.worker.setStopping(d.waiting())
	for _, a := range list {
		a.answer(err)
	}
}

// answerAll ends a drive: whatever was asked and isn't done won't be.
func (d *drive) answerAll(err error) {
	d.mu.Lock()
	d.task.wishes = append(d.task.wishes, d.queue...)
	d.queue = nil
	d.mu.Unlock()
	d.answerStops(err)
}
