package housekeeping

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

var update = flag.Bool("update", false, "rewrite the documents that are made from code")

// Documents that are made from code say so in their first lines; the code is
// what counts, and a stale document is a failure (conformance SM52).
func TestDocs_GeneratedFromCode(t *testing.T) {
	for name, text := range map[string]string{
		"docs/states.md":        statesDoc(),
		"docs/failure-codes.md": codesDoc(),
		"docs/code-origins.md":  originsDoc(t),
	} {
		path := filepath.Join(root(t), name)
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != text {
			t.Errorf("%s is stale: go test ./cmd/housekeeping -run GeneratedFromCode -update", name)
		}
	}
}

func statesDoc() string {
	return "# The seven states\n\nMade from the table in package `kernel/machine`; a test holds it to the code.\n\n" +
		"A kernel, of a task, a world or a key, is in one of these states, and each of its requests goes through those between IDLE and IDLE. An X is an allowed transition. Every one has its audit entry before it happens, but for BOOTING to IDLE and the halt of a kernel whose entry can't be written.\n\n" +
		strings.TrimSpace(machine.Markdown()) + "\n\n```mermaid\n" + strings.TrimSpace(machine.Diagram()) + "\n```\n"
}

func codesDoc() string {
	var b strings.Builder
	b.WriteString("# Failure codes\n\nMade from the table in package `kernel`; a test holds it to the code. " +
		"Lists of codes are always in this order, coarse to fine. *Counts* says which budget a failure is charged to. For whoever works on writ, [code-origins.md](code-origins.md) says where each is made.\n\n" +
		"| code | what happened | counts | what you can do |\n|---|---|---|---|\n")
	for _, c := range kernel.Codes() {
		remedy := c.Remedy
		if on := c.Code.IssueRemedy(); on != remedy {
			remedy += " On the issue: " + on
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Code, c.Meaning, c.Counts, remedy)
	}
	return b.String()
}
