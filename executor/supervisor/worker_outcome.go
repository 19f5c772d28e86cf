package supervisor

import (
	"fmt"
	"slices"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// takeIn moves the run on when a build or the checks have ended.
func (w *worker) takeIn(c *observation) {
	r := w.run
	switch {
	case c.request == kernel.RequestTell:
		// Only the issue is moved.
	case w.isStopping() && c.request == kernel.RequestTick:
		// What a person's act killed didn't fail: his request comes next.
	case r.phase == kernel.PhaseSealed && r.resumes != "":
		w.takeInSealed(c)
	case r.phase == kernel.PhaseBuilding && closed(r.build.Done()):
		r.built, r.phase = bounded(r.build.Outcome()), kernel.PhaseBuilt
		if vs := condemned(r.built.Violations); len(vs) > 0 {
			w.s.surveys.condemn(r.intake.BaseCommit, vs)
		}
		c.stage(kernel.KindBuilderResult, r.id, r.built.Result)
		c.stage(kernel.KindDiff, r.id, r.built.Diff)
		w.mention("builder ended: %s, %d changed, %d discarded", exitWords(r.built.Result.Exit), len(r.built.Diff.Changes), len(r.built.Diff.Discarded))
	case r.phase == kernel.PhaseChecking && closed(r.checks.Done()):
		r.checked, r.phase = r.checks.Outcome(), kernel.PhaseChecked
		r.checked.Violations = boundViolations(r.checked.Violations)
		c.stage(kernel.KindRunResult, r.id, r.checked.Run)
		for _, k := range r.checked.Run.Checks {
			w.mention("check %s: %s", k.Name, passWord(k.Passed))
		}
	}
}

// condemned are those violations that are the base's own.
func condemned(list []kernel.Violation) []kernel.Violation {
	return slices.DeleteFunc(slices.Clone(list), func(v kernel.Violation) bool { return v.Code != kernel.CodeEnvBase })
}

func exitWords(e kernel.Exit) string {
	switch {
	case e.Cause != kernel.CauseExited:
		return e.Cause
	case e.Signal != "":
		return e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

func passWord(passed bool) string {
	if passed {
		return "passed"
	}
	return "failed"
}

const (
	// maxViolationBytes bounds a list of violations in facts, records and
	// reports, as canonical JSON: a builder that breaks a rule a million times is
	// refused in a text that fits every limit above it.
	maxViolationBytes = 64 << 10
	// maxDiffBytes bounds a diff's record, well below the ledger's limit.
	maxDiffBytes = 1 << 20
)

// boundViolations cuts a list that is too long to record, and says so.
func boundViolations(list []kernel.Violation) []kernel.Violation {
	used := 0
	for i, v := range list {
		used += encodedLen(v)
		if used > maxViolationBytes {
			cut := append([]kernel.Violation{}, list[:i]...)
			return append(cut, kernel.Violation{Code: v.Code, Detail: fmt.Sprintf("And %d more that are too long to list.", len(list)-i)})
		}
	}
	return list
}

// bounded is a build's outcome that can be recorded. A change that is too long
// to list can't be accepted.
func bounded(o executor.BuildOutcome) executor.BuildOutcome {
	changes, left := fitting(o.Diff.Changes, maxDiffBytes)
	discarded, _ := fitting(o.Diff.Discarded, maxDiffBytes-encodedLen(changes))
	if len(discarded) < len(o.Diff.Discarded) {
		discarded = append(discarded, fmt.Sprintf("… and %d more", len(o.Diff.Discarded)-len(discarded)))
	}
	if left > 0 {
		o.Diff.Violations = append(o.Diff.Violations,
			kernel.Violation{Code: kernel.CodeScopeViolation, Detail: "The list of changed paths is too long to record."},
			kernel.Violation{Code: kernel.CodeScopeSize, Detail: fmt.Sprintf("%d changed paths more don't fit into %d bytes.", left, maxDiffBytes)})
	}
	o.Diff.Changes, o.Diff.Discarded = changes, discarded
	o.Diff.Violations = boundViolations(o.Diff.Violations)
	o.Violations = boundViolations(o.Violations)
	return o
}

// fitting returns the head of a list that fits, and how many elements don't.
func fitting[T any](list []T, limit int) ([]T, int) {
	for i, x := range list {
		if limit -= encodedLen(x); limit < 0 {
			return append([]T{}, list[:i]...), len(list) - i
		}
	}
	return list, 0
}

// encodedLen is the length of a value in a record.
func encodedLen(v any) int {
	data, err := canon.Marshal(v)
	if err != nil {
		return maxDiffBytes // what can't be written fits nowhere
	}
	return len(data)
}

// takeInSealed records what the earlier run's builder left, unless that is done.
func (w *worker) takeInSealed(c *observation) {
	r, known := w.run, false
	w.s.locked(func() {
		task, _ := w.s.world.Task(w.number)
		known = task.Run.ID == r.id && task.Run.Diff != ""
	})
	if !known {
		c.stage(kernel.KindBuilderResult, r.id, r.built.Result)
		c.stage(kernel.KindDiff, r.id, r.built.Diff)
		if r.vetted {
			c.stage(kernel.KindRunResult, r.id, r.checked.Run)
		}
	}
}
