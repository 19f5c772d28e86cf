package machine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// sources are the package's files without its tests.
func sources(t *testing.T) []*ast.File {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
	}
	return files
}

// SM53, SM54: Machine has one field of type State, and no flag beside it from
// which the state could be inferred.
func TestM1_StateIsKeptOnce(t *testing.T) {
	var states, flags []string
	for _, f := range sources(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "Machine" {
				return true
			}
			for _, field := range spec.Type.(*ast.StructType).Fields.List {
				for _, name := range field.Names {
					switch id, _ := field.Type.(*ast.Ident); {
					case id == nil:
					case id.Name == "State":
						states = append(states, name.Name)
					case id.Name == "bool":
						flags = append(flags, name.Name)
					}
				}
			}
			return false
		})
	}
	if !slices.Equal(states, []string{"state"}) || flags != nil {
		t.Errorf("fields of type State: %v, flags: %v", states, flags)
	}
}

// SM55, SM56: one statement writes the state, in the transition function;
// nothing takes its address or sets it in a literal.
func TestM1_StateIsWrittenOnce(t *testing.T) {
	writes := map[string]int{}
	isState := func(e ast.Expr) bool {
		sel, ok := e.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "state"
	}
	for _, f := range sources(t) {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for _, left := range n.Lhs {
						if isState(left) {
							writes[fn.Name.Name]++
						}
					}
				case *ast.IncDecStmt:
					if isState(n.X) {
						writes[fn.Name.Name]++
					}
				case *ast.UnaryExpr:
					if n.Op == token.AND && isState(n.X) {
						writes["& in "+fn.Name.Name]++
					}
				case *ast.KeyValueExpr:
					if id, ok := n.Key.(*ast.Ident); ok && id.Name == "state" {
						writes["literal in "+fn.Name.Name]++
					}
				}
				return true
			})
		}
	}
	if len(writes) != 1 || writes["enter"] != 1 {
		t.Errorf("the state is written in %v", writes)
	}
}

// SM18, SM61: nothing here starts a goroutine or reads the world.
func TestM1_PureImports(t *testing.T) {
	allowed := []string{`"bytes"`, `"errors"`, `"fmt"`, `"slices"`, `"strings"`, `"sync"`, `"unicode/utf8"`,
		`"github.com/writbot/writ/kernel/canon"`}
	for _, f := range sources(t) {
		for _, spec := range f.Imports {
			if !slices.Contains(allowed, spec.Path.Value) {
				t.Errorf("imports %s", spec.Path.Value)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok {
				t.Error("starts a goroutine")
			}
			return true
		})
	}
}
