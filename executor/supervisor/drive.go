package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

const (
	// guardEvery is how often the renew deadline is looked at while something runs: a
	// suspended machine kills its stale builder this soon after waking.
	guardEvery = 250 * time.Millisecond
	// outageFirst and outageMost bound the wait after something outside could
	// not be read; the wait doubles in between.
	outageFirst = 500 * time.Millisecond
	outageMost  = 15 * time.Second
	// outageTries is how often a task without a run asks before it gives up.
	outageTries = 4
	// partingTime bounds the last push of a process that shuts down.
	partingTime = 20 * time.Second
)

// DriveOptions say how long to go on.
type DriveOptions struct {
	Actor string
	Once  bool // return after one attempt, whatever it came to
	// Yield returns where nothing of ours runs and there is only to wait, for a
	// server that gives its place to another task: Status.Wake says when to come
	// back. So does what can't be read while there is no run: it is returned at
	// once, and who calls decides about another try.
	Yield bool
	// Acts are a person's acts; nil for none. What runs is killed as soon as one
	// comes, even while a request hangs in the network; the act is recorded when
	// its turn comes, and then answered.
	Acts <-chan Act
	// Nudges ask to look at the task again now; nil for none.
	Nudges <-chan struct{}
	// Admit is asked before anything is claimed, and again before a builder or checks
	// are started; nil admits. Where there is no room for a claim Drive returns, with
	// StandDue and nothing recorded; later it waits, and its lease is renewed. It needs
	// Yield.
	Admit Admit
	// Why says in a sentence what keeps a task for which Admit had no room, "" where nothing
	// does any more. Nil where nobody knows.
	Why func() string
	// Idle is told that nothing of the task runs while it waits for somebody outside,
	// and from then on until it has ended: Admit is asked again before anything is
	// started, which waits for a nudge where there is no room. It may be told again.
	// Nil for nobody.
	Idle func()
	// OnRun is told which run the task is about as soon as that is known, and
	// whether this process holds its lease; "" when it holds none any more. Nil
	// for nobody.
	OnRun func(id string, held bool)
}

// Drive ticks until the task stands still: ended, waiting, held, refused or
// halted. When ctx ends it gives its lease back (stalled) and returns. The
// status is that of the last request.
func (t *Task) Drive(ctx context.Context, o DriveOptions) (Status, error) {
	t.onRun = o.OnRun
	t.worker.enter(o)
	stopGuard := t.worker.startGuard()
	defer stopGuard()
	defer t.worker.kill()
	d := &drive{task: t, o: o, came: make(chan struct{}, 1)}
	for {
		stopWatch := d.watchActs(ctx)
		st, err := d.run(ctx)
		stopWatch()
		d.takeLeft()
		if (err == nil || Passing(err)) && d.waiting() {
			continue // a person's act came at the last moment
		}
		st.Unable = d.resting > 0
		d.answerAll(d.notDone(err))
		st.Wake = d.wakeAt(st)
		return st, err
	}
}

func (d *drive) run(ctx context.Context) (Status, error) {
	t := d.task
	for {
		d.obeyAll(ctx)
		if t.kernelEnded() {
			t.worker.setRun(nil) // nothing of it runs
			return d.last, cmp.Or(t.recordKilled(ctx), error(machine.ErrHalted))
		}
		if ctx.Err() != nil {
			return d.part(ctx)
		}
		may, yield := d.mayTry(ctx)
		switch {
		case yield:
			return d.last, nil
		case !may:
			if d.heard {
				d.heard = !t.heed(ctx, false)
			}
			continue
		}
		d.handBack(ctx)
		st, err := d.tick(ctx)
		d.tried(st, err)
		if err == nil && unabled(st) {
			d.tellOutage(ctx)
		}
		if err == nil {
			if d.last = st; !unheard(st) {
				d.outages = 0
			}
			again, err := d.next(ctx, st)
			if err != nil || !again {
				return st, err
			}
			continue
		}
		if ctx.Err() != nil || errors.Is(err, errActFirst) && d.waiting() {
			continue
		}
		if !d.afterFailure(ctx, err) {
			return d.last, err
		}
	}
}

