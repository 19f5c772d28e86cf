package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	// variable says which of the mutants that a program is compiled with it has.
	variable = "MUTANT_OF_WRIT"
	// switchFile is added to each package that has some.
	switchFile = "zz_writ_mutant.go"
	// untold is what a program panics with that isn't told. It might run without the mutant
	// that the process which started it has, and a test would compare two programs.
	untold = "which mutant it has is not told"
	// What a program starts may not get its environment, so that the end of its file says
	// it as well.
	switchText = `package %s

import (
	writOS "os"
	writStrings "strings"
)

var writMutant = func() string {
	const variable = %q
	if name, told := writOS.LookupEnv(variable); told {
		return name
	}
	end := make([]byte, 256)
	if file, err := writOS.Open("/proc/self/exe"); err == nil {
		info, _ := file.Stat()
		_, _ = file.ReadAt(end, info.Size()-int64(len(end)))
		_ = file.Close()
	}
	_, name, told := writStrings.Cut(string(end), "\x00"+variable+"=")
	if !told {
		panic(%q)
	}
	return name
}()
`
)

// together is a set of mutants that are compiled into one program. A function that some
// of them change begins with a switch on the variable, which calls the mutant's copy of
// it. So a package's tests are built once, and not once for each mutant. (In the
// literature it is a mutant schema.)
type together struct {
	overlay string          // the file that tells the go command of it
	has     map[string]bool // the names of the mutants that are in it
}

// copied is a function as a mutant has it.
type copied struct {
	mutant string
	of     *ast.FuncDecl // the function as it is
	text   string        // the mutant's, under the same name
	name   int           // where in text the name is
}

// putTogether writes what is to be compiled below dir. What a mutant changes may be more
// than the bodies of functions, or it doesn't compile: that one stays out.
func putTogether(ctx context.Context, top, dir string, mutants []mutant, workers int) (*together, error) {
	byDir, err := compilers(ctx, top, mutants)
	if err != nil {
		return nil, err
	}
	t := &together{has: map[string]bool{}}
	byFile := map[string][]copied{}
	for copies := range runAll(ctx, mutants, workers, func(_ context.Context, m mutant) map[string][]copied {
		found, err := m.copies(top, byDir)
		if err != nil || m.compiles(top, byDir) != nil {
			return nil
		}
		return found
	}) {
		for file, list := range copies {
			byFile[file] = append(byFile[file], list...)
			t.has[list[0].mutant] = true
		}
	}
	texts := map[string]string{}
	for file, copies := range byFile {
		// The order of the mutants is always the same, so that the go command finds
		// what it has compiled before.
		slices.SortFunc(copies, func(a, b copied) int {
			return cmp.Or(cmp.Compare(a.of.Pos(), b.of.Pos()), cmp.Compare(a.mutant, b.mutant))
		})
		c := byDir[path.Dir(file)]
		if texts[file], err = c.dispatch(file, copies); err != nil {
			return nil, err
		}
		texts[path.Join(path.Dir(file), switchFile)] = fmt.Sprintf(switchText, c.files[file].whole.Name.Name, variable, untold)
	}
	t.overlay, err = writeOverlay(top, dir, texts)
	return t, errors.Join(err, ctx.Err())
}

// callerCounts are bodies that mean something else where a call stands between them and
// their caller. That a function which they call looks at its callers isn't seen.
var callerCounts = regexp.MustCompile(`\brecover\(\)|\bruntime\.Callers?\(|\bdebug\.(Print)?Stack\(`)

// errUnfit is why a mutant doesn't compile with the others.
var errUnfit = errors.New("it is compiled by itself")

// copies gives the functions that a mutant changes, by their files.
func (m mutant) copies(top string, byDir map[string]*compiler) (map[string][]copied, error) {
	texts, err := m.apply(top)
	if err != nil || m.test.race {
		return nil, cmp.Or(err, errUnfit)
	}
	found := map[string][]copied{}
	for file, text := range texts {
		c := byDir[path.Dir(file)]
		if c == nil || c.files[file].whole == nil {
			return nil, errUnfit
		}
		is, err := c.read(file, text)
		if err != nil {
			return nil, err
		}
		was, now := c.functions(c.files[file]), c.functions(is)
		if was.rest != now.rest || len(was.decls) != len(now.decls) {
			return nil, errUnfit
		}
		for i, d := range was.decls {
			if was.texts[i] == now.texts[i] {
				continue
			}
			if was.heads[i] != now.heads[i] || d.Body == nil || d.Name.Name == "init" || d.Name.Name == "_" || nameless(d.Type.TypeParams) ||
				callerCounts.MatchString(was.texts[i]) || callerCounts.MatchString(now.texts[i]) {
				return nil, errUnfit
			}
			found[file] = append(found[file], copied{m.name, d, now.texts[i], int(now.decls[i].Name.Pos() - now.decls[i].Pos())})
		}
	}
	return found, nil
}

