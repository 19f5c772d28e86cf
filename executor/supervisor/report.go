package supervisor

import (
	"context"
	"sort"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// buildReport composes the compliance report of the request in flight.
func (t *Task) buildReport(c *cycle) report.Report {
	r := t.notice(c.decision, c.facts, c.intake, t.s.deps.Ledger.Chain().Head.Hash)
	if d := c.decision; d.State.Final() {
		r.FinalState = d.State
	}
	if t.run != nil {
		t.reportRun(&r, t.run, c.decision.State == kernel.TaskCompleted)
	}
	return r.Finish()
}

// notice is the part of a report that needs no run. ledger is the last record, ""
// for a text that is to stay the same while nothing changes.
func (t *Task) notice(d kernel.Decision, f kernel.Facts, in *Intake, ledger canon.Digest) report.Report {
	r := report.Report{
		World: t.s.cfg.World, TaskID: t.number, RunID: f.Head.RunID, Codes: d.Codes, Violations: d.Violations,
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

// reportRun adds what a run came to.
func (t *Task) reportRun(r *report.Report, run *run, verified bool) {
	r.RunID, r.Attempts, r.BaseCommit = run.id, run.attempt, run.pack.Pins.BaseCommit
	r.GovernanceHash, r.ContractSource = run.pack.Pins.Governance, run.intake.Source
	r.Warnings, r.Notes, r.Builder = run.intake.Warnings, run.intake.Notes, run.pack.Spec.Builder
	if run.build == nil {
		return
	}
	r.Dispatched, r.Verified, r.DispatchHash = true, verified, run.dispatchHash
	r.Sandbox = run.built.Result.Sandbox
	for _, ch := range run.built.Diff.Changes {
		r.ChangedFiles = append(r.ChangedFiles, ch.Path)
	}
	sort.Strings(r.ChangedFiles)
	r.Discarded = run.built.Diff.Discarded
	for _, k := range run.checked.Run.Checks {
		r.Checks = append(r.Checks, report.Check{Name: k.Name, Passed: k.Passed, Runs: k.Runs, Stable: k.Stable, Exit: k.Exit.Code})
		if !k.Passed {
			r.Outputs = append(r.Outputs, report.Output{Name: "check " + k.Name, Tail: k.Output.Tail})
		}
	}
	if len(run.built.Violations) > 0 {
		r.Outputs = append(r.Outputs,
			report.Output{Name: "builder stdout", Tail: run.built.Result.Stdout.Tail},
			report.Output{Name: "builder stderr", Tail: run.built.Result.Stderr.Tail})
	}
}

// Report is the report to show for a status: the one at HEAD where the task has
// ended, which any instance reads alike, or the notice of why it goes no
// further.
func (t *Task) Report(ctx context.Context, st Status) (report.Report, error) {
	d := st.Decision
	if d.Verdict == kernel.Allow && st.Facts.Head.Trust.Trusted() &&
		(d.Standing == kernel.StandFinal || d.Standing == kernel.StandDue || d.Standing == kernel.StandWaiting) {
		r, ok, err := t.reportAt(ctx, st.Head)
		if ok || err != nil {
			return r, err
		}
	}
	var ledger canon.Digest
	t.s.locked(func() { ledger = t.s.deps.Ledger.Chain().Head.Hash })
	r := t.notice(d, st.Facts, st.Intake, ledger)
	switch d.Standing {
	case kernel.StandFinal:
		return r, &executor.Error{Code: kernel.CodeEvidenceInvalid, Detail: "the report at HEAD, " + st.Facts.Head.OID + ", can't be read"}
	case kernel.StandActing, kernel.StandRunning, kernel.StandAbandoned:
		r.Codes, r.Violations = nil, nil // the drive ended before anything was concluded
	}
	return r.Finish(), nil
}

// reportAt reads the report in a state commit's tree.
func (t *Task) reportAt(ctx context.Context, head git.Commit) (report.Report, bool, error) {
	var r report.Report
	if head.Tree == "" {
		return r, false, nil
	}
	data, err := t.readFile(ctx, head.Tree, replay.FileReport)
	if err != nil || data == nil {
		return r, false, err
	}
	if err := canon.UnmarshalCanonical(data, &r); err != nil || r.Validate() != nil {
		return r, false, nil //nolint:nilerr // what isn't a report is none
	}
	return r, r.TaskID == t.number, nil
}
