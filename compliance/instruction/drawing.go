package instruction

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
)

// drawings are the languages of code blocks that a page shows as a drawing, and
// what in their source can keep text out of the picture. Without a pattern the
// picture never shows the whole source.
var drawings = map[string]*regexp.Regexp{
	"mermaid": regexp.MustCompile(`(?m)%%|:::|^[ \t]*(?:---|(?:style|linkStyle|classDef|click|callback|href|links?|properties|details|accTitle|accDescr)\b)|` +
		`(?:^|[^<])<(?:[!?/]|[ac-zA-Z]|b[^r])`),
	"plantuml":   regexp.MustCompile(`(?m)^[ \t]*(?:'|!|skinparam\b|hide\b|remove\b|style\b)|/'|<style>|<color|<size|\[hidden\]`),
	"math":       formulaHides,
	"geojson":    nil,
	"topojson":   nil,
	"stl":        nil,
	"json:table": nil,
}

// formulaHides are the commands that take text out of a formula, shrink it or
// colour it, and comments.
var formulaHides = regexp.MustCompile(`(?:^|[^\\])%|\\(?:[hv]?phantom|smash|math[rlc]lap|[rlc]lap|(?:text|f|page)?color(?:box)?|bbox|enclose|` +
	`class|cssId|style|href|url|data|unicode|html[A-Z][a-z]*|(?:re)?newcommand|(?:g|e|x)?def|let|require|label|tag|notag|nonumber|` +
	`tiny|Tiny|scriptsize|scriptscriptstyle|mathchoice|kern|mkern|mskip|hskip|hspace|vspace|space|raise|lower|raisebox|move(?:left|right)|` +
	`rule|hide|toggle|texttip|mathtip|tooltip|action|includegraphics|char|begingroup|iffalse|if[a-z]*)(?:[^A-Za-z]|$)`)

// formula is what forges may read as one: between single dollars on one line,
// or between double ones in one paragraph.
var formula = regexp.MustCompile(`\$\$[^$]+\$\$|\$[^\s$](?:[^$\n]*[^\s$])?\$`)

var (
	// drawingElements and drawingAttribute are the HTML that stands for such a
	// code block or formula.
	drawingElements  = set("code div pre span")
	drawingAttribute = regexp.MustCompile(`(?i)^(?:lang|class)=(?:.*[\s-])?(?:math|mermaid|plantuml|geojson|topojson|stl|json:table)(?:[\s:].*)?$|` +
		`^data-(?:math|mermaid|kroki|diagram)`)
)

// codeLanguage is what stays of a code block's first line: it can't be seen, but
// explains the code.
var codeLanguage = regexp.MustCompile(`^[A-Za-z0-9_+#.:,{}=-]{1,32}$`)

// fence cuts what stands after a code block's language, and drawings.
func (p *page) fence(n *ast.FencedCodeBlock) {
	if n.Info == nil || n.Parent() == p.md.doc && binds(p.src, n) {
		return
	}
	info := span{n.Info.Segment.Start, n.Info.Segment.Stop}
	language := firstWord(p.src[info.from:info.to])
	if drawingHides(language, n.Lines().Value(p.src)) {
		p.drawn[n] = true
		p.cut(p.fenceSpan(n), kindDrawing, "")
		return
	}
	if codeLanguage.MatchString(language) {
		info.from += len(language)
	}
	p.cut(info, kindInfo, "")
}

func drawingHides(language string, content []byte) bool {
	language = strings.ToLower(language)
	pattern, ok := drawings[language]
	if !ok {
		language, _, _ = strings.Cut(strings.Trim(language, "{}."), ":")
		pattern, ok = drawings[language]
	}
	return ok && (pattern == nil || pattern.Match(content))
}

// fenceSpan is a code block with its fences, in a quote or list too, without the
// end of its last line.
func (p *page) fenceSpan(n *ast.FencedCodeBlock) span {
	before := bytes.TrimRight(p.src[:n.Info.Segment.Start], " \t")
	s := span{len(bytes.TrimRight(before, "`~")), lineEnd(p.src, n.Info.Segment.Stop)}
	if k := n.Lines().Len(); k > 0 {
		s.to = n.Lines().At(k - 1).Stop
	}
	next := p.src[s.to:lineEnd(p.src, s.to)]
	if closingFence.Match(bytes.TrimLeft(next, "> \t")) {
		s.to += len(next)
	}
	if p.src[s.to-1] == '\n' {
		s.to--
	}
	return s
}

// codeSpan blots code out of the words. Between dollars it is a formula.
func (p *page) codeSpan(n *ast.CodeSpan) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok && p.quotes == 0 {
			blot(p.words, span{t.Segment.Start, t.Segment.Stop}, codeMark)
		}
	}
	s := span{n.Pos(), p.md.ends[n]}
	if s.from > 0 && p.src[s.from-1] == '$' && s.to < len(p.src) && p.src[s.to] == '$' && formulaHides.Match(p.src[s.from:s.to]) {
		p.cut(span{s.from - 1, s.to + 1}, kindFormula, "")
	}
}

// cutFormulas cuts the formulas in the text that can hide something.
func (p *page) cutFormulas() {
	for _, m := range formula.FindAllIndex(p.text, -1) {
		f := p.text[m[0]:m[1]]
		r, _ := utf8.DecodeRune(p.text[m[1]:])
		if formulaHides.Match(f) && !bytes.Contains(f, []byte("\n\n")) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			p.cut(span{m[0], m[1]}, kindFormula, "")
		}
	}
}
