package builder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKinds_Documented: the pages have each agent installed in the version that it is tested
// with, and the tests install the same.
func TestKinds_Documented(t *testing.T) {
	read := func(path ...string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	page, lock := read("docs", "builders.md"), read(".ci", "agents", "package.json")
	for _, kind := range Kinds() {
		p := KindPackage(kind)
		if !strings.Contains(page, p.Name+"@"+p.Version) || !strings.Contains(page, "| `"+kind+"` |") || !strings.Contains(lock, `"`+p.Name+`": "`+p.Version+`"`) {
			t.Errorf("%s: docs/builders.md or .ci/agents/package.json lacks %s@%s", kind, p.Name, p.Version)
		}
	}
	if install := KindPackage("claude-code").Install("agents"); !strings.Contains(read("README.md"), install) {
		t.Errorf("README.md doesn't have: %s", install)
	}
}
