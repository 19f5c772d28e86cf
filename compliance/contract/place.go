package contract

import (
	"fmt"
	"iter"
	"strings"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/kernel"
)

// Misplaced says what stands in the place of a contract in a tree that has none,
// given the paths of all its entries: a directory or something else at [Path] or
// above it, or a contract under a name that only looks like it. Who put it there
// meant to set rules, so the built-in ones are not what is in force (case I11).
func Misplaced(paths iter.Seq[string]) []kernel.Violation {
	for p := range paths {
		if why := misplaced(p); why != "" {
			return []kernel.Violation{{Code: kernel.CodeGovernanceInvalid, Subject: p, Detail: why}}
		}
	}
	return nil
}

// dir is where the contract lies.
const dir = ".writ"

func misplaced(p string) string {
	if len(p) < len(dir) || !strings.EqualFold(p[:len(dir)], dir) {
		return ""
	}
	switch folded := scope.Fold(p); {
	case strings.HasPrefix(folded, Path+"/"):
		return fmt.Sprintf("%s is a directory; it must be a regular file.", Path)
	case folded == dir:
		return fmt.Sprintf("It is no directory, so that there can be no %s; delete or move it.", Path)
	case folded == Path, folded == strings.TrimSuffix(Path, "yaml")+"yml":
		return fmt.Sprintf("The contract must be named %s exactly.", Path)
	}
	return ""
}