// handBack gives back the lease that a halted task still has, of a process that died or of
// a push that failed, so that nothing that is still under way of it can win any more. While
// the server can't, it is tried again by the looks that follow, in this process or the next.
// A lease that a rule keeps there ends by itself.
func (d *drive) handBack(ctx context.Context) {
	t, now := d.task, d.task.s.now().WallMs
	if d.handed || t.worker.run != nil || !t.halted() {
		d.handAt = 0
		return
	}
	if now < d.handAt {
		return
	}
	a, err := t.haltAct(ctx)
	st := Status{}
	if err == nil {
		st, err = d.handOver(ctx, kernel.RequestHalt, a.Actor)
	}
	if d.handed = err == nil && (st.Outcome == nil || st.Outcome.Status == kernel.OutcomeDone || st.Outcome.Status == kernel.OutcomeRefused); d.handed {
		d.handAt = 0
		return
	}
	d.handAt = now + outageFar.Milliseconds()
	if err == nil {
		err = errors.New(st.Outcome.Detail)
	}
	t.say("the lease of the halted task could not be given back yet: %v", err)
}

// afterFailure takes in that a look came to nothing. It reports whether to look again, now that
// the wait before that is over, and not to end with the error.
func (d *drive) afterFailure(ctx context.Context, err error) bool {
	t := d.task
	d.giveBack(ctx, err)
	if !t.heed(ctx, t.tracker.quiet) && !t.tracker.quiet {
		d.heard = true // what somebody said there is to see, wasn't seen
	}
	if unreadable(err) {
		d.resting = t.worker.unread(err)
		d.tellNoBase(ctx, err)
	}
	if !Passing(err) || (!d.running() && (d.o.Yield || t.worker.run == nil && (d.outages >= outageTries || isKeyOver(err)))) {
		if d.running() {
			_, _ = d.part(ctx) // the first error counts
		}
		return false
	}
	d.outages++
	t.say("can't look at the task: %v", err)
	t.worker.giveUpIfOverdue()
	if !unreadable(err) {
		_ = d.pause(ctx, backoff(d.outages), nil)
	}
	return true
}

// isKeyOver tells an error that only another key mends.
func isKeyOver(err error) bool {
	e, ok := errors.AsType[*worldref.Error](err)
	return ok && e.Code == kernel.CodeKeyOver
}

// tick is one request. Who tells while it is under way that there is something to see is
// heard by the next one.
func (d *drive) tick(ctx context.Context) (Status, error) {
	t := d.task
	t.tracker.quiet, t.nudges = d.o.Nudges != nil && !d.heard, d.o.Nudges
	st, err := t.Tick(ctx, d.request(), d.actor())
	if d.heard, t.nudged = t.nudged, false; d.heard && err != nil {
		t.tracker.quiet = false
	}
	return st, err
}

// drive is one call of Drive.
type drive struct {
	task            *Task
	o               DriveOptions
	outages, failed int
	resting         int64           // when the server is tried again, Unix milliseconds; 0 where it works
	takenIn         <-chan struct{} // what ended while the server couldn't be asked
	attempted       bool            // the one attempt of Once is over
	heard           bool            // somebody said that there is something to see
	handed          bool            // a halted task has no lease that is to be given back
	handAt          int64           // when it is tried again to give it back, Unix milliseconds; 0 for never
	last            Status

	moved    bool   // HEAD was, while the issue was moved
	told     string // how the task stood when the issue was moved last
	tellWake int64  // when to look at the issue again, Unix milliseconds; 0 for never

	mu    sync.Mutex
	queue []Act         // that came and aren't begun yet
	came  chan struct{} // says that there is one
}

// request is what the next tick asks: a person's stop until it is carried out,
// nothing but a look after the one attempt, otherwise to go on.
func (d *drive) request() kernel.Request {
	switch {
	case len(d.task.wishes) > 0:
		return kernel.RequestStop
	case d.attempted:
		return kernel.RequestLook
	}
	return kernel.RequestTick
}

func (d *drive) actor() string {
	if w := d.task.wishes; len(w) > 0 {
		return w[0].Actor
	}
	return d.o.Actor
}

// Passing reports whether an error of Drive may pass by itself: what can't be
// read now may be read later. What the machine or the store ran into doesn't, nor
// does what can't be composed.
func Passing(err error) bool {
	var (
		broken *BrokenError
		audit  *machine.AuditError
		panics *machine.PanicError
		fatal  *machine.FatalError
	)
	code, _ := codeOf(err)
	return !code.Halts() && !errors.Is(err, machine.ErrHalted) && !errors.As(err, &broken) && !errors.As(err, &audit) &&
		!errors.As(err, &panics) && !errors.As(err, &fatal)
}

