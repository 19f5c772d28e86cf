package housekeeping

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

// originsDoc lists for each failure code the files that make it, by the names of their
// constants or as a text. A file that only asks for a code, or has it in a list, isn't one of them.
func originsDoc(t *testing.T) string {
	made := codeOrigins(t)
	var b strings.Builder
	b.WriteString("# Where each failure code is made\n\nMade from the code by a test that holds it to it, for whoever works on writ. What a code means is in [failure-codes.md](failure-codes.md), the rule behind the places in [architecture.md](architecture.md#where-is-it). " +
		"A file that only asks for a code, lists it, or passes on what has it, isn't here.\n\n| code | made in |\n|---|---|\n")
	for _, c := range kernel.Codes() {
		if len(made[string(c.Code)]) == 0 {
			t.Errorf("nothing makes the code %s", c.Code)
		}
		var rooms []string
		for _, room := range slices.Sorted(maps.Keys(made[string(c.Code)])) {
			rooms = append(rooms, fmt.Sprintf("`%s`: %s", room, strings.Join(slices.Sorted(slices.Values(made[string(c.Code)][room])), ", ")))
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.Code, strings.Join(rooms, "; "))
	}
	return b.String()
}

// codeOrigins are the files that make each code: code, to room, to files.
func codeOrigins(t *testing.T) map[string]map[string][]string {
	all := slices.DeleteFunc(goFiles(t), func(f goFile) bool { return f.isTest() || strings.HasSuffix(f.room(), "test") })
	codes := map[string]bool{}
	for _, c := range kernel.Codes() {
		codes[string(c.Code)] = true
	}
	consts := map[string]map[string]string{} // package and constant, to the code
	for _, f := range all {
		for name, value := range codeConsts(f.ast) {
			if of := path.Base(f.room()); codes[value] {
				if consts[of] == nil {
					consts[of] = map[string]string{}
				}
				consts[of][name] = value
			}
		}
	}
	made := map[string]map[string][]string{}
	for _, f := range all {
		for code := range codesMade(f, consts, codes) {
			if made[code] == nil {
				made[code] = map[string][]string{}
			}
			made[code][f.room()] = append(made[code][f.room()], path.Base(f.path))
		}
	}
	return made
}

// codeConsts are the constants of a file that are texts.
func codeConsts(file *ast.File) map[string]string {
	out := map[string]string{}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			for i, name := range v.Names {
				if i < len(v.Values) {
					if lit, ok := v.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
						out[name.Name], _ = strconv.Unquote(lit.Value)
					}
				}
			}
		}
	}
	return out
}

// codesMade are the codes that a file makes: those whose constants it hands on, and neither
// compares nor lists, nor asks for before it passes on what has them.
func codesMade(f goFile, consts map[string]map[string]string, codes map[string]bool) map[string]bool {
	of := func(n ast.Node) string {
		switch x := n.(type) {
		case *ast.SelectorExpr:
			if in, ok := x.X.(*ast.Ident); ok {
				return consts[in.Name][x.Sel.Name]
			}
		case *ast.Ident:
			return consts[path.Base(f.room())][x.Name]
		}
		return ""
	}
	out := map[string]bool{}
	var above []ast.Node
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if n == nil {
			above = above[:len(above)-1]
			return true
		}
		above = append(above, n)
		code := of(n)
		if code == "" && codes[written(above)] {
			code = written(above)
		}
		if code != "" && makes(above) && !asked(above, func(n ast.Node) bool { return of(n) == code }) {
			out[code] = true
		}
		return true
	})
	return out
}

