package instruction

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// span is a part of a source, in bytes.
type span struct{ from, to int }

// Fillers of plain text: markup between words is a gap, code and quotes aren't.
const (
	markupMark = 0
	codeMark   = 1
	codeFill   = "\x01"
)

// plain is the text of Markdown with everything but words blotted out, of the
// same length: positions and line ends stay.
func plain(markdown string) string {
	src := []byte(markdown)
	out := bytes.Repeat([]byte{markupMark}, len(src))
	for i, c := range src {
		if c == '\n' {
			out[i] = c
		}
	}
	_ = ast.Walk(parseMarkdown(src).doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Blockquote:
			return ast.WalkSkipChildren, nil
		case *ast.CodeSpan, *ast.AutoLink:
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if t, ok := c.(*ast.Text); ok {
					blot(out, span{t.Segment.Start, t.Segment.Stop})
				}
			}
			return ast.WalkSkipChildren, nil
		case *ast.RawHTML:
			for _, s := range n.Segments.Sliced(0, n.Segments.Len()) {
				blot(out, span{s.Start, s.Stop})
			}
		case *ast.Text:
			copy(out[n.Segment.Start:n.Segment.Stop], src[n.Segment.Start:n.Segment.Stop])
		}
		return ast.WalkContinue, nil
	})
	return string(out)
}

func blot(out []byte, s span) {
	for i := s.from; i < s.to; i++ {
		if out[i] != '\n' {
			out[i] = codeMark
		}
	}
}

func wordRune(r rune) bool {
	return r == '_' || r == codeMark || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func wordBefore(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return s != "" && wordRune(r)
}

func wordAfter(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return s != "" && wordRune(r)
}

const (
	commentOpen  = "<!--"
	commentClose = "-->"
)

// comments finds what a reader of the rendered text can't see: HTML comments
// and link definitions. Open lists where HTML hides something
// that isn't closed where it begins, or hides by other means than a comment.
func comments(src []byte, doc ast.Node) (cuts []span, open []int) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.HTMLBlock:
			if s := lineSpan(n.Lines()); s.to > 0 || n.HasClosure() {
				if n.HasClosure() {
					if s.to == 0 {
						s.from = n.ClosureLine.Start
					}
					s.to = max(s.to, n.ClosureLine.Stop)
				}
				htmlComments(src, s, &cuts, &open)
			}
		case *ast.RawHTML:
			if k := n.Segments.Len(); k > 0 {
				htmlComments(src, span{n.Segments.At(0).Start, n.Segments.At(k - 1).Stop}, &cuts, &open)
			}
		case *ast.LinkReferenceDefinition:
			cuts = append(cuts, lineSpan(n.Lines()))
		}
		return ast.WalkContinue, nil
	})
	slices.SortFunc(cuts, func(a, b span) int { return a.from - b.from })
	return cuts, open
}

func lineSpan(lines *text.Segments) span {
	if lines.Len() == 0 {
		return span{}
	}
	return span{lines.At(0).Start, lines.At(lines.Len() - 1).Stop}
}

// htmlComments looks through one run of raw HTML.
func htmlComments(src []byte, s span, cuts *[]span, open *[]int) {
	for at := s.from; at < s.to; {
		i := bytes.Index(src[at:s.to], []byte("<"))
		if i < 0 {
			return
		}
		at += i
		rest := string(src[at:s.to])
		switch {
		case strings.HasPrefix(rest, "<!-->"), strings.HasPrefix(rest, "<!--->"):
			to := at + strings.Index(rest, ">") + 1 // a whole comment; what follows is seen
			*cuts = append(*cuts, span{at, to})
			at = to
		case strings.HasPrefix(rest, commentOpen):
			end := strings.Index(rest[len(commentOpen):], commentClose)
			if end < 0 {
				*open = append(*open, at)
				return
			}
			to := at + len(commentOpen) + end + len(commentClose)
			*cuts = append(*cuts, span{at, to})
			at = to
		case strings.HasPrefix(rest, "<!") || strings.HasPrefix(rest, "<?"):
			*open = append(*open, at)
			return
		default:
			at++
		}
	}
}

// blank overwrites spans, so that the rest keeps its place.
func blank(src []byte, spans []span) []byte {
	out := bytes.Clone(src)
	for _, s := range spans {
		for i := s.from; i < s.to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	return out
}

// cut removes spans from src; overlapping ones count once each.
func cut(src []byte, spans []span) []byte {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	out := make([]byte, 0, len(src))
	at := 0
	for _, s := range spans {
		if s.from > at {
			out = append(out, src[at:s.from]...)
		}
		at = max(at, s.to)
	}
	return append(out, src[at:]...)
}
