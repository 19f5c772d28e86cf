package housekeeping

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRace_PlainStartsNoGoroutine: the packages that no lot draws for the race
// detector start no goroutine, and their tests don't run beside each other. cmd/e2e alone
// does: what it tests are processes, and what it runs in its own is in the Makefile's
// SAMPLE.
func TestRace_PlainStartsNoGoroutine(t *testing.T) {
	list := regexp.MustCompile(`(?m)^PLAIN +:= cmd/e2e ((?:.*\\\n)*.*)$`).FindStringSubmatch(read(t, "Makefile"))
	if list == nil {
		t.Fatal("the Makefile has no list PLAIN")
	}
	plain := strings.Fields(strings.ReplaceAll(list[1], "\\\n", " "))
	seen := map[string]bool{}
	for _, f := range goFiles(t) {
		if !slices.Contains(plain, f.room()) {
			continue
		}
		seen[f.room()] = true
		for _, line := range f.beside() {
			t.Errorf("%s:%d: this runs beside something else, so that %s can't be one of the Makefile's PLAIN", f.path, line, f.room())
		}
	}
	for _, room := range plain {
		if !seen[room] {
			t.Errorf("the Makefile's PLAIN has %s, where no Go file is", room)
		}
	}
	f, err := parseGo(root(t), "x/x_test.go", "package x\nfunc f() { go f(); group.Go(f); t.Parallel() }\n")
	if err != nil || len(f.beside()) != 3 {
		t.Errorf("of three ways to run beside something else %d are seen, and %v", len(f.beside()), err)
	}
}

// beside are the lines of a file that run something beside what follows.
func (f goFile) beside() (lines []int) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			lines = append(lines, f.line(n.Pos()))
		case *ast.SelectorExpr:
			if n.Sel.Name == "Go" || n.Sel.Name == "Parallel" {
				lines = append(lines, f.line(n.Pos()))
			}
		}
		return true
	})
	return lines
}
