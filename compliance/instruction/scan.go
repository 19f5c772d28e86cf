package instruction

import (
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
	// MaxNesting bounds quotes, lists and list items inside one another.
	MaxNesting = 40
)

// markdown is a body, parsed once. The extensions of forges add nothing that
// this package looks at.
type markdown struct {
	doc   ast.Node
	marks int
	deep  bool
}

// parseMarkdown reads CommonMark.
func parseMarkdown(src []byte) *markdown {
	m := &markdown{}
	blocks, inlines := parser.DefaultBlockParsers(), parser.DefaultInlineParsers()
	for i, b := range blocks {
		switch b.Value {
		case parser.NewListParser(), parser.NewBlockquoteParser():
			blocks[i].Value = boundedBlocks{b.Value.(parser.BlockParser), m}
		}
	}
	inlines = append(inlines, util.Prioritized(boundedMarks{m}, 0))
	m.doc = parser.NewParser(parser.WithBlockParsers(blocks...), parser.WithInlineParsers(inlines...),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...)).Parse(text.NewReader(src))
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

// boundedBlocks opens no container deeper than MaxNesting.
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
