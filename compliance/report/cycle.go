package report

import (
	"encoding/json"
	"fmt"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Outcomes of a verification in the execution log.
const (
	OutcomeVerified = "verified"
	OutcomeFailed   = "failed"
	// OutcomeInterrupted: the cycle has no report; its process died, its lease
	// was lost, or it is still running.
	OutcomeInterrupted = "interrupted"
)

// Line is one line of logs/execution_cycle.log: one dispatch and what became of
// it. The first five are the seed's.
type Line struct {
	DispatchTimestamp   string           `json:"dispatch_timestamp"`
	ExecutorCommand     []string         `json:"executor_command"` // empty if it never started
	ExitStatus          *int64           `json:"exit_status"`      // -1: by a signal; null: unknown
	VerificationOutcome string           `json:"verification_outcome"`
	FinalTaskState      kernel.TaskState `json:"final_task_state"` // "" where the cycle did not end

	World          string        `json:"world_id"`
	TaskID         int64         `json:"task_id"`
	RunID          string        `json:"run_id"`
	Attempt        int64         `json:"attempt"`
	Codes          []kernel.Code `json:"codes"`
	CommitCreated  bool          `json:"commit_created"`
	CommitHash     string        `json:"commit_hash"`
	FilesCommitted []string      `json:"files_committed"`
	DispatchHash   canon.Digest  `json:"dispatch_hash"`
	GovernanceHash canon.Digest  `json:"governance_hash"`
	Signal         string        `json:"signal"` // what ended the builder, "" for itself
	Cause          string        `json:"cause"`  // one of kernel's Cause words, "" unknown
}

// Cycle derives the line of one run from its records, which may stand among
// others'. It is false if that run was never dispatched. The same records give
// the same line, so that the log can be rebuilt (seed 001, "Logging
// Requirements"; conformance D54).
func Cycle(records []kernel.Record, run string) (Line, bool, error) {
	line := Line{ExecutorCommand: []string{}, Codes: []kernel.Code{}, FilesCommitted: []string{}, VerificationOutcome: OutcomeInterrupted}
	found, pushed := false, true
	for _, r := range untilMerge(records) {
		if r.Run != run || run == "" {
			continue
		}
		var err error
		switch r.Kind {
		case kernel.KindDispatch:
			err, found = line.dispatch(r), true
		case kernel.KindBuilderResult:
			err = line.builder(r)
		case kernel.KindReport:
			err = line.report(r)
		case kernel.KindIntent, kernel.KindOutcome:
			pushed, err = told(r, pushed)
		}
		if err != nil {
			return Line{}, false, fmt.Errorf("report: record %d: %w", r.Seq, err)
		}
	}
	if !pushed {
		line.interrupted()
	}
	return line, found, nil
}

// told is whether the report got out, after one more intent or outcome: a
// verdict whose last push was lost or refused is nobody's.
func told(r kernel.Record, before bool) (bool, error) {
	var o struct {
		Effect kernel.Action
		Status kernel.OutcomeStatus // "" of an intent: the push is under way
	}
	if err := json.Unmarshal(r.Body, &o); err != nil {
		return false, err
	}
	if o.Effect != kernel.ActionResult && o.Effect != kernel.ActionWait {
		return before, nil
	}
	return o.Status == kernel.OutcomeDone || o.Status == "", nil
}

// interrupted drops what a report said that never got out.
func (l *Line) interrupted() {
	l.VerificationOutcome, l.FinalTaskState, l.Codes = OutcomeInterrupted, kernel.TaskNone, []kernel.Code{}
	l.CommitCreated, l.CommitHash, l.FilesCommitted = false, "", []string{}
}

// merged derives the line of a run whose result waited for the merge of its change,
// once it is merged: the task ended with that, long after the execution.
func merged(records []kernel.Record, line Line) (Line, bool, error) {
	rest := records[len(untilMerge(records)):]
	if len(rest) == 0 || line.VerificationOutcome != OutcomeVerified {
		return line, false, nil
	}
	done := false
	for _, r := range rest[1:] {
		var o struct {
			Effect kernel.Action
			Status kernel.OutcomeStatus
		}
		if r.Kind != kernel.KindIntent && r.Kind != kernel.KindOutcome {
			continue
		}
		if err := json.Unmarshal(r.Body, &o); err != nil {
			return line, false, err
		}
		if o.Effect == kernel.ActionComplete {
			done = o.Status == kernel.OutcomeDone || o.Status == ""
		}
	}
	line.FinalTaskState = kernel.TaskCompleted
	return line, done, nil
}

// untilMerge are the records before the report that a merge has completed.
func untilMerge(records []kernel.Record) []kernel.Record {
	for i, r := range records {
		var rep struct {
			Merge json.RawMessage `json:"merge"`
		}
		if r.Kind == kernel.KindReport && json.Unmarshal(r.Body, &rep) == nil && rep.Merge != nil {
			return records[:i]
		}
	}
	return records
}

// Cycles derives the lines of every run, in the order of their dispatches. A run whose
// result waited for the merge of its change has a second one, with the final state.
func Cycles(records []kernel.Record) ([]Line, error) {
	byRun := map[string][]kernel.Record{}
	var order []string
	dispatched := map[string]bool{}
	for _, r := range records {
		if r.Run == "" {
			continue
		}
		if r.Kind == kernel.KindDispatch && !dispatched[r.Run] {
			dispatched[r.Run] = true
			order = append(order, r.Run)
		}
		byRun[r.Run] = append(byRun[r.Run], r)
	}
	var out []Line
	for _, run := range order {
		line, ok, err := Cycle(byRun[run], run)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		out = append(out, line)
		if line, ok, err = merged(byRun[run], line); err != nil {
			return nil, err
		} else if ok {
			out = append(out, line)
		}
	}
	return out, nil
}

func (l *Line) dispatch(r kernel.Record) error {
	var d kernel.Dispatch
	if err := json.Unmarshal(r.Body, &d); err != nil {
		return err
	}
	hash, err := canon.Hash(d)
	if err != nil {
		return err
	}
	l.DispatchTimestamp, l.World, l.TaskID, l.RunID, l.Attempt = d.Timestamp, d.WorldID, d.TaskID, d.RunID, d.Attempt
	l.DispatchHash, l.GovernanceHash = hash, d.GovernanceHash
	return nil
}

func (l *Line) builder(r kernel.Record) error {
	var b kernel.BuilderResult
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return err
	}
	exit := b.Exit.Code
	l.ExecutorCommand, l.ExitStatus, l.Signal, l.Cause = append([]string{}, b.Argv...), &exit, b.Exit.Signal, b.Exit.Cause
	return nil
}

func (l *Line) report(r kernel.Record) error {
	var rep Report
	if err := json.Unmarshal(r.Body, &rep); err != nil {
		return err
	}
	l.VerificationOutcome = OutcomeFailed
	if rep.Verified {
		l.VerificationOutcome = OutcomeVerified
	}
	l.FinalTaskState, l.Codes = rep.FinalState, append([]kernel.Code{}, rep.Codes...)
	if rep.ChangeCommit != "" {
		l.CommitCreated, l.CommitHash, l.FilesCommitted = true, rep.ChangeCommit, append([]string{}, rep.ChangedFiles...)
	}
	return nil
}
