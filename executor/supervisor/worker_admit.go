package supervisor

import (
	"time"

	"github.com/writbot/writ/kernel"
)

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

// queuedAfter is how long after an act a task that has no room yet for what it asks says why.
// Most have some by then, and their status comment says more.
const queuedAfter = 15_000 // ms

// queued is what a task without room for its claim has to say on the issue.
type queued struct {
	is     bool // it waits so
	speaks bool
	at     int64 // when it has something to say, Unix milliseconds; 0 for never
}

// queuedOf reads it off the issue: a label is answered at once, and a sentence says why the
// task waits, once for each act.
func (w *worker) queuedOf(c *observation) queued {
	q := queued{is: true}
	if c.shown == nil || c.shown.Gone || !w.remote {
		return q
	}
	if at, unsaid := c.waitsSince(c.shown); unsaid && w.admission.why != nil {
		q.at = at + queuedAfter
	}
	due := q.at > 0 && c.clock.WallMs >= q.at
	if due {
		q.at = 0
	}
	q.speaks = due || c.shown.See != ""
	return q
}

// wanted is the act that asks for a claim, and that which HEAD rests on: of delivered work it
// asks for a refresh or a revision.
func (c *observation) wanted() (act, done string) {
	if !c.facts.Delivered() {
		return c.facts.Act, c.facts.Head.Act
	}
	if r := c.facts.Refresh; r != nil && r.Auto == nil {
		act = r.Act
	}
	if f := c.facts.Fix; f != nil && kernel.NewerAct(f.Act, act) {
		act = f.Act
	}
	return act, c.facts.Head.RefreshAct
}

// waitsSince is when the act was that waits for room, and whether the issue has yet to say
// why. What is tried again for an act that HEAD rests on already says enough by its report.
func (c *observation) waitsSince(f *kernel.IssueFacts) (at int64, unsaid bool) {
	act, done := c.wanted()
	switch {
	case len(f.Comments) == 0:
		return c.intake.Approval.Time, true
	case !kernel.NewerAct(act, done), act == c.toldWait:
		return 0, false
	}
	return kernel.ActTime(act), true
}

// waitWords say why there was no room for it last, "" where there was, or nobody knows.
func (w *worker) waitWords() string {
	w.guard.Lock()
	denied, why := w.admission.denied, w.admission.why
	w.guard.Unlock()
	if !denied || why == nil {
		return ""
	}
	return why()
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
	w.delivering, w.undelivered = unsettledResult(w.pending, w.unseen), w.judged()
	w.guard.Unlock()
}

// wakes notes that nobody outside keeps the task waiting.
func (w *worker) wakes() { w.waitsSince(time.Now()) }

func (w *worker) waitsSince(at time.Time) {
	w.guard.Lock()
	w.admission.since = at
	w.guard.Unlock()
}
