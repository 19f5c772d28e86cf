package machine_test

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

//go:embed *.go
var compiled embed.FS

// sources are the package's files without its tests.
func sources(t *testing.T) []*ast.File {
	t.Helper()
	entries, err := compiled.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			text, err := compiled.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
	}
	return files
}

// SM53, SM54: one variable holds a state, Machine's. No other struct has one but what is
// handed out: snapshot, receipt and errors. And the machine keeps no flag from which the
// state could be inferred.
func TestM1_StateIsKeptOnce(t *testing.T) {
	said := []string{"Snapshot.State", "Receipt.From", "Receipt.To", "StateError.From", "StateError.To", "AuditError.State"}
	var states, flags []string
	for _, f := range sources(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			body, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range body.Fields.List {
				mentions := map[string]bool{}
				ast.Inspect(field.Type, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						mentions[id.Name] = true
					}
					return true
				})
				for _, name := range field.Names {
					full := spec.Name.Name + "." + name.Name
					if mentions["State"] && !slices.Contains(said, full) {
						states = append(states, full)
					}
					if internal := slices.Contains([]string{"Machine", "operation", "order"}, spec.Name.Name); internal && mentions["bool"] {
						flags = append(flags, full)
					}
				}
			}
			return false
		})
		for _, decl := range f.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.VAR {
				flags = append(flags, "a variable of the package")
			}
		}
	}
	if !slices.Equal(states, []string{"Machine.state"}) || flags != nil {
		t.Errorf("fields of type State: %v, flags: %v", states, flags)
	}
}

// SM53, SM54: nor is there a second variable of another type: what a machine holds beside its
// state is listed here, with why no state follows from it.
func TestM1_WhatAMachineHolds(t *testing.T) {
	holds := map[string]string{
		"kernel": "who it is", "epoch": "who it is", "genesis": "who it is",
		"mu": "the lock of one step", "state": "the state",
		"now": "the clock", "changes": "a count for who looks",
		"chain": "the last durable entry", "end": "the last entry that was made",
		"out": "entries that their caller has to make durable", "sealed": "the same, encoded",
		"unfinished": "the request of a dead process, until its entry closes it",
		"order":      "a halt command, until it is obeyed", "op": "the request under way, of which the receipt is made",
	}
	for _, f := range sources(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "Machine" {
				return true
			}
			for _, field := range spec.Type.(*ast.StructType).Fields.List {
				for _, name := range field.Names {
					if holds[name.Name] == "" {
						t.Errorf("a machine holds %s, and nobody said that it is no second state", name.Name)
					}
					delete(holds, name.Name)
				}
			}
			return false
		})
	}
	for name := range holds {
		t.Errorf("a machine doesn't hold %s", name)
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

// SM18, SM30, T30: the machine calls nobody: it keeps no function and no interface, and
// gets none but the one that [machine.Caught] runs for its caller.
func TestM1_NoCallbacks(t *testing.T) {
	for _, f := range sources(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.InterfaceType:
				if len(n.Methods.List) != 1 || n.Methods.List[0].Names[0].Name != "Fault" {
					t.Error("an interface besides that of an error with a fault")
				}
			case *ast.StructType:
				for _, field := range n.Fields.List {
					if _, ok := field.Type.(*ast.FuncType); ok {
						t.Errorf("the field %v is a function", field.Names)
					}
				}
			case *ast.FuncDecl:
				for _, p := range n.Type.Params.List {
					_, ok := p.Type.(*ast.FuncType)
					if own := slices.Contains([]string{"Caught", "step"}, n.Name.Name); ok && (!own || n.Name.IsExported() && n.Recv != nil) {
						t.Errorf("%s takes a function", n.Name.Name)
					}
				}
			}
			return true
		})
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
