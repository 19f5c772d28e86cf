package scope_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/scope"
)

// TestUnmatched: what a pattern that nobody can have meant is told, and that one that
// names new files, or matches something, is told nothing.
func TestUnmatched(t *testing.T) {
	base := []string{"README.md", "calc/add.go", "calc/sub/x.go", "src/a", "src-more/b", "zwölf/ü.go"}
	for pattern, want := range map[string]string{
		"calc/*.go": "", "calc/**": "", "**/*.go": "", "new.txt": "", "calc/new.go": "", "README.md": "", "src/?": "",
		"zwölf/*.go": "", "calc/**/x.go": "", "*.md": "", "src/**": "", "calc/**/add.go": "",
		"calc":        "calc is a directory of the base, so the pattern allows no file in it; calc/** does.",
		"calc/sub":    "calc/sub is a directory of the base",
		"Calc/*.go":   "The pattern Calc/*.go matches no file of the base",
		"*.go":        "The pattern *.go matches no file of the base",
		"calc/*/*/*":  "matches no file",
		"lib/**":      "The pattern lib/** matches no file",
		"calc/*.java": "matches no file",
		"sr":          "",
		"README.md/*": "matches no file",
	} {
		got := scope.Unmatched([]string{pattern}, slices.Values(base))
		if said := strings.Join(got, "\n"); (want == "") != (said == "") || !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", pattern, said, want)
		}
	}
	long := "**/" + strings.Repeat("*b", (scope.MaxPatternBytes-3)/2)
	if got := scope.Unmatched([]string{long}, slices.Values(base)); len(got) != 1 {
		t.Errorf("a long pattern in a small base: %q", got)
	}
	far := slices.Repeat([]string{strings.Repeat("a/", 2000)}, 100)
	if got := scope.Unmatched([]string{long}, slices.Values(far)); got != nil {
		t.Errorf("a comparison without an end came to one: %q", got)
	}
	both := scope.Unmatched([]string{"lib/**", "calc/*.go", "docs/*"}, slices.Values(base))
	if len(both) != 2 || !strings.Contains(both[0], "lib/**") || !strings.Contains(both[1], "docs/*") {
		t.Errorf("of three: %q", both)
	}
}
