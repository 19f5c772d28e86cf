package instruction

import (
	"bytes"
	"regexp"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// addressParser reads addresses that forges turn into links, such as
// https://example.org/`x: what looks like markup inside them is none, and so
// can't be the beginning of code that makes a link after it look like text.
type addressParser struct{ m *markdown }

// Trigger implements parser.InlineParser: the colon of "https:", the first dot
// of "www.".
func (addressParser) Trigger() []byte { return []byte(":.") }

// Parse implements parser.InlineParser.
func (p addressParser) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	if pc.IsInLinkLabel() {
		return nil
	}
	rest, at := block.PeekLine()
	if at.Padding > 0 {
		return nil
	}
	before := p.m.src[max(at.Start-maxSchemeBytes, 0):at.Start]
	n := 0
	if rest[0] == ':' && schemeEnd.Match(before) && bytes.HasPrefix(rest, []byte("://")) {
		n = len("://")
	} else if rest[0] == '.' && wwwEnd.Match(before) {
		n = len(".")
	}
	if n == 0 {
		return nil
	}
	host := hostLength(rest[n:])
	if host < 0 || rest[0] == ':' && (host == 0 || bytes.IndexByte([]byte(".-_"), rest[n]) >= 0) {
		return nil
	}
	n += host
	for n < len(rest) && rest[n] != '<' && !isBlank(rest[n]) {
		n++
	}
	if n = trimAddress(rest[:n]); n < 1 || rest[0] == ':' && n <= len("://") {
		return nil
	}
	p.m.addresses = append(p.m.addresses, span{at.Start, at.Start + n})
	block.Advance(n)
	return ast.NewTextSegment(at.WithStop(at.Start + n))
}

// maxSchemeBytes is "https" and what stands before it.
const maxSchemeBytes = 6

var (
	schemeEnd = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:https?|ftp)$`)
	wwwEnd    = regexp.MustCompile(`(?:^|[\s*_~(])www$`)
)

func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// hostLength is the length of the host that b begins with; -1 if one of its
// last two labels has an underscore.
func hostLength(b []byte) int {
	i, before, last := 0, false, false
	for i < len(b) {
		r, width := utf8.DecodeRune(b[i:])
		if r == '_' {
			last = true
		} else if r == '.' {
			before, last = last, false
		} else if r != '-' && (unicode.IsSpace(r) || unicode.IsPunct(r) || r < utf8.RuneSelf && unicode.IsSymbol(r)) {
			break
		}
		i += width
	}
	if before || last {
		return -1
	}
	return i
}

var entityEnd = regexp.MustCompile(`&[A-Za-z]+;$`)

// trimAddress returns the length of an address without what ends the sentence
// that it stands in.
func trimAddress(b []byte) int {
	open, closed := bytes.Count(b, []byte("(")), bytes.Count(b, []byte(")"))
	for len(b) > 0 {
		n := len(b) - 1
		switch b[n] {
		case '?', '!', '.', ',', ':', '*', '_', '~', '\'', '"':
		case ';':
			if m := entityEnd.FindIndex(b[max(0, n-maxEntityBytes):]); m != nil {
				n -= m[1] - m[0] - 1
			}
		case ')':
			if closed <= open {
				return len(b)
			}
			closed--
		default:
			return len(b)
		}
		b = b[:n]
	}
	return 0
}