// giveBack hands over a task that was claimed and not started, where the forge said
// that it won't be asked before the lease would have to be given up: nobody has to
// wait for that, and what can't be asked about is not started. What is running goes
// on, for it needs git alone.
func (d *drive) giveBack(ctx context.Context, err error) {
	t := d.task
	var fe *forge.Error
	if t.worker.run == nil || t.worker.run.phase != kernel.PhaseClaimed || !errors.As(err, &fe) || fe.Reason != forge.Limited ||
		t.s.now().BootMs+fe.RetryAfter.Milliseconds() < t.worker.run.due.RenewDeadlineBootMs {
		return
	}
	t.say("the forge can't be asked for %s: the lease is given back", fe.RetryAfter)
	if _, err := d.handOver(ctx, kernel.RequestGiveBack, d.o.Actor); err != nil {
		t.say("the lease could not be given back, and ends by itself: %v", err)
	}
}

func backoff(n int) time.Duration {
	d := outageFirst
	for ; n > 1 && d < outageMost; n-- {
		d *= 2
	}
	return min(d, outageMost)
}

// longestWait bounds one wait for a due time; what is further off is looked at
// again, since clocks and trailers may be wrong.
const longestWait = time.Hour

// next waits for what the task waits for. It reports whether to tick again.
func (d *drive) next(ctx context.Context, st Status) (bool, error) {
	t := d.task
	if len(t.wishes) > 0 && d.stopped(st) {
		return st.Decision.Action == kernel.ActionWait || d.told == "" && (st.Decision.Standing == kernel.StandFinal || st.Facts.Head.State == string(kernel.TaskWaiting)), nil
	}
	if st.crowded {
		return true, d.awaitAdmission(ctx)
	}
	if speaksAt(st) || st.queued.speaks {
		if err := d.tell(ctx, st); err != nil {
			return false, err
		}
		if d.moved {
			d.moved = false
			return true, nil
		}
	}
	if at := st.queued.at; at > 0 && (d.tellWake == 0 || at < d.tellWake) {
		d.tellWake = at
	}
	switch st.Decision.Standing {
	case kernel.StandFinal, kernel.StandWaiting:
		return d.awaitReview(ctx)
	case kernel.StandHalted:
		if told := d.told != "" && d.tellWake == 0; (told || !t.remote) && d.handAt == 0 {
			return false, t.haltKernel(ctx)
		}
	case kernel.StandActing:
		if d.o.Yield && t.worker.run == nil && t.worker.pending == nil && d.failed >= outageTries && !unabled(st) {
			return false, nil // it fails again and again: somebody else's turn
		}
		return true, d.afterEffect(ctx, st)
	case kernel.StandAbandoned:
		d.attempted = d.attempted || d.o.Once
		return true, nil
	case kernel.StandRunning:
		if unheard(st) && d.o.Yield {
			return false, nil // somebody else's turn, until wakeAt
		}
		wait := t.renewIn()
		if unheard(st) {
			d.outages++ // the forge is asked again, ever more seldom
			wait = min(wait, backoff(d.outages))
		}
		return true, d.pause(ctx, wait, t.jobDone())
	case kernel.StandDue:
		if d.o.Once || d.o.Yield {
			return false, nil
		}
		wait := longestWait
		if left := st.Decision.Wake - t.s.now().WallMs; left < longestWait.Milliseconds() {
			wait = time.Duration(left) * time.Millisecond
		}
		t.say("next attempt in %s", wait.Round(time.Second))
		return true, d.pause(ctx, wait, nil)
	}
	return false, nil
}

// haltKernel ends the kernel of a task that is halted, once its issue is told: in this
// epoch nothing more is written of it and no command answered, here or in another process.
func (t *Task) haltKernel(ctx context.Context) error {
	a, err := t.haltAct(ctx)
	if err != nil {
		return err
	}
	t.turn.Lock()
	defer t.turn.Unlock()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if !t.view().Halted {
		return nil // resumed while its issue was told: another kernel's epoch
	}
	next, err := t.machine.Halt(a.Actor, a.Reason, t.s.now().WallMs)
	return t.finish(ctx, next, err)
}

// unheard reports whether accepted work waits until the issue can be asked.
func unheard(st Status) bool { return st.Facts.Run != nil && st.Facts.Run.Unheard }

