package instruction

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// footnote is the block "[^label]: text". Pages show it if something that they
// show refers to it, with a number in place of the label.
type footnote struct {
	ast.BaseBlock
	key  string
	head span // "[^label]"
	end  int  // of the last line that is indented as its
}

// footnoteRef is "[^label]" in a text.
type footnoteRef struct {
	span
	key string
}

// footnoteKey is what labels are compared by.
func footnoteKey(label []byte) string { return util.ToLinkReference(label) }

var kindFootnoteBlock = ast.NewNodeKind("Footnote")

// Kind implements ast.Node.
func (*footnote) Kind() ast.NodeKind { return kindFootnoteBlock }

// Dump implements ast.Node.
func (f *footnote) Dump(source []byte, level int) { ast.DumpHelper(f, source, level, nil, nil) }

// whole is the footnote with all that is in it.
func (f *footnote) whole() span {
	s := span{f.head.from, f.end}
	_ = ast.Walk(f, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if n.Type() == ast.TypeInline {
			return ast.WalkSkipChildren, nil
		}
		if lines := n.Lines(); entering && lines.Len() > 0 {
			s.to = max(s.to, lines.At(lines.Len()-1).Stop)
		}
		return ast.WalkContinue, nil
	})
	return s
}

// footnoteParser reads footnotes where they stand.
type footnoteParser struct{ m *markdown }

var footnoteHead = regexp.MustCompile(`^\[\^([^\]\s]+)\]:[ \t]*`)

// Trigger implements parser.BlockParser.
func (footnoteParser) Trigger() []byte { return []byte("[") }

// Open implements parser.BlockParser.
func (p footnoteParser) Open(_ ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, at := reader.PeekLine()
	pos := pc.BlockOffset()
	if pos < 0 {
		return nil, parser.NoChildren
	}
	m := footnoteHead.FindSubmatchIndex(line[pos:])
	if m == nil {
		return nil, parser.NoChildren
	}
	from := at.Start - at.Padding + pos
	f := &footnote{key: footnoteKey(line[pos+m[2] : pos+m[3]]), head: span{from, from + m[3] + 1}, end: at.Stop}
	p.m.footnotes = append(p.m.footnotes, f)
	reader.Advance(pos + m[1])
	return f, parser.HasChildren
}

// Continue implements parser.BlockParser.
func (footnoteParser) Continue(n ast.Node, reader text.Reader, _ parser.Context) parser.State {
	line, at := reader.PeekLine()
	if util.IsBlank(line) {
		return parser.Continue | parser.HasChildren
	}
	pos, padding := util.IndentPosition(line, reader.LineOffset(), 4)
	if pos < 0 {
		return parser.Close
	}
	n.(*footnote).end = at.Stop
	reader.AdvanceAndSetPadding(pos, padding)
	return parser.Continue | parser.HasChildren
}

// Close implements parser.BlockParser.
func (footnoteParser) Close(ast.Node, text.Reader, parser.Context) {}

// CanInterruptParagraph implements parser.BlockParser.
func (footnoteParser) CanInterruptParagraph() bool { return true }

// CanAcceptIndentedLine implements parser.BlockParser.
func (footnoteParser) CanAcceptIndentedLine() bool { return false }

// maxFootnoteLabel is the length in bytes up to which a label stays: it can't
// be seen, but says more than a number.
const maxFootnoteLabel = 32

// cutFootnotes cuts what nothing visible refers to, and long labels.
func (p *page) cutFootnotes() {
	notes := p.md.footnotes
	if len(notes) == 0 {
		return
	}
	hidden := settle(slices.Clone(p.cuts))
	first := map[string]int{} // of the footnotes with one label the first counts
	wholes := make([]span, len(notes))
	for i, f := range notes {
		wholes[i] = f.whole()
		if _, taken := first[f.key]; !taken {
			first[f.key] = i
		}
	}
	used := make([]bool, len(notes))
	inner := map[int][]int{} // which footnotes a footnote refers to
	var todo []int
	slices.SortFunc(p.md.refs, func(a, b footnoteRef) int { return a.from - b.from })
	within := enclosures(wholes, p.md.refs)
	for i, r := range p.md.refs {
		target, ok := first[r.key]
		if !ok || inside(hidden, r.from) {
			continue
		}
		if within[i] < 0 {
			todo = append(todo, target)
		} else {
			inner[within[i]] = append(inner[within[i]], target)
		}
		p.shortenLabel(r.span, r.key, target)
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !used[i] {
			used[i] = true
			todo = append(todo, inner[i]...)
		}
	}
	for i, f := range notes {
		if !used[i] {
			p.cut(wholes[i], kindFootnote, "")
		} else if p.shortenLabel(f.head, f.key, i) {
			p.cuts[len(p.cuts)-1].kind = kindFootnoteLabel
		}
	}
}

// shortenLabel puts a number in place of a label that is long.
func (p *page) shortenLabel(s span, key string, number int) bool {
	if len(key) <= maxFootnoteLabel {
		return false
	}
	p.cut(s, silent, fmt.Sprintf("[^note-%d]", number+1))
	return true
}

// enclosures returns for each reference the innermost footnote that it stands
// in, or -1. Footnotes and references are in the order of the source.
func enclosures(notes []span, refs []footnoteRef) []int {
	out := make([]int, len(refs))
	var open []int
	next := 0
	for i, r := range refs {
		for ; next < len(notes) && notes[next].from <= r.from; next++ {
			open = append(open, next)
		}
		for len(open) > 0 && notes[open[len(open)-1]].to <= r.from {
			open = open[:len(open)-1]
		}
		out[i] = -1
		if len(open) > 0 {
			out[i] = open[len(open)-1]
		}
	}
	return out
}
