package supervisor

import (
	"context"
	"fmt"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
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

// LagError says that the issue tells of more than the server shows, and that this is left
// to who told it.
type LagError struct{ Words string }

func (e *LagError) Error() string { return "supervisor: " + e.Words }

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

// stillAt is [errMovedOn] where HEAD isn't there any more.
func (o *observer) stillAt(ctx context.Context, head string) error {
	refs, err := o.s.deps.Repo.Refs(ctx, o.StateRef())
	if err == nil && plain(refs.OID(o.StateRef())) != plain(git.OID(head)) {
		err = errMovedOn
	}
	return err
}

// lagUntil is until when nothing is claimed, Unix milliseconds; 0 for none.
func (o *observer) lagUntil(now lease.Clock) int64 {
	if o.worker.lagged.until <= now.BootMs {
		return 0
	}
	return now.WallMs + o.worker.lagged.until - now.BootMs
}
