package scheduler

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"
)

// Job is one run of one task, as the Runner sees it.
type Job struct {
	s     *Scheduler
	key   Key
	log   *slog.Logger
	acts  chan Order
	looks chan struct{}
	since time.Time
	kept  bool // it began with a build slot kept for it

	// Guarded by s.mu.
	orders []*order
	onKill func()
	slot   *slot // nil: it holds a tick slot
	lent   bool  // others may have that slot, see [Job.Idle]
	wants  bool  // asked for a build slot in vain
	outbid bool  // others have the slot that it lent
	over   bool  // Run has returned
	more   bool  // there are more acts than it was handed
}

// Order is a person's act in the hands of the Runner.
type Order struct {
	Act
	// Done takes one answer and never blocks: nil when the act is carried out.
	// An act without that answer is handed over again by the next run, and one
	// with it may be, after a crash: carrying it out twice must do no harm.
	Done chan<- error
}

// order is an act that was handed to a run.
type order struct {
	act    Act
	done   chan error
	stored chan struct{} // closed when it is in the notes, or could not be stored
	fresh  bool          // asked while the run went on
}

func newJob(s *Scheduler, k Key) *Job {
	return &Job{
		s: s, key: k, log: s.log.With("world", k.World, "task", k.Task),
		acts: make(chan Order, maxOrders), looks: make(chan struct{}, 1), since: time.Now(),
	}
}

// Key is the task.
func (j *Job) Key() Key { return j.key }

// Log is a logger whose lines bear world and task. The Runner adds its run id.
func (j *Job) Log() *slog.Logger { return j.log }

// Acts has the acts that persons ask of the task, those first that were asked
// before the run. It is never closed.
func (j *Job) Acts() <-chan Order { return j.acts }

// Nudges has a token when the task was marked while it runs: something outside
// may have changed. Whoever takes no notice is run once more all the same.
func (j *Job) Nudges() <-chan struct{} { return j.looks }

// nudge leaves a token in Nudges.
func (j *Job) nudge() {
	select {
	case j.looks <- struct{}{}:
	default: // there is one
	}
}

// OnKill leaves the function that ends all that the run has started and returns
// when nothing of it runs. It is called by other goroutines, maybe several at
// once, whenever an act says so; the act follows by [Job.Acts]. It must not wait
// for the goroutine of Run.
func (j *Job) OnKill(kill func()) {
	j.s.mu.Lock()
	j.onKill = kill
	j.s.mu.Unlock()
}

// kill ends what the run has started. A panic in there is contained.
func (j *Job) kill() {
	j.s.mu.Lock()
	kill := j.onKill
	j.s.mu.Unlock()
	if kill == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			j.log.Error("the kill of a task panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	kill()
}

// hand gives an act to the run, unless it has it; s.mu is held. Not ok: it has
// too many already, or is over.
func (j *Job) hand(o *order) bool {
	for _, other := range j.orders {
		if other.act.ID == o.act.ID {
			return true
		}
	}
	if j.over || len(j.orders) >= maxOrders {
		return false
	}
	j.orders = append(j.orders, o)
	j.acts <- Order{Act: o.act, Done: o.done}
	return true
}

// collect returns the acts that the run carried out, and whether it left one
// that it had from the beginning.
func (j *Job) collect(ctx context.Context) (carried []string, left bool) {
	j.s.mu.Lock()
	orders := j.orders
	j.s.mu.Unlock()
	for _, o := range orders {
		var err error
		answered := false
		select {
		case err = <-o.done:
			answered = true
		default:
		}
		if !answered || err != nil {
			left = left || !o.fresh
			if err != nil {
				j.log.Warn("an act was not carried out", "act", o.act.Kind, "actor", o.act.Actor, "error", err)
			}
			continue
		}
		// What isn't stored yet can't be forgotten yet.
		_ = within(context.WithoutCancel(ctx), func(ctx context.Context) error {
			select {
			case <-o.stored:
			case <-ctx.Done():
			}
			return nil
		})
		carried = append(carried, o.act.ID)
	}
	return carried, left
}
