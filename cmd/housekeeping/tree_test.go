package housekeeping

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/treetest"
)

// goFile is one Go file of the repository, parsed but not type-checked: the
// checks must also work on a tree that doesn't compile, and on every build tag.
type goFile struct {
	path string // slash path from the repository's root
	fset *token.FileSet
	ast  *ast.File
}

// room is the file's directory: "kernel/lease", or "." at the root.
func (f goFile) room() string { return path.Dir(f.path) }

func (f goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f goFile) line(p token.Pos) int { return f.fset.Position(p).Line }

// parseGo parses one file; src is nil to read it from disk below root.
func parseGo(root, name string, src any) (goFile, error) {
	fset := token.NewFileSet()
	file := filepath.Join(root, filepath.FromSlash(name))
	parsed, err := parser.ParseFile(fset, file, src, parser.ParseComments|parser.SkipObjectResolution)
	return goFile{path: name, fset: fset, ast: parsed}, err
}

// root is the repository's top: the directory above the tests that has go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test: run the tests inside the repository")
		}
		dir = up
	}
}

// skipped are directories that hold nothing of ours: git's own, what make
// builds, and what running writ leaves behind.
func skipped(name string) bool {
	switch name {
	case "bin", "dist", "logs":
		return true
	}
	return strings.HasPrefix(name, ".") && name != "." && name != ".ci" && name != ".github"
}

// files lists the slash paths of all regular files for which keep is true.
func files(t *testing.T, keep func(name string) bool) []string {
	t.Helper()
	top := root(t)
	var found []string
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != top && skipped(d.Name()) {
			return fs.SkipDir
		}
		if d.Name() == ".git" { // a file in a worktree
			return nil
		}
		rel, err := filepath.Rel(top, p)
		if name := filepath.ToSlash(rel); err == nil && d.Type().IsRegular() && keep(name) {
			found = append(found, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// isGo tells Go files that the go command would build, in any configuration.
func isGo(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.Contains("/"+name, "/testdata/")
}

// goFiles parses every Go file of the repository.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var all []goFile
	for _, name := range files(t, isGo) {
		f, err := parseGo(root(t), name, read(t, name))
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		all = append(all, f)
	}
	return all
}

// read returns one file of the repository as text.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(treetest.Source(t, filepath.Join(root(t), filepath.FromSlash(name))))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
