package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"
)

// outcome is what a drive came to.
type outcome struct {
	res Result
	err error
}

// drive takes a task, has it driven, and gives it back with its next time. It is
// the only goroutine of the task while it is in the table.
func (s *Scheduler) drive(ctx context.Context, j *Job) {
	defer s.contain(ctx, "the scheduler panicked in a task's drive: the others go on")
	defer s.remove(j)
	t, note, ok := s.take(ctx, j)
	if !ok {
		return
	}
	out := outcome{err: errGone}
	defer func() { s.finish(ctx, j, t, note, out) }()
	s.o.Metrics.Started(j.key)
	j.log.Debug("task taken", "failures", note.Failures, "acts", len(note.Acts))
	out.res, out.err = j.callDriver(ctx)
}

// contain is deferred where what isn't the task's own may panic: the metrics, or the
// scheduler itself. The scheduler goes on after a while, later each time.
func (s *Scheduler) contain(ctx context.Context, what string) {
	if p := recover(); p != nil {
		s.log.Error(what, "panic", p, "stack", string(debug.Stack()))
		s.storeFailed(ctx, &PanicError{p})
	}
}

// callDriver has the task driven. A panic of the Driver is the drive's error.
func (j *Job) callDriver(ctx context.Context) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			j.log.Error("the task's drive panicked: the others go on", "panic", p, "stack", string(debug.Stack()))
			err = &PanicError{p}
		}
	}()
	return j.s.driver.Drive(ctx, j)
}

// take takes the task from the schedule and hands over the acts it was asked
// before. Not ok: somebody else has it, it isn't due any more (the list was read
// before its last drive ended), its world was paused meanwhile, or the store
// doesn't answer.
func (s *Scheduler) take(ctx context.Context, j *Job) (t Ticket, note Note, ok bool) {
	err := within(ctx, func(ctx context.Context) (err error) {
		if j.granted { // it waited for a slot; its own due time may be far off
			if err = s.schedule.Mark(ctx, j.key, time.Now().UnixMilli()); err != nil {
				return err
			}
		}
		t, ok, err = s.schedule.Take(ctx, j.key)
		return err
	})
	if err != nil {
		s.storeFailed(ctx, err)
		return t, note, false
	}
	if !ok {
		s.skip(j.key)
		return t, note, false
	}
	if note, ok = s.loadNote(ctx, j, t); !ok {
		s.persist(ctx, j, func(ctx context.Context) error { return s.schedule.Done(ctx, t, t.Due) })
	}
	return t, note, ok
}

// skip leaves a task alone for a moment that can't be taken though it was listed.
func (s *Scheduler) skip(k Key) {
	s.mu.Lock()
	s.skipped[k] = time.Now().Add(skipTime)
	s.mu.Unlock()
}

// loadNote reads what is remembered of a task that was taken. Not ok: the task may
// not be driven now.
func (s *Scheduler) loadNote(ctx context.Context, j *Job, t Ticket) (note Note, ok bool) {
	if t.Due > time.Now().UnixMilli() {
		s.skip(j.key)
		return note, false
	}
	err := within(ctx, func(ctx context.Context) (err error) {
		note, err = s.notes.Load(ctx, j.key)
		return err
	})
	if err != nil {
		s.storeFailed(ctx, err)
		return note, false
	}
	s.storeAnswered()
	if p := s.readPauses(ctx); ctx.Err() != nil || j.granted && p.Has(j.key.World) {
		return note, false
	}
	j.handStored(note)
	return note, true
}

// handStored hands over the acts that a task was asked before this drive.
func (j *Job) handStored(note Note) {
	stored := make(chan struct{})
	close(stored)
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	for _, a := range note.Acts {
		j.more = !j.hand(&order{act: a, done: make(chan error, 1), stored: stored}) || j.more
	}
}

