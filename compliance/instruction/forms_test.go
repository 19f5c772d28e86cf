package instruction

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/kernel"
)

// filled is the text that GitHub makes of the issue form: a heading for each
// field, below it the answer, in a code block where the form says so.
func filled(t *testing.T, answers map[string]string) string {
	t.Helper()
	var f struct {
		Body []struct {
			Type       string
			Attributes struct{ Label, Render string }
		}
	}
	if err := yaml.Unmarshal(contract.IssueForm(), &f); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, b := range f.Body {
		if b.Type == "markdown" { // it stands in the form alone
			continue
		}
		answer := answers[b.Attributes.Label]
		switch {
		case answer == "":
			answer = "_No response_"
		case b.Attributes.Render != "":
			answer = "```" + b.Attributes.Render + "\n" + answer + "\n```"
		}
		parts = append(parts, "### "+b.Attributes.Label+"\n\n"+answer)
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// TestIssueForm: what people fill in on GitHub is what writ reads, and the
// approver sees all of it.
func TestIssueForm(t *testing.T) {
	body := filled(t, map[string]string{
		"What to do": "Add `Mul`.\n\nIt multiplies.", HeadingFiles: "src/*/a.go\nlib/*/b.go\ncalc/**", HeadingOutcome: "Mul(2, 3) is 6",
		HeadingChecks: "test, lint", HeadingBuilder: "default",
	})
	p := Parse("Multiply", body)
	want := kernel.TaskSpec{
		AllowedFiles: []string{"src/*/a.go", "lib/*/b.go", "calc/**"}, ExpectedOutcome: "Mul(2, 3) is 6",
		Checks: []string{"test", "lint"}, Builder: "default",
	}
	if d := cmp.Diff(want, p.Spec); d != "" || len(p.Bad) > 0 || !p.Found || p.Cuts > 0 {
		t.Errorf("%s\n%v, %d cuts\n%s", d, p.Bad, p.Cuts, body)
	}
	if p.Prose != "### What to do\n\nAdd `Mul`.\n\nIt multiplies." {
		t.Errorf("the prose is %q", p.Prose)
	}
	none := kernel.TaskSpec{AllowedFiles: []string{}, Checks: []string{}}
	for name, empty := range map[string]string{
		"nothing filled in": filled(t, map[string]string{"What to do": "x"}),
		"an empty block":    "### Allowed files\n\n```text\n\n```\n\n### Checks\n\n_No response_\n",
		"a block with it":   "### Allowed files\n\n```text\n_No response_\n```\n",
	} {
		if p := Parse("t", empty); cmp.Diff(none, p.Spec) != "" || len(p.Bad) > 0 || !p.Found {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestIssueTemplate: the same with GitLab's template, whose block is filled in.
func TestIssueTemplate(t *testing.T) {
	text := string(contract.IssueTemplate())
	p := Parse("t", "Do it."+text)
	if d := cmp.Diff(kernel.TaskSpec{AllowedFiles: []string{}, Checks: []string{}}, p.Spec); d != "" || len(p.Bad) > 0 || !p.Found || p.Prose != "Do it." || p.Cuts > 0 {
		t.Errorf("as it is: %s %+v", d, p)
	}
	for from, to := range map[string]string{
		"allowed_files: []": "allowed_files: [src/**, README.md]", `expected_outcome: ""`: "expected_outcome: Mul(2, 3) is 6", "checks: []": "checks: [test]",
	} {
		if strings.Count(text, from) != 1 {
			t.Fatalf("the template has no line %q", from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	p = Parse("Multiply", "Add `Mul`."+text)
	want := kernel.TaskSpec{AllowedFiles: []string{"src/**", "README.md"}, ExpectedOutcome: "Mul(2, 3) is 6", Checks: []string{"test"}}
	if d := cmp.Diff(want, p.Spec); d != "" || len(p.Bad) > 0 || p.Prose != "Add `Mul`." || p.Cuts > 0 {
		t.Errorf("filled in: %s %+v", d, p)
	}
}
