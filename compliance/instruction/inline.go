package instruction

import (
	"html"
	"regexp"
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// text is the text of a block with inline nodes in it.
func (t *teller) text(n ast.Node) string {
	t.limit(n)
	s := t.inlines(n, n)
	t.checkDecoded(s, string(n.Lines().Value(t.md.src)), n.Pos())
	s = t.cutPart(s, imageBraces, imageWords, kindImage, n.Pos())
	s = t.cutPart(s, replaced, "", kindReplaced, n.Pos())
	s = t.cutPart(s, wikiTarget, "[[$1]]", kindWikiTarget, n.Pos())
	return strings.TrimSpace(unmask(t.cutFormulas(s, n.Pos())))
}

// cutFormulas leaves out the formulas in a block's text. A letter or digit right
// after it means that the last dollar begins something else.
func (t *teller) cutFormulas(s string, at int) string {
	var b strings.Builder
	for {
		m := formula().FindStringIndex(s)
		if m == nil {
			b.WriteString(s)
			return b.String()
		}
		if wordAfter(s[m[1]:]) {
			b.WriteString(s[:m[1]-1])
			s = s[m[1]-1:]
			continue
		}
		t.cut(kindFormula, at)
		b.WriteString(s[:m[0]])
		s = s[m[1]:]
	}
}

// GitLab hides the target of a wiki link, reads braces after an image, and shows
// something else for marks of its own.
var (
	replaced    = lazyregexp.New(`\[\[_TOC_\]\]|\[TOC\]|::include\{[^}]*\}?|%\{[^}\n]*\}`)
	wikiTarget  = lazyregexp.New(`\[\[([^\[\]|]*)\|[^\[\]]*\]\]`)
	imageBraces = lazyregexp.New(regexp.QuoteMeta(imageWords) + `\{[^}]*\}?`)
)

// cutPart leaves out what a pattern matches and puts something in its place.
func (t *teller) cutPart(s string, pattern lazyregexp.Regexp, with string, k kind, at int) string {
	if !pattern().MatchString(s) {
		return s
	}
	t.cut(k, at)
	return pattern().ReplaceAllString(s, with)
}

func (t *teller) inlines(n, block ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		b.WriteString(t.inline(c, block))
	}
	return b.String()
}

// inline is an inline node as the builder reads it.
func (t *teller) inline(n, block ast.Node) string {
	if x, ok := n.(*ast.RawHTML); ok {
		return t.html(raw(t.md.src, x), x.Pos(), block)
	}
	if t.hidden() || n.Pos() >= t.end {
		t.inlines(n, block) // HTML in it may end here
		return ""
	}
	switch n := n.(type) {
	case *ast.Text:
		return t.plain(n)
	case *ast.CodeSpan:
		if t.tooSmall("code", n.Pos(), block) {
			return ""
		}
		return t.codeSpan(n)
	case *ast.Emphasis:
		mark := strings.Repeat(string(t.md.src[n.Pos()]), n.Level)
		return mark + t.inlines(n, block) + mark
	case *east.Strikethrough:
		return "~~" + t.inlines(n, block) + "~~"
	case *ast.Link:
		t.cut(kindAddress, n.Pos())
		return t.inlines(n, block)
	case *ast.Image:
		t.cut(kindImage, n.Pos())
		return imageWords
	case *ast.AutoLink:
		if n.Pos()+1 >= t.end { // its place may be that of the blank before it
			return ""
		}
		return t.address(string(n.Label(t.md.src)), n.Pos())
	case *east.TaskCheckBox:
		return map[bool]string{true: "[x] ", false: "[ ] "}[n.IsChecked]
	case *east.FootnoteLink:
		return t.footnoteMark(n)
	case *east.FootnoteBacklink:
	default:
		t.cut(kindDoubt, n.Pos())
	}
	return ""
}

