package supervisor

import (
	"context"
	"slices"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/world"
)

// hiddenMost is how long a push may be hidden, by a replica that lags, of which nobody
// has the bytes to make it again. Then the task goes on from HEAD as it is.
const hiddenMost = 2 * time.Minute

// took takes in that the server said that a push won. What HEAD then shows is
// looked at before anything else is done.
func (w *worker) took(p *push) {
	p.won()
	p.hidden = 0
	if p.action == kernel.ActionRedeliver {
		return // the next look shows the branch, or lacks it again
	}
	w.unseen = p
	w.locked, w.lapsed = locked{}, ""
	if p.action != kernel.ActionHeartbeat {
		w.bare, w.untaken = false, untaken{}
	}
	w.tooLate(p)
	switch {
	case p.action != kernel.ActionClaim && p.action != kernel.ActionHeartbeat && p.action != kernel.ActionSeal:
	case w.run == nil:
		w.lapsed = p.to() // it was given up while the answer was waited for
	case w.run.tenure.MustFence(w.s.now()):
		w.guard.Lock()
		w.run.late = true
		w.guard.Unlock()
	}
}

// tooLate looks at a renewal whose answer came after the fence had killed what ran: the run
// is over, as if the lease were, and nothing of it failed.
func (w *worker) tooLate(p *push) {
	w.guard.Lock()
	defer w.guard.Unlock()
	r := w.run
	if r != nil && p.before != nil && p.before.MustFence(w.s.now()) && (r.phase == kernel.PhaseBuilding || r.phase == kernel.PhaseChecking) {
		r.tenure = *p.before
	}
}

// result reports whether a push brings what was judged.
func (p *push) result() bool { return p.action == kernel.ActionResult }

// hide notes that a look didn't show a push. A renewal that nobody sees renews nothing, and
// is followed by another once it is shown.
func (w *worker) hide(p *push, at int64) {
	p.hidden = at
	w.guard.Lock()
	defer w.guard.Unlock()
	r := w.run
	if r == nil {
		return
	}
	r.hidden = true
	if p.before != nil && r.head == p.to() {
		r.tenure = *p.before
	}
}

// confirm notes that a look showed a push, or what somebody else did since.
func (w *worker) confirm() {
	p := w.unseen
	if p == nil {
		return // somebody else's was there before, and still is
	}
	if w.unseen = nil; p.unshelves {
		w.unshelve()
	}
	if p.hidden == 0 && p.action != kernel.ActionClaim && p.action != kernel.ActionTakeOver { // the server keeps up
		if w.lagged = (lagged{}); w.run != nil {
			w.run.hidden = false
		}
	}
	w.s.wake(w.s.outage.won(w.number, p.to()))
}

// lastWon is the last push of ours that won and that no look has shown; nil for none.
// What a process doesn't remember the ledger does, and where HEAD isn't another's by now,
// what is kept of it is needed. A push whose answer a dead process didn't hear won, too,
// where some of its refs show it: the others lack.
func (w *worker) lastWon(ctx context.Context, refs git.Refs) (*push, error) {
	if w.unseen != nil {
		return w.unseen, nil
	}
	head := plain(refs.OID(w.StateRef()))
	var u world.Unshown
	unheard := false
	w.s.locked(func() {
		task, _ := w.s.world.Task(w.number)
		u = task.Unshown
		for _, o := range w.s.world.UnknownIntents(w.number) {
			if i := o.Intent; u.New == "" && i.New != "" && i.Effect != kernel.ActionRedeliver && !i.Effect.OnForge() && (head == i.Old || head == i.New) {
				u, unheard = world.Unshown{Old: i.Old, New: i.New}, true
			}
		}
	})
	p := &push{cmds: []git.Command{{Ref: w.StateRef(), Old: git.OID(u.Old), New: git.OID(u.New)}}}
	switch {
	case u.New == "":
		return nil, nil //nolint:nilnil // there is none, which is no failure
	case head != u.Old && head != u.New:
		return p, nil
	case w.s.deps.Pushes == nil:
		if !unheard {
			w.unseen = p
		}
		return w.unseen, nil
	}
	err := w.readKept(ctx, p)
	if left := p.left(refs); err == nil && unheard && (len(left) == 0 || len(left) == len(p.cmds)) {
		return nil, nil //nolint:nilnil // HEAD tells what became of it
	}
	if err == nil {
		w.unseen = p
	}
	return p, err
}

