package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// pageStep is something that a page of the manual has its reader do: a fenced
// block, by its language, or a numbered item, with the block that it contains.
type pageStep struct {
	kind string // sh, yaml, nginx …; "item"
	text string
}

var (
	fenceLine = regexp.MustCompile("^( *)(````*)([a-z]*)$")
	itemLine  = regexp.MustCompile(`^[0-9]+\. (.*)$`)
)

// pageSteps reads the steps of a page, in their order.
func pageSteps(t *testing.T, path string) (steps []pageStep) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	for i := 0; i < len(lines); i++ {
		if m := itemLine.FindStringSubmatch(lines[i]); m != nil {
			steps = append(steps, pageStep{"item", m[1]})
			continue
		}
		m := fenceLine.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		var body []string
		for i++; i < len(lines) && lines[i] != m[1]+m[2]; i++ {
			body = append(body, strings.TrimPrefix(lines[i], m[1]))
		}
		if i == len(lines) {
			t.Fatalf("a block of %s doesn't end", path)
		}
		steps = append(steps, pageStep{m[3], strings.Join(body, "\n") + "\n"})
	}
	return steps
}

// performed is one step as a test does it: how it begins on the page, and what
// the test does with its text.
type performed struct {
	kind, begins string
	do           func(text string)
}

// follow does every step of a page. One that isn't among the performed, or not
// in its place, fails the test: a page says nothing that nobody has tried.
func follow(t *testing.T, page string, list []performed) {
	t.Helper()
	steps := pageSteps(t, page)
	for i, s := range steps {
		if i == len(list) {
			t.Fatalf("%s: nobody performs the step %q", page, s.text)
		}
		if p := list[i]; s.kind != p.kind || !strings.HasPrefix(s.text, p.begins) {
			t.Fatalf("%s: step %d is the %s %q; the test performs the %s %q", page, i+1, s.kind, s.text, p.kind, p.begins)
		}
	}
	if len(steps) < len(list) {
		t.Fatalf("%s: the step %q is gone", page, list[len(steps)].begins)
	}
	for i, s := range steps {
		list[i].do(s.text)
	}
}
