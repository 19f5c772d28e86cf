package instruction

import (
	"bytes"
	"fmt"

	"github.com/writbot/writ/kernel"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Limits of an issue's Markdown: the parser takes time that grows with their
// squares. With them a body of MaxBodyBytes takes a fraction of a second; what
// people write stays far below. More is instruction.too_large.
const (
	// MaxMarks bounds the characters outside code that may begin or end a link
	// or emphasis: [ ] ! * _ in the whole body.
	MaxMarks = 8192
	// MaxNesting bounds quotes, lists, list items and footnotes inside one
	// another.
	MaxNesting = 40
)

// markdown is a body, parsed once: CommonMark with those extensions of the
// forges that decide what a page shows, namely tables, footnotes and addresses
// that become links.
type markdown struct {
	src       []byte
	doc       ast.Node
	marks     int
	deep      bool
	links     map[ast.Node]span // of links and images, from "]" to the end
	ends      map[ast.Node]int  // of code spans
	footnotes []*footnote       // in the order of the source
	refs      []footnoteRef     // what may refer to a footnote
	lazy      map[int]int       // of lines that end a container, by their begin: how many of the containers around have a mark there
	cells     []span            // of table rows, beyond the last column
	addresses []span            // what became a link by itself
	odd       []int             // where HTML begins that renderers read differently
}

// parseMarkdown reads a body or title.
func parseMarkdown(src []byte) *markdown {
	m := &markdown{src: src, links: map[ast.Node]span{}, ends: map[ast.Node]int{}, lazy: map[int]int{}}
	blocks, inlines := parser.DefaultBlockParsers(), parser.DefaultInlineParsers()
	for i, b := range blocks {
		switch b.Value {
		case parser.NewListParser(), parser.NewListItemParser(), parser.NewBlockquoteParser():
			blocks[i].Value = boundedBlocks{b.Value.(parser.BlockParser), m}
		case parser.NewHTMLBlockParser():
			blocks[i].Value = &htmlParser{m: m, whole: map[ast.Node]bool{}}
		}
	}
	for i, p := range inlines {
		switch p.Value {
		case parser.NewLinkParser():
			inlines[i].Value = &linkParser{InlineParser: parser.NewLinkParser(), m: m}
		case parser.NewCodeSpanParser():
			inlines[i].Value = &codeParser{InlineParser: parser.NewCodeSpanParser(), m: m}
		}
	}
	blocks = append(blocks, util.Prioritized(boundedBlocks{footnoteParser{m}, m}, 750))
	inlines = append(inlines, util.Prioritized(boundedMarks{m}, 0), util.Prioritized(addressParser{m}, 999))
	paragraphs := append(parser.DefaultParagraphTransformers(), util.Prioritized(tableParser{m}, 50))
	m.doc = parser.NewParser(parser.WithBlockParsers(blocks...), parser.WithInlineParsers(inlines...),
		parser.WithParagraphTransformers(paragraphs...)).Parse(text.NewReader(src))
	return m
}

// tooLarge says which limit is passed; the tree is then not the whole body's.
func (m *markdown) tooLarge() []kernel.Violation {
	var out []kernel.Violation
	add := func(detail string) {
		out = append(out, kernel.Violation{Code: kernel.CodeInstructionTooLarge, Subject: "body", Detail: detail})
	}
	if m.marks > MaxMarks {
		add(fmt.Sprintf("It has more than %d marks of links and emphasis outside code; put logs into a code block.", MaxMarks))
	}
	if m.deep {
		add(fmt.Sprintf("Quotes and lists are nested deeper than %d.", MaxNesting))
	}
	return out
}

// boundedBlocks opens no container deeper than MaxNesting, and notes the lines
// that have no mark of an open container.
type boundedBlocks struct {
	parser.BlockParser
	m *markdown
}

func (b boundedBlocks) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	depth := 0
	for n := parent; n != nil; n = n.Parent() {
		if depth++; depth > MaxNesting {
			b.m.deep = true
			return nil, parser.NoChildren
		}
	}
	return b.BlockParser.Open(parent, reader, pc)
}

// Continue implements parser.BlockParser.
func (b boundedBlocks) Continue(n ast.Node, reader text.Reader, pc parser.Context) parser.State {
	_, at := reader.PeekLine()
	state := b.BlockParser.Continue(n, reader, pc)
	if state&parser.Continue == 0 {
		level := 0
		for p := n.Parent(); p != nil; p = p.Parent() {
			level++
		}
		b.m.lazy[b.m.lineStart(at.Start)] = level
	}
	return state
}

// lineStart is the place where the line begins that at stands in.
func (m *markdown) lineStart(at int) int { return bytes.LastIndexByte(m.src[:at], '\n') + 1 }

// boundedMarks counts marks, and past the limit reads the rest as text.
type boundedMarks struct{ m *markdown }

func (boundedMarks) Trigger() []byte { return []byte("[]!*_") }

func (b boundedMarks) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	if b.m.marks++; b.m.marks <= MaxMarks {
		return nil
	}
	_, rest := block.PeekLine()
	block.AdvanceLine()
	return ast.NewTextSegment(rest)
}

// linkParser reads links and images as CommonMark does, and notes where they
// end, which the tree doesn't say. Brackets that are no link may refer to a
// footnote.
type linkParser struct {
	parser.InlineParser
	m    *markdown
	open []int // of the brackets that are open, where they are
}

// Parse implements parser.InlineParser.
func (p *linkParser) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	line, at := block.PeekLine()
	n := p.InlineParser.Parse(parent, block, pc)
	switch {
	case line[0] == '[' && n != nil:
		p.open = append(p.open, at.Start)
	case line[0] == '!' && n != nil:
		p.open = append(p.open, at.Start+1)
	case line[0] == ']' && len(p.open) > 0:
		open := p.open[len(p.open)-1]
		p.open = p.open[:len(p.open)-1]
		if n != nil {
			_, end := block.Position()
			p.m.links[n] = span{at.Start, end.Start}
		} else if label := p.m.src[open+1 : at.Start]; len(label) > 1 && label[0] == '^' {
			p.m.refs = append(p.m.refs, footnoteRef{span{open, at.Start + 1}, footnoteKey(label[1:])})
		}
	}
	return n
}

// CloseBlock implements parser.CloseBlocker: brackets end with their block.
func (p *linkParser) CloseBlock(parent ast.Node, block text.Reader, pc parser.Context) {
	p.open = p.open[:0]
	p.InlineParser.(parser.CloseBlocker).CloseBlock(parent, block, pc)
}

// goesOn reports whether a line of dashes after link definitions begins a
// paragraph for the forges, and not for the library, that goes on after it.
func (m *markdown) goesOn(n *ast.ThematicBreak) bool {
	if _, ok := n.PreviousSibling().(*ast.LinkReferenceDefinition); !ok || n.HasBlankPreviousLines() {
		return false
	}
	next := m.src[lineEnd(m.src, n.Pos()):]
	_, blank := blankLine(next)
	return !blank
}
