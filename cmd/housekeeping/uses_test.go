package housekeeping

import (
	"go/ast"
	"go/token"
	"path"
	"strconv"
	"strings"
)

// module is the prefix of our own import paths.
const module = "github.com/writbot/writ"

// use is one thing that a file makes use of. What is, in the notation of the
// rules: an import path (our own as "./kernel/canon"), "name:time.Now" for a
// name of a package, "stmt:go" for a statement, "call:Skip" for a skipped test.
type use struct {
	what string
	line int
}

// uses lists what a file uses, in the order of its text.
func uses(f goFile) []use {
	var found []use
	add := func(what string, at token.Pos) { found = append(found, use{what, f.line(at)}) }
	names := map[string]string{} // local name of an import to its path
	for _, spec := range f.ast.Imports {
		full, _ := strconv.Unquote(spec.Path.Value)
		add(ours(full), spec.Pos())
		switch {
		case spec.Name == nil:
			names[localName(full)] = full
		case spec.Name.Name == ".":
			add("stmt:dot-import", spec.Pos())
		default:
			names[spec.Name.Name] = full
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add("stmt:go", n.Pos())
		case *ast.SelectorExpr:
			if what := selected(n, names); what != "" {
				add(what, n.Pos())
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
				add("name:"+id.Name, n.Pos())
			}
		}
		return true
	})
	return found
}

// selected names what x.Sel stands for where x is an imported package, or the
// test's own handle in a call of Skip.
func selected(n *ast.SelectorExpr, names map[string]string) string {
	x, ok := n.X.(*ast.Ident)
	if !ok {
		return ""
	}
	if full, ok := names[x.Name]; ok {
		return "name:" + full + "." + n.Sel.Name
	}
	switch x.Name {
	case "t", "b", "f", "tb":
		if strings.HasPrefix(n.Sel.Name, "Skip") && n.Sel.Name != "Skipped" {
			return "call:Skip"
		}
	}
	return ""
}

// ours writes an import path of this module as "./room", others as they are.
func ours(full string) string {
	if full == module {
		return "."
	}
	if rest, ok := strings.CutPrefix(full, module+"/"); ok {
		return "./" + rest
	}
	return full
}

// localName guesses the name under which a package is imported: the last
// element that isn't a version. The names that rules ban all follow it.
func localName(full string) string {
	base := path.Base(full)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		return path.Base(path.Dir(full))
	}
	return base
}

// matchAny tells whether name fits one of the space-separated patterns.
func matchAny(patterns, name string) bool {
	for p := range strings.FieldsSeq(patterns) {
		if match(p, name) {
			return true
		}
	}
	return false
}

// match compares one pattern:
//
//	...      any room
//	a/...    a and everything below it
//	...test  any package whose last element ends in "test"; ./...test one of ours
//	std      an import of the standard library; ext one of another module
//	else     the very name
func match(pattern, name string) bool {
	switch pattern {
	case "...":
		return true
	case "...test":
		return isTestPackage(name)
	case "./...test":
		return strings.HasPrefix(name, "./") && isTestPackage(name)
	case "std", "ext":
		return isImport(name) && (pattern == "std") == isStd(name)
	}
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == prefix || strings.HasPrefix(name, prefix+"/")
	}
	return pattern == name
}

func isTestPackage(name string) bool {
	base := path.Base(name)
	return len(base) > len("test") && strings.HasSuffix(base, "test")
}

// isImport tells imports of foreign packages from our own and from names.
func isImport(name string) bool {
	return name != "." && !strings.HasPrefix(name, "./") && !strings.Contains(name, ":")
}

// isStd follows the go command: only other modules have a dot in the first part.
func isStd(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}