// written is the innermost node where that is a text given as a Code; "" for any other.
func written(above []ast.Node) string {
	if len(above) < 2 {
		return ""
	}
	lit, ok := above[len(above)-1].(*ast.BasicLit)
	field, of := above[len(above)-2].(*ast.KeyValueExpr)
	if !ok || !of {
		return ""
	}
	if key, ok := field.Key.(*ast.Ident); !ok || key.Name != "Code" {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return text
}

// concluded reports whether the node at i is the list that a decision's codes are set to.
func concluded(above []ast.Node, i int) bool {
	if i == 0 {
		return false
	}
	set, ok := above[i-1].(*ast.AssignStmt)
	if !ok {
		return false
	}
	to, ok := set.Lhs[0].(*ast.SelectorExpr)
	return ok && to.Sel.Name == "Codes"
}

// asked reports whether the innermost node is in the body of a condition that asks for the
// same: what is done there is done with what has the code already.
func asked(above []ast.Node, same func(ast.Node) bool) bool {
	for i, up := range above[:len(above)-1] {
		in, ok := up.(*ast.IfStmt)
		if !ok || above[i+1] != in.Body {
			continue
		}
		found := false
		ast.Inspect(in.Cond, func(n ast.Node) bool {
			found = found || n != nil && same(n)
			return !found
		})
		if found {
			return true
		}
	}
	return false
}

// makes reports whether the innermost node, a code, is handed on.
func makes(above []ast.Node) bool {
	n := above[len(above)-1]
	for i, up := range slices.Backward(above[:len(above)-1]) {
		switch x := up.(type) {
		case *ast.SelectorExpr, *ast.BinaryExpr, *ast.CaseClause, *ast.IndexExpr, *ast.ValueSpec:
			return false
		case *ast.KeyValueExpr:
			if x.Key == n {
				return false
			}
			_, named := x.Key.(*ast.Ident)
			return named
		case *ast.CompositeLit:
			_, list := x.Type.(*ast.ArrayType)
			return !list && x.Type != nil || concluded(above, i)
		case *ast.CallExpr:
			if s, ok := x.Fun.(*ast.SelectorExpr); ok {
				if of, ok := s.X.(*ast.Ident); ok && (of.Name == "slices" || of.Name == "errors") || strings.HasPrefix(s.Sel.Name, "Has") {
					return false
				}
			}
			if f, ok := x.Fun.(*ast.Ident); ok && f.Name == "string" {
				n = up
				continue
			}
			return true
		case *ast.AssignStmt, *ast.ReturnStmt:
			return true
		case *ast.ParenExpr:
		default:
			return false
		}
		n = up
	}
	return false
}

func TestDocs_CodesMade(t *testing.T) {
	const src = `package p
import "github.com/writbot/writ/kernel"
var list = []kernel.Code{kernel.CodeA}
func f(c kernel.Code) V {
	if c == kernel.CodeB || slices.Contains(list, kernel.CodeC) { return V{Code: kernel.CodeD} }
	switch c { case kernel.CodeE: return fault(kernel.CodeF) }
	if kernel.HasCode(c, kernel.CodeH) { return V{Code: kernel.CodeH} } else { return V{Code: kernel.CodeG} }
	d.Codes = []kernel.Code{kernel.CodeJ}
	return V{kernel.CodeG, ""}, W{Code: "I", Name: "K"}
}`
	parsed, err := parseGo(".", "p/p.go", src)
	if err != nil {
		t.Fatal(err)
	}
	consts := map[string]map[string]string{"kernel": {}}
	for _, c := range "ABCDEFGHJ" {
		consts["kernel"]["Code"+string(c)] = string(c)
	}
	if got := strings.Join(slices.Sorted(maps.Keys(codesMade(parsed, consts, map[string]bool{"I": true, "K": true}))), ""); got != "DFGIJ" {
		t.Errorf("made are %s", got)
	}
}

// codesOfRoom is a part of the table of docs/architecture.md: words that begin codes, and the
// files that make such codes.
type codesOfRoom struct{ words, files []string }

func codesOfRooms(doc string) (parts []codesOfRoom) {
	_, table, _ := strings.Cut(doc, "\n| package | codes, and the files that make them |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		room, cell, _ := strings.Cut(strings.Trim(row, "| \n"), " | ")
		room = strings.TrimSuffix(strings.Trim(room, "`"), "/...")
		for part := range strings.SplitSeq(cell, "; ") {
			words, names, _ := strings.Cut(part, ": ")
			p := codesOfRoom{words: strings.Split(strings.ReplaceAll(words, "`", ""), ", ")}
			for name := range strings.SplitSeq(names, ", ") {
				p.files = append(p.files, path.Join(room, name))
			}
			parts = append(parts, p)
		}
	}
	return parts
}

// longest is the part that has the longest words with which a code begins, and these.
func longest(parts []codesOfRoom, code string) (of codesOfRoom, best string) {
	for _, p := range parts {
		for _, w := range p.words {
			begin, all := strings.CutSuffix(w, "*")
			if len(w) > len(best) && (w == code || all && strings.HasPrefix(code, begin)) {
				of, best = p, w
			}
		}
	}
	return of, best
}

// TestDocs_CodesOfRooms: who reads the table of docs/architecture.md names for each failure
// code a file that makes it, and nothing stands there for nothing.
func TestDocs_CodesOfRooms(t *testing.T) {
	parts, used := codesOfRooms(read(t, "docs/architecture.md")), map[string]bool{}
	for code, rooms := range codeOrigins(t) {
		of, words := longest(parts, code)
		right := false
		for room, names := range rooms {
			for _, name := range names {
				if file := path.Join(room, name); slices.Contains(of.files, file) {
					right, used[words], used[of.words[0]+" "+file] = true, true, true
				}
			}
		}
		if !right {
			t.Errorf("docs/architecture.md has %s in %v (%q), and it is made in %v", code, of.files, words, rooms)
		}
	}
	for _, p := range parts {
		for _, words := range p.words {
			if !used[words] {
				t.Errorf("docs/architecture.md: no code needs the words %s", words)
			}
		}
		for _, file := range p.files {
			if !used[p.words[0]+" "+file] {
				t.Errorf("docs/architecture.md: %s makes none of %v", file, p.words)
			}
		}
	}
}