// left are the commands of a push that the refs don't show.
func (p *push) left(refs git.Refs) []git.Command {
	return slices.DeleteFunc(slices.Clone(p.cmds), func(c git.Command) bool { return refs.OID(c.Ref) == c.New })
}

// readKept takes a push from the store: all its commands and its bytes, or nothing where
// it isn't there, or our key or the world is another by now.
func (w *worker) readKept(ctx context.Context, p *push) error {
	way, _, err := w.s.deps.Pushes.Since(ctx, w.number, plain(p.from()), string(p.to()))
	if err != nil || len(way) != 1 {
		return err
	}
	objs := git.NewObjects()
	if err := objs.AgainPack(way[0].Pack); err != nil {
		w.log().Warn("what the store has of a push is damaged", "commit", string(p.to()), "error", err)
		return nil
	}
	head, err := objs.Added(p.to())
	if err != nil || !w.ownNow(head) {
		return nil //nolint:nilerr // it can't be made again
	}
	if p.action, err = w.actionOf(ctx, p.to()); err != nil {
		return err
	}
	if ev, err := eventOf(head, false); err == nil && p.result() {
		p.accepted = kernel.Judgement{State: kernel.TaskState(ev.State), WaitingFor: said(ev, kernel.TrailerWaitingFor)}.Accepted()
	}
	for _, m := range way[0].Moves[1:] {
		p.cmds = append(p.cmds, git.Command{Ref: m.Ref, Old: git.OID(m.Old), New: git.OID(m.New)})
	}
	p.pack, p.bare = objs.Pack(), objs.Bare()
	return nil
}

// actionOf is what a commit was pushed for, as its intent says.
func (w *worker) actionOf(ctx context.Context, commit git.OID) (action kernel.Action, err error) {
	for r, err := range w.s.deps.Ledger.RecordsOfTask(ctx, w.number) {
		if err != nil {
			return "", err
		}
		if r.Kind != kernel.KindIntent {
			continue
		}
		var i kernel.Intent
		if err := canon.UnmarshalCanonical(r.Body, &i); err != nil {
			return "", err
		}
		if i.New == string(commit) {
			action = i.Effect
		}
	}
	return action, nil
}

// ownNow reports whether a state commit would count as ours if it were at HEAD.
func (w *worker) ownNow(head git.Commit) bool {
	acts := w.s.standing(nil)
	h := kernel.HeadFacts{OID: string(head.OID)}
	h.Trust, _ = w.s.trust(head, w.StateRef(), acts)
	ev, err := eventOf(head, false)
	if err != nil {
		return false
	}
	w.bind(&h, ev, acts)
	return h.Trust == kernel.TrustOwn && h.Trusted()
}

// lost reports whether the last push of ours that won has neither become HEAD nor is
// below it.
func (w *worker) lost(ctx context.Context, c *observation, h kernel.HeadFacts) (bool, error) {
	p := c.last
	switch {
	case p == nil, h.OID == string(p.to()):
		return false, nil
	case h.OID == plain(p.from()):
		return true, nil
	case !h.Trusted():
		return false, nil
	}
	var not []git.OID
	if !p.from().IsZero() {
		not = append(not, p.from())
	}
	since, more, err := w.s.deps.Repo.Log(ctx, []git.OID{git.OID(h.OID)}, not, maxTold)
	switch git.CodeOf(err) {
	case git.CodeObjectMissing, git.CodeObjectInvalid, git.CodeCommitAmbiguous:
		return false, nil
	}
	return err == nil && len(more) == 0 && !slices.ContainsFunc(since, func(k git.Commit) bool { return k.OID == p.to() }), err
}
