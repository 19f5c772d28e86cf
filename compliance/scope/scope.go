package scope

import (
	"context"

	"github.com/writbot/writ/kernel"
)

// Rules are what one task may do to one base tree.
type Rules struct {
	// Allowed are the task's allowed_files; none allows nothing.
	Allowed []string
	// Paths are allowed beside the patterns, each by its exact name: what a commit
	// that is judged afterwards changed. A task has none.
	Paths []string
	// Forbidden and Guarded add to [DefaultForbidden] and [DefaultGuarded], Unprotect
	// takes out of both: the contract's paths of these names.
	Forbidden []string
	Guarded   []string
	Unprotect []string
	// Accepts says that a person can be asked to accept guarded paths. Otherwise they
	// are refused.
	Accepts bool
	// LockSources are the sources that lock files may name beside those of their base: the
	// operator's. See [Locks.WithManifest].
	LockSources []string
	// Blob reads what a lock file held before, by its blob id; without it no lock file
	// comes with its manifest. See [Locks.WithManifest].
	Blob func(oid string) ([]byte, error)
	// Ignore holds the base commit's .gitignore files, path → content; see
	// [IgnoreFiles]. Nil discards nothing (paths.ignored: refuse).
	Ignore map[string][]byte
	// MaxFiles and MaxBytes are budgets.files and budgets.bytes: changed
	// paths, and bytes of what they hold afterwards.
	MaxFiles int64
	MaxBytes int64
}

// Scope is a base tree and the rules for changing it, compiled. It may be used
// by one goroutine at a time.
type Scope struct {
	base    base
	allowed Globs
	paths   map[string]bool
	guard   Protection
	ignore  *ignores
	rules   Rules
}

// New compiles rules. Faulty patterns are a [*PatternError], a base tree that
// can't be used a [*TreeError]; tasks and contracts that were loaded by this
// room have neither.
func New(entries []Entry, r Rules) (*Scope, error) {
	b, err := newBase(entries)
	if err != nil {
		return nil, err
	}
	allowed, faults := ParseGlobs(r.Allowed)
	guard, more := NewClasses(r.Forbidden, r.Guarded, r.Unprotect)
	if faults = append(faults, more...); len(faults) > 0 {
		return nil, faults[0]
	}
	paths := make(map[string]bool, len(r.Paths))
	for _, p := range r.Paths {
		paths[p] = true
	}
	return &Scope{base: b, allowed: allowed, paths: paths, guard: guard, ignore: newIgnores(r.Ignore), rules: r}, nil
}

// Verdict is what was found in a workspace.
type Verdict struct {
	// Changes are sorted by path. When there are more than MaxListed, the rest
	// is left out and a violation says so.
	Changes []kernel.Change
	// Contents holds the bytes of every changed file by blob id, as they were
	// hashed. It is whole only if there are no violations.
	Contents map[string][]byte
	// Discarded are the ignored leftovers, sorted, at most MaxListed and a note.
	Discarded []string
	// Guarded are the changed paths that a person must accept, sorted; none where nobody
	// can, for then they are violations.
	Guarded []kernel.GuardedPath
	// Locks are the changed lock files that come with their manifests, sorted.
	Locks []string
	// Violations are all of them, in the kernel's order; the umbrella
	// execution.scope.violation is among them if there is any.
	Violations []kernel.Violation
}

// Diff is the verdict as a proposal record.
func (v Verdict) Diff(run, baseCommit string) kernel.Diff {
	return kernel.Diff{Kind: string(kernel.KindDiff), Run: run, Base: baseCommit,
		Changes: nonNil(v.Changes), Discarded: nonNil(v.Discarded), Violations: nonNil(v.Violations), Guarded: v.Guarded, Locks: v.Locks}
}

// NoOutput is the violation of a verdict that nothing speaks against and nothing was
// changed by, or none: a task owes a change.
func (v Verdict) NoOutput() []kernel.Violation {
	if len(v.Changes) > 0 || len(v.Violations) > 0 {
		return nil
	}
	detail := "Nothing was changed."
	if len(v.Discarded) > 0 {
		detail = "Nothing was changed but files that the base ignores."
	}
	return []kernel.Violation{{Code: kernel.CodeNoOutput, Subject: "workspace", Detail: detail}}
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// MaxListed bounds the lists of a verdict, so that a builder can't fill the
// records: a workspace with a million new files is refused by a short text.
const MaxListed = 1000

// Verify walks the workspace and judges it. The error is the system's: the
// workspace can't be read for a reason that isn't the builder's doing, or ctx
// ended. Every process that could write to the workspace must be dead.
func (s *Scope) Verify(ctx context.Context, root string) (Verdict, error) {
	snap, err := s.Snapshot(ctx, root)
	if err != nil {
		return Verdict{}, err
	}
	return s.Compare(ctx, snap)
}

// violations collects broken rules and never grows beyond a bound.
type violations struct {
	list []kernel.Violation
	more map[kernel.Code]int
}

// maxPerCode is how many violations of one code are listed.
const maxPerCode = 100

func (v *violations) add(code kernel.Code, subject, detail string) {
	if v.more == nil {
		v.more = map[kernel.Code]int{}
	}
	if v.more[code]++; v.more[code] <= maxPerCode {
		v.list = append(v.list, kernel.Violation{Code: code, Subject: Display(subject), Detail: detail})
	}
}
