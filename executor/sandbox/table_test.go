package sandbox

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// Each name in the table is that of a call, and stands in one row.
func TestX10_TableIsSound(t *testing.T) {
	seen := map[string]string{}
	for _, r := range rows {
		if r.why == "" || r.held == "" || (r.rule == nil) != (r.only == "") {
			t.Errorf("row %q is incomplete", r.name)
		}
		for name := range strings.FieldsSeq(r.calls) {
			if seen[name] != "" {
				t.Errorf("%s stands in %q and %q", name, seen[name], r.name)
			}
			seen[name] = r.name
			_, amd := callNumbers["amd64"][name]
			_, arm := callNumbers["arm64"][name]
			if !amd && !arm {
				t.Errorf("%s is no system call", name)
			}
		}
	}
	for _, name := range []string{"clone3", "io_uring_setup", "userfaultfd", "bpf", "keyctl", "ptrace", "setxattrat", "semget", "connect"} {
		if seen[name] != "" {
			t.Errorf("%s is in the table", name)
		}
	}
}

// elsewhereVar is set in TestOrdinaryUser's run.
const elsewhereVar = "WRIT_TEST_ELSEWHERE"

// update rewrites the table in the documentation.
var update = flag.Bool("update", false, "rewrite the table of docs/security.md")

const (
	securityDoc = "../../docs/security.md"
	tableBegin  = "<!-- table: from executor/sandbox, go test ./executor/sandbox -run TableIsDocumented -update -->\n"
	tableEnd    = "<!-- end of table -->\n"
)

// TestX10_TableIsDocumented holds the table of docs/security.md to the code.
func TestX10_TableIsDocumented(t *testing.T) {
	data, err := os.ReadFile(securityDoc)
	if os.Getenv(elsewhereVar) != "" {
		t.Log("another directory: the run as root looks at it")
		return
	}
	before, rest, ok := strings.Cut(string(data), tableBegin)
	have, after, ok2 := strings.Cut(rest, tableEnd)
	if err != nil || !ok || !ok2 {
		t.Fatalf("%s has no table: %v", securityDoc, err)
	}
	if *update {
		if err := os.WriteFile(securityDoc, []byte(before+tableBegin+Table()+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != Table() {
		t.Errorf("%s isn't what the code says: go test ./executor/sandbox -run TableIsDocumented -update", securityDoc)
	}
}
