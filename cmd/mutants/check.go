package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// checkAll tells whether each mutant applies to the tree as it is and whether
// its pattern names a test. Nothing is built and nothing changed.
func checkAll(top string, mutants []mutant, stdout io.Writer) bool {
	stale := 0
	tests := map[string][]string{}
	for _, m := range mutants {
		_, err := m.apply(top)
		if err == nil {
			err = m.test.exists(top, tests)
		}
		if err != nil {
			stale++
			fmt.Fprintf(stdout, "STALE   %s: %v\n", m.name, err)
		}
	}
	fmt.Fprintf(stdout, "%d of %d mutants apply\n", len(mutants)-stale, len(mutants))
	return stale == 0
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
