package instruction

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/writbot/writ/kernel"
	"github.com/yuin/goldmark/ast"
)

// page is what a forge's page shows of a body: everything but the cuts.
type page struct {
	md      *markdown
	src     []byte
	cuts    []cut
	bad     []kernel.Violation
	faults  int    // how many there are, listed or not
	text    []byte // what is shown as text, the rest NUL, line ends as they are
	words   []byte // the same without code and quotes
	quotes  int    // block quotes around the node
	inlined int    // bytes of destinations that references brought
	folds   int    // details elements
	read    int    // bytes of HTML that were looked at
	hiding  *hiding
	endTags struct {
		block ast.Node
		last  map[string]int // of each name, in that block
	}
	open     map[string]int    // HTML elements that can fold away or hide what they hold
	enclosed map[ast.Node]bool // binding parts that stand in one of them
	drawn    map[ast.Node]bool // code blocks that are shown as a drawing
}

// readPage finds what the page of a body doesn't show, in one walk.
func readPage(md *markdown) *page {
	p := &page{md: md, src: md.src, text: make([]byte, len(md.src)), words: make([]byte, len(md.src)),
		open: map[string]int{}, enclosed: map[ast.Node]bool{}, drawn: map[ast.Node]bool{}}
	for i, c := range md.src {
		if c == '\n' {
			p.text[i], p.words[i] = c, c
		}
	}
	_ = ast.Walk(md.doc, p.visit)
	if p.hiding != nil {
		p.fault(p.hiding.from, notEnded)
	}
	for _, at := range md.odd {
		p.fault(at, differently)
	}
	for _, s := range md.cells {
		p.cut(s, kindCells, "")
	}
	for _, s := range md.addresses {
		blot(p.words, s, codeMark)
	}
	p.checkTitles()
	p.cutFormulas()
	p.cutWikiTargets()
	p.cutFootnotes()
	p.cuts = settle(p.cuts)
	for _, c := range p.cuts {
		blot(p.words, c.span, markupMark)
	}
	return p
}

func (p *page) cut(s span, k kind, with string) {
	if s.from < s.to {
		p.cuts = append(p.cuts, cut{s, k, with})
	}
}

const (
	notEnded    = "HTML hides something here and does not end it; end it, or put it into a code block."
	differently = "Renderers read this differently, and some hide what is here; put it into a code block."
)

// fault is something that the page may hide, and that can't be cut because
// renderers disagree about where it ends.
func (p *page) fault(at int, detail string) {
	if p.faults++; p.faults > maxHiddenListed {
		return
	}
	p.bad = append(p.bad, kernel.Violation{Code: kernel.CodeInstructionHidden, Subject: "body",
		Detail: fmt.Sprintf("Line %d: %s", lineOf(p.src, at), detail)})
}

func (p *page) visit(n ast.Node, entering bool) (ast.WalkStatus, error) {
	_, quote := n.(*ast.Blockquote)
	if !entering {
		if quote {
			p.quotes--
		}
		return ast.WalkContinue, nil
	}
	if quote {
		p.quotes++
	}
	if n.Parent() == p.md.doc && binds(p.src, n) {
		p.enclosed[n] = p.hiding != nil || len(p.open) > 0
	}
	switch n := n.(type) {
	case *ast.Paragraph, *ast.TextBlock:
		if p.md.afterDefinition(n) {
			p.fault(n.Pos(), differently)
		}
	case *ast.ThematicBreak:
		if p.md.goesOn(n) {
			p.fault(n.Pos(), differently)
		}
	case *ast.HTMLBlock:
		p.html(parts(n.Lines().Sliced(0, n.Lines().Len())), n)
	case *ast.RawHTML:
		p.html(parts(n.Segments.Sliced(0, n.Segments.Len())), blockOf(n))
	case *ast.LinkReferenceDefinition:
		s := lineSpan(n.Lines())
		if !bytes.Contains(p.src[s.from:s.to], n.Destination) {
			p.fault(s.from, differently) // the library leaves a line of it in the text
		}
		p.cut(s, kindDefinition, "")
	case *ast.Link:
		p.link(n)
	case *ast.Image:
		p.image(n)
		return ast.WalkSkipChildren, nil
	case *ast.CodeSpan:
		p.codeSpan(n)
		return ast.WalkSkipChildren, nil
	case *ast.FencedCodeBlock:
		p.fence(n)
	case *ast.Text:
		p.show(span{n.Segment.Start, n.Segment.Stop}, false)
	}
	return ast.WalkContinue, nil
}

// show notes text that is no code.
func (p *page) show(s span, html bool) {
	copy(p.text[s.from:s.to], p.src[s.from:s.to])
	if !html && p.quotes == 0 {
		copy(p.words[s.from:s.to], p.src[s.from:s.to])
	}
	p.checkEntities(s, html)
}

// blockOf is the block that an inline node stands in.
func blockOf(n ast.Node) ast.Node {
	for n.Type() == ast.TypeInline {
		n = n.Parent()
	}
	return n
}

// prose is the body without the cuts and other parts.
func (p *page) prose(parts []span) string {
	cuts := slices.Clone(p.cuts)
	for _, s := range parts {
		cuts = append(cuts, cut{span: s})
	}
	return string(apply(p.src, span{0, len(p.src)}, settle(cuts)))
}

// notes says what was cut and what the page folds away.
func (p *page) notes(notes []string) (int64, []string) {
	count, cuts := noteCuts(p.src, p.cuts)
	notes = append(notes, cuts...)
	if p.folds > 0 {
		notes = append(notes, "The issue's page folds away "+plural(p.folds, "part", "parts")+" that the instruction has.")
	}
	return count, notes
}
