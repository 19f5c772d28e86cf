// Package treetest is for tests that read the repository's own sources while
// they run, not through the compiler. cmd/mutants changes no file of the tree: it
// gives the go command an overlay, which such a test must look up by itself.
package treetest

import (
	"cmp"
	"encoding/json"
	"os"
	"testing"
)

// Variable names the overlay's file, in the form of go build -overlay.
const Variable = "WRIT_MUTANT_OVERLAY"

// Source is where the file at an absolute path is to be read.
func Source(t testing.TB, path string) string {
	t.Helper()
	name := os.Getenv(Variable)
	if name == "" {
		return path
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(data, &overlay); err != nil {
		t.Fatal(err)
	}
	return cmp.Or(overlay.Replace[path], path)
}
