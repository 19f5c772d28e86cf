package supervisor

import (
	"context"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// Guard kills what runs if the lease can't be renewed in time any more. It is
// called often, on its own, because a tick may hang in the network. It reports
// whether it had to.
func (w *worker) Guard(now lease.Clock) bool {
	w.guard.Lock()
	r := w.run
	due := r != nil && (r.build != nil || r.checks != nil) && r.due.Overdue(now)
	if due && (w.telling || w.asking.unanswered() > w.s.patience) { // nobody renews meanwhile
		r.late = true
	}
	w.guard.Unlock()
	if due {
		w.kill()
	}
	return due
}

// startGuard looks at the renew deadline on its own, for a tick may hang in the network.
func (w *worker) startGuard() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(guardEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.Guard(w.s.now())
				w.lend()
				w.noteSilence()
			}
		}
	}()
	return func() { cancel(); <-done }
}

// idleAfter is how long nothing of a task may run, while it waits for somebody outside,
// before its place goes to others. A server that answers takes less.
const idleAfter = 3 * time.Second

// lend gives the task's place to others while nothing of it runs and it waits for
// somebody outside: at once where it knows that the world's server is unable. What another
// task met there may be its own trouble.
func (w *worker) lend() {
	_, troubled := w.s.outage.of(w.number)
	w.guard.Lock()
	defer w.guard.Unlock()
	p := &w.admission
	switch {
	case p.idle == nil || p.lent:
	case p.starting || w.runs():
		p.since = time.Now()
	case p.since.IsZero(): // it stands in line
	case time.Since(p.since) >= idleAfter, troubled:
		p.lent, p.admitted = true, false
		p.idle()
	}
}

// runs reports whether a process of the task is alive; t.guard is held.
func (w *worker) runs() bool {
	r := w.run
	if r != nil && (r.build != nil && !closed(r.build.Done()) || r.checks != nil && !closed(r.checks.Done())) {
		return true
	}
	done := w.again.done()
	return done != nil && !closed(done)
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// giveUpIfOverdue forgets a run whose lease can't be kept because nothing can be
// read: its processes are dead, and HEAD decides what becomes of the task. What a builder
// left meanwhile is kept.
func (w *worker) giveUpIfOverdue() {
	w.keepEnded()
	if w.run != nil && !w.judged() && w.run.due.Overdue(w.s.now()) {
		w.kill()
		w.lapsed = w.run.head
		w.forgetRun(w.run)
		w.say("the lease could not be renewed; the run is given up")
	}
}

// keepEnded keeps what a builder left that ended while nothing can be read: the lease may
// end before that is judged, and whoever goes on judges it then. What speaks against it by
// the contract that it was built under is known already.
func (w *worker) keepEnded() {
	r := w.run
	if r == nil || r.phase != kernel.PhaseBuilding || !closed(r.build.Done()) || len(r.heeded.Human) > 0 {
		return
	}
	ended := *r
	ended.built = bounded(r.build.Outcome())
	if len(ended.built.Violations)+len(ended.built.Diff.Violations)+len(r.intake.Message) == 0 {
		w.keep(context.Background(), &ended)
		r.shelved = ended.shelved
	}
}

// silentAfter is how long the server may leave something unanswered before that is said
// of it. It is given longer to answer.
const silentAfter = 15 * time.Second

// exchange is what a request asks of the server at the moment.
type exchange struct {
	since time.Time // that the server sent or took something last; zero for nothing
	push  bool
	noted bool // it was left unanswered for long
}

// unanswered is how long the server has left it without a word; 0 where nothing is asked.
func (x exchange) unanswered() time.Duration {
	if x.since.IsZero() {
		return 0
	}
	return time.Since(x.since)
}

// askingNow is what is asked of the server at the moment.
func (w *worker) askingNow() exchange {
	w.guard.Lock()
	defer w.guard.Unlock()
	return w.asking
}

type taskKey struct{}

// on returns a context whose exchanges with the server are the task's, or with nil nobody's.
func (w *worker) on(ctx context.Context) context.Context {
	return git.WithProgress(context.WithValue(ctx, taskKey{}, w), w.goesOn)
}

// goesOn notes that the exchange makes progress: a large pack on a slow line is no silence.
// How long it may take at most is the repository's to say.
func (w *worker) goesOn() {
	if w == nil {
		return
	}
	w.guard.Lock()
	defer w.guard.Unlock()
	if !w.asking.since.IsZero() {
		w.asking.since = time.Now()
	}
}

// timed is a repository that notes on the task which exchange is under way.
type timed struct{ Repo }

func begin(ctx context.Context, push bool) (end func()) {
	w, _ := ctx.Value(taskKey{}).(*worker)
	if w == nil {
		return func() {}
	}
	w.guard.Lock()
	defer w.guard.Unlock()
	w.asking = exchange{since: time.Now(), push: push}
	return w.ends
}

// ends ends the exchange that is under way.
func (w *worker) ends() {
	w.guard.Lock()
	w.asking.since = time.Time{}
	w.guard.Unlock()
}

func (r timed) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	defer begin(ctx, false)()
	return r.Repo.Refs(ctx, names...)
}

func (r timed) Commit(ctx context.Context, oid git.OID) (git.Commit, error) {
	defer begin(ctx, false)()
	return r.Repo.Commit(ctx, oid)
}

func (r timed) Commits(ctx context.Context, oids []git.OID, f func(git.Commit)) error {
	defer begin(ctx, false)()
	return r.Repo.Commits(ctx, oids, f)
}

func (r timed) Log(ctx context.Context, from, not []git.OID, most int) ([]git.Commit, []git.OID, error) {
	defer begin(ctx, false)()
	return r.Repo.Log(ctx, from, not, most)
}

func (r timed) Tree(ctx context.Context, oid git.OID) (git.Tree, error) {
	defer begin(ctx, false)()
	return r.Repo.Tree(ctx, oid)
}

func (r timed) Blobs(ctx context.Context, oids []git.OID, f func(git.OID, []byte) error) error {
	defer begin(ctx, false)()
	return r.Repo.Blobs(ctx, oids, f)
}

func (r timed) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	defer begin(ctx, true)()
	return r.Repo.CompareAndSwap(ctx, cmds, pack)
}

func (r timed) Reassert(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	defer begin(ctx, true)()
	return r.Repo.Reassert(ctx, cmds, pack)
}

// noteSilence notes, once, that the server leaves an exchange unanswered: it is known to
// be unable before the exchange is given up.
func (w *worker) noteSilence() {
	w.guard.Lock()
	e := w.asking
	late := !e.noted && e.unanswered() >= silentAfter
	w.asking.noted = e.noted || late
	w.guard.Unlock()
	if late {
		w.s.outage.silence(w.number, w.s.now(), e.push)
		w.warnUnable("it leaves what is asked of it unanswered for " + silentAfter.String() + " already")
	}
}

// silence notes that the server leaves an exchange unanswered, which is still waited for.
func (o *outage) silence(task int64, now lease.Clock, push bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.met(task, now, "it leaves what is asked of it unanswered", push).Silent = true
	o.busy = max(o.busy, now.BootMs+outageTry.Milliseconds())
}
