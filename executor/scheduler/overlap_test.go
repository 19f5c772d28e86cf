package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor/scheduler"
)

func TestX8_OverlapOfPatterns(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"src/**", "src/a/b.go", true},
		{"src/**", "src", true},
		{"src/**", "src-evil/a", false},
		{"src/a*.go", "src/b*.go", false},
		{"src/a*.go", "src/ab*.go", true},
		{"src/*.go", "src/*.md", false},
		{"src/*_test.go", "src/a*.go", true},
		{"src/?.go", "src/a.go", true},
		{"src/*.go", "src/x/*.go", false},
		{"src/a", "src/a/b", true},
		{"src/a", "src/ab", false},
		{"src/*", "src/x/y", false},
		{"src/A.go", "SRC/a.GO", true},
		{"**/a.go", "docs/**", true},
		{"a/**/z", "a/b/y", true},
		{"*", "go.mod", true},
		{"*", "x/go.mod", false},
		{"", "a", false},
		{strings.Repeat("a/", 40) + "b", strings.Repeat("a/", 40) + "c", true}, // too deep to tell
	} {
		for _, got := range []bool{scheduler.Overlap([]string{c.a}, []string{"o/t/h/e/r", c.b}), scheduler.Overlap([]string{"o/t/h/e/r", c.b}, []string{c.a})} {
			if got != c.want {
				t.Errorf("%q and %q: %v, want %v", c.a, c.b, got, c.want)
			}
		}
	}
	many := slices.Repeat([]string{"a/b"}, 33)
	for _, c := range []struct {
		a, b []string
		want bool
	}{{nil, []string{"a"}, false}, {nil, nil, false}, {many, []string{"x"}, true}, {many, nil, false}, {many, many, true}} {
		if got := scheduler.Overlap(c.a, c.b); got != c.want || scheduler.Overlap(c.b, c.a) != got {
			t.Errorf("%d and %d patterns: %v, want %v", len(c.a), len(c.b), got, c.want)
		}
	}
}

// No two patterns that match one path, or a file and what is below it, are said
// to be apart.
func TestX8_OverlapNeverMissesOne(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "ab", "aé", "aab", "c"})
	hits := 0
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SliceOfN(name, 1, 5).Draw(t, "path")
		p, g := patternOf(t, path)
		q, h := patternOf(t, path[:rapid.IntRange(1, len(path)).Draw(t, "length")])
		whole := strings.Join(path, "/")
		below := h.Literal() && strings.HasPrefix(whole, q+"/")
		if g.Match(whole) && (h.Match(whole) || below) {
			hits++
			if !scheduler.Overlap([]string{p}, []string{q}) || !scheduler.Overlap([]string{q}, []string{p}) {
				t.Fatalf("%q and %q are said to be apart and meet at %q", p, q, whole)
			}
		}
	})
	if hits < 10 {
		t.Errorf("%d pairs of patterns met", hits)
	}
}

// patternOf draws a pattern that may well match the path.
func patternOf(t *rapid.T, path []string) (string, scope.Glob) {
	var out []string
	for _, s := range path {
		r := []rune(s)
		switch rapid.IntRange(0, 6).Draw(t, "form") {
		case 0:
			s = "*"
		case 1:
			s = string(r[0]) + "*"
		case 2:
			s = "*" + string(r[len(r)-1])
		case 3:
			s = strings.Repeat("?", len(r))
		case 4:
			s = "**"
		}
		out = append(out, s)
	}
	p := strings.Join(out, "/")
	g, err := scope.ParseGlob(p)
	if err != nil {
		p = strings.Join(path, "/")
		g, _ = scope.ParseGlob(p)
	}
	return p, g
}

// Nothing else moves while paths are compared.
func TestX8_ComparingIsCheap(t *testing.T) {
	var scopes [][]string
	for i := range 16 {
		var s []string
		for n := range 32 {
			s = append(s, fmt.Sprintf("%s%d-%d/x", strings.Repeat("a/", 30), i, n))
		}
		scopes = append(scopes, s)
	}
	before := time.Now()
	for i := range scopes {
		for k := range i {
			if scheduler.Overlap(scopes[i], scopes[k]) {
				t.Fatal("they overlap")
			}
		}
	}
	if d := time.Since(before); d > time.Minute {
		t.Errorf("comparing the line of a world took %s", d)
	}
}
