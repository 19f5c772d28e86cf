package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestDocs_EveryCheck: the page has a row for each check, in their order, and no
// other.
func TestDocs_EveryCheck(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "doctor.md"))
	must(t, err)
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, m[1])
	}
	if !slices.Equal(rows, Names()) {
		t.Errorf("docs/doctor.md has rows for\n%v\nand the checks are\n%v", rows, Names())
	}
}
