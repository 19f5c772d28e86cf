package housekeeping

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

// tables says which room reads and writes each table of the instance's
// database. compliance/store defines them all and touches none.
var tables = map[string]string{
	"worlds":      "compliance/ledger",
	"records":     "compliance/ledger",
	"quarantined": "compliance/ledger",
	"shelf":       "compliance/shelf",
	"pushed":      "compliance/pushed",
	"deliveries":  "webhook/inbox",
	"payloads":    "webhook/inbox",
	"evidence":    "webhook/inbox",
	"schedule":    "webhook/inbox",
	"acts":        "webhook/inbox",
	"cursors":     "webhook/inbox",
	"pauses":      "webhook/inbox",
}

// tableUse finds the tables that a statement names.
var tableUse = regexp.MustCompile(`\b(?:INTO|UPDATE|FROM|JOIN|TABLE)\s+([a-z_]+)`)

// TestTables_HaveOneRoom holds that the ledger alone writes ledger storage, now
// that others write to the same file. Tests may tamper.
func TestTables_HaveOneRoom(t *testing.T) {
	used := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				return true
			}
			for _, m := range tableUse.FindAllStringSubmatch(text, -1) {
				owner := tables[m[1]]
				if owner == "" || f.room() == "compliance/store" {
					continue
				}
				used[m[1]] = true
				if f.room() != owner {
					t.Errorf("%s:%d: the table %s is %s's: ask that room", f.path, f.line(lit.Pos()), m[1], owner)
				}
			}
			return true
		})
	}
	for name := range tables {
		if !used[name] {
			t.Errorf("the table %s is named here, and nobody uses it: delete the entry", name)
		}
	}
}
