package scheduler

import (
	"strings"
)

const (
	// maxScope bounds the patterns of a scope: a larger one overlaps with every
	// other. maxDepth bounds the segments of a pattern that are compared: two that
	// agree so far overlap. Comparing must stay cheap, for nothing else moves
	// meanwhile.
	maxScope = 32
	maxDepth = 32
)

// Overlap reports whether two scopes, lists of patterns as `allowed_files` has
// them, may touch the same place. It may say yes where they don't, never no
// where they do: two tasks that needlessly take turns lose time, two that
// collide lose work.
//
// Two patterns are compared from the left, segment by segment, until one has
// `**`, from where on anything may follow. Two segments can be one name if they
// are equal where they have no wildcard, and otherwise if what stands before
// their first and after their last wildcard agrees. Upper and lower case are
// one, as they are on some file systems. Where one pattern ends before the
// other they are apart, because a pattern matches whole paths, unless its last
// segment has no wildcard: a file `src/a` takes the place of a directory that
// `src/a/b` needs. So:
//
//	src/**      src/a/b.go   overlap
//	src/a*.go   src/b*.go    apart
//	src/*.go    src/x/*.go   apart
//	src/a       src/a/b      overlap
//	**/a.go     docs/**      overlap, although no path need match both
//
// A scope without patterns overlaps with none, one with more than 32 with every
// other. Of a pattern the first 32 segments are compared: two that agree so far
// overlap, whatever follows.
func Overlap(a, b []string) bool { return parseScope(a).overlaps(parseScope(b)) }

// scope is a list of patterns, split once.
type scope struct {
	text     []string
	patterns [][]string
}

func parseScope(text []string) scope {
	s := scope{text: text}
	if len(text) <= maxScope {
		for _, p := range text {
			s.patterns = append(s.patterns, strings.Split(strings.ToLower(p), "/"))
		}
	}
	return s
}

func (s scope) empty() bool { return len(s.text) == 0 }

func (s scope) overlaps(o scope) bool {
	if s.empty() || o.empty() {
		return false
	}
	if s.patterns == nil || o.patterns == nil { // too many
		return true
	}
	for _, p := range s.patterns {
		for _, q := range o.patterns {
			if patternsOverlap(p, q) {
				return true
			}
		}
	}
	return false
}

func patternsOverlap(a, b []string) bool {
	for i := range min(len(a), len(b), maxDepth) {
		switch {
		case a[i] == "**" || b[i] == "**":
			return true
		case a[i] != b[i] && !segmentsAgree(a[i], b[i]):
			return false
		}
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	return len(a) == len(b) || len(a) > maxDepth || !strings.ContainsAny(a[len(a)-1], wildcards)
}

const wildcards = "*?"

// segmentsAgree reports whether some name may match both.
func segmentsAgree(a, b string) bool {
	i, j := strings.IndexAny(a, wildcards), strings.IndexAny(b, wildcards)
	if i < 0 && j < 0 {
		return a == b
	}
	before, after := around(a, i)
	before2, after2 := around(b, j)
	n, m := min(len(before), len(before2)), min(len(after), len(after2))
	return before[:n] == before2[:n] && after[len(after)-m:] == after2[len(after2)-m:]
}

// around is what stands before the first wildcard, at that index, and after the
// last one; a segment without any is both.
func around(s string, first int) (before, after string) {
	if first < 0 {
		return s, s
	}
	return s[:first], s[strings.LastIndexAny(s, wildcards)+1:]
}
