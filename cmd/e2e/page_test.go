package e2e

import (
	"fmt"
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
	fenceLine = regexp.MustCompile("^( *)(````*)(.*)$")
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

// drift is how a page and those who perform it differ; "" is not at all.
func drift(steps []pageStep, list []performed) string {
	for i, s := range steps {
		if i == len(list) {
			return fmt.Sprintf("nobody performs the step %q", s.text)
		}
		if p := list[i]; s.kind != p.kind || !strings.HasPrefix(s.text, p.begins) {
			return fmt.Sprintf("step %d is the %s %q; the test performs the %s %q", i+1, s.kind, s.text, p.kind, p.begins)
		}
	}
	if len(steps) < len(list) {
		return fmt.Sprintf("the step %q is gone", list[len(steps)].begins)
	}
	return ""
}

// follow does every step of a page. One that isn't among the performed, or not
// in its place, fails the test: a page says nothing that nobody has tried.
func follow(t *testing.T, page string, list []performed) {
	t.Helper()
	steps := pageSteps(t, page)
	if d := drift(steps, list); d != "" {
		t.Fatalf("%s: %s", page, d)
	}
	for i, s := range steps {
		list[i].do(s.text)
	}
}

// TestPage_Drift: a page with a step more, less or elsewhere is noticed.
func TestPage_Drift(t *testing.T) {
	const text = "Do this:\n\n```sh\none\n```\n\n1. Click **it**.\n2. File\n\n   ````md\n   ```writ\n   a: b\n   ```\n   ````\n\n```yaml\nx: y\n```\n"
	list := []performed{{kind: "sh", begins: "one"}, {kind: "item", begins: "Click"}, {kind: "item", begins: "File"}, {kind: "md", begins: "```writ\na: b\n```"}, {kind: "yaml", begins: "x:"}}
	steps := pageSteps(t, write(t, t.TempDir(), "page.md", text))
	if d := drift(steps, list); d != "" {
		t.Error(d)
	}
	for name, other := range map[string]string{
		"a block more":   text + "\n```\nmore\n```\n",
		"an item more":   strings.Replace(text, "2. File", "2. Click **that**.\n3. File", 1),
		"a block less":   strings.Replace(text, "```sh\none\n```", "", 1),
		"another text":   strings.Replace(text, "one", "two", 1),
		"another order":  strings.Replace(strings.Replace(text, "Click", "X", 1), "File", "Click", 1),
		"indented block": text + "\n   ```sh\n   more\n   ```\n",
	} {
		if drift(pageSteps(t, write(t, t.TempDir(), "page.md", other)), list) == "" {
			t.Errorf("%s: nobody notices", name)
		}
	}
}
