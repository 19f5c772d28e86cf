package instruction

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// maxBackticks is the longest row of backticks that forges look for.
const maxBackticks = 80

// codeParser reads code spans as CommonMark does, notes where they end, and
// where GitHub's and GitLab's parser would read text instead: once it has looked
// in vain for the end of a row of backticks, it remembers the places of all rows
// after it, and forgets those that come after the next code span.
type codeParser struct {
	parser.InlineParser
	m      *markdown
	looked bool                  // in vain, in this block
	last   [maxBackticks + 1]int // for each length the place of a row, as remembered
}

// Parse implements parser.InlineParser.
func (p *codeParser) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	line, at := block.PeekLine()
	ticks := len(line) - len(bytes.TrimLeft(line, "`"))
	from := at.Start + ticks
	n := p.InlineParser.Parse(parent, block, pc)
	_, after := block.Position()
	forgotten := ticks > maxBackticks || p.looked && p.last[ticks] <= from
	if _, ok := n.(*ast.CodeSpan); ok {
		p.m.ends[n] = after.Start
		if !forgotten {
			p.remember(from, after.Start)
		} else if bytes.ContainsAny(p.m.src[from:after.Start-ticks], "<>[]&") {
			p.m.odd = append(p.m.odd, at.Start)
		}
		return n
	}
	if !forgotten {
		p.looked = true
		at, back := block.Position()
		for line, s := block.PeekLine(); line != nil; line, s = block.PeekLine() {
			p.remember(s.Start, s.Stop)
			block.AdvanceLine()
		}
		block.SetPosition(at, back)
	}
	return n
}

// remember notes the rows of backticks in a part of the source.
func (p *codeParser) remember(from, to int) {
	for from < to {
		i := bytes.IndexByte(p.m.src[from:to], '`')
		if i < 0 {
			return
		}
		from += i
		ticks := to - from - len(bytes.TrimLeft(p.m.src[from:to], "`"))
		if ticks <= maxBackticks {
			p.last[ticks] = from
		}
		from += ticks
	}
}

// CloseBlock implements parser.CloseBlocker: each block is read afresh.
func (p *codeParser) CloseBlock(ast.Node, text.Reader, parser.Context) {
	p.looked = false
	clear(p.last[:])
}
