package instruction

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"golang.org/x/net/html"
)

// hiding is an element that is open and doesn't show what it holds.
type hiding struct {
	from  int
	name  string
	depth int      // elements of the same name inside it
	block ast.Node // that it must end in
}

// set makes a set of words.
func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

var (
	// hidingElements don't show what they hold, or not as it stands there, in one
	// renderer at least: some drop these elements whole, some only their tags.
	hidingElements = set("applet audio bdo canvas datalist dialog frameset head iframe listing math noembed noframes noscript " +
		"object optgroup option plaintext rp script select slot style svg template textarea title video xmp")
	// swallowingElements hide all that follows if they don't end. Without an end
	// the others are a word in angle brackets, such as <title> or <option>.
	swallowingElements = set("audio script style template video")
	// shownElements stay, without attributes. Tags of all other elements are
	// dropped by the pages, and so here.
	shownElements = set("a abbr b big blockquote br caption cite code col colgroup dd del details dfn div dl dt em figcaption " +
		"figure font h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p picture pre q rt ruby s samp small source span strike " +
		"strong sub summary sup table tbody td tfoot th thead time tr tt u ul var wbr center") //nolint:misspell // the element's name
	// enclosingElements can fold away what they hold, or take it out of order.
	enclosingElements = set("article aside details dialog div noscript object section select svg table template textarea")
	// rawElements hold text in a browser, and markup where their own tags are
	// shown as text, as on GitHub.
	rawElements  = set("iframe noembed noframes noscript plaintext script style textarea title xmp")
	voidElements = set("area base br col embed hr img input link meta param source track wbr")
)

// parts are the pieces of a text that stands on several lines.
func parts(segments []text.Segment) []span {
	out := make([]span, 0, len(segments))
	for _, s := range segments {
		if s.Start < s.Stop {
			out = append(out, span{s.Start, s.Stop})
		}
	}
	return out
}

func lineSpan(lines *text.Segments) span {
	if lines.Len() == 0 {
		return span{}
	}
	return span{lines.At(0).Start, lines.At(lines.Len() - 1).Stop}
}

// run is raw HTML while it is read. Offsets into it only grow.
type run struct {
	parts []span // in the source
	index int    // of the part that the last offset was in
	base  int    // offset of that part
}

// source returns the place in the source of the byte at an offset.
func (r *run) source(offset int) int {
	for offset-r.base >= r.parts[r.index].to-r.parts[r.index].from {
		r.base += r.parts[r.index].to - r.parts[r.index].from
		r.index++
	}
	return r.parts[r.index].from + offset - r.base
}

// html reads one run of raw HTML as a browser would: a block of it, or a tag or
// comment in a block of text.
func (p *page) html(parts []span, block ast.Node) {
	var buf []byte
	for _, s := range parts {
		buf = append(buf, p.src[s.from:s.to]...)
	}
	p.read += len(buf)
	r := &run{parts: parts}
	z := html.NewTokenizer(bytes.NewReader(buf))
	for at := 0; at < len(buf); {
		tt := z.Next()
		n := len(z.Raw())
		if n == 0 {
			return
		}
		t := token{kind: tt, raw: buf[at : at+n]}
		t.from = r.source(at)
		first := *r
		t.to = r.source(at+n-1) + 1
		if tt == html.TextToken && p.hiding == nil {
			p.showRun(first, at, at+n)
		}
		t.attributes(z)
		p.token(t, block, z)
		at += n
	}
}

// showRun shows text that may stand on several lines.
func (p *page) showRun(r run, from, to int) {
	for from < to {
		start := r.source(from)
		n := min(to-from, r.parts[r.index].to-start)
		p.show(span{start, start + n}, true)
		from += n
	}
}

// token is a piece of HTML: a tag, a comment, a text.
type token struct {
	span
	kind   html.TokenType
	raw    []byte
	name   string
	hidden bool // an attribute hides the element, or makes a drawing of it
}

func (t *token) attributes(z *html.Tokenizer) {
	switch t.kind {
	case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
	default:
		return
	}
	name, more := z.TagName()
	t.name = string(name)
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		if string(key) == "hidden" || drawingElements[t.name] && drawingAttribute.Match(append(append(key, '='), value...)) {
			t.hidden = true
		}
	}
}

func (p *page) token(t token, block ast.Node, z *html.Tokenizer) {
	if p.hiding != nil {
		p.hiddenToken(t, block)
		return
	}
	if t.name != "" && bytes.LastIndexByte(t.raw, '<') > 0 {
		p.fault(t.from, differently)
	}
	switch t.kind {
	case html.ErrorToken, html.DoctypeToken: // the former is a tag that doesn't end
		p.fault(t.from, notEnded)
	case html.CommentToken:
		switch {
		case !ended(t.raw):
			p.fault(t.from, notEnded)
		case !isHTML(block) && oddComment(t.raw):
			p.fault(t.from, differently)
		default:
			p.cut(t.span, kindComment, "")
		}
	case html.StartTagToken, html.SelfClosingTagToken:
		p.count(t.name, 1)
		if p.hides(t, block) {
			p.hiding = &hiding{from: t.from, name: t.name, block: container(block)}
			return
		}
		z.NextIsNotRawText()
		if t.name == "details" {
			p.folds++
		}
		p.tag(t, "<"+t.name+">")
		if t.name == "img" {
			p.imageAttributes(t.to)
		}
	case html.EndTagToken:
		p.count(t.name, -1)
		p.tag(t, "</"+t.name+">")
	}
}

