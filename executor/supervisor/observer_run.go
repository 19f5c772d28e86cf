package supervisor

import (
	"context"
	"slices"

	"github.com/writbot/writ/kernel"
)

// readRun fills in the facts of the live run and takes in what its processes
// came to: proposals, recorded before any decision uses them.
func (o *observer) readRun(ctx context.Context, c *observation) error {
	r := o.worker.run
	if r == nil {
		return nil
	}
	o.worker.takeIn(c)
	r.mended(c.clock.WallMs)
	o.changeBranchTaken(c)
	rf := &kernel.RunFacts{
		RunID: r.id, LeaseOID: string(r.head), Attempt: r.attempt, Phase: r.phase,
		RenewDue: r.tenure.RenewDue(c.clock) && !o.worker.unrenewable(), FenceDue: r.tenure.MustFence(c.clock),
		ClaimedAt: r.claimed, Resumes: r.resumes, Refreshes: r.refreshes, Fixes: r.fixes, Refused: r.ruling.refused, Judgement: r.judgement, Again: r.again, Unheard: c.unheard, Checked: r.vetted,
	}
	switch r.phase {
	case kernel.PhaseClaimed:
		rf.Dispatch = o.worker.checkDispatch(c)
	case kernel.PhaseBuilt, kernel.PhaseSealed, kernel.PhaseChecking, kernel.PhaseChecked, kernel.PhaseJudged:
		exit := r.built.Result.Exit
		rf.Exit, rf.Build = &exit, slices.Concat(r.fails, r.built.Violations)
		rf.Scope, rf.Changes = r.built.Diff.Violations, int64(len(r.built.Diff.Changes))
		rf.CheckFails = r.checked.Violations
		rf.Message = r.intake.Message
		var err error
		if rf.Whole, err = o.judgeWhole(ctx, r); err != nil {
			return err
		}
		if rf.Starts() {
			rf.Dispatch = r.contractMoved(c)
		}
	}
	c.facts.Run = rf
	return nil
}
