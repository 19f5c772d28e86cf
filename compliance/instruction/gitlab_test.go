package instruction

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gitlab is where GitLab's pages differ from those of GitHub, and what is told
// then: only what both show.
var gitlab = []struct{ what, body, told string }{
	{"a wiki link shows its text before the bar, and not its target", "V [[V|H]] [[V]]", "V [[V]] [[V]]"},
	{"braces after an image are its attributes", "![H](/i){width=H}V", "(image, not shown)V"},
	{"a code span between dollars is a formula", "V $`H`$ V", "V  V"},
	{"a block in the language math is a formula, as on GitHub", "V\n\n```math\nH\n```", "V"},
	{"dozens of languages are drawings", "V\n\n```plantuml\nH\n```\n\n```graphviz\nH\n```\n\n```d2\nH\n```\n\n```vegalite\nH\n```", "V"},
	{"json:table is a table of chosen fields", "V\n\n```json:table\nH\n```\n\n```json\nV\n```", "V\n\n```json\nV\n```"},
	{"glql and query blocks show what they find", "V\n\n```glql\nH\n```\n\n```query\nH\n```", "V"},
	{"an address of an issue, commit or page of the project is shortened", "https://e.example/g/p/-/issues/1?H=H#note_H https://e.example/g/p/commit/0123456789abcdef#H",
		"https://e.example/g/p/-/issues/1 https://e.example/g/p/commit/0123456789abcdef"},
	{"front matter is code; its first line may name a language", "---\nV: V\n---\n\nV", "---\n\n## V: V\n\nV"},
	{"front matter between plus signs", "+++\nV = \"V\"\n+++\n\nV", "+++\nV = \"V\"\n+++\n\nV"},
	{"front matter with a language", "+++ H\nV\n+++\n\nV", "V"},
	{"quotes of many lines", ">>>\nV\n\nV\n>>>", "V\n\nV"},
	{"a task that doesn't apply", "- [~] V\n- [ ] V", "- [~] V\n- [ ] V"},
	{"changes in the line", "{+ V +} {- V -} [+ V +] [- V -]", "{+ V +} {- V -} [+ V +] [- V -]"},
	{"an alert with a title of its own", "> [!warning] V\n> V", "> [!warning] V\n> V"},
	{"a list of terms", "V\n: V", "V\n: V"},
	{"abbreviations", "V\n\n*[H]: H", "V"},
	{"a table of contents stands for the mark", "[[_TOC_]]\n\n[TOC]\n\nV", "V"},
	{"an include stands for a file", "::include{file=H}\n\nV", "V"},
	{"placeholders stand for values", "V %{H} V", "V  V"},
	{"labels, milestones and commands", "~V %V &1 !1 $1 ^V\n/V", "~V %V &1 !1 $1 ^V\n/V"},
	{"a colour", "`#V`", "`#V`"},
	{"comments by definition", "V\n\n[comment]: # (H)\n\n[//]: # \"H\"", "V"},
	{"an audio or video is an image", "![H](/H.mp4)V", "(image, not shown)V"},
	{"a footnote in the line", "V ^[V]", "V ^[V]"},
}

// TestI15_WhereGitLabDiffers is the table, each row a golden.
func TestI15_WhereGitLabDiffers(t *testing.T) {
	for _, g := range gitlab {
		p := Parse("t", fill(g.body))
		if d := cmp.Diff(fill(g.told), p.Prose); d != "" || len(p.Bad) > 0 {
			t.Errorf("%s: %v\n%s", g.what, p.Bad, d)
		}
	}
}
