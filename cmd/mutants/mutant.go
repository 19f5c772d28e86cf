package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is one patch and the test that must notice it.
type mutant struct {
	name string // file name without .patch
	file string // absolute path
	test testRun
}

// testRun is what go test is asked for.
type testRun struct {
	pkg, pattern string
	race         bool
}

const firstLine = "# test: <package> <-run pattern> [-race]"

// parseMutant reads a patch's first line.
func parseMutant(file string) (mutant, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return mutant{}, err
	}
	m := mutant{name: strings.TrimSuffix(filepath.Base(file), ".patch"), file: file}
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	spec, ok := strings.CutPrefix(string(head), "# test: ")
	f := strings.Fields(spec)
	if len(f) == 3 && f[2] == "-race" {
		m.test.race, f = true, f[:2]
	}
	if !ok || len(f) != 2 || !strings.HasPrefix(f[0], "./") {
		return m, fmt.Errorf("%s: the first line must be %q, the package beginning with ./", m.name, firstLine)
	}
	m.test.pkg, m.test.pattern = f[0], f[1]
	if _, err := regexp.Compile(m.test.pattern); err != nil {
		return m, fmt.Errorf("%s: %w", m.name, err)
	}
	if !bytes.Contains(rest, []byte("\n+++ b/")) {
		return m, fmt.Errorf("%s: no unified diff with paths a/… and b/… follows the first line", m.name)
	}
	return m, nil
}

// findMutants reads all patches below dir whose name matches only, sorted.
func findMutants(dir string, only *regexp.Regexp) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, p := range paths {
		if !only.MatchString(filepath.Base(p)) {
			continue
		}
		m, err := parseMutant(p)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// args is the go command line that runs the tests, or only builds them.
func (t testRun) args(buildOnly bool) []string {
	args := []string{"test", "-count=1", "-timeout", testTimeout.String()}
	if t.race {
		args = append(args, "-race")
	}
	if buildOnly {
		return append(args, "-run", "^$", t.pkg)
	}
	return append(args, "-v", "-run", t.pattern, t.pkg)
}