// stopped answers a person's stop once it is carried out: the task was handed
// over at HEAD, or there was nothing of ours to stop.
func (d *drive) stopped(st Status) bool {
	done := st.Decision.Action == kernel.ActionNone || st.Decision.Action == kernel.ActionAbandon || st.Decision.Action == kernel.ActionWait && (st.Outcome != nil && st.Outcome.Status == kernel.OutcomeDone)
	if !done {
		return false
	}
	d.answerStops(nil)
	return true
}

// wakeAt is when who gave its place away comes back at the latest, Unix
// milliseconds; 0 where nothing is due by itself.
func (d *drive) wakeAt(st Status) int64 {
	var at int64
	switch st.Decision.Standing {
	case kernel.StandDue, kernel.StandHeld, kernel.StandWaiting, kernel.StandFinal:
		if !st.queued.is { // what it waits for is room
			at = st.Decision.Wake
		}
		if at == 0 && st.Facts.Head.AwaitsEnvironment() {
			at = d.task.s.now().WallMs + baseAgain.Milliseconds() // somebody may have mended it and told nobody
		}
	case kernel.StandRunning:
		if unheard(st) { // its lease is renewed meanwhile
			at = d.task.s.now().WallMs + min(d.task.renewIn(), outageMost).Milliseconds()
		}
	case kernel.StandRefused:
		at = earlier(d.task.observer.baseWake, st.Decision.Wake)
	case kernel.StandActing:
		at = d.task.s.now().WallMs + outageMost.Milliseconds()
	}
	if refused := len(d.task.worker.refused) > 0; refused && st.Decision.Standing == kernel.StandRefused {
		at = d.task.s.now().WallMs + ruleAgain.Milliseconds()
	}
	if d.tellWake > 0 && (at == 0 || d.tellWake < at) {
		at = d.tellWake
	}
	if d.handAt > 0 && (at == 0 || d.handAt < at) {
		at = d.handAt
	}
	if d.resting > 0 {
		at = d.resting
	}
	return at
}

// earlier is the earlier of two times, of which 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// afterEffect goes on at once. An effect that didn't come about is tried again,
// or decided anew, after a pause that grows. One that was lost to somebody else
// needs none, for HEAD has moved; only where it is lost again and again (a lock
// file was left behind, say) the next try waits too.
func (d *drive) afterEffect(ctx context.Context, st Status) error {
	if st.Outcome == nil || st.Outcome.Status == kernel.OutcomeDone {
		d.failed = 0
		switch st.Decision.Action {
		case kernel.ActionResult, kernel.ActionRelease, kernel.ActionWait, kernel.ActionRestore:
			d.attempted = d.attempted || d.o.Once
		}
		return nil
	}
	d.failed++
	if st.Outcome.Status == kernel.OutcomeLost && d.failed == 1 {
		return nil
	}
	d.task.say("%s: %s (%s)", st.Outcome.Effect, st.Outcome.Status, st.Outcome.Detail)
	if unabled(st) {
		return nil // when it is tried again, the server's outage decides
	}
	return d.pause(ctx, backoff(d.failed), nil)
}

// renewIn is how long nothing has to be done for the lease.
func (t *Task) renewIn() time.Duration {
	if t.worker.run == nil {
		return 0
	}
	return time.Duration(t.worker.run.due.RenewBootMs-t.s.now().BootMs) * time.Millisecond
}

// jobDone is closed when what runs has ended; nil when nothing runs.
func (t *Task) jobDone() <-chan struct{} {
	switch {
	case t.worker.run == nil:
		return nil
	case t.worker.run.phase == kernel.PhaseBuilding:
		return t.worker.run.build.Done()
	case t.worker.run.phase == kernel.PhaseChecking:
		return t.worker.run.checks.Done()
	}
	return nil
}

// pause waits, at most for, until done, an act of a person, or the end of ctx.
func (d *drive) pause(ctx context.Context, wait time.Duration, done <-chan struct{}) error {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-done:
	case <-d.came:
	case _, ok := <-d.o.Nudges:
		d.heard = true
		if !ok {
			d.o.Nudges = nil // nobody nudges any more
		}
	}
	return nil
}

