package kernel

import (
	_ "embed" // the version is a file, so that docs and tests read the same one
	"strings"
)

//go:embed VERSION
var version string

// Version returns the semantic version of the kernel's decision rules. Any
// change of scoring, pruning, collapse, canonical form or decision order bumps
// it (seed 003 §5); it stands in every seed pack.
func Version() string { return strings.TrimSpace(version) }
