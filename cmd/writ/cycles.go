package main

import (
	"context"
	"slices"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
)

// logCycle writes the line of an ended cycle (seed 001, logging requirements)
// and keeps a checkpoint of what led to it.
func (a *process) logCycle(in *governed) func(supervisor.Cycle) {
	return func(c supervisor.Cycle) {
		ctx := context.Background()
		a.logCycles(ctx, in, c.Task)
		in.checkpoint(ctx)
	}
}

// logCycles writes the lines that the log lacks: of cycles that ended just now,
// and of those whose process was killed or lost its lease (REQUIREMENTS D53).
// The log is derived from the ledger, so a line that can't be written loses
// nothing and comes the next time.
func (a *process) logCycles(ctx context.Context, in *governed, task int64) {
	if err := a.appendCycles(ctx, in, task); err != nil {
		in.log.Warn("the execution log lacks a line", logWorld, in.world, logTask, task, "error", err)
	}
}

func (a *process) appendCycles(ctx context.Context, in *governed, task int64) error {
	var records []kernel.Record
	for rec, err := range in.ledger.RecordsOfTask(ctx, task) {
		if err != nil {
			return err
		}
		records = append(records, rec)
	}
	lines, err := report.Cycles(records)
	if err != nil || len(lines) == 0 {
		return err
	}
	log, err := report.OpenLog(in.dir.path, a.redactor.now())
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
