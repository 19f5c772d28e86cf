package scope

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/writbot/writ/kernel"
)

// MaxReported is how many paths a result may list.
const MaxReported = 10_000

// CheckReported compares what a builder says it changed with what it changed
// (seed 001, "Required Executor Output"; case S15). The actual set decides in
// any case; a report that differs makes the result itself invalid. Discarded
// leftovers may be named or not. A result that the adapter composed has no
// claim to check.
func CheckReported(reported []string, v Verdict) []kernel.Violation {
	faults := &violations{}
	bad := func(path, detail string) { faults.add(kernel.CodeResultInvalid, path, detail) }
	if len(reported) > MaxReported {
		bad("changed_files", fmt.Sprintf("%d paths are listed; at most %d are read.", len(reported), MaxReported))
		return faults.list
	}
	actual := make(map[string]bool, len(v.Changes))
	for _, c := range v.Changes {
		actual[c.Path] = true
	}
	seen := make(map[string]bool, len(reported))
	for _, p := range reported {
		switch {
		case seen[p]:
			bad(p, "The result lists it twice.")
		case !normal(p):
			bad(p, "The result lists it in a form that is no path from the repository's root.")
		case !actual[p] && !discardedBy(v.Discarded, Display(p)):
			bad(p, "The result lists it, and it did not change.")
		}
		seen[p] = true
	}
	for _, c := range v.Changes {
		if !seen[c.Path] {
			bad(c.Path, "It changed, and the result does not list it.")
		}
	}
	return kernel.SortViolations(faults.list)
}

func normal(p string) bool {
	return p != "" && p != "." && path.Clean(p) == p && !strings.HasPrefix(p, "/") && p != ".." && !strings.HasPrefix(p, "../") && !strings.Contains(p, `\`)
}

func discardedBy(discarded []string, p string) bool {
	return slices.ContainsFunc(discarded, func(d string) bool {
		return d == p || strings.HasSuffix(d, "/") && strings.HasPrefix(p+"/", d)
	})
}