func (t *teller) codeSpan(n *ast.CodeSpan) string {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if x, ok := c.(*ast.Text); ok && t.quotes == 0 {
			blot(t.words, x.Segment.Start, x.Segment.Stop)
		}
	}
	content := strings.ReplaceAll(spanContent(t.md.src, n), "$", maskedDollar)
	mark := strings.Repeat("`", 1+longest(content))
	if strings.HasPrefix(content, "`") || strings.HasSuffix(content, "`") {
		content = " " + content + " "
	}
	return mark + content + mark
}

// blot overwrites a part of the words.
func blot(words []byte, from, to int) {
	for i := from; i < to; i++ {
		if words[i] != '\n' {
			words[i] = codeMark
		}
	}
}

// escapes are a character with a backslash, and one by its name or number.
var escapes = lazyregexp.New("\\\\[!-/:-@\\[-`{-~]|&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")

// decode turns escapes into what the page shows for them.
func decode(s string) string {
	return escapes().ReplaceAllStringFunc(s, func(e string) string {
		if e[0] == '\\' {
			return e[1:]
		}
		switch c := html.UnescapeString(e); {
		case strings.HasSuffix(c, ";") && c != ";": // there is no such name
			return e
		case strings.TrimSpace(c) == "":
			return " "
		default:
			return c
		}
	})
}

// plain is text, with the line end after it.
func (t *teller) plain(n *ast.Text) string {
	s := string(n.Segment.Value(t.md.src))
	if at := t.linkLike(n.Segment.Start, n.Segment.Stop); at < t.end {
		t.cut(kindDoubt, at)
		t.end = at
	}
	if over := n.Segment.Stop - t.end; over > 0 {
		s = s[:max(len(s)-over, 0)]
	}
	if t.quotes == 0 {
		copy(t.words[n.Segment.Start:n.Segment.Stop], t.md.src[n.Segment.Start:n.Segment.Stop])
	}
	if !n.IsRaw() {
		s = decode(s)
	}
	if n.SoftLineBreak() || n.HardLineBreak() {
		s += "\n"
	}
	return s
}

// closedMark is a footnote's mark on one line; others lose their text on GitHub.
var closedMark = lazyregexp.New(`^\[\^[^\]\n]*\]`)

// linkLike is the place in text at which some renderer may go on with a link or
// image that the library doesn't see: it misreads a title, or what it refers to
// only looks defined.
func (t *teller) linkLike(from, to int) int {
	for i := from; i < to && i+1 < len(t.md.src); i++ {
		switch string(t.md.src[i : i+2]) {
		case "](":
			return i
		case "][", "![":
			if t.md.defines {
				return i
			}
		case "[^":
			if !closedMark().Match(t.md.src[i:]) {
				return i
			}
		}
	}
	return len(t.md.src)
}

// checkDecoded finds characters that can't be seen and that the body's own bytes
// didn't show: they were written by name or number.
func (t *teller) checkDecoded(s, src string, at int) {
	if len(checkHidden("body", unmask(s), true)) > 0 && len(checkHidden("body", src, true)) == 0 {
		t.fault(at, "A character by its name or number can't be seen.")
	}
}

// linkShortened is an address that GitHub or GitLab may show in a short form,
// without its query and fragment.
var linkShortened = lazyregexp.New(`/-/|/[0-9]+(?:/|$)|/[0-9a-fA-F]{7,40}(?:/|$)|\.\.`)

// address is an address that the page shows.
func (t *teller) address(s string, at int) string {
	if path, rest := s, strings.IndexAny(s, "?#"); rest >= 0 && linkShortened().MatchString(path[:rest]) {
		t.cut(kindQuery, at)
		return s[:rest]
	}
	return s
}

// plainMark refers to a footnote. Before a bracket or colon it is a link's text
// or a definition.
var plainMark = lazyregexp.New(`^!?\[\^[A-Za-z0-9_-]+\](?:[^\[(:]|$)`)

func (t *teller) footnoteMark(n *east.FootnoteLink) string {
	if !plainMark().Match(t.md.src[n.Pos():]) {
		t.cut(kindDoubt, n.Pos())
		t.end = n.Pos()
		return ""
	}
	t.notes = append(t.notes, n.Index)
	return "[^" + strconv.Itoa(n.Index) + "]"
}
