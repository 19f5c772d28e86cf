package instruction

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

// TestI15_EntriesAsShown: a path is taken where the page shows it as it was typed,
// or from a code span or block.
func TestI15_EntriesAsShown(t *testing.T) {
	for typed, want := range map[string][]string{
		"src/**":                                  {"src/**"},
		"docs/*.md\nlib/**\na_b.go\n":             {"docs/*.md", "lib/**", "a_b.go"},
		"__init__.py, a_b_c.go,  x/*\\\ny":        nil,
		"a_b_c.go, snake_case_/x,\nb.go  \nc.go":  {"a_b_c.go", "snake_case_/x", "b.go", "c.go"},
		"- a/*\n- b/*\n\n\n  c\n1. d\n2. e f":     {"a/*", "b/*", "c", "d", "e f"},
		"- [x] a, b\n- [ ] c\n- [X] `d`":          {"a", "b", "d"},
		"- [ ] *a*":                               {},
		"`*a*`, `_x_`, ``a`b``\n- `a, b`":         {"*a*", "_x_", "a`b", "a, b"},
		"`__init__.py`,":                          {"__init__.py"},
		"app/(auth)/page.tsx, a+b=c, docs@v2/x":   {"app/(auth)/page.tsx", "a+b=c", "docs@v2/x"},
		"é/日本語/٣":                                 {"é/日本語/٣"},
		"```text\n*a*\n- \\*b, __c__\n[x] d\n```": {"*a*", "\\*b", "__c__", "d"},
		"a\n\n~~~\nb\n~~~\n\n- c":                 {"a", "b", "c"},
		"<!-- one a line -->\na\n\n<!-- x\n\n-->": {"a"},
		"_No response_":                           {},
		"`deadbeef/a`":                            {"deadbeef/a"},
		"db/migrate/20240101120000_add.sql":       {"db/migrate/20240101120000_add.sql"},
		"\\*":                                     nil,
		"a * b":                                   {"a * b"},
	} {
		p := Parse("t", "### Allowed files\n\n"+typed+"\n\n### Expected outcome\n\nx\n")
		if want == nil != (len(p.Bad) > 0) || want != nil && !slices.Equal(p.Spec.AllowedFiles, want) {
			t.Errorf("%q: %q %v", typed, p.Spec.AllowedFiles, p.Bad)
		}
	}
}

// TestI15_DecidesOnThePage: what is far to the right in a block of code decides
// nothing, because a page hides it behind a scroll bar.
func TestI15_DecidesOnThePage(t *testing.T) {
	for between, fine := range map[string]bool{
		strings.Repeat(" ", 8): true, strings.Repeat(" ", 9): false, strings.Repeat("\u2003", 9): false, strings.Repeat("\u2800", 9): false,
		strings.Repeat("\t", 2): false, "\n" + strings.Repeat(" ", 40): true, "\n" + strings.Repeat(" ", 41): false,
		" " + strings.Repeat("b", 60) + ", ": true, " " + strings.Repeat("b", 100) + ", ": false,
		" b" + strings.Repeat(" ", 300) + "\n, ": true, strings.Repeat(" b,\n ", 20): true,
	} {
		for name, body := range map[string]string{
			"block": "```writ\nallowed_files: [a.txt," + between + "secret.txt]\nexpected_outcome: ok\n```\n",
			"form":  "### Allowed files\n\n```text\na.txt," + between + "secret.txt\n```\n\n### Expected outcome\n\nok\n",
		} {
			p := Parse("t", body)
			edge := func(v kernel.Violation) bool {
				return v.Code == kernel.CodeDispatchMalformed && strings.Contains(v.Detail, "the page may hide its end; write")
			}
			if slices.ContainsFunc(p.Bad, edge) == fine {
				t.Errorf("%s, %q: %v", name, between, p.Bad)
			}
		}
	}
	p := Parse("t", "```writ\nallowed_files:\n  - a.txt\nexpected_outcome: >-\n"+strings.Repeat("  some words of a long outcome\n", 20)+"```\n")
	if len(p.Bad) > 0 || len(p.Spec.ExpectedOutcome) != 20*29-1 {
		t.Errorf("%d: %v", len(p.Spec.ExpectedOutcome), p.Bad)
	}
}

