package instruction

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/kernel"
)

// Resolved is a task under a contract, ready for a seed pack.
type Resolved struct {
	Spec       kernel.TaskSpec // complete; checks by name, in the contract's order
	Checks     []kernel.Check  // as they will run, before the server's caps
	Notes      []string        // sentences for the report
	Violations []kernel.Violation
}

// Resolve fills in what the issue leaves out and holds the whole against the
// contract: required fields, paths, names, language. All faults are listed, the
// issue's own included. Builders are the names that the server
// knows; nil leaves the name unchecked.
func (p Parsed) Resolve(c contract.Contract, builders []string) Resolved {
	r := Resolved{Spec: p.Spec, Notes: slices.Clone(p.Notes), Violations: slices.Clone(p.Bad)}
	s := &r.Spec
	if len(s.AllowedFiles) == 0 {
		s.AllowedFiles = slices.Clone(c.Defaults.AllowedFiles)
	}
	if s.ExpectedOutcome == "" {
		s.ExpectedOutcome = strings.TrimSpace(c.Defaults.ExpectedOutcome)
	}
	if len(s.Checks) == 0 {
		s.Checks = slices.Clone(c.Defaults.Checks)
	}
	if s.Builder == "" {
		s.Builder = c.Builder
	}
	r.required()
	r.paths(c)
	r.checks(c)
	if builders != nil && !slices.Contains(builders, s.Builder) {
		r.malformed("builder", "No builder has this name here; known are: "+strings.Join(builders, ", ")+".")
	}
	r.language(p, c.Language)
	r.Violations = kernel.SortViolations(r.Violations)
	return r
}

func (r *Resolved) malformed(subject, detail string) {
	r.Violations = append(r.Violations, kernel.Violation{Code: kernel.CodeDispatchMalformed, Subject: subject, Detail: detail})
}

func (r *Resolved) required() {
	if len(r.Spec.AllowedFiles) == 0 {
		r.malformed("allowed_files", "Neither the issue nor the contract's defaults say which files may change.")
	}
	if r.Spec.ExpectedOutcome == "" {
		r.malformed("expected_outcome", "Neither the issue nor the contract's defaults say what must hold afterwards.")
	}
}

func (r *Resolved) paths(c contract.Contract) {
	guard, faults := scope.NewClasses(c.Paths.Forbidden, c.Paths.Guarded, c.Paths.Unprotect)
	for _, f := range faults {
		r.Violations = append(r.Violations, kernel.Violation{Code: kernel.CodeGovernanceInvalid, Subject: "paths", Detail: f.Reason})
	}
	r.Violations = append(r.Violations, scope.CheckAllowed(r.Spec.AllowedFiles, guard, c.Paths.Accepts())...)
}

func (r *Resolved) checks(c contract.Contract) {
	checks, unknown := c.SelectChecks(r.Spec.Checks)
	for _, n := range unknown {
		r.malformed("checks", fmt.Sprintf("The contract has no check named %q.", n))
	}
	r.Checks = checks
	r.Spec.Checks = make([]string, 0, len(checks))
	for _, k := range checks {
		r.Spec.Checks = append(r.Spec.Checks, k.Name)
	}
	var left []string
	for _, k := range c.Checks {
		if !slices.Contains(r.Spec.Checks, k.Name) {
			left = append(left, k.Name)
		}
	}
	if len(left) > 0 {
		r.Notes = append(r.Notes, "The task leaves out these checks of the contract: "+strings.Join(left, ", ")+".")
	}
}

// language looks for ambiguous words: always in what binds, and in title and
// prose as the contract says (conformance D10).
func (r *Resolved) language(p Parsed, l contract.Language) {
	r.Violations = append(r.Violations, checkWords("expected_outcome", plain(r.Spec.ExpectedOutcome))...)
	if l.Prose == contract.LanguageOff {
		r.Notes = append(r.Notes, "The issue's prose was not searched for ambiguous words (language.prose: off).")
		return
	}
	found := append(checkWords("title", plain(p.Title)), checkWords("body", p.words)...)
	if l.Prose == contract.LanguageStrict {
		r.Violations = append(r.Violations, found...)
		return
	}
	r.Notes = append(r.Notes, "Ambiguous words in the issue's prose are reported, not refused (language.prose: warn).")
	for _, v := range found {
		r.Notes = append(r.Notes, "Ambiguous wording in the "+v.Subject+": "+v.Detail)
	}
}
