package supervisor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

const (
	// tellerTime is how long what only the issue tells of is left to who told it: the
	// server that is asked for HEAD may be a replica that lags.
	tellerTime = 10 * time.Minute
	// tellerMost bounds it where another installation contradicts again and again what this
	// one then says.
	tellerMost = 24 * time.Hour
)

// lastTold is what writ's account wrote last on the issue of how the task stands.
type lastTold struct {
	run     string // "" for none: then there was no state
	at      int64  // on the forge's clock, Unix milliseconds
	seq     int64  // the highest number of a state commit that was told of
	kept    string // the run of the comment that is kept where there are several
	keptSeq int64  // the number that it tells of, 0 for none: it tells of what changes all the time
	doubt   bool   // they say that the state was set back: nobody vouches for them
}

// teller is the patience with who told of what HEAD doesn't show.
type teller struct {
	at    int64 // of the words, on the forge's clock
	since int64 // when they count as written, Unix milliseconds
	wait  time.Duration
	spoke bool   // it ran out, and this installation went on
	held  string // HEAD, at which it began

	head, run string // of which was looked up
	lacks     bool   // the head has the run neither at it nor below
}

// readTold reads what the issue tells of the task: of which run, and whether a person
// asks anew for what was done.
func (o *observer) readTold(ctx context.Context, c *observation, issue Issue) (err error) {
	said := o.told(issue.seen)
	c.facts.Told, c.toldSeq = said.at > 0, said.seq
	if said.seq > c.facts.Head.Seq && o.worker.run == nil {
		c.facts.Head.Told = said.seq
	}
	if c.facts.Head.Behind, err = o.behind(ctx, c.facts.Head, c.facts.View, said.run); err != nil {
		return err
	}
	if err := o.leaveToTeller(ctx, c, said); err != nil {
		return err
	}
	if err := o.readMissing(ctx, c); err != nil {
		return err
	}
	if c.facts.Undone, err = o.tracker.undone(ctx, c, issue); err != nil {
		return err
	}
	c.facts.Head.Reapproved = o.reapproved(issue, c.facts) || c.facts.Undone
	if c.facts.Head.Reapproved && o.worker.run == nil && c.urges(issue) {
		c.facts.Head.Reapproved, c.facts.Head.Urged = false, true
	}
	return o.readView(ctx, c, issue, said.at)
}

// leaveToTeller is a [LagError] where nothing but the issue says that the task went on, and
// that was told just now. Whoever reads an old copy of the repository must neither say that
// somebody set the task back, nor write over what is newer.
func (o *observer) leaveToTeller(ctx context.Context, c *observation, said lastTold) error {
	h := c.facts.Head
	if o.worker.run != nil || said.run == "" || said.doubt || said.kept == h.Run() && said.keptSeq <= h.Seq {
		return nil
	}
	ahead, err := o.onlyTold(ctx, c, said)
	now, w := c.clock.WallMs, &o.worker.teller
	switch {
	case err != nil:
		return err
	case !ahead && w.held != h.OID:
		w.wait, w.spoke = 0, false // the server shows what came since
		return nil
	case !ahead:
		return nil
	}
	if w.held = h.OID; w.at != said.at {
		if w.wait = max(w.wait, tellerTime); w.spoke {
			w.wait = min(2*w.wait, tellerMost)
		}
		w.at, w.since, w.spoke = said.at, min(said.at, now), false
	}
	if w.since+w.wait.Milliseconds() <= now {
		w.spoke = true
		return nil
	}
	if err := o.stillAt(ctx, h.OID); err != nil {
		return err
	}
	return &LagError{fmt.Sprintf("the issue tells of run %s, and the server doesn't show it: it lags behind, or the state was set back; it is looked at again", said.run)}
}

// onlyTold reports whether HEAD would count, or be gone on with, but for what the issue
// tells of.
func (o *observer) onlyTold(ctx context.Context, c *observation, said lastTold) (bool, error) {
	f := c.facts
	if kernel.NeedsRepair(f) {
		f.Told, f.Head.Told, f.Head.Behind = false, 0, false
		return !kernel.NeedsRepair(f), nil
	}
	run := said.kept
	if said.keptSeq > 0 || f.View.Seen == "" || !f.HeadCounts() {
		return false, nil
	}
	if w := &o.worker.teller; w.head != f.Head.OID || w.run != run {
		has, err := o.hasBelow(ctx, f.Head, func(was kernel.HeadFacts) bool { return was.Run() == run })
		if err != nil {
			return false, err
		}
		if !has {
			o.s.locked(func() { has = o.s.world.Dispatched(run) }) // our own, which was lost
		}
		w.head, w.run, w.lacks = f.Head.OID, run, !has
	}
	return o.worker.teller.lacks, nil
}

// LagError says that the issue tells of more than the server shows, and that this is left
// to who told it.
type LagError struct{ Words string }

func (e *LagError) Error() string { return "supervisor: " + e.Words }

// urges reports whether who approved anew only says again that the text is to be done of
// which HEAD keeps the work: that is for the instance that has it, and for no other.
func (c *observation) urges(issue Issue) bool {
	h := c.facts.Head
	return h.Kept && issue.Said == "" && c.intake.Approval.Digest == h.Approval
}

// readView reads what the fold knows of the task. Where a person asked on the
// forge to move on from somebody else's commit, that is recorded first (case
// L12). Where nothing was seen of a task that the issue tells of, a request that was
// made before that was told isn't about it.
func (o *observer) readView(ctx context.Context, c *observation, issue Issue, toldAt int64) (err error) {
	o.s.locked(func() {
		c.facts.View, c.facts.Now = o.view(), o.virtualNow(c.clock)
		if !issue.Retry || issue.ByBot || !kernel.NewerAct(issue.Act, c.facts.View.Act) || !kernel.NeedsRepair(c.facts) && !c.facts.Undone ||
			c.facts.Head.OID == "" && !kernel.NewerAct(issue.Act, strconv.FormatInt(toldAt, 10)+"/told") {
			return
		}
		err = o.s.resume(ctx, o.number, kernel.OperatorAct{Actor: issue.Actor, Reason: "/writ retry", Head: resumedAt(c.facts.Head.OID), ActID: issue.Act})
		c.facts.View = o.view()
	})
	return err
}

// reapproved reports whether a person approved anew while HEAD stood where it
// stands: at the keyboard by running the task again, on a forge by an act after
// the one that HEAD rests on. A bot's act is none, for bots that answer one
// another would go on for ever (case I6).
func (o *observer) reapproved(issue Issue, f kernel.Facts) bool {
	head := f.Head
	if r := o.worker.run; r != nil && r.waitsAtHead() {
		return o.worker.beganAnew(r, issue)
	}
	if issue.Act == "" {
		return issue.Anew && head.WaitingFor == kernel.WaitApproval && head.OID == *o.first
	}
	if issue.ByBot || len(issue.Human) > 0 || !f.HeadCounts() || !kernel.NewerAct(issue.Act, head.Act) {
		return false
	}
	switch kernel.TaskState(head.State) {
	case kernel.TaskWaiting, kernel.TaskBlocked, kernel.TaskRetryPending:
		return true
	}
	return head.State == kernel.HeadStalled
}

// stillAt returns [errMovedOn] if HEAD isn't there any more.
func (o *observer) stillAt(ctx context.Context, head string) error {
	refs, err := o.s.deps.Repo.Refs(ctx, o.StateRef())
	if err == nil && plain(refs.OID(o.StateRef())) != plain(git.OID(head)) {
		err = errMovedOn
	}
	return err
}
