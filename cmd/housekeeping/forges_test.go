package housekeeping

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// forgeColumns are the columns of the table in docs/forges.md.
const forgeColumns = 5

// TestDocs_ForgesNameTheirTests: each row of docs/forges.md says of each forge how
// it does something, and ends with tests that are there: functions, or parts of
// the suite that every adapter passes.
func TestDocs_ForgesNameTheirTests(t *testing.T) {
	known := map[string]bool{}
	for _, f := range goFiles(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.isTest() && fn.Recv == nil {
				known[fn.Name.Name] = true
			}
		}
	}
	parts := regexp.MustCompile(`\{"(\w+)", exercise`).FindAllStringSubmatch(read(t, "forge/forgetest/exercise.go"), -1)
	for _, m := range parts {
		known[m[1]] = true
	}
	rows := 0
	for line := range strings.Lines(read(t, "docs/forges.md")) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| capability") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != forgeColumns {
			t.Errorf("%d columns, want %d: %s", len(cells), forgeColumns, line)
			continue
		}
		for n, cell := range cells {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("column %d of%s is empty: say how, or why not", n+1, cells[0])
			}
		}
		named := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[forgeColumns-1], -1)
		if len(named) == 0 {
			t.Errorf("no test is named for%s", cells[0])
		}
		for _, m := range named {
			if !known[m[1]] {
				t.Errorf("%s is no test of this repository, and no part of the suite", m[1])
			}
		}
	}
	if rows == 0 || len(parts) == 0 {
		t.Error("there is no table, or no suite")
	}
}
