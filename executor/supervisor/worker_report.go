package supervisor

import (
	"cmp"
	"context"
	"slices"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// buildReport composes the compliance report of the request in flight. What it says
// of a run is what the records say, and those that this request adds.
func (w *worker) buildReport(ctx context.Context, c *cycle) (report.Report, error) {
	r := w.notice(c.decision, c.facts, c.intake, w.s.deps.Ledger.Chain().Head.Hash)
	if d := c.decision; d.State.Final() {
		r.FinalState = d.State
	}
	seen := kernel.Draft{Kind: kernel.KindObservation, Run: c.runID(), Body: c.facts}
	run, err := w.recorded(ctx, c.facts, append(slices.Clone(c.staged), seen)...)
	if err != nil {
		return r, err
	}
	run.Tell(&r, accepted(c.decision))
	return r.Finish(), nil
}

// recorded is what the ledger holds of the run that HEAD tells of, and what drafts
// add to it. Where HEAD isn't the task's state, it is the last run of this instance. A
// run that this instance didn't dispatch has no records here.
func (w *worker) recorded(ctx context.Context, f kernel.Facts, drafts ...kernel.Draft) (report.RunRecord, error) {
	known, _ := w.s.world.Task(w.number)
	run := report.RunRecord{ID: known.Run.ID}
	switch {
	case w.run != nil:
		run.ID = w.run.id
	case f.HeadCounts() && f.Head.Run() != "":
		run.ID = f.Head.Run()
	}
	if run.ID != known.Run.ID {
		return run, nil
	}
	for r, err := range w.s.deps.Ledger.RecordsOfTask(ctx, w.number) {
		if err != nil {
			return run, err
		}
		if err := run.Take(r.Kind, r.Run, r.Body); err != nil {
			return run, err
		}
	}
	for _, d := range drafts {
		body, err := canon.Marshal(d.Body)
		if err != nil {
			return run, err
		}
		if err := run.Take(d.Kind, d.Run, body); err != nil {
			return run, err
		}
	}
	return run, nil
}

// noticeOf is the notice of a task, with what is recorded of a run that has no report at
// HEAD: that is its broken lease, its wait with the work that is kept, or no state of the task.
// Of work that another instance keeps, HEAD says what it was dispatched as.
func (w *worker) noticeOf(ctx context.Context, d kernel.Decision, f kernel.Facts, head git.Commit, in *Intake, ledger canon.Digest) (report.Report, error) {
	r := w.notice(d, f, in, ledger)
	switch {
	case f.Head.State == kernel.HeadStalled, f.Head.State == kernel.HeadWorking, !f.HeadCounts():
	case f.Head.Kept:
		r.WaitingFor = cmp.Or(r.WaitingFor, f.Head.WaitingFor)
	default:
		return r, nil
	}
	var run report.RunRecord
	var err error
	w.s.locked(func() { run, err = w.recorded(ctx, f) })
	if said, _ := lease.Parse(head.Message).Get(kernel.TrailerDispatch); f.Head.Kept && run.Dispatch == "" {
		run.Dispatch = canon.Digest(said)
	}
	if err != nil || run.Dispatch == "" {
		return r, err
	}
	run.Tell(&r, false)
	r.Codes, r.Violations, r.Attempts = d.Codes, d.Violations, d.Attempt
	return r, nil
}

// notice is the part of a report that needs no run. ledger is the last record, ""
// for a text that is to stay the same while nothing changes.
func (w *worker) notice(d kernel.Decision, f kernel.Facts, in *Intake, ledger canon.Digest) report.Report {
	r := report.Report{
		World: w.s.cfg.World, TaskID: w.number, RunID: f.Head.RunID, Codes: d.Codes, Violations: d.Violations,
		Attempts: d.Attempt, Interruptions: d.Interruptions, GovernanceHash: f.Governance,
		LedgerHead: ledger, WaitingFor: d.WaitingFor,
	}
	if d.NotBefore > 0 {
		r.NotBefore = kernel.Timestamp((d.NotBefore + 999) / 1000)
	}
	if d.Standing == kernel.StandHeld {
		r.Held = &report.Held{Runner: f.Head.RunnerID, Until: kernel.Timestamp((f.Head.LeaseUntil + 999) / 1000)}
	}
	if in != nil {
		r.ContractSource, r.BaseCommit, r.Builder = in.Source, string(in.BaseCommit), in.Spec.Builder
		r.Warnings, r.Notes = in.Warnings, in.Notes
	}
	return r
}

// reportAt reads the report in a state commit's tree.
func (w *worker) reportAt(ctx context.Context, head git.Commit) (report.Report, bool, error) {
	var r report.Report
	if head.Tree == "" {
		return r, false, nil
	}
	data, err := w.readFile(ctx, head.Tree, replay.FileReport)
	if err != nil || data == nil {
		return r, false, err
	}
	if err := canon.UnmarshalCanonical(data, &r); err != nil || r.Validate() != nil {
		return r, false, nil //nolint:nilerr // what isn't a report is none
	}
	return r, r.TaskID == w.number, nil
}