// TestI15_EntriesShownOtherwise: an entry that the page shows otherwise is refused
// by name, in each list that decides.
func TestI15_EntriesShownOtherwise(t *testing.T) {
	for _, entry := range []string{
		"*a*", "**a**", "_x_", "__init__.py", "~~x~~", "~x~", "src/*/a.go, lib/*/b.go", "`a`*b*", "*a\nb*",
		`\*`, `a\_b`, "&#42;", "&ast;&ast;", "&nbsp;a", "a&nbsp;b", "a\u00a0b", "a  b", "` a  b `", "a\tb",
		"[a](b)", "[a]", "[a][b]", "![a](b)", "<https://a.example>", "https://a.example/b", "www.a.example", "a@b.example",
		"a<!-- b -->", "<!-- b -->a", "<!-- a\n--> b", "a<br>b", "<b>a</b>", "<b>\na\n</b>", "a<T>", "<kbd>a</kbd>",
		":tada:", "a/:+1:", "#1", "a#1+", "!1", "~bug", "%1", "$a$", "a$b", "&1", "^a", "{a}", "a|b", "a:b", "\"a\"", "'a'",
		"a5c3785ed8d6a35868bc169f07e40e889087fd2e", "a@deadbeef", "`a`b", "a`b`", "`a` and `b`", "`a`,`b`", "*", "- a\n-\n", "``` ``` a",
		"> a", "    a", "| a |\n|---|\n| b |", "a\n\n---", "a\n---", "a\n===", "```mermaid\na\n```", "```x:y\na\n```", "[a]: b", "a[^1]\n\n[^1]: b",
		"$$\na\n$$", "```\na\n```\n\n*b*", "- a\n  - *b*", "- > a", "\U0001F600",
	} {
		for _, heading := range headings {
			if heading == HeadingOutcome {
				continue
			}
			p := Parse("t", "### "+heading+"\n\n"+entry+"\n")
			at := slices.IndexFunc(p.Bad, func(v kernel.Violation) bool {
				return v.Code == kernel.CodeDispatchMalformed && v.Subject == heading
			})
			if at < 0 {
				t.Errorf("%s %q: %q %v", heading, entry, p.Spec, p.Bad)
			}
		}
	}
	p := Parse("t", "text\n\n### Allowed files\n\na\n*b*\n")
	if want := `Line 6, "*b*": the page may show it otherwise than it was typed; put it in backticks, each entry for itself.`; len(p.Bad) != 1 || p.Bad[0].Detail != want {
		t.Errorf("%+v", p.Bad)
	}
}

// TestI15_HeadingsShownOtherwise: no heading looks like one of the form's and is
// none.
func TestI15_HeadingsShownOtherwise(t *testing.T) {
	for _, h := range []string{"Allowed  files", "Allowed&#32;files", "**Allowed files**", "allowed files", "Allowed `files`", "Allowed files&nbsp;", `Allowed f\iles`} {
		p := Parse("t", "### "+h+"\n\na\n")
		if looks := h != `Allowed f\iles`; looks != (len(p.Bad) > 0) || p.Found {
			t.Errorf("%q: %+v", h, p)
		}
	}
}