func isHTML(block ast.Node) bool {
	_, ok := block.(*ast.HTMLBlock)
	return ok
}

// container is where an element that begins in a block has to end: with a block
// of HTML it is what this stands in.
func container(block ast.Node) ast.Node {
	if isHTML(block) {
		return block.Parent()
	}
	return block
}

// hides reports whether a start tag begins an element that hides what it holds.
func (p *page) hides(t token, block ast.Node) bool {
	if voidElements[t.name] {
		return false
	}
	if t.hidden || swallowingElements[t.name] {
		return true
	}
	return hidingElements[t.name] && p.lastEndTag(block, t.name) >= t.to
}

var endTag = regexp.MustCompile(`</[A-Za-z]+`)

// lastEndTag is the place of the last end tag of that name in a block, or -1.
func (p *page) lastEndTag(block ast.Node, name string) int {
	if p.endTags.block != block {
		p.endTags.block, p.endTags.last = block, map[string]int{}
		lines := lineSpan(block.Lines())
		p.read += lines.to - lines.from
		for _, m := range endTag.FindAllIndex(p.src[lines.from:lines.to], -1) {
			tag := strings.ToLower(string(p.src[lines.from+m[0]+len("</") : lines.from+m[1]]))
			p.endTags.last[tag] = lines.from + m[0]
		}
	}
	if at, ok := p.endTags.last[name]; ok {
		return at
	}
	return -1
}

// hiddenToken looks for the end of what is hidden. Comments and other elements
// of that sort in it end it for some readers and not for others.
func (p *page) hiddenToken(t token, block ast.Node) {
	h := p.hiding
	switch {
	case hidesToo(t, h.name):
		p.fault(t.from, differently)
	case t.kind == html.StartTagToken && t.name == h.name:
		h.depth++
	case t.kind == html.EndTagToken && t.name == h.name && h.depth > 0:
		h.depth--
	case t.kind == html.EndTagToken && t.name == h.name:
		if container(block) != h.block {
			p.fault(h.from, "HTML hides something here and ends it in another paragraph, list or quote.")
		}
		p.count(t.name, -1)
		p.cut(span{h.from, t.to}, kindElement, "")
		p.hiding = nil
	}
}

var tagStart = regexp.MustCompile(`<(?:[!?]|/?([A-Za-z]+))`)

// hidesToo reports whether a piece of the hidden element has something that
// begins or ends hiding by itself, elements of the same name excepted.
func hidesToo(t token, name string) bool {
	for _, m := range tagStart.FindAllSubmatch(t.raw, -1) {
		if other := strings.ToLower(string(m[1])); other != name && (other == "" || hidingElements[other] || rawElements[name]) {
			return true
		}
	}
	return t.kind == html.ErrorToken || t.hidden
}

// tag cuts a tag, or what in it isn't its name.
func (p *page) tag(t token, bare string) {
	if !shownElements[t.name] {
		p.cut(t.span, kindTag, "")
		return
	}
	plain := strings.ToLower(string(t.raw))
	plain = strings.TrimRight(strings.TrimRight(strings.TrimSuffix(plain, ">"), "/"), " \t\n") + ">"
	if plain != bare {
		p.cut(t.span, kindAttributes, bare)
	}
}

// count follows the elements that may enclose a binding part.
func (p *page) count(name string, d int) {
	if !enclosingElements[name] {
		return
	}
	if p.open[name] += d; p.open[name] <= 0 {
		delete(p.open, name)
	}
}

const (
	commentOpen  = "<!--"
	commentClose = "-->"
)

// ended reports whether a comment ends where it seems to. Declarations and
// processing instructions don't count: renderers disagree about them.
func ended(raw []byte) bool {
	s := string(raw)
	switch {
	case strings.HasPrefix(s, "</"):
		return strings.HasSuffix(s, ">")
	case !strings.HasPrefix(s, commentOpen):
		return false
	case s == "<!-->", s == "<!--->":
		return true
	}
	return strings.HasSuffix(s[len(commentOpen):], commentClose) || strings.HasSuffix(s[len(commentOpen):], "--!>")
}

// oddComment reports whether a comment within a text is none for renderers of
// older CommonMark, which allow no "--" in it, and holds what would then be
// markup.
func oddComment(raw []byte) bool {
	if !bytes.HasPrefix(raw, []byte(commentOpen)) || len(raw) < len(commentOpen)+len(commentClose) {
		return false
	}
	content := string(raw[len(commentOpen) : len(raw)-len(commentClose)])
	old := !strings.Contains(content, "--") && !strings.HasSuffix(content, "-") && !strings.HasPrefix(content, ">") && !strings.HasPrefix(content, "->")
	return !old && strings.ContainsAny(content, "<[]`")
}
