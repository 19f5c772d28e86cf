package supervisor

import (
	"time"
)

// idleAfter is how long nothing of a task may run, while it waits for somebody outside,
// before its place goes to others. A server that answers takes less.
const idleAfter = 3 * time.Second

// Admit says whether there is room now for a builder, or for the checks of what was
// pushed to a change. scope are the task's allowed files where its contract wants
// overlapping tasks to take turns, nil elsewhere. Once it has said yes it isn't
// asked again in the same drive, unless that was told Idle since.
type Admit func(scope []string) bool

// admission is a task's right to run something, in one drive.
type admission struct {
	admit    Admit // nil admits
	idle     func()
	why      func() string
	denied   bool      // admit said no last
	admitted bool      // admit said yes, and idle wasn't told since
	lent     bool      // idle was told, and admit wasn't asked since
	starting bool      // something is about to run
	since    time.Time // that nothing runs and it waits; zero while it waits for room
}

// enter begins a drive.
func (w *worker) enter(o DriveOptions) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.admission = admission{admit: o.Admit, idle: o.Idle, why: o.Why, since: time.Now()}
}

// queuedAfter is how long after its approval a task that has no room yet says why. Most
// have some by then, and their status comment says more.
const queuedAfter = 15_000 // ms

// queued is what a task without room for its claim has to say on the issue.
type queued struct {
	is     bool // it waits so
	speaks bool
	at     int64 // when it has something to say, Unix milliseconds; 0 for never
}

// queuedOf reads it off the issue: the approval is answered at once, and where nothing was
// told yet a sentence says why it waits, once.
func (w *worker) queuedOf(c *observation) queued {
	q := queued{is: true}
	if c.shown == nil || c.shown.Gone || !w.remote || len(c.shown.Comments) > 0 {
		return q
	}
	if w.admission.why != nil {
		q.at = c.intake.Approval.Time + queuedAfter
	}
	due := q.at > 0 && c.clock.WallMs >= q.at
	if due {
		q.at = 0
	}
	q.speaks = due || c.shown.See != ""
	return q
}

// mayRun asks for room where there is none yet. What starts keeps it until it has ended.
func (w *worker) mayRun(scope []string, starts bool) bool {
	w.guard.Lock()
	admitted := w.admission.admitted
	w.admission.starting = true // not to be lent while it is asked for
	w.guard.Unlock()
	if !admitted {
		admitted = w.admission.admit(scope)
	}
	w.guard.Lock()
	defer w.guard.Unlock()
	p := &w.admission
	p.admitted, p.denied, p.lent, p.starting, p.since = admitted, !admitted, false, starts && admitted, time.Now()
	return admitted
}

// settled ends a request: what it started runs, or nothing does.
func (w *worker) settled() {
	w.guard.Lock()
	w.admission.starting = false
	w.delivering = unsettledResult(w.pending, w.unseen)
	w.guard.Unlock()
}

// wakes notes that nobody outside keeps the task waiting.
func (w *worker) wakes() { w.waitsSince(time.Now()) }

func (w *worker) waitsSince(at time.Time) {
	w.guard.Lock()
	w.admission.since = at
	w.guard.Unlock()
}

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
