package scope

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// UnmatchedIn begins each sentence of [Unmatched].
const UnmatchedIn = "allowed_files: "

// maxUnmatchedWork is in characters of patterns times characters of paths: half a
// second, or "**/*.go" in a million files. Beyond it nothing is said.
const maxUnmatchedWork = 1 << 28

// Unmatched says of each pattern that can't be meant so, before anything is built:
// one with a wildcard that no file of the base matches, and one that names a
// directory, as which it allows nothing in it. A plain path that isn't there is no
// fault: it is the name of a new file. The sentences are for the report; the patterns
// have passed [CheckAllowed].
func Unmatched(patterns []string, base iter.Seq[string]) []string {
	open := make([]Glob, 0, len(patterns))
	for _, p := range patterns {
		if g, fault := parseGlob(p); fault == nil {
			open = append(open, g)
		}
	}
	dirs := map[string]bool{}
	work := 0
	for path := range base {
		if len(open) == 0 {
			break
		}
		open = slices.DeleteFunc(open, func(g Glob) bool {
			work += len(g.text) * len(path)
			if g.Literal() {
				dirs[g.text] = dirs[g.text] || len(path) > len(g.text) && path[len(g.text)] == '/' && strings.HasPrefix(path, g.text)
				return path == g.text
			}
			return strings.HasPrefix(path, g.begin()) && g.Match(path)
		})
		if work > maxUnmatchedWork {
			return nil
		}
	}
	var out []string
	for _, g := range open {
		switch {
		case dirs[g.text]:
			out = append(out, fmt.Sprintf(UnmatchedIn+"%s is a directory of the base, so the pattern allows no file in it; %s/** does.", Display(g.text), Display(g.text)))
		case !g.Literal():
			out = append(out, fmt.Sprintf(UnmatchedIn+"The pattern %s matches no file of the base, so only new files may match it. Patterns begin at the repository's root, and upper and lower case differ.", Display(g.text)))
		}
	}
	return out
}

// begin is the text before the first wildcard, with which every match begins.
func (g Glob) begin() string {
	if i := strings.IndexAny(g.text, "*?"); i >= 0 {
		return strings.TrimSuffix(g.text[:i], "/")
	}
	return g.text
}
