package instruction

import (
	"slices"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// Lines at which some renderer begins another block than the library does.
var (
	// looksDefined may define something: a link, a footnote, an abbreviation.
	// Marks of other blocks may come before it.
	looksDefined = lazyregexp.New(`(?m)^[ \t>*+\-0-9.)#|]*(?:\[[ xX~]\][ \t]*)*\[(?s:.)*?\]:`)
	// oddFootnote defines a footnote for the forges, and not for the library.
	oddFootnote = lazyregexp.New(`(?m)^[ \t>*+\-0-9.)#|]*(?:\[[ xX~]\][ \t]*)*\[\^(?s:.)*?\]:`)
	// looksRuled is a table's ruler; the line before it has other columns, or
	// the library had made a table of it.
	looksRuled = lazyregexp.New(`(?m)^[ \t:|-]*(?:-[ \t]*[:|]|[:|][ \t]*-)[ \t:|-]*$`)
	// looksTagged is a tag alone on the first line, which the library reads as
	// text.
	looksTagged = lazyregexp.New(`^[ \t]*</?[A-Za-z][^<>]*>[ \t]*(?:\n|$)`)
	// looksFront is front matter with a language, which GitLab doesn't show.
	looksFront = lazyregexp.New(`^(?:---|\+\+\+|;;;)[ \t]*[^ \t\n]+[ \t]*\n`)
	// looksOther is a line below a table that may begin something else.
	looksOther = lazyregexp.New(`^(?:\t| {4}| {0,3}(?:<|[-+*](?:[ \t]|$)|[0-9]{1,9}[.)](?:[ \t]|$)|=+[ \t]*$|-+[ \t]*$))`)
	// looksLinked is an address that goes on where the library ends it.
	looksLinked = lazyregexp.New("(?:[a-z]{3,5}://|www\\.)[^ \t\n<]*[\\\\`[]")
)

// limit finds where the text of a block is left out up to its end.
func (t *teller) limit(n ast.Node) {
	for i := range n.Lines().Len() {
		l := n.Lines().At(i)
		if begin := t.md.lines[t.md.line(l.Start)-1]; t.md.lazy[begin] && i > 0 && t.md.src[l.Start] == '<' {
			t.fault(l.Start, differently)
		}
	}
	if looksTagged().Match(n.Lines().Value(t.md.src)) {
		t.fault(n.Pos(), differently)
	}
	k := kindDefinition
	t.end = t.find(n, looksDefined)
	if oddFootnote().Match(n.Lines().Value(t.md.src)) {
		t.fault(n.Pos(), differently)
	}
	if t.md.doc.FirstChild() == n && looksFront().Match(n.Lines().Value(t.md.src)) {
		t.end, k = 0, kindInfo
	}
	if at := t.find(n, looksLinked); at < t.end {
		t.end, k = at, kindDoubt
	}
	if at := t.find(n, backtick); at < t.end && t.crossed(n) {
		t.end, k = at, kindDoubt
	}
	if t.find(n, looksRuled) < len(t.md.src) {
		t.end, k = 0, kindDoubt
	}
	if t.end < len(t.md.src) {
		t.cut(k, max(t.end, n.Pos()))
	}
}

// crossed reports a block with backticks that begin code and don't end it, where
// it matters what is code.
func (t *teller) crossed(n ast.Node) bool {
	src := n.Lines().Value(t.md.src)
	if !looksHidden().Match(src) {
		return false
	}
	runs := backtick().FindAll(src, -1)
	for len(runs) > 0 {
		same := func(r []byte) bool { return len(r) == len(runs[0]) }
		end := slices.IndexFunc(runs[1:], same)
		if runs[0][0] == '\\' || end < 0 {
			return true
		}
		runs = runs[end+2:]
	}
	return false
}

// find is the place in the source of a block's text where a pattern matches; the
// source's length if it doesn't.
func (t *teller) find(n ast.Node, pattern lazyregexp.Regexp) int {
	lines := n.Lines()
	if lines == nil || lines.Len() == 0 {
		return len(t.md.src)
	}
	m := pattern().FindIndex(lines.Value(t.md.src))
	if m == nil {
		return len(t.md.src)
	}
	for i := range lines.Len() {
		l := lines.At(i)
		if size := l.Len() + l.Padding; m[0] >= size {
			m[0] -= size
			continue
		}
		return l.Start + max(m[0]-l.Padding, 0)
	}
	return len(t.md.src)
}

// wide reports a table whose header has fewer cells than columns: for the forges
// it is a paragraph, together with what stands right before it.
func wide(n ast.Node) bool {
	table, ok := n.(*east.Table)
	if !ok {
		return false
	}
	last := table.FirstChild().LastChild()
	return last == nil || last.Lines().Len() == 0
}
