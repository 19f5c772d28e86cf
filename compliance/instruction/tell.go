package instruction

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/kernel"
)

// imageWords stand for an image, foldedWords after the summary of what is folded.
const (
	imageWords  = "(image, not shown)"
	foldedWords = " (folded, not shown)"
)

// teller writes what the builder is told, node by node. A node that it doesn't
// know is left out.
type teller struct {
	md      *markdown
	lines   [kinds][]int // of what was left out
	open    []element    // of HTML that is left out, the outermost first
	small   []element    // of HTML that makes its text smaller
	summary int          // of the outermost one
	words   []byte       // the prose alone, of the body's length, for checkWords
	quotes  int          // around the place
	end     int          // from here on the block is left out
	notes   []int        // footnotes that something told refers to, by number
	bad     []kernel.Violation
	faults  int
}

func newTeller(md *markdown) *teller {
	t := &teller{md: md, words: make([]byte, len(md.src))}
	for i, c := range md.src {
		if c == '\n' {
			t.words[i] = c
		}
	}
	return t
}

// cut notes that something is left out, unless what is around it is.
func (t *teller) cut(k kind, at int) {
	if !t.hidden() {
		t.lines[k] = append(t.lines[k], t.md.line(at))
	}
}

func (t *teller) cuts() []Cut {
	var out []Cut
	for k, lines := range t.lines {
		if len(lines) > 0 {
			slices.Sort(lines)
			out = append(out, Cut{names[k][0], lines})
		}
	}
	return out
}

// fault is something that renderers may hide and that has no certain end.
func (t *teller) fault(at int, detail string) {
	if t.faults++; t.faults <= maxHiddenListed {
		t.bad = append(t.bad, kernel.Violation{Code: kernel.CodeInstructionHidden, Subject: "body",
			Detail: fmt.Sprintf("Line %d: %s", t.md.line(at), detail)})
	}
}

// block is a block as the builder reads it, "" where nothing of it is told.
func (t *teller) block(n ast.Node) string {
	if wide(n) || wide(n.NextSibling()) && !n.NextSibling().HasBlankPreviousLines() {
		t.drop(n)
		return ""
	}
	switch n := n.(type) {
	case *ast.Paragraph, *ast.TextBlock:
		return t.text(n)
	case *ast.Heading:
		t.checkHeading(n)
		return prefix(strings.ReplaceAll(t.text(n), "\n", " "), strings.Repeat("#", n.Level)+" ", "")
	case *ast.Blockquote:
		t.quotes++
		defer func() { t.quotes-- }()
		return prefix(t.blocks(n, "\n\n"), "> ", "> ")
	case *ast.List:
		return t.list(n)
	case *ast.CodeBlock:
		return t.indented(n)
	case *ast.FencedCodeBlock:
		return t.fence(n)
	case *ast.HTMLBlock:
		return strings.TrimSpace(t.html(raw(t.md.src, n), n.Pos(), n))
	case *ast.LinkReferenceDefinition:
		t.cut(kindDefinition, n.Pos())
	case *ast.ThematicBreak:
		if !t.hidden() {
			return "---"
		}
	case *east.Table:
		return t.table(n)
	default:
		t.cut(kindDoubt, n.Pos())
	}
	return ""
}

// drop leaves out a block. HTML in it may begin or end something.
func (t *teller) drop(n ast.Node) {
	t.cut(kindDoubt, n.Pos())
	if table, ok := n.(*east.Table); ok {
		t.checkRows(table)
	}
	_ = ast.Walk(n, func(c ast.Node, entering bool) (ast.WalkStatus, error) {
		if s := raw(t.md.src, c); s != "" && entering {
			t.html(s, c.Pos(), n)
		}
		return ast.WalkContinue, nil
	})
}

// checkRows refuses HTML in a table that is none: cells beyond its columns are
// not in the tree.
func (t *teller) checkRows(table *east.Table) {
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		if looksHidden().Match(t.md.src[row.Pos():lineEnd(t.md.src, row.Pos())]) {
			t.fault(row.Pos(), differently)
		}
	}
}

// checkHeading refuses a table before the underline of a heading: the forges read
// it as the heading's text.
func (t *teller) checkHeading(n *ast.Heading) {
	end := len(t.md.src)
	if next := n.NextSibling(); next != nil {
		end = next.Pos()
	}
	if at := n.Pos(); t.md.src[at] != '#' && at < end && looksRuled().Match(t.md.src[at:end]) {
		t.fault(at, differently)
	}
}