// finish gives a task back: slots first, then what is to be remembered, then
// its next time.
func (s *Scheduler) finish(ctx context.Context, j *Job, t Ticket, note Note, out outcome) {
	took := time.Since(j.since)
	s.giveBackSlot(j, out.err == nil && !out.res.Ended)
	carried, left := j.collect(ctx)
	if left && out.err == nil && !out.res.Unable {
		out.err = errUnanswered
	}
	v := s.judge(ctx, j, note, out)
	if soon := time.Now().Add(soonest).UnixMilli(); j.more && (v.next == 0 || v.next > soon) && out.err == nil {
		v.next = soon // the others are still to be handed over
	}
	if v.failures != note.Failures || len(carried) > 0 {
		s.persist(ctx, j, func(ctx context.Context) error { return s.notes.Settle(ctx, j.key, v.failures, carried) })
	}
	s.persist(ctx, j, func(ctx context.Context) error { return s.schedule.Done(ctx, t, v.next) })
	s.o.Metrics.Ended(j.key, v.outcome, took)
	j.logEnd(out, v, took)
}

// giveBackSlot gives the drive's build slot back, and the task's place in the line
// unless it still wants one.
func (s *Scheduler) giveBackSlot(j *Job, mayWait bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.over = true
	s.toDriveSlot(j)
	j.wants = j.wants && mayWait
	if j.granted && j.wants { // it wants something else than was granted: not in circles
		s.skipped[j.key] = time.Now().Add(skipTime)
	}
	if q := s.queue[j.key]; q != nil && !j.wants {
		if q.granted {
			s.revoke(q)
		}
		s.dequeue(q)
	}
	s.grantSlots()
	s.Nudge()
}

// remove takes the task out of the table of running tasks.
func (s *Scheduler) remove(j *Job) {
	s.mu.Lock()
	w := s.worldOf(j.key.World)
	if j.slot != nil { // it was never driven
		s.dropSlot(w, j.key)
		j.slot = nil
		s.grantSlots()
	} else {
		s.usedDriveSlots--
		w.usedDriveSlots--
	}
	delete(s.running, j.key)
	s.mu.Unlock()
	s.Nudge()
}

// verdict is what becomes of a task after a drive.
type verdict struct {
	outcome  string
	next     int64 // 0: nothing until it is marked
	failures int
}

// judge says when a task is driven next: 0 for one that ended.
func (s *Scheduler) judge(ctx context.Context, j *Job, note Note, out outcome) verdict {
	now := time.Now()
	in := func(d time.Duration) int64 { return now.Add(d).UnixMilli() }
	resync := s.o.Resync - spread(j.key, 0, s.o.Resync/10)
	switch {
	case out.err == nil && out.res.Ended:
		return verdict{out.res.Outcome, 0, 0}
	case out.err == nil && out.res.Unable:
		return verdict{out.res.Outcome, min(max(out.res.Next, in(soonest)), in(resync)), note.Failures}
	case out.err == nil && j.wants:
		next := in(s.o.Recheck)
		if out.res.Next > 0 { // it has something to do before
			next = min(max(out.res.Next, in(soonest)), next)
		}
		return verdict{OutcomeQueued, next, 0}
	case out.err == nil && j.outbid: // its place in the line ends with this drive
		return verdict{OutcomeQueued, in(soonest), 0}
	case out.err == nil && out.res.Next <= 0:
		return verdict{out.res.Outcome, in(resync), 0}
	case out.err == nil:
		return verdict{out.res.Outcome, min(max(out.res.Next, in(soonest)), in(resync)), 0}
	case ctx.Err() != nil: // due at once where the next process starts
		return verdict{OutcomeShutdown, now.UnixMilli(), note.Failures}
	case errors.Is(out.err, ErrHalted):
		return verdict{OutcomeHalted, in(resync), note.Failures}
	}
	n := note.Failures + 1
	if n >= s.o.PoisonAfter {
		return verdict{OutcomePoison, in(resync), n}
	}
	v := verdict{OutcomeError, in(backoff(j.key, n, s.o.BackoffFirst, s.o.BackoffMost)), n}
	if errors.As(out.err, new(*PanicError)) {
		v.outcome = OutcomePanic
	}
	return v
}

