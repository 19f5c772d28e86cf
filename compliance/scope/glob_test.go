package scope

import (
	"strings"
	"testing"
)

// TestS13_GlobTable is the table of the package's documentation, and more.
func TestS13_GlobTable(t *testing.T) {
	for _, row := range []struct{ pattern, yes, no string }{
		{"src", "src", "src/a src-evil/a a/src srcs src-evil"},
		{"src/*", "src/a src/.a src/a.go", "src/x/y src src-evil/a"},
		{"src/*.go", "src/a.go src/.go", "src/a.go/b src/x/a.go src/a.gox"},
		{"src/?.go", "src/a.go src/é.go", "src/ab.go src/.go src//.go"},
		{"src/**", "src/a src/x/y src/.git-x", "src src-evil/a a/src/b"},
		{"**/a.go", "a.go x/a.go x/y/a.go", "xa.go a.go/b"},
		{"src/**/a", "src/a src/x/a src/x/y/a", "src/ab src a src/a/b"},
		{"*", "a .a", "x/a"},
		{"a/**/b/**/c", "a/b/c a/x/b/y/c a/b/b/c a/b/x/b/c", "a/c a/b/c/d b/c"},
		{"a/**/*.go", "a/x.go a/b/x.go", "a/x.gox x.go"},
		{"a*b*c", "abc aXbYc abbcc", "ab acb abcd"},
		{"Src/a", "Src/a", "src/a SRC/a"},
	} {
		g, err := ParseGlob(row.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range strings.Fields(row.yes) {
			if !g.Match(path) {
				t.Errorf("%q does not match %q", row.pattern, path)
			}
		}
		for _, path := range strings.Fields(row.no) {
			if g.Match(path) {
				t.Errorf("%q matches %q", row.pattern, path)
			}
		}
	}
}

func TestS13_RefusedPatterns(t *testing.T) {
	for _, p := range []string{
		"", "**", "**/*", "*/**", "*/*", "**/**", "?/**", "a**", "a/b**/c", "***", "[ab]", "a[", "{a,b}", "!a", `a\b`, "a:b",
		"/etc/x", "../x", "a/../b", "./a", "a//b", "a/", ".git/**", ".GIT/config", "a/.git/x", ".g\u200dit/x", "git~1/x",
		"a\nb", "a\x00b", "a\u202eb", "\xff", strings.Repeat("a", MaxPatternBytes+1),
	} {
		if g, err := ParseGlob(p); err == nil {
			t.Errorf("%q was read as %v", p, g)
		}
	}
	if _, faults := ParseGlobs([]string{"a", "a", "**", "b"}); len(faults) != 2 {
		t.Errorf("faults: %v", faults)
	}
}

// naive is the oracle: it tries every way.
func naive(pattern, path []string) bool {
	if len(pattern) == 0 {
		return len(path) == 0
	}
	if pattern[0] == anyDepth {
		for i := 0; i <= len(path); i++ {
			if naive(pattern[1:], path[i:]) && (len(pattern) > 1 || i > 0) {
				return true
			}
		}
		return false
	}
	return len(path) > 0 && naiveSegment([]rune(pattern[0]), []rune(path[0])) && naive(pattern[1:], path[1:])
}

func naiveSegment(pattern, name []rune) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == '*' {
		for i := 0; i <= len(name); i++ {
			if naiveSegment(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	return len(name) > 0 && (pattern[0] == '?' || pattern[0] == name[0]) && naiveSegment(pattern[1:], name[1:])
}

// trailing "**" in the middle of the oracle's pattern may stand for nothing;
// only the last one must stand for something, as in the table.
func FuzzS13_GlobAgainstOracle(f *testing.F) {
	for _, s := range [][2]string{{"a/**/b", "a/x/b"}, {"a/**", "a"}, {"**/a*b?", "x/y/aabc"}, {"a/**/**/b", "a/b"}, {"é?", "éé"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 24 || len(path) > 24 {
			return
		}
		g, err := ParseGlob(pattern)
		if err != nil || CheckPath(path) != "" {
			return
		}
		if got, want := g.Match(path), naive(strings.Split(pattern, "/"), strings.Split(path, "/")); got != want {
			t.Errorf("%q on %q: %v, oracle %v", pattern, path, got, want)
		}
		if dir := parent(path); dir != "" && g.Match(path) && !g.reachesBelow(dir) {
			t.Errorf("%q matches %q and does not reach below %q", pattern, path, dir)
		}
	})
}
