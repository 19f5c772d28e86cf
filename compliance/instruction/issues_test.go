package instruction

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var anyWord = regexp.MustCompile(`[\pL\pN]+`)

// TestI15_IssuesOfWellKnownShapes: what forms and templates make of an issue is
// told as far as it is visible without a click. The files are written anew, in
// the shapes that well-known projects use.
func TestI15_IssuesOfWellKnownShapes(t *testing.T) {
	files, err := filepath.Glob("testdata/issues/*.md")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := Parse("t", string(body))
		if len(p.Bad) > 0 {
			t.Errorf("%s is refused: %v", file, p.Bad)
		}
		words := map[string]bool{}
		for _, w := range anyWord.FindAllString(p.Prose, -1) {
			words[w] = true
		}
		shown := seen(t, page(t, string(body)), false)
		for _, w := range anyWord.FindAllString(shown, -1) {
			if !words[w] && !strings.Contains(p.Prose, w) {
				t.Errorf("%s: %s is on the page and not told", file, w)
			}
		}
	}
}
