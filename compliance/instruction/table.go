package instruction

import (
	"bytes"
	"regexp"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// tableParser reads the forges' tables: what a cell holds is a text of its own,
// so that no code span or link reaches from one cell into another, and cells
// beyond the header's are not shown.
type tableParser struct{ m *markdown }

// maxTables bounds the tables in one paragraph, that is without a blank line
// between them.
const maxTables = 50

var (
	tableRuler = regexp.MustCompile(`^(?: {0,3}| {0,3}\t+ *)\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\n?$`)
	tabAtBegin = regexp.MustCompile(`^ {0,3}\t`)
	// tableBreak begins what can't interrupt a paragraph, but a table.
	tableBreak = regexp.MustCompile(`^(?: {0,3}(?:[-+*]|[0-9]{1,9}[.)])(?:\s|$)| {4}| {0,3}\t)`)
	// doubleRule ends a paragraph here, and is a row of a table for the forges.
	doubleRule = regexp.MustCompile(`^[ \t>]*(?:=+|--?)[ \t]*\n?$`)
)

// Transform implements parser.ParagraphTransformer. It puts blocks of text, one
// for each cell, in the place of a paragraph's lines that are a table.
func (p tableParser) Transform(n *ast.Paragraph, reader text.Reader, pc parser.Context) {
	level := MaxNesting * 2 // the container that all lines are in
	for range maxTables {
		i, columns := p.ruler(n.Lines(), level)
		if i < 0 {
			if level < MaxNesting*2 { // the first paragraph's definitions are read after this
				parser.LinkReferenceParagraphTransformer.Transform(n, reader, pc)
			}
			return
		}
		if n, level = p.table(n, level, i, columns); n == nil {
			return
		}
	}
	p.m.odd = append(p.m.odd, n.Lines().At(0).Start)
}

// table puts the table whose ruler is line i and what stands before it in the
// place of a paragraph. It returns the paragraph after it, if any, and the
// container that this one is in.
func (p tableParser) table(n *ast.Paragraph, level, i, columns int) (*ast.Paragraph, int) {
	src, lines, parent := p.m.src, n.Lines(), n.Parent()
	defer parent.RemoveChild(parent, n)
	var last ast.Node = n
	if i > 1 {
		last = p.paragraph(parent, n, lines.Sliced(0, i-1))
	}
	last = p.add(parent, last, tableCells(src, lines.At(i-1)))
	after := text.NewSegments()
	after.AppendAll(lines.Sliced(i+1, lines.Len()))
	live := hasRuler(src, after) || liveMarkup(src, lines.Sliced(i, lines.Len()))
	for j := i + 1; j < lines.Len(); j++ {
		line := lines.At(j)
		if live && breaksTable(line.Value(src)) {
			p.m.odd, live = append(p.m.odd, line.Start), false
		}
		cells, in := tableCells(src, line), p.m.level(line)
		if in > level { // back in a quote that ended before
			p.m.odd = append(p.m.odd, line.Start)
		}
		if len(cells) == 0 || in < level {
			return p.paragraph(parent, last, lines.Sliced(j, lines.Len())), min(level, in)
		}
		last = p.add(parent, last, cells[:min(columns, len(cells))])
		if len(cells) > columns {
			p.m.cells = append(p.m.cells, span{cells[columns-1].to, cells[len(cells)-1].to})
		}
	}
	end := lines.At(lines.Len() - 1).Stop
	if src[end-1] != '\n' {
		end = lineEnd(src, end)
	}
	if doubleRule.Match(src[end:lineEnd(src, end)]) {
		p.m.odd = append(p.m.odd, end)
	}
	return nil, 0
}

// ruler finds the line of dashes under a header with as many cells, or -1.
func (p tableParser) ruler(lines *text.Segments, level int) (index, columns int) {
	mistaken := false // there was one with another number
	for i := 1; i < lines.Len(); i++ {
		line := lines.At(i)
		if p.m.level(line) > level {
			p.m.odd = append(p.m.odd, line.Start)
		}
		if p.m.level(line) < level || !tableRuler.Match(line.Value(p.m.src)) {
			continue
		}
		columns, header := len(tableCells(p.m.src, line)), len(tableCells(p.m.src, lines.At(i-1)))
		if header > 0 && header != columns {
			mistaken = true
			continue
		}
		if mistaken || header == 0 || tabAtBegin.Match(line.Value(p.m.src)) { // versions and widths differ
			p.m.odd = append(p.m.odd, line.Start)
		}
		return i, columns
	}
	return -1, 0
}

// level is the depth of the innermost container whose mark a line has. A line
// that has too few goes on with a paragraph all the same, not with a table.
func (m *markdown) level(line text.Segment) int {
	if level, lazy := m.lazy[m.lineStart(line.Start)]; lazy {
		return level
	}
	return MaxNesting * 2
}

// paragraph makes a paragraph of lines. In one before a table the forges read
// no link definitions.
func (p tableParser) paragraph(parent, after ast.Node, lines []text.Segment) *ast.Paragraph {
	n := ast.NewParagraph()
	for i, l := range lines {
		l = l.TrimLeftSpace(p.m.src)
		if i == len(lines)-1 {
			l = l.TrimRightSpace(p.m.src)
		}
		n.Lines().Append(l)
	}
	parent.InsertAfter(parent, after, n)
	return n
}

// breaksTable reports whether a line ends a table for some renderers, so that
// markup may reach over the lines after it.
func breaksTable(line []byte) bool {
	return tableBreak.Match(line) || htmlBlocks[ast.HTMLBlockType7-ast.HTMLBlockType1].begin.Match(bytes.TrimLeft(line, " "))
}

// hasRuler reports whether lines may have a table among them.
func hasRuler(src []byte, lines *text.Segments) bool {
	for _, l := range lines.Sliced(0, lines.Len()) {
		if tableRuler.Match(bytes.TrimLeft(l.Value(src), " ")) {
			return true
		}
	}
	return false
}

// liveMarkup reports whether lines have what could hide text over a line's end.
func liveMarkup(src []byte, lines []text.Segment) bool {
	return bytes.ContainsAny(src[lines[0].Start:lines[len(lines)-1].Stop], "<[`")
}

// add puts blocks for cells after a node and returns the last.
func (tableParser) add(parent, after ast.Node, cells []span) ast.Node {
	for _, c := range cells {
		cell := ast.NewTextBlock()
		cell.Lines().Append(text.NewSegment(c.from, c.to))
		parent.InsertAfter(parent, after, cell)
		after = cell
	}
	return after
}

// tableCells splits a line at its pipes, those after a backslash excepted.
func tableCells(src []byte, line text.Segment) []span {
	line = line.TrimLeftSpace(src)
	line = line.TrimRightSpace(src)
	at := line.Start
	if at < line.Stop && src[at] == '|' {
		at++
	}
	var out []span
	for at < line.Stop {
		end := at
		for end < line.Stop && (src[end] != '|' || src[end-1] == '\\' && end > at) {
			end++
		}
		cell := span{at, end}
		for cell.from < cell.to && util.IsSpace(src[cell.from]) {
			cell.from++
		}
		cell.to = cell.from + len(bytes.TrimRight(src[cell.from:cell.to], " \t\v\f\r\n"))
		out = append(out, cell)
		at = end + 1
	}
	return out
}
