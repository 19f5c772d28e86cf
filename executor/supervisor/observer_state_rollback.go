package supervisor

import (
	"cmp"
	"context"
	"strconv"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

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

// resumedAt is the HEAD that a person moves on from, be it none.
func resumedAt(head string) string { return cmp.Or(head, kernel.AbsentHead) }

// told is what writ's account wrote of the task on the issue last. Such an issue had a state.
func (o *observer) told(seen *approval.Facts) (last lastTold) {
	if seen == nil {
		return last
	}
	marks := o.marker()
	for _, k := range ownComments(*seen) {
		if run, ok := marks.status(k.Body); ok && run != "" {
			seq := marks.seq(k.Body)
			if last.at == 0 {
				last.kept, last.keptSeq = run, seq
			}
			last.seq = max(last.seq, seq)
			if when := max(k.UpdatedAt.UnixMilli(), k.CreatedAt.UnixMilli(), 1); when >= last.at {
				last.run, last.at, last.doubt = run, when, marks.doubts(k.Body)
			}
		}
	}
	return last
}

// maxTold bounds the commits below HEAD that are looked through for the run that the
// issue tells of: two days of heartbeats. A task with more of them waits for a person.
const maxTold = 4096

// behind reports whether HEAD lacks the run that the issue tells of, where nothing else
// is known of the task: then somebody set it back.
func (o *observer) behind(ctx context.Context, h kernel.HeadFacts, v kernel.TaskView, told string) (bool, error) {
	if told == "" || v.Seen != "" || v.Unshown != "" && h.OID == v.Unshown || !h.Trusted() || h.Run() == told {
		return false, nil
	}
	has, err := o.hasBelow(ctx, h, func(was kernel.HeadFacts) bool { return was.Run() == told })
	return !has, err
}

// hasBelow reports whether such an event is at HEAD or below.
func (o *observer) hasBelow(ctx context.Context, h kernel.HeadFacts, such func(kernel.HeadFacts) bool) (bool, error) {
	below, _, err := o.s.deps.Repo.Log(ctx, []git.OID{git.OID(h.OID)}, nil, maxTold)
	switch git.CodeOf(err) {
	case git.CodeObjectMissing, git.CodeObjectInvalid, git.CodeCommitAmbiguous:
		err = nil
	}
	for _, commit := range below {
		var was kernel.HeadFacts
		if ev, err := eventOf(commit, false); err == nil {
			readTrailers(&was, ev)
			if was.State, was.RunID = ev.State, ev.RunID; such(was) {
				return true, nil
			}
		}
	}
	return false, err
}

// movedSince is [errMovedOn] where the issue tells of a later HEAD because somebody pushed
// it and told of it after HEAD was read: then nobody set the task back.
func (o *observer) movedSince(ctx context.Context, h kernel.HeadFacts) error {
	if h.Told == 0 {
		return nil
	}
	return o.stillAt(ctx, h.OID)
}

// noteSecond says that another result than the one that this installation delivered is
// accepted under the same approval, and doesn't have that one below: the task was set
// back, and done again by one who couldn't know. What a person moved on from is none.
func (o *observer) noteSecond(ctx context.Context, c *observation) error {
	v, h := c.facts.View, c.facts.Head
	if v.AcceptedRun == "" || h.OID == v.Seen || h.Approval != v.AcceptedApproval || h.Run() == v.AcceptedRun ||
		!c.facts.Delivered() || h.Seq-v.SeenSeq >= kernel.RepairSeqStep {
		return nil
	}
	has, err := o.hasBelow(ctx, h, func(was kernel.HeadFacts) bool {
		return was.LastRun == v.AcceptedRun && (was.State == string(kernel.TaskCompleted) || was.State == string(kernel.TaskWaiting))
	})
	if err == nil && !has {
		o.log().Warn("another result was accepted under the same approval: the task was set back and done again elsewhere", "code", string(kernel.CodeStateRollback),
			"accepted", v.AcceptedRun, "again", h.Run(), "head", h.OID, "remedy", kernel.CodeStateRollback.Info().Remedy)
	}
	return err
}
