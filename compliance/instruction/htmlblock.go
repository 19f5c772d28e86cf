package instruction

import (
	"regexp"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// htmlParser reads HTML blocks by the rules of CommonMark 0.29, as GitHub does,
// and notes where later ones differ. The library's own parser knows too few
// ways in which a block begins, so that Markdown would be read in what is HTML.
type htmlParser struct {
	m     *markdown
	whole map[ast.Node]bool // blocks that ended with their last line
}

// htmlBlocks are the ways in which a block begins and ends, in the order in
// which they are tried. Without a pattern for its end it ends before a blank line.
var htmlBlocks = []struct {
	kind       ast.HTMLBlockType
	begin, end *regexp.Regexp
}{
	{ast.HTMLBlockType1, regexp.MustCompile(`(?i)^<(?:script|pre|style)(?:[\s\v>]|$)`), regexp.MustCompile(`(?i)</(?:script|pre|style)>`)},
	{ast.HTMLBlockType2, regexp.MustCompile(`^<!--`), regexp.MustCompile(`-->`)},
	{ast.HTMLBlockType3, regexp.MustCompile(`^<\?`), regexp.MustCompile(`\?>`)},
	{ast.HTMLBlockType4, regexp.MustCompile(`^<![A-Za-z]`), regexp.MustCompile(`>`)},
	{ast.HTMLBlockType5, regexp.MustCompile(`^<!\[CDATA\[`), regexp.MustCompile(`\]\]>`)},
	{ast.HTMLBlockType6, regexp.MustCompile(`(?i)^</?(?:address|article|aside|base|basefont|blockquote|body|caption|col|colgroup|` +
		`center|` + //nolint:misspell // the element's name
		`dd|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|` +
		`legend|li|link|main|menu|menuitem|meta|nav|noframes|ol|optgroup|option|p|param|section|source|summary|table|tbody|td|tfoot|` +
		`th|thead|title|tr|track|ul)(?:[\s\v]|/?>|$)`), nil},
	{ast.HTMLBlockType7, regexp.MustCompile(`^(?:<[A-Za-z][A-Za-z0-9-]*(?:[\s\v]+[A-Za-z_:][A-Za-z0-9_:.-]*(?:[\s\v]*=[\s\v]*(?:[^\s\v"'=<>` + "`" + `]+|'[^']*'|"[^"]*"))?)*` +
		`[\s\v]*/?>|</[A-Za-z][A-Za-z0-9-]*[\s\v]*>)[\s\v]*$`), nil},
}

// oddBlock begins a block in some versions of CommonMark only, or ends one.
var (
	oddBlock    = regexp.MustCompile(`(?i)^(?:<textarea|</?(?:source|search))(?:[\s\v]|/?>|$)`)
	oddBlockEnd = regexp.MustCompile(`(?i)</textarea>`)
)

// Trigger implements parser.BlockParser.
func (*htmlParser) Trigger() []byte { return []byte("<") }

// Open implements parser.BlockParser.
func (h *htmlParser) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, at := reader.PeekLine()
	pos := pc.BlockOffset()
	if pos < 0 {
		return nil, parser.NoChildren
	}
	begin := line[pos:]
	if oddBlock.Match(begin) {
		h.m.odd = append(h.m.odd, at.Start)
	}
	for _, b := range htmlBlocks {
		if !b.begin.Match(begin) {
			continue
		}
		last := pc.LastOpenedBlock().Node
		if b.kind == ast.HTMLBlockType7 && last != nil && ast.IsParagraph(last) {
			if last.Parent() == parent {
				break // it can't interrupt a paragraph
			}
			if hasRuler(h.m.src, last.Lines()) { // what looks like one paragraph are several
				h.m.odd = append(h.m.odd, at.Start)
			}
		}
		n := ast.NewHTMLBlock(b.kind)
		h.add(n, line, at, b.end)
		reader.AdvanceToEOL()
		return n, parser.NoChildren
	}
	return nil, parser.NoChildren
}

// add appends a line and notes whether it is the last.
func (h *htmlParser) add(n *ast.HTMLBlock, line []byte, at text.Segment, end *regexp.Regexp) {
	n.Lines().Append(at)
	h.whole[n] = end != nil && end.Match(line)
	if n.HTMLBlockType == ast.HTMLBlockType1 && !h.whole[n] && oddBlockEnd.Match(line) {
		h.m.odd = append(h.m.odd, at.Start)
	}
}

// Continue implements parser.BlockParser.
func (h *htmlParser) Continue(node ast.Node, reader text.Reader, _ parser.Context) parser.State {
	n := node.(*ast.HTMLBlock)
	line, at := reader.PeekLine()
	end := htmlBlocks[n.HTMLBlockType-ast.HTMLBlockType1].end
	if h.whole[n] || end == nil && util.IsBlank(line) {
		return parser.Close
	}
	h.add(n, line, at, end)
	reader.AdvanceToEOL()
	return parser.Continue | parser.NoChildren
}

// Close implements parser.BlockParser.
func (*htmlParser) Close(ast.Node, text.Reader, parser.Context) {}

// CanInterruptParagraph implements parser.BlockParser.
func (*htmlParser) CanInterruptParagraph() bool { return true }

// CanAcceptIndentedLine implements parser.BlockParser.
func (*htmlParser) CanAcceptIndentedLine() bool { return false }