// logEnd logs how a drive ended: loud where a person should look.
func (j *Job) logEnd(out outcome, v verdict, took time.Duration) {
	log := j.log.With("run", out.res.RunID, "outcome", v.outcome, "took", took, "next", v.next)
	switch v.outcome {
	case OutcomePoison:
		log.Error("the task failed too often in a row and leaves the rotation: mend the cause, then mark it",
			"failures", v.failures, "error", out.err)
	case OutcomeError, OutcomePanic:
		log.Warn("the task's drive failed: it is tried again", "failures", v.failures, "error", out.err)
	default:
		log.Debug("the task's drive ended")
	}
}

// persist writes to the store until it answers. When the process shuts down it
// tries once more: what isn't stored then is due when the next process starts.
func (s *Scheduler) persist(ctx context.Context, j *Job, write func(context.Context) error) {
	for n := 1; ; n++ {
		shutdown := ctx.Err() != nil
		err := within(context.WithoutCancel(ctx), write)
		if err == nil {
			return
		}
		j.log.Warn("the task can't be given back to the schedule", "tries", n, "error", err)
		if shutdown {
			return
		}
		timer := time.NewTimer(backoff(j.key, n, storeFirst, storeMost))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Job is one drive of one task, as the Driver sees it.
type Job struct {
	s       *Scheduler
	key     Key
	log     *slog.Logger
	acts    chan Order
	looks   chan struct{}
	since   time.Time
	granted bool // it began with a build slot that was granted to it

	// Guarded by s.mu.
	orders []*order
	onKill func()
	slot   *slot // nil: it holds a drive slot
	lent   bool  // others may have that slot, see [Job.Idle]
	wants  bool  // asked for a build slot in vain
	outbid bool  // others have the slot that it lent
	over   bool  // Drive has returned
	more   bool  // there are more acts than it was handed
}

// Order is a person's act, handed to the Driver to be carried out.
type Order struct {
	Act
	// Done takes one answer and never blocks: nil when the act is carried out.
	// An act without that answer is handed over again by the next drive, and one
	// with it may be, after a crash: carrying it out twice must do no harm.
	Done chan<- error
}

// order is an act that was handed to a drive.
type order struct {
	act    Act
	done   chan error
	stored chan struct{} // closed when it is in the notes, or could not be stored
	fresh  bool          // asked while the drive went on
}

func newJob(s *Scheduler, k Key) *Job {
	return &Job{
		s: s, key: k, log: s.log.With("world", k.World, "task", k.Task),
		acts: make(chan Order, maxOrders), looks: make(chan struct{}, 1), since: time.Now(),
	}
}

// Key is the task.
func (j *Job) Key() Key { return j.key }

// Log is a logger whose lines bear world and task. The Driver adds the run's id.
func (j *Job) Log() *slog.Logger { return j.log }

// Acts has the acts that persons ask of the task, those first that were asked
// before the drive. It is never closed.
func (j *Job) Acts() <-chan Order { return j.acts }

// Nudges has a token when the task was marked while it is driven: something
// outside may have changed. It is driven once more at the end all the same.
func (j *Job) Nudges() <-chan struct{} { return j.looks }

// nudge leaves a token in Nudges.
func (j *Job) nudge() {
	select {
	case j.looks <- struct{}{}:
	default: // there is one
	}
}

// OnKill leaves the function that ends all that the drive has started and returns
// when nothing of it runs. It is called by other goroutines, maybe several at
// once, whenever an act says so; the act follows by [Job.Acts]. It must not wait
// for the goroutine of Drive.
func (j *Job) OnKill(kill func()) {
	j.s.mu.Lock()
	j.onKill = kill
	j.s.mu.Unlock()
}

// kill ends what the drive has started. A panic in there is contained.
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

// hand gives an act to the drive, unless it has it; s.mu is held. False: it has
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

// collect returns the acts that the drive carried out, and whether it left one
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
