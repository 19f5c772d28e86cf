package canon_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// WK25, WK26: SHA-256 is the only hash here, and nothing reads a clock, the
// network or chance.
func TestPureImports(t *testing.T) {
	allowed := []string{"bytes", "crypto/sha256", "encoding", "encoding/hex", "encoding/json", "errors", "fmt", "math/bits",
		"reflect", "slices", "strconv", "strings", "sync", "unicode/utf16", "unicode/utf8"}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err != nil || !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", name, spec.Path.Value)
			}
		}
	}
}
