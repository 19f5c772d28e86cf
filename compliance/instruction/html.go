package instruction

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"golang.org/x/net/html"

	"github.com/writbot/writ/compliance/lazyregexp"
)

func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

var (
	// plainTags show their text as it is, where they have no attributes.
	plainTags = set("br kbd sub sup b i code")
	// smallTags make their text smaller, as a code span does. One of them leaves it
	// readable, and many none of it.
	smallTags = set("code kbd sub sup")
	// summaryTags do so in the summary of a fold.
	summaryTags = set("strong em h1 h2 h3 h4 h5 h6")
	headingTags = set("h1 h2 h3 h4 h5 h6")
	// voidTags have no content.
	voidTags = set("area base br col embed hr img input link meta param source track wbr")
	// pairedTags end at their end tag in every browser.
	pairedTags = set("a abbr address article aside audio b bdi big blockquote center cite code dd del details dfn div dl dt em " +
		"figcaption figure font footer h1 h2 h3 h4 h5 h6 header i ins kbd li main mark nav ol p picture pre q s samp section small span " +
		"strike strong sub summary sup table tbody td tfoot th thead time tr tt u ul var video")
	// goingOn are those that go on, attributes included, after what is around
	// them ends.
	goingOn = set("a b big code em font i nobr s small strike strong tt u")
	// otherTags are the rest of HTML's elements. Browsers and sanitizers differ
	// about what of them is shown, and where they end.
	otherTags = set("acronym applet basefont bdo bgsound blink body button canvas caption colgroup command content data datalist " +
		"dialog dir element fencedframe fieldset form frame frameset head hgroup html iframe image isindex keygen label legend listing map " +
		"marquee math menu menuitem meter multicol nextid nobr noembed noframes noscript object optgroup option output plaintext portal " +
		"progress rb rp rt rtc ruby script search select selectedcontent shadow slot spacer style svg template textarea title xmp")
)

// element is an HTML element that is open: one that is left out, or one that
// makes its text smaller.
type element struct {
	name  string
	in    ast.Node // the block around it, whose end tag it takes
	line  int
	small int // how many smaller ones are around it
}

const (
	notEnded    = "HTML hides something here and does not end it; end it, or put it into a code block."
	differently = "Renderers read this differently, and some hide what is here; put it into a code block."
)

// hidden reports whether an open element hides what comes now.
func (t *teller) hidden() bool { return len(t.open) > 0 && t.summary != inSummary }

// Where a fold's summary is: not yet there, being told, over.
const (
	beforeSummary = iota
	inSummary
	afterSummary
)

// html reads a piece of HTML and returns the text of it that is told.
func (t *teller) html(raw string, at int, block ast.Node) string {
	var out strings.Builder
	z := html.NewTokenizer(strings.NewReader(raw))
	read := 0
	for z.Next() != html.ErrorToken {
		piece := string(z.Raw())
		out.WriteString(t.token(z.Token(), piece, at+read, block))
		read += len(piece)
	}
	if strings.TrimSpace(raw[read:]) != "" {
		t.fault(at+read, notEnded)
	}
	return out.String()
}

func (t *teller) token(tok html.Token, raw string, at int, block ast.Node) string {
	switch tok.Type {
	case html.TextToken:
		return t.htmlText(tok.Data, raw, at)
	case html.CommentToken:
		if !strings.HasPrefix(raw, "<!--") || !strings.HasSuffix(raw, "-->") || strings.HasPrefix(raw, "<!-->") || strings.HasPrefix(raw, "<!--->") {
			t.fault(at, differently)
		}
		t.cut(kindComment, at)
	case html.EndTagToken:
		return t.endTag(tok.Data, at, block)
	case html.StartTagToken, html.SelfClosingTagToken:
		return t.startTag(tok, at, block)
	default:
		t.fault(at, differently)
	}
	return ""
}

var blanks = lazyregexp.New(`\s+`)

// htmlText is text between tags in a block of HTML.
func (t *teller) htmlText(text, raw string, at int) string {
	if t.hidden() {
		return ""
	}
	if strings.Contains(raw, "<") {
		t.cut(kindDoubt, at)
		return ""
	}
	t.checkDecoded(text, raw, at)
	return blanks().ReplaceAllString(text, " ")
}

