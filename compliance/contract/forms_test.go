package contract

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// TestOnboarding: it is the built-in contract but for its two settings, which
// stand first, and each with the line that changes it.
func TestOnboarding(t *testing.T) {
	text := string(Onboarding())
	got, _ := load(t, text)
	want := Default()
	want.Mode, want.CloseOn, want.Hash, want.Source = ModeObserve, CloseMerged, got.Hash, got.Source
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the onboarding contract (-wanted +got):\n%s", d)
	}
	var keys []string
	for line := range strings.Lines(text) {
		if key, _, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, " ") {
			keys = append(keys, key)
		}
	}
	if len(keys) < 15 || !slices.Equal(keys[:3], []string{"version", "mode", "close_on"}) {
		t.Errorf("the keys are %v", keys)
	}
	// Each comment names a line that does what it says.
	for from, to := range map[string]string{"\nmode: observe\n": "\nmode: govern\n", "\nclose_on: merged\n": "\nclose_on: verified\n"} {
		if !strings.Contains(text, "\n# "+to[1:]+from[1:]) || strings.Count(text, from) != 1 {
			t.Errorf("%q is not explained above %q", to, from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	got, _ = load(t, text)
	want = Default()
	want.Hash, want.Source = got.Hash, got.Source
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("with both lines changed (-default +got):\n%s", d)
	}
}

// form is what GitHub takes for an issue form; it refuses any other key.
type form struct {
	Name, Description string
	Body              []struct {
		Type       string
		Attributes struct {
			Label, Description, Value, Render string
		}
		Validations struct{ Required bool }
	}
}

// TestIssueForm: GitHub takes it, and it approves nothing by itself.
func TestIssueForm(t *testing.T) {
	dec := yaml.NewDecoder(strings.NewReader(string(IssueForm())))
	dec.KnownFields(true) // so no labels, assignees or projects
	var f form
	if err := dec.Decode(&f); err != nil {
		t.Fatal(err)
	}
	if f.Name == "" || f.Description == "" {
		t.Error("GitHub wants a name and a description")
	}
	labels := map[string]bool{}
	for _, b := range f.Body {
		a := b.Attributes
		switch b.Type {
		case "markdown":
			if a.Value == "" || a.Label != "" {
				t.Errorf("a text is %+v", a)
			}
			continue
		case "textarea":
		case "input":
			if a.Render != "" {
				t.Errorf("%s: only a textarea has render", a.Label)
			}
		default:
			t.Errorf("%s has the type %s", a.Label, b.Type)
		}
		if a.Label == "" || labels[a.Label] {
			t.Errorf("the label %q is missing or there twice", a.Label)
		}
		labels[a.Label] = true
	}
}

// TestIssueTemplate: no line of it is a quick action, which GitLab would carry
// out for whoever files the issue.
func TestIssueTemplate(t *testing.T) {
	for line := range strings.Lines(string(IssueTemplate())) {
		if strings.HasPrefix(strings.TrimSpace(line), "/") {
			t.Errorf("%q is a quick action", line)
		}
	}
}
