package housekeeping

import (
	"strings"
	"testing"

	"github.com/writbot/writ/executor/builder"
)

// TestKinds_Documented: the pages have each agent installed in the version that it is tested
// with, and the tests install the same.
func TestKinds_Documented(t *testing.T) {
	page, lock := read(t, "docs/builders.md"), read(t, ".ci/agents/package.json")
	for _, kind := range builder.Kinds() {
		p := builder.KindPackage(kind)
		if !strings.Contains(page, p.Name+"@"+p.Version) || !strings.Contains(page, "| `"+kind+"` |") || !strings.Contains(lock, `"`+p.Name+`": "`+p.Version+`"`) {
			t.Errorf("%s: docs/builders.md or .ci/agents/package.json lacks %s@%s", kind, p.Name, p.Version)
		}
	}
	if install := builder.KindPackage("claude-code").Install("agents"); !strings.Contains(read(t, "README.md"), install) {
		t.Errorf("README.md doesn't have: %s", install)
	}
}
