package instruction

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/writbot/writ/kernel"
)

// Limits of an issue's Markdown: the parser takes time that grows with their
// squares. With them a body of MaxBodyBytes takes a fraction of a second; what
// people write stays far below. More is instruction.too_large.
const (
	// MaxMarks bounds the characters outside code that may begin or end a link
	// or emphasis: [ ] ! * _ ~ in the whole body; and pipes with a backslash.
	MaxMarks = 8192
	// MaxNesting bounds quotes, lists, list items and footnotes inside one
	// another. Each moves its text to the right, and a page is some 40 wide.
	MaxNesting = 24
)

// markdown is a body, parsed once by the library: CommonMark with what GitHub
// and GitLab add to it.
type markdown struct {
	src   []byte
	doc   ast.Node
	lines []int        // where each line begins
	lazy  map[int]bool // the lines, by their begin, that have no mark of a quote or list around
	marks int
	deep  bool

	defines bool // something looks like a definition

	footnotes []footnote // in the order of the source
}

// footnote is one that is defined, whether something refers to it or not.
type footnote struct {
	at   int
	node *east.Footnote
}

func parseMarkdown(src []byte) *markdown {
	m := &markdown{src: src, lines: []int{0}, lazy: map[int]bool{}, marks: bytes.Count(src, []byte(`\|`)), defines: looksDefined().Match(src)}
	for i, c := range src {
		if c == '\n' {
			m.lines = append(m.lines, i+1)
		}
	}
	blocks := append(parser.DefaultBlockParsers(), util.Prioritized(extension.NewFootnoteBlockParser(), 999))
	for i, b := range blocks {
		switch b.Value {
		case parser.NewListParser(), parser.NewListItemParser(), parser.NewBlockquoteParser(), extension.NewFootnoteBlockParser():
			blocks[i].Value = boundedBlocks{b.Value.(parser.BlockParser), m}
		}
	}
	inlines := append(parser.DefaultInlineParsers(), util.Prioritized(boundedMarks{m}, 0),
		util.Prioritized(boxes{extension.NewTaskCheckBoxParser()}, 1), util.Prioritized(extension.NewFootnoteParser(), 101),
		util.Prioritized(extension.NewStrikethroughParser(), 500), util.Prioritized(extension.NewLinkifyParser(), 999))
	m.doc = parser.NewParser(parser.WithBlockParsers(blocks...), parser.WithInlineParsers(inlines...),
		parser.WithParagraphTransformers(append(parser.DefaultParagraphTransformers(),
			util.Prioritized(extension.NewTableParagraphTransformer(), 200))...),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0),
			util.Prioritized(extension.NewFootnoteASTTransformer(), 999))).Parse(text.NewReader(src))
	return m
}

// line is the number, from 1, of the line that a place stands in.
func (m *markdown) line(at int) int {
	i, found := slices.BinarySearch(m.lines, at)
	if found {
		return i + 1
	}
	return max(i, 1)
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
// that have no mark of an open one.
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
	_, at := reader.PeekLine()
	n, state := b.BlockParser.Open(parent, reader, pc)
	if f, ok := n.(*east.Footnote); ok {
		b.m.footnotes = append(b.m.footnotes, footnote{at.Start + pc.BlockOffset() - at.Padding, f})
	}
	return n, state
}

// Continue implements parser.BlockParser.
func (b boundedBlocks) Continue(n ast.Node, reader text.Reader, pc parser.Context) parser.State {
	_, at := reader.PeekLine()
	state := b.BlockParser.Continue(n, reader, pc)
	if state&parser.Continue == 0 {
		b.m.lazy[b.m.lines[b.m.line(at.Start)-1]] = true
	}
	return state
}

// boxes are task boxes. Right before a bracket it would be a link's text.
type boxes struct{ parser.InlineParser }

func (b boxes) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	if line, _ := block.PeekLine(); len(line) < 4 || line[3] != ' ' && line[3] != '\t' {
		return nil
	}
	return b.InlineParser.Parse(parent, block, pc)
}

// boundedMarks counts marks, and past the limit reads the rest as text.
type boundedMarks struct{ m *markdown }

func (boundedMarks) Trigger() []byte { return []byte("[]!*_~") }

func (b boundedMarks) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	if b.m.marks++; b.m.marks <= MaxMarks {
		return nil
	}
	_, rest := block.PeekLine()
	block.AdvanceLine()
	return ast.NewTextSegment(rest)
}