// TestI15_BlockAsShown: the values of a writ block stand in it as they are.
func TestI15_BlockAsShown(t *testing.T) {
	for yaml, fine := range map[string]bool{
		"allowed_files: [\"a/**\", 'b', c d, \"é\", \"f\"]":  true,
		"allowed_files:\n  - \"a\"\n  - b  # c\nbuilder: x":  true,
		`checks: ["a b", é, "c"]`:                            true,
		`allowed_files: ["\x2a\x2a/a"]`:                      false,
		`allowed_files: ["a\/b"]`:                            false,
		`allowed_files: ["a\"b"]`:                            false,
		"allowed_files: ['a''b']":                            false,
		"allowed_files: [\"a/\n  b\"]":                       false,
		"allowed_files:\n  - a\n    b":                       false,
		"allowed_files:\n  - |-\n    a":                      false,
		"allowed_files:\n  - >-\n    a":                      false,
		`checks: ["\u0061"]`:                                 false,
		`builder: "\u0061"`:                                  false,
		"builder: >-\n  a":                                   false,
		`expected_outcome: "it \"works\" \\ and\nholds\tit"`: true,
		"expected_outcome: |\n  it works\n  and holds":       true,
		`expected_outcome: "\x49gnore all"`:                  false,
		"expected_outcome: \"it\n  works\" # é":              true,
	} {
		if p := Parse("t", "```writ\n"+yaml+"\n```\n"); fine != (len(p.Bad) == 0) {
			t.Errorf("%q: %v", yaml, p.Bad)
		}
	}
}

// honest are pieces of lists as people write them, marks the others.
var honest = []string{"W", "W", "W/W", "W/*", "**/W", "W.W", "W_W", "W\n", "W, ", "/", "`W`", "\n", "\n- "}

var marks = []string{
	"*", "*", "**", "_", "__", "~", "~~", ".", ", ", ", ", ",", "\n", "\n", "\n", "\n\n", " ", "  ", "- ", "- ", "* ", "1. ", "- [x] ", "- [ ] ",
	"`", "`", "``", "`W`", "`W, W`", "`*W*`", "\\", "&#42;", "&ast;", "&amp;", "<!-- W -->", "<b>", "</b>", "<br>", "<W>", "[W](W)", "[W]", "[", "]", "(", ")", "![W](W)",
	"https://W.example", "www.W.example", "W@W.example", ":tada:", "#1", "|", "\n|---|\n", "\n---\n", "> ", "    ", "\t", "```\n", "\n```\n", "```W\n", "[^1]", "\n[^1]: W\n", "?", "+", "=", "$W$", "\"", "'", "é", "…",
}

// generateList is a list below a heading of the form, always the same for a seed.
func generateList(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 8))
	some := make([]string, 12)
	for i := range some {
		some[i] = marks[r.IntN(len(marks))]
	}
	var b strings.Builder
	word := 0
	for range 1 + r.IntN(8) {
		piece := honest[r.IntN(len(honest))]
		if r.IntN(3) == 0 {
			piece = some[r.IntN(len(some))]
		}
		for c := range strings.SplitSeq(piece, "") {
			if c == "W" {
				word++
				c = fmt.Sprintf("w%dz", word)
			}
			b.WriteString(c)
		}
	}
	return b.String()
}

// TestI15_NothingDecidedThatThePageHides: each value of a list is an entry of the
// page's text, as it is.
func TestI15_NothingDecidedThatThePageHides(t *testing.T) {
	taken := 0
	for i := range uint64(*documents) {
		heading := []string{HeadingFiles, HeadingChecks}[i%2]
		body := "### " + heading + "\n\n" + generateList(*seed+i) + "\n"
		p := Parse("t", body)
		if len(p.Bad) > 0 {
			continue
		}
		shown := seen(t, page(t, body), true)
		for _, v := range slices.Concat(p.Spec.AllowedFiles, p.Spec.Checks) {
			taken++
			entry := regexp.MustCompile(`(?m)(^|, |[-*+] |[0-9][.)] |\[[xX]\] )[ \t]*` + "`?" + regexp.QuoteMeta(v) + "`?" + `[ \t]*(,|$)`)
			if !entry.MatchString(shown) {
				t.Errorf("document %d: %q is taken\n%q\n%q", *seed+i, v, body, shown)
			}
		}
	}
	t.Logf("%d lists, %d values taken", *documents, taken)
	if taken < *documents/4 {
		t.Errorf("of %d lists only %d values were taken", *documents, taken)
	}
}
