package wire

import (
	"context"
	"slices"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
)

// LogCycle writes the line of an ended cycle (seed 001, logging requirements)
// and keeps a checkpoint of what led to it.
func (proc *Process) LogCycle(in *installation.Governed) func(supervisor.EndedRun) {
	return func(c supervisor.EndedRun) {
		ctx := context.Background()
		proc.LogCycles(ctx, in, c.Task)
		in.Checkpoint(ctx)
	}
}

// LogCycles writes the lines that the log lacks: of cycles that ended just now,
// and of those whose process was killed or lost its lease (conformance D53).
// The log is derived from the ledger, so a line that can't be written loses
// nothing and comes the next time.
func (proc *Process) LogCycles(ctx context.Context, in *installation.Governed, task int64) {
	if err := proc.appendCycles(ctx, in, task); err != nil {
		in.Log.Warn("the execution log lacks a line", installation.LogWorld, in.World, installation.LogTask, task, "error", err)
	}
}

func (proc *Process) appendCycles(ctx context.Context, in *installation.Governed, task int64) error {
	var records []kernel.Record
	for rec, err := range in.Ledger.RecordsOfTask(ctx, task) {
		if err != nil {
			return err
		}
		records = append(records, rec)
	}
	lines, err := report.Cycles(records)
	if err != nil || len(lines) == 0 {
		return err
	}
	log, err := report.OpenLog(in.Dir.Path, proc.Redactor.Now())
	if err != nil {
		return err
	}
	// Lines are written in order, so what follows the last one is missing.
	missing := 0
	for _, line := range slices.Backward(lines) {
		if has, err := log.Has(line); err != nil {
			return err
		} else if has {
			break
		}
		missing++
	}
	for _, line := range lines[len(lines)-missing:] {
		if err := log.Append(line); err != nil {
			return err
		}
	}
	return nil
}