// part gives the lease back before the process ends: `stalled` at HEAD, so that
// nobody has to wait for the lease to run out. The issue is told with one edit.
func (d *drive) part(ctx context.Context) (Status, error) {
	t, actor, last := d.task, d.o.Actor, d.last
	if t.worker.run == nil && t.worker.pending == nil {
		return last, ctx.Err()
	}
	if t.worker.judged() {
		t.say("shutting down: what is judged could not be delivered")
	}
	if t.kernelEnded() {
		t.say("the task is halted: its lease runs out by itself")
		return last, ctx.Err()
	}
	t.say("shutting down: the lease is given back")
	parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
	defer cancel()
	req := kernel.RequestShutdown
	if t.worker.judged() {
		req = kernel.RequestTick // there is nothing to give back: it only has to be delivered
	}
	if st, err := t.Tick(parting, req, actor); err == nil {
		last = st
	}
	if t.worker.run == nil && t.worker.pending == nil {
		t.tracker.parted = true
		d.tellOf(parting, actor, 1)
	}
	return last, ctx.Err()
}

// awaitReview waits for the checks of a review. It reports whether there were any.
func (d *drive) awaitReview(ctx context.Context) (bool, error) {
	done := d.task.tracker.reviewed().done()
	if done == nil || closed(done) {
		return false, nil
	}
	d.told = ""
	if err := d.pause(ctx, longestWait, done); err != nil || !d.task.tracker.cutOff() {
		return true, err
	}
	return true, d.pause(ctx, actFollows, nil)
}

// actFollows is what the act that says why a review was cut off may take to come.
const actFollows = time.Second

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

// halt halts the task that is driven: what runs dies, its lease is given back, so
// that nobody has to wait for it and nobody is told that the task is worked on, and the
// halt is recorded. Neither git nor the forge keeps it from being halted. The looks that
// follow tell the issue, and give back what could not be given back, until when the
// kernel isn't at its end.
func (d *drive) halt(ctx context.Context, a Act) error {
	t := d.task
	t.worker.kill()
	ctx = context.WithoutCancel(ctx)
	if t.worker.run != nil || t.worker.pending != nil {
		if _, err := d.handOver(ctx, kernel.RequestHalt, a.Actor); err != nil {
			t.say("the lease could not be given back yet: %v", err)
		}
	}
	if err := t.s.haltBy(ctx, t.number, a); err != nil {
		return err
	}
	t.worker.setRun(nil) // nothing of it runs, though its lease may stand until it is given back
	return t.recordKilled(ctx)
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

// awaitAdmission waits until there is room, or the lease is to be renewed.
func (d *drive) awaitAdmission(ctx context.Context) error {
	d.task.worker.waitsSince(time.Time{})
	defer d.task.worker.wakes()
	return d.pause(ctx, max(d.task.renewIn(), guardEvery), nil)
}

// mayTry waits until this task may ask something of the server. Where nothing of
// ours runs and the driver wants its place back, yield says so; d.resting is then
// when to come back. A build or check that ends is taken in meanwhile, a person's
// act is obeyed, and the renew deadline holds.
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
	t.worker.giveUpIfOverdue()
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

// How soon a change that is waited for is looked at again at the latest, in
// milliseconds, though nobody tells of its merge: a quarter of the time that it has
// waited, within these.
const (
	mergeSoonest = 900_000
	mergeLatest  = 21_600_000
)

// mergeWake is when to look whether a change was merged that the issue waits for:
// its merge changes nothing on the issue, so that no sweep would find one whose
// delivery was lost (case W12). 0 where nothing is waited for.
func mergeWake(f kernel.Facts) int64 {
	is := f.Issue
	if is == nil || is.Change == nil || !is.Change.Open || !f.AwaitsMerge() || f.View.Halted {
		return 0
	}
	return f.Now + min(max((f.Now-is.HeadAt)/4, mergeSoonest), mergeLatest)
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

// tellOnce is one effect, or the finding that none is due. A finding by refs that are stale
// holds if they are the same still; otherwise there is another look.
func (t *Task) tellOnce(ctx context.Context, actor string) (Status, error) {
	if t.worker.run != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, min(tellRunning, max(t.renewIn(), tellLeast)))
		defer cancel()
	}
	st, err := t.Tick(ctx, kernel.RequestTell, actor)
	if err != nil || st.Decision.Action != kernel.ActionNone || st.refs == nil || !st.refs.stale {
		return st, err
	}
	now, err := t.s.deps.Repo.Refs(t.worker.on(ctx), t.observer.lookedAt()...)
	if err != nil || now.Equal(st.refs.Refs) {
		return st, err
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
		told, err := t.tellOnce(ctx, actor)
		if err != nil || told.Outcome == nil || told.Outcome.Status != kernel.OutcomeDone {
			return err == nil && told.Decision.Action == kernel.ActionNone
		}
	}
	return false
}
