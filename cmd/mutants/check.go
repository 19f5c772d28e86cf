package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
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