// indented is a code block by its indentation. About those in or after a list,
// or after a table, renderers differ.
func (t *teller) indented(n *ast.CodeBlock) string {
	before := n.PreviousSibling()
	plain := n.Parent().Kind() == ast.KindDocument && (before == nil || before.Kind() == ast.KindParagraph || before.Kind() == ast.KindHeading)
	if !plain && looksHidden().Match(n.Lines().Value(t.md.src)) {
		t.fault(n.Pos(), differently)
	}
	return t.code("", n)
}

// blocks are the blocks in a block.
func (t *teller) blocks(n ast.Node, between string) string {
	var out []string
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if s := t.block(c); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, between)
}

// prefix puts marks before the first and the other lines of a text.
func prefix(s, first, rest string) string {
	if s == "" {
		return ""
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if mark := map[bool]string{true: first, false: rest}[i == 0]; l != "" || strings.TrimSpace(mark) != "" {
			lines[i] = strings.TrimRight(mark+l, " ")
		}
	}
	return strings.Join(lines, "\n")
}

func (t *teller) list(n *ast.List) string {
	between := "\n\n"
	if n.IsTight {
		between = "\n"
	}
	var out []string
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		mark := string(n.Marker) + " "
		if n.IsOrdered() {
			mark = strconv.Itoa(number) + mark
			number++
		}
		if s := prefix(t.blocks(item, between), mark, strings.Repeat(" ", len(mark))); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, between)
}

// table is a table with the cells that its header has columns for.
func (t *teller) table(n *east.Table) string {
	var out []string
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		begin := t.md.lines[t.md.line(row.Pos())-1]
		if t.md.lazy[begin] || row != n.FirstChild() && looksOther().Match(t.md.src[max(begin, row.Pos()-4):lineEnd(t.md.src, row.Pos())]) {
			t.fault(row.Pos(), differently)
		}
		if cellsIn(t.md.src[row.Pos():lineEnd(t.md.src, row.Pos())]) > len(n.Alignments) {
			t.cut(kindCells, row.Pos())
		}
		cells := []string{}
		for c := row.FirstChild(); c != nil; c = c.NextSibling() {
			cells = append(cells, strings.NewReplacer("|", `\|`, "\n", " ").Replace(t.text(c)))
		}
		if !t.hidden() {
			out = append(out, "| "+strings.Join(cells, " | ")+" |")
		}
		if _, header := row.(*east.TableHeader); header && !t.hidden() {
			out = append(out, strings.Repeat("| --- ", len(cells))+"|")
		}
	}
	return strings.Join(out, "\n")
}

// cellsIn is how many cells a row has.
func cellsIn(row []byte) int {
	row = bytes.TrimPrefix(bytes.TrimSpace(bytes.ReplaceAll(row, []byte(`\|`), nil)), []byte("|"))
	return 1 + bytes.Count(bytes.TrimSuffix(row, []byte("|")), []byte("|"))
}

// lineEnd is the end of the line that at stands in.
func lineEnd(src []byte, at int) int {
	if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(src)
}

// plainFootnote has a label of one word and begins with its text: renderers
// differ about other labels, and about blanks before the text.
var plainFootnote = lazyregexp.New(`^\[\^([A-Za-z0-9_-]+)\]:[ \t]?[^ \t\n]`)

// footnotes are those that something told refers to.
func (t *teller) footnotes() string {
	byNumber := map[int]footnote{}
	labels := map[string]string{}
	for _, f := range t.md.footnotes {
		label := string(f.node.Ref)
		first := cmp.Or(labels[strings.ToLower(label)], label)
		labels[strings.ToLower(label)] = first
		if first != label || !plainFootnote().Match(t.md.src[f.at:]) {
			t.fault(f.at, differently)
		}
		byNumber[f.node.Index] = f
	}
	var out []string
	for i := 0; i < len(t.notes); i++ { // a footnote may refer to others
		if f, ok := byNumber[t.notes[i]]; ok {
			delete(byNumber, t.notes[i])
			out = append(out, prefix(t.blocks(f.node, "\n\n"), fmt.Sprintf("[^%d]: ", t.notes[i]), "    "))
		}
	}
	for _, f := range t.md.footnotes {
		if byNumber[f.node.Index].node != nil || f.node.Index < 0 {
			t.cut(kindFootnote, f.at)
			t.quotes++
			t.blocks(f.node, "") // what is wrong in it concerns what follows
			t.quotes--
		}
	}
	return strings.Join(out, "\n\n")
}
