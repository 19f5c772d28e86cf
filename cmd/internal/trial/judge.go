package trial

import (
	"context"
	"errors"
	"slices"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// sampleTask is the number that stands in the message which is judged: any would do,
// since a contract whose template can't hold every number is invalid.
const sampleTask = 1

// Verdict is what a contract would have said to a commit.
type Verdict struct {
	Violations []kernel.Violation
	Discarded  []string // what would have been left out: ignored by the base
	// Class is the gravest of what is protected among what the commit changed. A lock
	// file that comes without its manifest is guarded.
	Class scope.Class
	// Waits says that somebody would have to accept guarded paths before it is delivered.
	Waits bool
}

// Accepted reports whether the commit could have been a task's result, be it once its
// guarded paths are accepted.
func (v Verdict) Accepted() bool { return len(v.Violations) == 0 }

// Judge says what a contract would have said to a commit.
func Judge(ctx context.Context, c Commit, k contract.Contract) (Verdict, error) {
	budgets, _, _, _ := k.Apply(contract.Caps{}, nil)
	rules := scope.Rules{
		Allowed: k.Defaults.AllowedFiles, Forbidden: k.Paths.Forbidden, Guarded: k.Paths.Guarded, Unprotect: k.Paths.Unprotect,
		Accepts: k.Paths.Accepts(), MaxFiles: budgets.Files, MaxBytes: budgets.Bytes, Blob: c.blob(ctx),
		LockSources: c.history.LockSources,
	}
	_, message := k.Message(c.Title, sampleTask)
	var err error
	switch {
	case len(rules.Allowed) == 0:
		for _, change := range c.Changes {
			rules.Paths = append(rules.Paths, change.Path) // which is never ignored then
		}
	case k.Paths.Ignored == contract.IgnoredDiscard:
		if rules.Ignore, err = c.ignore(ctx); err != nil {
			return Verdict{}, err
		}
	}
	base, err := c.around(ctx)
	var s *scope.Scope
	if err == nil {
		s, err = scope.New(base, rules)
	}
	var broken *scope.TreeError
	if errors.As(err, &broken) {
		return Verdict{Violations: append(message, broken.Violation())}, nil
	}
	if err != nil {
		return Verdict{}, err
	}
	found, err := s.Suppose(ctx, c.Changes)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Violations: slices.Concat(found.Violations, message, found.NoOutput()), Discarded: found.Discarded, Waits: len(found.Guarded) > 0}
	v.Violations = slices.DeleteFunc(v.Violations, func(v kernel.Violation) bool { return v.Code == kernel.CodeScopeViolation })
	v.Class, err = classOf(found, k)
	return v, err
}

// blob reads a file of the history.
func (c Commit) blob(ctx context.Context) func(string) ([]byte, error) {
	return func(oid string) ([]byte, error) {
		data, err := c.history.repo.Blob(ctx, git.OID(oid))
		if git.CodeOf(err) == git.CodeTooLarge {
			return nil, scope.ErrTooLarge
		}
		return data, err
	}
}

// classOf is the gravest class of a commit's paths.
func classOf(found scope.Verdict, k contract.Contract) (scope.Class, error) {
	guard, faults := scope.NewClasses(k.Paths.Forbidden, k.Paths.Guarded, k.Paths.Unprotect)
	if len(faults) > 0 {
		return "", faults[0]
	}
	worst := scope.ClassNone
	for _, change := range found.Changes {
		switch class := guard.Class(change.Path); {
		case class == scope.ClassForbidden:
			return class, nil
		case class == scope.ClassLock && slices.Contains(found.Locks, change.Path):
			if worst == scope.ClassNone {
				worst = class
			}
		case class != scope.ClassNone:
			worst = scope.ClassGuarded
		}
	}
	return worst, nil
}