func (t *teller) startTag(tok html.Token, at int, block ast.Node) string {
	name := tok.Data
	bare := len(tok.Attr) == 0
	known := plainTags[name] || voidTags[name] || pairedTags[name] || otherTags[name]
	switch {
	case otherTags[name]:
		t.fault(at, "<"+name+"> is HTML of which renderers show different parts; put it into a code span or block.")
	case voidTags[name]:
		return t.voidTag(name, bare, at)
	case len(t.open) > 0:
		t.nestedTag(name, bare, at, block)
	case plainTags[name] && bare:
		if t.shrinks(name, at, block) {
			t.leaveOut(name, at, block)
		}
	case !known && bare:
		t.cut(kindTag, at)
	case name == "details":
		t.cut(kindFold, at)
		t.leaveOut(name, at, block)
		if bare {
			t.summary = beforeSummary
		}
	default:
		t.cut(kindElement, at)
		t.leaveOut(name, at, block)
	}
	return ""
}

// leaveOut opens an element that is left out.
func (t *teller) leaveOut(name string, at int, block ast.Node) {
	t.summary = afterSummary
	t.open = append(t.open, element{name, block.Parent(), t.md.line(at), len(t.small)})
}

// shrinks opens a tag that makes its text smaller, unless it is one inside another:
// then it reports that this is left out.
func (t *teller) shrinks(name string, at int, block ast.Node) bool {
	if !smallTags[name] && !headingTags[name] {
		return false
	}
	if t.tooSmall(name, at, block) {
		return true
	}
	t.small = append(t.small, element{name: name, in: place(block), line: t.md.line(at)})
	return false
}

// tooSmall reports whether what makes its text smaller stands in something else
// that does. Headings, which only the summary of a fold has as tags, are held
// against headings.
func (t *teller) tooSmall(name string, at int, block ast.Node) bool {
	if !slices.ContainsFunc(t.small, func(e element) bool { return headingTags[e.name] == headingTags[name] }) {
		return false
	}
	if e := t.small[len(t.small)-1]; e.in != place(block) {
		t.fault(at, fmt.Sprintf("<%s> of line %d makes this smaller, for it does not end in the paragraph that it begins in; end it there.", e.name, e.line))
	}
	t.cut(kindSmall, at)
	return true
}

// place is where a tag must end that makes its text smaller: elsewhere a browser
// may not take its end.
func place(block ast.Node) ast.Node {
	if _, html := block.(*ast.HTMLBlock); html {
		return block.Parent()
	}
	return block
}

// endSmall ends a tag that makes its text smaller, unless an element around the
// place began in it.
func (t *teller) endSmall(name string, block ast.Node) {
	around := 0
	if len(t.open) > 0 {
		around = t.open[0].small
	}
	if last := len(t.small) - 1; last >= around && t.small[last].name == name && t.small[last].in == place(block) {
		t.small = t.small[:last]
	}
}

// voidTag is a tag without content.
func (t *teller) voidTag(name string, bare bool, at int) string {
	switch {
	case t.hidden():
		return ""
	case name == "br" && bare:
		return "\n"
	case name == "img":
		t.cut(kindImage, at)
		return imageWords
	}
	t.cut(kindTag, at)
	return ""
}

// nestedTag is a start tag inside an element that is left out.
func (t *teller) nestedTag(name string, bare bool, at int, block ast.Node) {
	switch {
	case name == t.open[0].name || !bare && goingOn[name]:
		t.leaveOut(name, at, block)
	case t.summary == beforeSummary && name == "summary" && bare && block.Parent() == t.open[0].in:
		t.summary = inSummary
	case t.summary == inSummary && bare && (plainTags[name] || summaryTags[name]) && !t.shrinks(name, at, block):
	default:
		t.summary = afterSummary
	}
}

// endTag ends an element only where it began: elsewhere a browser may not take it.
func (t *teller) endTag(name string, at int, block ast.Node) string {
	t.endSmall(name, block)
	last := len(t.open) - 1
	switch {
	case last < 0:
		if !plainTags[name] {
			t.cut(kindTag, at)
		}
	case name == t.open[last].name && block.Parent() == t.open[last].in:
		t.small = t.small[:t.open[last].small]
		t.open = t.open[:last]
	case t.summary == inSummary && name == "summary":
		t.summary = afterSummary
		return foldedWords + "\n"
	case t.summary == inSummary && !plainTags[name] && !summaryTags[name]:
		t.summary = afterSummary
	}
	return ""
}

// raw is the source of HTML nodes.
func raw(src []byte, n ast.Node) string {
	switch n := n.(type) {
	case *ast.RawHTML:
		return string(n.Segments.Value(src))
	case *ast.HTMLBlock:
		out := n.Lines().Value(src)
		if n.HasClosure() {
			out = slices.Concat(out, n.ClosureLine.Value(src))
		}
		return string(out)
	}
	return ""
}
