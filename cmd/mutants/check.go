package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// checkAll tells whether each mutant applies to the tree as it is, whether what
// comes out compiles, and whether its pattern names a test. No test is built.
func checkAll(ctx context.Context, top string, mutants []mutant, workers int, stdout io.Writer) (bool, error) {
	byDir, err := compilers(ctx, top, mutants)
	if err != nil {
		return false, err
	}
	tests := map[string][]string{}
	var mu sync.Mutex // of tests
	fine := 0
	for v := range runAll(ctx, mutants, workers, func(_ context.Context, m mutant) verdict {
		mu.Lock()
		err := m.test.exists(top, tests)
		mu.Unlock()
		if err == nil {
			err = m.compiles(top, byDir)
		}
		if err != nil {
			return verdict{mutant: m, detail: err.Error()}
		}
		return verdict{mutant: m, killed: true}
	}) {
		if v.killed {
			fine++
			continue
		}
		fmt.Fprintf(stdout, "STALE   %s: %s\n", v.mutant.name, v.detail)
	}
	fmt.Fprintf(stdout, "%d of %d mutants apply\n", fine, len(mutants))
	return fine == len(mutants), ctx.Err()
}

// compiles applies a mutant and checks each package that it changes.
func (m mutant) compiles(top string, byDir map[string]*compiler) error {
	texts, err := m.apply(top)
	if err != nil {
		return err
	}
	for dir, c := range byDir {
		for file := range texts {
			if path.Dir(file) == dir {
				if err := c.check(texts); err != nil {
					return fmt.Errorf("%s: what comes out doesn't compile: %w", m.where, err)
				}
				break
			}
		}
	}
	return nil
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// exists looks for a test of that name in the package's sources; a part of the
// pattern that names a subtest is not looked at. known keeps a package's names.
func (t testRun) exists(top string, known map[string][]string) error {
	if _, ok := known[t.pkg]; !ok {
		found, err := testNames(filepath.Join(top, filepath.FromSlash(t.pkg)))
		if err != nil {
			return err
		}
		known[t.pkg] = found
	}
	pattern, _, _ := strings.Cut(t.pattern, "/")
	name, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("the pattern up to its first /: %w", err)
	}
	if !slices.ContainsFunc(known[t.pkg], name.MatchString) {
		return fmt.Errorf("%s names no test", t)
	}
	return nil
}

func testNames(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
	}
	return found, nil
}

// compiler checks the types of one package with files of a mutant in it, against
// the export data of what the package imports. It reads and parses the package
// once, whatever the number of its mutants, and links nothing.
type compiler struct {
	fset  *token.FileSet
	imp   types.Importer
	mu    sync.Mutex
	files map[string]source // by their slash paths from the repository's root
}

// source is one file of a package.
type source struct {
	text  string
	whole *ast.File
	bare  *ast.File // without the bodies of its functions
	shape string    // bare, printed
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// compilers gives one for each package of the repository that has files which
// the mutants change, by its directory's slash path.
func compilers(ctx context.Context, top string, mutants []mutant) (map[string]*compiler, error) {
	var dirs []string
	for _, m := range mutants {
		for _, e := range m.edits {
			if strings.HasSuffix(e.file, ".go") {
				dirs = append(dirs, "./"+path.Dir(e.file))
			}
		}
	}
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	if len(dirs) == 0 {
		return nil, nil
	}
	args := append([]string{"list", "-e", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}, dirs...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = top, append(os.Environ(), "CGO_ENABLED=0") // as the tests are built
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports, pkgs := map[string]string{}, map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if dir, err := filepath.Rel(top, p.Dir); err == nil && slices.Contains(dirs, "./"+filepath.ToSlash(dir)) {
			pkgs[filepath.ToSlash(dir)] = p
		}
	}
	found := map[string]*compiler{}
	for dir, p := range pkgs {
		if found[dir], err = newCompiler(dir, p, exports); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func newCompiler(dir string, p listed, exports map[string]string) (*compiler, error) {
	c := &compiler{fset: token.NewFileSet(), files: map[string]source{}}
	c.imp = importer.ForCompiler(c.fset, "gc", func(name string) (io.ReadCloser, error) {
		if exports[name] == "" {
			return nil, fmt.Errorf("go list gave no export data of %s", name)
		}
		return os.Open(exports[name])
	})
	for _, name := range p.GoFiles {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		if c.files[path.Join(dir, name)], err = c.read(path.Join(dir, name), string(text)); err != nil {
			return nil, err
		}
	}
	if err := c.check(nil); err != nil {
		return nil, fmt.Errorf("%s without any mutant: %w", dir, err)
	}
	return c, nil
}

func (c *compiler) read(name, text string) (s source, err error) {
	if s.whole, err = parser.ParseFile(c.fset, name, text, parser.SkipObjectResolution); err != nil {
		return s, err
	}
	s.text = text
	bare := *s.whole
	bare.Decls = slices.Clone(bare.Decls)
	for i, d := range bare.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f := *f
			f.Body, bare.Decls[i] = nil, &f
		}
	}
	var shape strings.Builder
	s.bare = &bare
	err = printer.Fprint(&shape, token.NewFileSet(), s.bare)
	s.shape = shape.String()
	return s, err
}

// check compiles the package with these texts instead of the files of the same
// paths. Files of other packages, and those that aren't built here, are not
// looked at. Where only bodies of functions differ, nothing can go wrong in the
// other files, whose bodies are left out then: they are most of the work.
func (c *compiler) check(texts map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, inBodies := map[string]source{}, len(texts) > 0
	for name, text := range texts {
		was, ok := c.files[name]
		if !ok {
			continue
		}
		now, err := c.read(name, text)
		if err != nil {
			return err
		}
		changed[name], inBodies = now, inBodies && now.shape == was.shape
	}
	files := make([]*ast.File, 0, len(c.files))
	for name, file := range c.files {
		switch now, ok := changed[name]; {
		case ok:
			files = append(files, now.whole)
		case inBodies:
			files = append(files, file.bare)
		default:
			files = append(files, file.whole)
		}
	}
	var first error
	conf := types.Config{Importer: c.imp, Sizes: types.SizesFor("gc", runtime.GOARCH), Error: func(err error) {
		var at types.Error
		ours := errors.As(err, &at) && changed[c.fset.Position(at.Pos).Filename].whole != nil
		if first == nil && (ours || !inBodies) {
			first = err
		}
	}}
	_, _ = conf.Check("p", c.fset, files, nil) // its error is the first one
	return first
}
