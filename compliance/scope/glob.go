package scope

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/kernel"
)

// Limits of a pattern and of the list of them.
const (
	// MaxPatternBytes is the length of a pattern: as long as a path may be.
	MaxPatternBytes = MaxPathBytes
	// MaxPatterns is how many patterns a task may name; more is no scope.
	MaxPatterns = 256
)

// PatternError says why a pattern was refused. Its code is
// execution.dispatch.malformed.
type PatternError struct {
	Pattern string
	Reason  string // a sentence
}

// Error is one line; the pattern is quoted.
func (e *PatternError) Error() string { return fmt.Sprintf("pattern %q: %s", e.Pattern, e.Reason) }

// Violation is the error as a broken rule.
func (e *PatternError) Violation() kernel.Violation {
	return kernel.Violation{Code: kernel.CodeDispatchMalformed, Subject: Display(e.Pattern), Detail: e.Reason}
}

// anyDepth is the segment that stands for any number of segments.
const anyDepth = "**"

// Glob is a parsed pattern. The zero Glob matches nothing.
type Glob struct {
	text     string
	segments []string
}

// ParseGlob reads one pattern by the table of the package's documentation. The
// error is always a [*PatternError].
func ParseGlob(pattern string) (Glob, error) {
	g, fault := parseGlob(pattern)
	if fault != nil {
		return Glob{}, fault
	}
	return g, nil
}

func parseGlob(pattern string) (Glob, *PatternError) {
	refuse := func(reason string) (Glob, *PatternError) { return Glob{}, &PatternError{pattern, reason} }
	if reason := badPatternText(pattern); reason != "" {
		return refuse(reason)
	}
	segments := strings.Split(pattern, "/")
	named := false
	for _, s := range segments {
		if reason := badPatternSegment(s); reason != "" {
			return refuse(reason)
		}
		named = named || strings.Trim(s, "*?") != ""
	}
	if !named && len(segments) > 1 || pattern == anyDepth {
		return refuse("It names the whole repository; name the paths that may change.")
	}
	if segments[len(segments)-1] == anyDepth {
		segments = append(segments, "*") // a trailing ** needs something to stand for
	}
	return Glob{text: pattern, segments: segments}, nil
}

func badPatternText(p string) string {
	switch {
	case p == "":
		return "It is empty."
	case len(p) > MaxPatternBytes:
		return fmt.Sprintf("It is longer than %d bytes.", MaxPatternBytes)
	case !utf8.ValidString(p):
		return "It is not valid UTF-8."
	case visible.Any(p):
		return "It has a control character or one that a reader can't see."
	case strings.HasPrefix(p, "/"):
		return "It is absolute; paths are relative to the repository's root."
	case strings.HasSuffix(p, "/"):
		return "It ends in a slash; write dir/** for what is in a directory."
	case strings.HasPrefix(p, "!"):
		return "Negation is not supported; name the paths that may change."
	case strings.ContainsAny(p, `\`):
		return "It has a backslash; the separator is a slash."
	case strings.ContainsAny(p, "[]{}"):
		return "Brackets and braces are not supported; write ? for one such character, or one pattern for each name."
	case strings.Contains(p, ":"):
		return "It has a colon, which no deliverable path has."
	}
	return ""
}

func badPatternSegment(s string) string {
	switch {
	case s == "":
		return "It has an empty segment."
	case s == "." || s == "..":
		return "It has . or .. as a segment."
	case s != anyDepth && strings.Contains(s, anyDepth):
		return "** stands for whole segments only, as in a/**/b."
	case isDotGit(s):
		return "It reaches into .git."
	}
	return ""
}

// String is the pattern as it was written.
func (g Glob) String() string { return g.text }

// Literal reports whether the pattern has no wildcard.
func (g Glob) Literal() bool { return !strings.ContainsAny(g.text, "*?") }

// Match reports whether the pattern matches the whole path.
func (g Glob) Match(path string) bool {
	if len(g.segments) == 0 || path == "" {
		return false
	}
	return matchSegments(g.segments, strings.Split(path, "/"))
}

// matchSegments is the classical wildcard match with one point to go back to:
// after a later ** an earlier one never needs to give way. Time is bounded by
// the product of both lengths.
func matchSegments(pattern, path []string) bool {
	p, s, star, mark := 0, 0, -1, 0
	for s < len(path) {
		switch {
		case p < len(pattern) && pattern[p] == anyDepth:
			star, mark = p, s
			p++
		case p < len(pattern) && matchSegment(pattern[p], path[s]):
			p++
			s++
		case star >= 0:
			mark++
			p, s = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == anyDepth {
		p++
	}
	return p == len(pattern)
}

// matchSegment matches * and ? within one segment; ? is one code point.
func matchSegment(pattern, name string) bool {
	p, s, star, mark := 0, 0, -1, 0
	for s < len(name) {
		_, width := utf8.DecodeRuneInString(name[s:])
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, s
			p++
		case p < len(pattern) && pattern[p] == '?':
			p++
			s += width
		case p < len(pattern) && pattern[p] == name[s]:
			p++
			s++
		case star >= 0:
			_, width := utf8.DecodeRuneInString(name[mark:])
			mark += width
			p, s = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// reachesBelow reports whether the pattern can match some path below dir.
func (g Glob) reachesBelow(dir string) bool {
	path := strings.Split(dir, "/")
	for i, s := range g.segments {
		switch {
		case s == anyDepth:
			return true
		case i == len(path):
			return true
		case !matchSegment(s, path[i]):
			return false
		}
	}
	return false
}

// Globs is a list of patterns; a path matches if one of them does.
type Globs []Glob

// Match reports whether one of the patterns matches the path.
func (l Globs) Match(path string) bool {
	segments := strings.Split(path, "/") // once for all: there are hundreds of patterns
	for _, g := range l {
		if len(g.segments) > 0 && path != "" && matchSegments(g.segments, segments) {
			return true
		}
	}
	return false
}

func (l Globs) reachBelow(dir string) bool {
	for _, g := range l {
		if g.reachesBelow(dir) {
			return true
		}
	}
	return false
}

// ParseGlobs reads a list and reports every fault in it, duplicates included.
func ParseGlobs(patterns []string) (Globs, []*PatternError) {
	var faults []*PatternError
	if len(patterns) > MaxPatterns {
		return nil, []*PatternError{{Pattern: "", Reason: fmt.Sprintf("There are %d patterns; at most %d are read.", len(patterns), MaxPatterns)}}
	}
	out := make(Globs, 0, len(patterns))
	seen := make(map[string]bool, len(patterns))
	for _, p := range patterns {
		g, fault := parseGlob(p)
		switch {
		case fault != nil:
			faults = append(faults, fault)
		case seen[p]:
			faults = append(faults, &PatternError{p, "It is listed twice."})
		default:
			out = append(out, g)
		}
		seen[p] = true
	}
	return out, faults
}
