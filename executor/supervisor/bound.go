package supervisor

import (
	"fmt"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

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
