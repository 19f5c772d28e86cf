package instruction

import (
	"fmt"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// lister reads a list of the form: what decides must be on the page as it is, so
// an entry that may be shown otherwise than it was typed is refused.
type lister struct {
	p       *Parsed
	md      *markdown
	heading string
	out     []string

	line    strings.Builder // the open line, with codeMark for a code span and markupMark for other markup
	code    []string        // the contents of its code spans
	at      int             // its place, -1 before it begins
	skipped bool            // it has a box that isn't ticked
}

// entries are those below a heading of the form.
func (p *Parsed) entries(md *markdown, heading string, nodes []ast.Node) []string {
	l := &lister{p: p, md: md, heading: heading, out: []string{}, at: -1}
	for _, n := range nodes {
		l.block(n)
	}
	return l.out
}

var comments = lazyregexp.New(`(?s)<!--.*?-->`)

func (l *lister) block(n ast.Node) {
	switch n := n.(type) {
	case *ast.Paragraph, *ast.TextBlock:
		if strings.TrimSpace(string(n.Lines().Value(l.md.src))) != noResponse {
			l.inlines(n)
			l.end()
		}
		return
	case *ast.List, *ast.ListItem:
		if n.FirstChild() == nil {
			break // an asterisk alone is one
		}
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			l.block(c)
		}
		return
	case *ast.FencedCodeBlock:
		if n.Info == nil || shownAsCode(string(n.Info.Segment.Value(l.md.src))) {
			l.codeBlock(n)
			return
		}
	case *ast.HTMLBlock:
		if strings.TrimSpace(comments().ReplaceAllString(raw(l.md.src, n), "")) == "" {
			return
		}
	}
	l.refuse(n.Pos())
}

func (l *lister) inlines(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if l.at < 0 {
			l.at = c.Pos()
		}
		switch c := c.(type) {
		case *ast.Text:
			l.line.Write(c.Segment.Value(l.md.src))
			if c.SoftLineBreak() || c.HardLineBreak() {
				l.end()
			}
		case *ast.CodeSpan:
			l.line.WriteByte(codeMark)
			l.code = append(l.code, spanContent(l.md.src, c))
		case *east.TaskCheckBox:
			l.skipped = !c.IsChecked
		default:
			l.line.WriteByte(markupMark)
			l.inlines(c)
			l.line.WriteByte(markupMark)
		}
	}
}

// end takes the entries of the open line: all of it, or parts separated by a
// comma and a blank. One with a box that isn't ticked has none.
func (l *lister) end() {
	line, code, at, skipped := l.line.String(), l.code, l.at, l.skipped
	l.line.Reset()
	l.code, l.at, l.skipped = nil, -1, false
	for part := range strings.SplitSeq(line, ", ") {
		part = strings.TrimSuffix(strings.Trim(part, " \t"), ",")
		spans := strings.Count(part, codeFill)
		value, fine := part, shownAsTyped(part)
		if part == codeFill && len(code) > 0 {
			value, fine = code[0], oneBlank(code[0])
		}
		switch code = code[min(spans, len(code)):]; {
		case skipped || part == "":
		case fine:
			l.out = append(l.out, value)
		default:
			l.refuse(at)
			return
		}
	}
}

// Text outside of code that both forges show as it was typed, where it is not
// part of emphasis or a link: they have marks of their own beyond Markdown's, and
// shorten what may be a commit's id.
var (
	plainEntry = lazyregexp.New(`^[\pL\p{Nd}/._*?+=@,() -]+$`)
	commitLike = lazyregexp.New(`\b[0-9a-fA-F]{7,64}\b`)
)

func shownAsTyped(s string) bool {
	return plainEntry().MatchString(s) && !commitLike().MatchString(s) && oneBlank(s)
}

// oneBlank reports whether no blanks are at the ends or next to one another: a
// page shows them as one, or not at all.
func oneBlank(s string) bool { return s != "" && strings.Join(strings.Fields(s), " ") == s }

// refuse names the entry's line.
func (l *lister) refuse(at int) {
	n := l.md.line(at)
	line := strings.TrimSpace(string(l.md.src[l.md.lines[n-1]:lineEnd(l.md.src, l.md.lines[n-1])]))
	l.p.malformed(l.heading, fmt.Sprintf("Line %d, %q: the page may show it otherwise than it was typed; put it in backticks, each entry for itself.", n, short(line)))
}

// codeBlock takes the entries of a block of code, none of which may be beyond the
// page's edge.
func (l *lister) codeBlock(n *ast.FencedCodeBlock) {
	for i := range n.Lines().Len() {
		at := n.Lines().At(i)
		if why := beyondEdge(strings.TrimRight(string(at.Value(l.md.src)), "\n")); why != "" {
			l.p.malformed(l.heading, fmt.Sprintf("Line %d: %s, and the page may hide its end; write one entry a line.", l.md.line(at.Start), why))
		}
	}
	l.out = append(l.out, listItems(string(n.Lines().Value(l.md.src)))...)
}

// short is the beginning of a line.
func short(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

var (
	listMark = lazyregexp.New(`^(?:[-*+] |[0-9]{1,3}[.)] )[ \t]*`)
	box      = lazyregexp.New(`^\[([ xX])\][ \t]+`)
)

// listItems reads a list in a code block, as [lister] does one outside.
func listItems(value string) []string {
	out := []string{}
	for line := range strings.SplitSeq(value, "\n") {
		line = listMark().ReplaceAllString(strings.TrimSpace(line), "")
		if m := box().FindStringSubmatch(line); m != nil {
			if m[1] == " " {
				continue
			}
			line = line[len(m[0]):]
		}
		for part := range strings.SplitSeq(line, ", ") {
			part = strings.TrimSuffix(strings.TrimSpace(part), ",")
			if len(part) > 2 && strings.HasPrefix(part, "`") && strings.HasSuffix(part, "`") {
				part = part[1 : len(part)-1]
			}
			if part != "" && part != noResponse {
				out = append(out, part)
			}
		}
	}
	return out
}
