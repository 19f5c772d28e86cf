package instruction

import (
	"bytes"
	"html"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
)

const (
	// MaxDestinationBytes bounds a link's destination; a longer one is cut. It
	// can be seen only with the pointer on the link.
	MaxDestinationBytes = 1 << 10
	// MaxInlinedBytes bounds what reference links add to a body, all together:
	// one definition may be used thousands of times.
	MaxInlinedBytes = 16 << 10
)

var (
	scheme      = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	goodScheme  = regexp.MustCompile(`(?i)^(?:https?|mailto):`)
	noAddress   = regexp.MustCompile("[\\x00-\\x20\"<>`{}|^\x7f]|&#")
	oddTitle    = regexp.MustCompile(`(?m)(?:\]\(|\]:)\s*\S*\s+["'(](?:[^\n]|\n[^\n])*?\\["')]\s*(?:\)|$)`)
	afterImage  = regexp.MustCompile(`(?i)^(?:\\?\{|&(?:#0*123|#x0*7b|lbrace|lcub);)[^\n]*(?:\}|&(?:#0*125|#x0*7d|rbrace|rcub);)`)
	wikiLink    = regexp.MustCompile(`\[\[([^\[\]|\n]+)(\|[^\[\]|\n]+)\]\]`)
	blankEntity = regexp.MustCompile(`&[A-Za-z0-9#]+;`)
)

// isAddress reports whether a destination is what it should be, and no text.
func isAddress(d string) bool {
	return len(d) <= MaxDestinationBytes && !noAddress.MatchString(d) && strings.IndexFunc(d, unicode.IsSpace) < 0 &&
		(!scheme.MatchString(d) || goodScheme.MatchString(d))
}

// link cuts what a link doesn't show: its title, a destination that is none. A
// reference gets the destination of its definition.
func (p *page) link(n *ast.Link) {
	tail, known := p.md.links[n]
	if !known {
		return
	}
	if !p.hasText(n) {
		p.cut(span{n.Pos(), tail.to}, kindEmptyLink, "")
		return
	}
	p.destination(tail, string(n.Destination), n.Title, n.Reference != nil)
}

// image keeps an image's address: its description shows only where the image
// can't be loaded.
func (p *page) image(n *ast.Image) {
	tail, known := p.md.links[n]
	if !known {
		return
	}
	p.cut(span{n.Pos() + len("!["), tail.from}, kindAlt, "")
	p.destination(tail, string(n.Destination), n.Title, n.Reference != nil)
	p.imageAttributes(tail.to)
}

// destination writes what comes after the text of a link or image without what
// can't be seen of it.
func (p *page) destination(tail span, d string, title []byte, reference bool) {
	if !reference && oddDestination(p.src[tail.from:tail.to], d) {
		p.fault(tail.from, "This is a link for some renderers and text for others.")
	}
	why := silent
	switch good := isAddress(d); {
	case reference && good:
		if p.inlined += len(d); p.inlined > MaxInlinedBytes {
			d, why = "", kindDestination
		}
	case reference: // the definition is cut anyway
		d = ""
	case !good:
		d, why = "", kindDestination
	case len(title) > 0:
		why = kindTitle
	default:
		return
	}
	if strings.ContainsAny(d, "()") {
		d = "<" + d + ">"
	}
	p.cut(tail, why, "]("+d+")")
}

var noSpace = regexp.MustCompile(`^\]\(\s*<[^<>\n]*>["'(]`)

// oddDestination reports whether the library is more lenient than the forges:
// with no space before the title, with brackets that don't match.
func oddDestination(tail []byte, d string) bool {
	if bytes.HasPrefix(bytes.TrimLeft(tail[len("]("):], " \t\r\n"), []byte("<")) {
		return noSpace.Match(tail) || strings.Contains(d, "<")
	}
	return strings.Count(d, "(")-strings.Count(d, `\(`) != strings.Count(d, ")")-strings.Count(d, `\)`)
}

// imageAttributes cuts "{width=50%}" right after an image: GitLab drops such
// braces whatever they hold.
func (p *page) imageAttributes(at int) {
	if m := afterImage.Find(p.src[at:lineEnd(p.src, at)]); m != nil {
		p.cut(span{at, at + len(m)}, kindImageAttributes, "")
	}
}

// hasText reports whether a link has something to click on.
func (p *page) hasText(link ast.Node) bool {
	found := false
	_ = ast.Walk(link, func(n ast.Node, _ bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			text := blankEntity.ReplaceAllStringFunc(string(n.Segment.Value(p.src)), html.UnescapeString)
			found = found || strings.TrimFunc(text, unicode.IsSpace) != ""
		case *ast.Image:
			found = true
		case *ast.RawHTML:
			found = found || bytes.HasPrefix(bytes.ToLower(n.Segments.Value(p.src)), []byte("<img"))
		}
		if found {
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	return found
}

// cutWikiTargets cuts the second part of GitLab's "[[text|page]]".
func (p *page) cutWikiTargets() {
	for _, m := range wikiLink.FindAllSubmatchIndex(p.text, -1) {
		p.cut(span{m[4], m[5]}, kindWikiTarget, "")
	}
}

// checkTitles refuses what is a link title for some renderers only: its last
// quote stands after a backslash.
func (p *page) checkTitles() {
	for _, m := range oddTitle.FindAllIndex(p.text, -1) {
		p.fault(m[0], "The quote after a backslash ends a link title for some renderers only.")
	}
}

var oddTitleEnd = regexp.MustCompile(`\\["')]`)

// afterDefinition reports whether a paragraph is the title of the link
// definition before it for some renderers.
func (m *markdown) afterDefinition(n ast.Node) bool {
	if _, ok := n.PreviousSibling().(*ast.LinkReferenceDefinition); !ok || n.Lines().Len() == 0 {
		return false
	}
	lines := lineSpan(n.Lines())
	return bytes.IndexByte([]byte(`"'(`), m.src[lines.from]) >= 0 && oddTitleEnd.Match(m.src[lines.from:lines.to])
}
