package builder

import (
	"context"
	"fmt"
	"slices"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
)

// takeIn makes the outcome once every process is dead: first what was said,
// then what was done.
func (b *build) takeIn(ctx context.Context, w *watch, end ending, started, ended int64) {
	var vs []kernel.Violation
	add := func(list ...kernel.Violation) { vs = append(vs, list...) }
	var result *kernel.Result
	var faults []kernel.Violation
	composed := false
	verdict, end, unjudged := b.judge(ctx, end)
	ran := end.ran()
	add(b.exitFaults(end)...)
	add(b.saidFaults(end)...)
	add(b.overBudget(end)...)
	if ran {
		add(b.late(end, ended-started)...)
		add(unjudged...)
		if len(unjudged) == 0 && end.exit.Cause == kernel.CauseExited {
			add(verdict.NoOutput()...)
		}
		result, faults = readResult(b.outDir())
		composed = result == nil && len(faults) == 0 && !b.cfg.RequireResult
	}
	switch {
	case !ran:
	case composed:
		result = b.compose(end, verdict, w, ended)
	case result != nil:
		faults = append(faults, scope.CheckReported(result.ChangedFiles, verdict)...)
		add(b.reported(result)...)
	case len(faults) == 0:
		add(kernel.Violation{Code: kernel.CodeNoOutput, Subject: resultSubject, Detail: "The builder left no result, and one is required."})
	}
	add(faults...)
	diff := verdict.Diff(b.job.Run, b.job.Base.Commit)
	if len(vs) > 0 && !slices.ContainsFunc(slices.Concat(vs, diff.Violations), ownFault) {
		add(b.egress.purse.lacksPrice()...)
		add(b.egress.contextFull()...)
		outage := b.egress.outage()
		if add(outage...); len(outage) > 0 {
			b.l.doubtPreflight(b.job.Builder)
		}
	}
	contents := b.l.withoutSecrets(&diff, verdict.Contents)
	diff.Discarded, diff.Violations = b.l.cleanAll(diff.Discarded, maxDetailBytes), b.l.plain(diff.Violations)
	b.out = executor.BuildOutcome{
		Result: kernel.BuilderResult{
			Kind: string(kernel.KindBuilderResult), Run: b.job.Run, Builder: b.job.Builder,
			Argv: b.l.cleanAll(b.cfg.Argv, keepBytes), Sandbox: end.level(b.l.cfg.Sandbox),
			Composed: composed, Result: b.l.kept(result), Exit: end.exit,
			Stdout: b.l.evidence(w.stdout), Stderr: b.l.evidence(w.stderr),
			Started: started, Ended: ended, Faults: b.l.plain(faults), Egress: b.egress.result(), Prepared: b.prep.result(), Agent: b.agent(),
		},
		Diff: diff, Contents: contents, Violations: b.l.plain(vs),
	}
}

// ownFault reports whether a violation is the builder's whatever its provider did: it says
// more than that the builder ended, badly or with nothing.
func ownFault(v kernel.Violation) bool {
	return !slices.Contains([]kernel.Code{kernel.CodeExecutionExit, kernel.CodeExecutionReported, kernel.CodeTimeout, kernel.CodeNoOutput}, v.Code)
}

func (b *build) workspace() string { return b.tree.workspace() }

// exitFaults are what an ending alone is guilty of.
func (b *build) exitFaults(e ending) []kernel.Violation {
	if e.err != nil {
		return []kernel.Violation{faultOf(b.job.Builder, e.err)}
	}
	code := kernel.CodeExecutionExit
	switch e.exit.Cause {
	case kernel.CauseStart, kernel.CauseTimeout, kernel.CauseIdle:
		code = kernel.CodeTimeout
	case kernel.CauseResource:
		code = kernel.CodeExecutionResource
	case kernel.CauseBudget:
		code = kernel.CodeExecutionBudget
	case kernel.CauseStopped:
		code = kernel.CodeTaskInterrupted
	}
	if e.succeeded() {
		return nil
	}
	return []kernel.Violation{{Code: code, Subject: "builder", Detail: "The builder " + e.sentence()}}
}

// overBudget: a builder that reached its budget and ended by itself before it was ended has
// failed as well, however it ended.
func (b *build) overBudget(e ending) []kernel.Violation {
	over := b.egress.purse.reached()
	if over == nil || e.err != nil || e.exit.Cause == kernel.CauseBudget || e.exit.Cause == kernel.CauseStopped {
		return nil
	}
	return []kernel.Violation{{Code: kernel.CodeExecutionBudget, Subject: "builder", Detail: "The builder ended by itself: " + over.text + "."}}
}

// late looks at the recorded times: a machine that was suspended let a builder
// end by itself after its deadline, and what it brings is refused however good
// it is (REQUIREMENTS D39).
func (b *build) late(e ending, tookMs int64) []kernel.Violation {
	over := tookMs - b.job.Budgets.BuildTimeoutMs
	if over <= 0 || e.exit.Cause != kernel.CauseExited {
		return nil
	}
	return []kernel.Violation{{Code: kernel.CodeTimeout, Subject: "builder", Detail: fmt.Sprintf("The builder ended %d ms after its deadline.", over)}}
}

// reported is what the builder says about itself.
func (b *build) reported(r *kernel.Result) []kernel.Violation {
	if r.Status != kernel.ResultFailure {
		return nil
	}
	return []kernel.Violation{{Code: kernel.CodeExecutionReported, Subject: b.job.Builder, Detail: "The builder's result says failure."}}
}
