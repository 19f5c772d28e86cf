package supervisor

import (
	"context"
	"time"

	"github.com/writbot/writ/kernel"
)

// idleAfter is how long nothing of a task may run, while it waits for somebody outside,
// before its place goes to others. A server that answers takes less.
const idleAfter = 3 * time.Second

// Admit says whether there is room now for a builder, or for the checks of what was
// pushed to a change. scope are the task's allowed files where its contract wants
// overlapping tasks to take turns, nil elsewhere. Once it has said yes it isn't
// asked again in the same drive, unless that was told Idle since.
type Admit func(scope []string) bool

// room is a task's right to run something, in one drive.
type room struct {
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
func (t *Task) enter(o DriveOptions) {
	t.guard.Lock()
	defer t.guard.Unlock()
	t.room = room{admit: o.Admit, idle: o.Idle, why: o.Why, since: time.Now()}
}

// unadmitted is how a task stands of which something would be claimed or started now if
// there were room for it. Nothing was decided, so nothing is recorded. Of a claim whoever
// drives the task comes back when there is room; a lease is kept meanwhile.
func (t *Task) unadmitted(c *cycle) (Status, bool) {
	if t.room.admit == nil || c.facts.Request != kernel.RequestTick && c.facts.Request != kernel.RequestTell {
		return Status{}, false
	}
	d := kernel.DecideOn(c.facts, "")
	starts := d.Action == kernel.ActionReview || d.Action == kernel.ActionDispatch || d.Action == kernel.ActionChecks
	if !starts && d.Action != kernel.ActionClaim {
		return Status{}, false
	}
	var scope []string // what was pushed to a change is in nobody's way
	if c.intake != nil && c.intake.TakeTurns && d.Action != kernel.ActionReview {
		scope = c.intake.Spec.AllowedFiles
	}
	if t.hasRoom(scope, starts) {
		return Status{}, false
	}
	st := Status{Decision: d, Facts: c.facts, Intake: c.intake, Head: c.head, crowded: starts}
	if !starts {
		st.Facts.Request = kernel.RequestLook
		st.Decision = kernel.DecideOn(st.Facts, "")
		st.queued = t.queuedOf(c)
	}
	return st, true
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
func (t *Task) queuedOf(c *cycle) queued {
	q := queued{is: true}
	if c.shown == nil || c.shown.Gone || !t.remote || len(c.shown.Comments) > 0 {
		return q
	}
	if t.room.why != nil {
		q.at = c.intake.Approval.Time + queuedAfter
	}
	due := q.at > 0 && c.clock.WallMs >= q.at
	if due {
		q.at = 0
	}
	q.speaks = due || c.shown.See != ""
	return q
}

// queuedText says why a task waits that could be claimed; nothing where it has room.
func (t *Task) queuedText(c *cycle, f *kernel.IssueFacts, stands kernel.Decision) message {
	t.guard.Lock()
	denied, why := t.room.denied, t.room.why
	t.guard.Unlock()
	if !denied || why == nil || stands.Action != kernel.ActionClaim || len(f.Comments) > 0 ||
		c.clock.WallMs < c.intake.Approval.Time+queuedAfter {
		return message{}
	}
	words := why()
	if words == "" {
		return message{}
	}
	return t.headed("is approved, and waits for its turn", "\n"+words+" It starts by itself.\n", nil, "")
}

// hasRoom asks for room where there is none yet. What starts keeps it until it has ended.
func (t *Task) hasRoom(scope []string, starts bool) bool {
	t.guard.Lock()
	admitted := t.room.admitted
	t.room.starting = true // not to be lent while it is asked for
	t.guard.Unlock()
	if !admitted {
		admitted = t.room.admit(scope)
	}
	t.guard.Lock()
	defer t.guard.Unlock()
	p := &t.room
	p.admitted, p.denied, p.lent, p.starting, p.since = admitted, !admitted, false, starts && admitted, time.Now()
	return admitted
}

// settled ends a request: what it started runs, or nothing does.
func (t *Task) settled() {
	t.guard.Lock()
	t.room.starting = false
	t.delivering = unsettledResult(t.pending, t.unseen)
	t.guard.Unlock()
}

// wakes notes that nobody outside keeps the task waiting.
func (t *Task) wakes() { t.waitsSince(time.Now()) }

func (t *Task) waitsSince(at time.Time) {
	t.guard.Lock()
	t.room.since = at
	t.guard.Unlock()
}

// lend gives the task's place to others while nothing of it runs and it waits for
// somebody outside: at once where it knows that the world's server is unable. What another
// task met there may be its own trouble.
func (t *Task) lend() {
	_, troubled := t.s.outage.of(t.number)
	t.guard.Lock()
	defer t.guard.Unlock()
	p := &t.room
	switch {
	case p.idle == nil || p.lent:
	case p.starting || t.runs():
		p.since = time.Now()
	case p.since.IsZero(): // it stands in line
	case time.Since(p.since) >= idleAfter, troubled:
		p.lent, p.admitted = true, false
		p.idle()
	}
}

// runs reports whether a process of the task is alive; t.guard is held.
func (t *Task) runs() bool {
	r := t.run
	if r != nil && (r.build != nil && !closed(r.build.Done()) || r.checks != nil && !closed(r.checks.Done())) {
		return true
	}
	done := t.again.done()
	return done != nil && !closed(done)
}

// awaitRoom waits until there is room, or the lease is to be renewed.
func (d *drive) awaitRoom(ctx context.Context) error {
	d.task.waitsSince(time.Time{})
	defer d.task.wakes()
	return d.pause(ctx, max(d.task.renewIn(), guardEvery), nil)
}
