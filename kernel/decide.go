package kernel

import (
	"fmt"

	"github.com/writbot/writ/kernel/canon"
)

// Decide is the decision for one request of a task: a pure function of its
// folded state, what was observed, and the time. It evaluates every rule, lists all violations in a fixed order, and names at most one effect.
//
// While this process holds a run, the run's rules decide (decideRun); otherwise
// HEAD and the task's rules do (decideHead). What the issue on the forge is to
// show follows from either (decideIssue).
func Decide(f Facts) (Decision, error) {
	hash, err := canon.Hash(f)
	if err != nil {
		return Decision{}, fmt.Errorf("kernel: facts: %w", err)
	}
	return DecideOn(f, hash), nil
}

// DecideOn is [Decide] for who has the hash of the facts already; it is "" for a look
// of which nothing is recorded.
func DecideOn(f Facts, hash canon.Digest) Decision {
	var d Decision
	if f.Request == RequestTell {
		d = decideIssue(f)
	} else {
		d = decideTask(f)
	}
	d.Kind = string(KindDecision)
	d.Facts = hash
	d.Violations = SortViolations(d.Violations)
	d.Codes = SortCodes(append(d.Codes, CodesOf(d.Violations)...))
	return d
}

func decideTask(f Facts) Decision {
	decide := decideHead
	if f.Run != nil {
		decide = decideRun
	}
	if f.replacing() {
		return putBack(f, decide(f))
	}
	return decide(f)
}

// Validate lists the faults of the request itself: structure and wording of
// the task. They matter only where a claim is due; a task that is running or
// has ended is not judged again.
func Validate(f Facts) []Violation {
	if f.Run != nil || f.Request != RequestTick || !WantsClaim(f) || f.wantsRefresh() || f.wantsFix() {
		return nil
	}
	return SortViolations(f.Input)
}

// rule is one question of arbitration. Every rule of a list is evaluated.
type rule struct {
	name string
	eval func(Facts) []Violation
}

// evaluate runs all rules and returns the tree of reasons; nothing is cut short.
func evaluate(name string, rules []rule, f Facts) Reason {
	root := Reason{Rule: name, Holds: true}
	for _, r := range rules {
		vs := SortViolations(r.eval(f))
		root.Children = append(root.Children, Reason{Rule: r.name, Holds: len(vs) == 0, Violations: vs})
		root.Holds = root.Holds && len(vs) == 0
	}
	return root
}

func (r Reason) of(name string) []Violation {
	for _, c := range r.Children {
		if c.Rule == name {
			return c.Violations
		}
	}
	return nil
}

func (r Reason) all() []Violation {
	var out []Violation
	for _, c := range r.Children {
		out = append(out, c.Violations...)
	}
	return out
}

func one(code Code, subject, format string, args ...any) []Violation {
	return []Violation{{code, subject, fmt.Sprintf(format, args...)}}
}

// Halts reports whether a code halts the kernel wherever it is found: the ledger itself
// can't be trusted (seed 004, ARBITRATING).
func (c Code) Halts() bool {
	return c == CodeLedgerRollback || c == CodeLedgerFork || c == CodeLedgerCorrupt
}

func halting(vs []Violation) []Violation {
	var out []Violation
	for _, v := range vs {
		if v.Code.Halts() {
			out = append(out, v)
		}
	}
	return out
}

// lastTime is the latest time in Unix milliseconds that a record can hold: the
// largest integer of canonical JSON.
const lastTime = 1<<53 - 1

// RetryAt is when the n-th retry is due: after min(n × backoff, cap), counted
// from the recorded time of the failure (Unix milliseconds). It is never before
// the failure and never after what a record can hold.
func RetryAt(failedAt, n, backoffMs, capMs int64) int64 {
	capMs = max(capMs, 0)
	wait := capMs
	switch {
	case n <= 0 || backoffMs <= 0:
		wait = 0
	case n <= capMs/backoffMs:
		wait = n * backoffMs
	}
	if failedAt > lastTime-wait {
		return lastTime
	}
	return failedAt + wait
}