// nameless reports whether one of the type parameters can't be named by a call.
func nameless(types *ast.FieldList) bool {
	return types != nil && slices.ContainsFunc(types.List, func(f *ast.Field) bool {
		return slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.Name == "_" })
	})
}

// functions are those of a file, their texts, the parts of these before their bodies, and
// all other text of the file.
type functions struct {
	decls        []*ast.FuncDecl
	texts, heads []string
	rest         string
}

func (c *compiler) functions(file source) (f functions) {
	text, done := file.text, 0
	for _, d := range file.whole.Decls {
		d, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		from, to := c.offset(d.Pos()), c.offset(d.End())
		body := to
		if d.Body != nil {
			body = c.offset(d.Body.Pos())
		}
		f.decls = append(f.decls, d)
		f.texts, f.heads = append(f.texts, text[from:to]), append(f.heads, text[from:body])
		f.rest += text[done:from] + "\x00"
		done = to
	}
	f.rest += text[done:]
	return f
}

func (c *compiler) offset(p token.Pos) int { return c.fset.Position(p).Offset }

// dispatch gives a file's text with a switch in each function that has copies, and the
// copies at the end. No line of the file becomes another one.
func (c *compiler) dispatch(file string, copies []copied) (string, error) {
	var places []place
	var end strings.Builder
	for len(copies) > 0 {
		of := copies[0].of
		n := slices.IndexFunc(copies, func(other copied) bool { return other.of != of })
		if n < 0 {
			n = len(copies)
		}
		call, renamed := c.call(of)
		places = append(places, renamed...)
		var cases strings.Builder
		for i, m := range copies[:n] {
			name := fmt.Sprintf("writMutant_%d_%d_%s", of.Pos(), i, of.Name.Name)
			statement := fmt.Sprintf(call, name)
			if of.Type.Results.NumFields() == 0 {
				statement += "; return"
			} else {
				statement = "return " + statement
			}
			fmt.Fprintf(&cases, " case %q: %s;", m.mutant, statement)
			end.WriteString("\n" + m.text[:m.name] + name + m.text[m.name+len(of.Name.Name):] + "\n")
		}
		at := c.offset(of.Body.Pos()) + 1
		places = append(places, place{at, at, " switch writMutant {" + cases.String() + " };"})
		copies = copies[n:]
	}
	text, err := splice(c.files[file].text, places)
	return text + end.String(), err
}

// call is how a function calls its copy, with %s for the name, and where what it has no
// name for gets one.
func (c *compiler) call(d *ast.FuncDecl) (call string, renamed []place) {
	named := func(f *ast.Field) (names []string) {
		at := c.offset(f.Pos())
		if len(f.Names) == 0 {
			names = append(names, fmt.Sprint("writArg", at))
			renamed = append(renamed, place{at, at, names[0] + " "})
		}
		for _, n := range f.Names {
			if n.Name == "_" {
				at := c.offset(n.Pos())
				names = append(names, fmt.Sprint("writArg", at))
				renamed = append(renamed, place{at, at + 1, fmt.Sprint("writArg", at)})
				continue
			}
			names = append(names, n.Name)
		}
		return names
	}
	var args []string
	for _, f := range d.Type.Params.List {
		names := named(f)
		if _, ok := f.Type.(*ast.Ellipsis); ok {
			names[0] += "..."
		}
		args = append(args, names...)
	}
	call = "%s"
	if d.Recv != nil {
		call = named(d.Recv.List[0])[0] + ".%s"
	}
	if d.Type.TypeParams != nil {
		var types []string
		for _, f := range d.Type.TypeParams.List {
			for _, n := range f.Names {
				types = append(types, n.Name)
			}
		}
		call += "[" + strings.Join(types, ", ") + "]"
	}
	return call + "(" + strings.Join(args, ", ") + ")", renamed
}
