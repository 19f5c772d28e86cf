package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/kernel"
)

// VerifyStep lists what keeps a proposed diff from being the step's result,
// sorted; an empty list means that the kernel may accept it (seed 003 §11,
// 4): the step is the plan's, what it depends on was accepted before, the diff
// was made for this run on the pinned base and keeps to its scope, what the
// step expects is there, and every check among the invariants and the step's
// evidence was run, passed and did not contradict itself.
//
// The diff's own violations must come from a scope verification against the
// step's targets, which are the allowed files of its dispatch. The commit
// message has its invariant too; the kernel writes it after this and judges it
// by itself.
func VerifyStep(p Plan, id string, diff kernel.Diff, run kernel.RunResult, accepted ...string) []kernel.Violation {
	s, known := p.Step(id)
	if !known {
		return []kernel.Violation{invalid(id, "The plan has no such step.")}
	}
	out := append([]kernel.Violation{}, diff.Violations...)
	need := func(ok bool, v kernel.Violation) {
		if !ok {
			out = append(out, v)
		}
	}
	for _, on := range s.DependsOn {
		need(slices.Contains(accepted, on), invalid(id, fmt.Sprintf("It depends on step %q, which isn't accepted.", on)))
	}
	need(diff.Base == p.Pins.BaseCommit, invalid(id, "The diff was made on another base than the pinned one."))
	need(diff.Run == run.Run, invalid(id, "Diff and checks belong to different runs."))
	need(len(diff.Changes) > 0, kernel.Violation{Code: kernel.CodeNoOutput, Subject: id, Detail: "The diff is empty."})
	for _, e := range s.Expects {
		need(e.met(diff), invalid(e.Path, "What the step expects here isn't in the diff."))
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.Invariants, s.Evidence)))) {
		if check, ok := strings.CutPrefix(name, InvariantCheck); ok {
			out = append(out, proof(check, run)...)
		}
	}
	return kernel.SortViolations(out)
}

// met reports whether the diff has the expected file. A sentence is what the
// checks and the change's reviewers judge.
func (e Expect) met(diff kernel.Diff) bool {
	if e.Path == "" {
		return true
	}
	return slices.ContainsFunc(diff.Changes, func(c kernel.Change) bool {
		return c.Path == e.Path && c.Op != kernel.OpDelete && (e.Hash == "" || e.Hash == c.AfterHash)
	})
}

// proof is what is missing for a check to prove anything: a result, exactly
// one, of at least one run, stable and passed.
func proof(name string, run kernel.RunResult) []kernel.Violation {
	var found []kernel.CheckResult
	for _, c := range run.Checks {
		if c.Name == name {
			found = append(found, c)
		}
	}
	fail := func(code kernel.Code, detail string) []kernel.Violation {
		return []kernel.Violation{{Code: code, Subject: InvariantCheck + name, Detail: detail}}
	}
	switch {
	case len(found) == 0:
		return fail(kernel.CodeCheckFailed, "The check has no result.")
	case len(found) > 1:
		return fail(kernel.CodeNondeterministic, "The check has more than one result.")
	case found[0].Runs < 1:
		return fail(kernel.CodeCheckFailed, "The check did not run.")
	case !found[0].Stable:
		return fail(kernel.CodeNondeterministic, "The check contradicted itself on the same tree.")
	case !found[0].Passed:
		return fail(kernel.CodeCheckFailed, "The check did not pass.")
	}
	return nil
}

func detailOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Detail
	}
	return err.Error()
}
