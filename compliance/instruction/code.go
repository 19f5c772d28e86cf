package instruction

import (
	"strings"

	"github.com/yuin/goldmark/ast"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// languages are those of code blocks that GitHub and GitLab show as code. Any
// other may be a language for drawings, of which there are more every year.
var languages = set("apache asm assembly awk bash bat batch c c# c++ clojure cmake cmd cobol coffeescript conf console cpp crystal cs csharp " +
	"css csv cuda cxx dart diff docker dockerfile dosini elisp elixir elm env erlang f# fish fortran fsharp gherkin gitconfig glsl go golang " +
	"gradle graphql groovy h haskell hcl hpp hs html http ini java javascript jinja jinja2 js json json5 jsonc jsonl jsx julia kotlin kt " +
	"latex less lisp log logs lua make makefile markdown matlab md mdx mk nginx nim nix none objc objective-c ocaml out output patch perl php " +
	"pl plain plaintext postgresql powershell prisma properties proto protobuf ps1 puppet py pycon python python3 r rb reason rego rs ruby " +
	"rust sass scala scheme scss sh shell shell-session solidity sql stacktrace starlark suggestion svelte swift systemd tcl terminal terraform tex text " +
	"tf toml traceback ts tsx txt typescript vb verilog vhdl vim viml vue writ xml yaml yml zig zsh")

// language is the first word of a code block's first line, up to attributes.
var language = lazyregexp.New(`^[A-Za-z0-9#+-]*`)

func (t *teller) fence(n *ast.FencedCodeBlock) string {
	if n.Info == nil {
		return t.code("", n)
	}
	info := string(n.Info.Segment.Value(t.md.src))
	lang, rest := splitInfo(info)
	if !shownAsCode(info) {
		t.cut(kindDrawing, n.Pos())
		return ""
	}
	if rest != "" {
		t.cut(kindInfo, n.Pos())
	}
	return t.code(lang, n)
}

// splitInfo is the language of a code block's first line, and its attributes.
func splitInfo(info string) (lang, rest string) {
	info = strings.TrimSpace(info)
	lang = language().FindString(info)
	return lang, info[len(lang):]
}

// suggested says which lines a suggestion on GitLab replaces.
var suggested = lazyregexp.New(`^:-[0-9]{1,3}\+[0-9]{1,3}$`)

func shownAsCode(info string) bool {
	lang, rest := splitInfo(info)
	if lang == "suggestion" && suggested().MatchString(rest) {
		return true
	}
	return languages[strings.ToLower(lang)] && (rest == "" || strings.ContainsAny(rest[:1], " \t,{"))
}

// looksHidden is what would hide something if it weren't code.
var looksHidden = lazyregexp.New("<[A-Za-z/!?]|\\][\\[(:]|```|~~~")

// backtick are the backticks of a code span.
var backtick = lazyregexp.New("\\\\?`+")

// code is a code block between fences that its content doesn't have.
func (t *teller) code(lang string, n ast.Node) string {
	if t.hidden() {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(n.Lines().Value(t.md.src)), "\n"), "\n")
	for i, line := range lines {
		if end := blankRun(line, maxGap); end >= 0 {
			t.cut(kindGap, n.Lines().At(i).Start)
			lines[i] = line[:end]
		}
	}
	content := strings.TrimRight(strings.Join(lines, "\n"), "\n")
	fence := strings.Repeat("`", max(3, 1+longest(content)))
	return fence + lang + "\n" + content + "\n" + fence
}

// longest is the length of the longest run of backticks.
func longest(s string) int {
	most, run := 0, 0
	for _, c := range s {
		if run++; c != '`' {
			run = 0
		}
		most = max(most, run)
	}
	return most
}

// Dollars in code are no marks of a formula: until formulas are cut, NUL stands
// for them, which no body has.
const maskedDollar = "\x00"

func unmask(s string) string { return strings.ReplaceAll(s, maskedDollar, "$") }

// spanContent is the text in a code span.
func spanContent(src []byte, n *ast.CodeSpan) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if x, ok := c.(*ast.Text); ok {
			b.Write(x.Segment.Value(src))
		}
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// formula is what GitHub or GitLab may read as one: between single dollars on
// one line, or between double ones in one paragraph.
var formula = lazyregexp.New(`\$\$[^$]+\$\$|\$[^\s$](?:[^$\n]*[^\s$])?\$`)
