package instruction

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/compliance/strictyaml"
	"github.com/writbot/writ/kernel"
)

// The headings of the issue form, as `writ contract init` writes it.
const (
	HeadingFiles   = "Allowed files"
	HeadingOutcome = "Expected outcome"
	HeadingChecks  = "Checks"
	HeadingBuilder = "Builder"

	headingLevel = 3
	infoString   = "writ"
	noResponse   = "_No response_"
	maxChecks    = 64
)

var headings = []string{HeadingFiles, HeadingOutcome, HeadingChecks, HeadingBuilder}

// read goes through the body once: the binding part becomes the spec, and the
// rest the prose.
func (p *Parsed) read(t *teller) {
	var fences []*ast.FencedCodeBlock
	sections := map[string][]ast.Node{}
	texts := map[ast.Node]string{}
	var prose []string
	section := ""
	for n := t.md.doc.FirstChild(); n != nil; n = n.NextSibling() {
		if n.Kind() == east.KindFootnoteList {
			continue
		}
		if binds(t.md.src, n) && len(t.open) > 0 {
			p.bad(kernel.CodeInstructionHidden, "body", "A writ block or form heading stands inside an HTML element; move it out, or close the element before it.")
			continue
		}
		if h, ok := n.(*ast.Heading); ok {
			if name := lookalike(t.md.src, h); name != "" {
				p.malformed(name, fmt.Sprintf("Line %d has a heading that looks like it and isn't; write \"### %s\".", t.md.line(h.Pos()), name))
			}
			if section != "" && t.md.src[h.Pos()] != '#' {
				p.malformed(section, fmt.Sprintf("Line %d is a heading, for it is underlined; put a blank line before the rule.", t.md.line(h.Pos())))
			}
			if section = headingName(t.md.src, h); section != "" {
				p.section(sections, section)
				continue
			}
		}
		if f, ok := n.(*ast.FencedCodeBlock); ok && binds(t.md.src, n) {
			fences = append(fences, f)
			continue
		}
		if section != "" {
			t.quotes++ // its words are no prose
		}
		switch texts[n] = t.block(n); {
		case section != "":
			sections[section] = append(sections[section], n)
			t.quotes--
		case texts[n] != "":
			prose = append(prose, texts[n])
		}
	}
	prose = append(prose, t.footnotes())
	p.unended(t)
	p.Prose = strings.TrimSpace(strings.Join(prose, "\n\n"))
	p.bind(t.md, fences, sections, texts)
}

// lookalike is the form's name that a heading shows and doesn't have: what is
// below it would be taken for what the heading of the form says.
func lookalike(src []byte, h *ast.Heading) string {
	if h.Level != headingLevel || headingName(src, h) != "" {
		return ""
	}
	var b strings.Builder
	_ = ast.Walk(h, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if x, ok := n.(*ast.Text); ok && entering {
			b.WriteString(decode(string(x.Segment.Value(src))))
		}
		return ast.WalkContinue, nil
	})
	shown := strings.Join(strings.Fields(b.String()), " ")
	for _, name := range headings {
		if strings.EqualFold(shown, name) {
			return name
		}
	}
	return ""
}

// unended refuses an element that is open at the end of the body.
func (p *Parsed) unended(t *teller) {
	if len(t.open) > 0 {
		t.fault(t.md.lines[t.open[0].line-1], "<"+t.open[0].name+"> is HTML that does not end where it begins; end it, or put it into a code block.")
	}
}

// bind fills in the spec.
func (p *Parsed) bind(md *markdown, fences []*ast.FencedCodeBlock, sections map[string][]ast.Node, texts map[ast.Node]string) {
	switch {
	case len(fences) > 1:
		p.malformed("writ block", "There are two; which one counts is not clear.")
	case len(fences) == 1 && len(sections) > 0:
		p.malformed("writ block", "There is a writ block and a form heading as well; keep one of them.")
	case len(fences) == 1:
		p.fence(md.src, fences[0])
	case len(sections) > 0:
		p.form(md, sections, texts)
	case nestedBlock(md.src, md.doc):
		p.Notes = append(p.Notes, "A writ block in a quote, a list or HTML does not count.")
	}
	p.Found = len(fences)+len(sections) > 0
	p.checkSpec()
}

func (p *Parsed) malformed(subject, detail string) {
	p.bad(kernel.CodeDispatchMalformed, subject, detail)
}

func firstWord(b []byte) string {
	f := strings.Fields(string(b))
	if len(f) == 0 {
		return ""
	}
	return f[0]
}

var closingFence = lazyregexp.New("^ {0,3}(`{3,}|~{3,})[ \t]*(\n|$)")

// fence reads the block's YAML.
func (p *Parsed) fence(src []byte, n *ast.FencedCodeBlock) {
	if info := strings.TrimSpace(string(n.Info.Segment.Value(src))); info != infoString {
		p.malformed("writ block", "The info string must be writ and nothing else.")
	}
	content := n.Lines().Value(src)
	end := n.Info.Segment.Stop
	if k := n.Lines().Len(); k > 0 {
		end = n.Lines().At(k-1).Stop - 1
	}
	if _, after, more := bytes.Cut(src[end:], []byte("\n")); !more || !closingFence().Match(after) {
		p.malformed("writ block", "It is not closed.")
	}
	for i, line := range strings.Split(strings.TrimRight(string(content), "\n"), "\n") {
		if why := beyondEdge(line); why != "" {
			p.malformed("writ block", fmt.Sprintf("Line %d of the block: %s, and the page may hide its end; write a list with one entry a line, and a long text below \"expected_outcome: >-\".", i+1, why))
		}
	}
	spec := &p.Spec
	for _, f := range strictyaml.Parse(content, MaxBodyBytes, strictyaml.Fields{
		"allowed_files":    strictyaml.Verbatim(content, strictyaml.Words(&spec.AllowedFiles, scope.MaxPatterns, nil)),
		"expected_outcome": strictyaml.Text(&spec.ExpectedOutcome, wordsOf(content)),
		"checks":           strictyaml.Verbatim(content, strictyaml.Texts(&spec.Checks, maxChecks, nil)),
		"builder":          strictyaml.Verbatim(content, strictyaml.Text(&spec.Builder, nil)),
	}) {
		path := f.Path
		if path == "" {
			path = "writ block"
		}
		detail := f.Detail
		if f.Line > 0 {
			detail = fmt.Sprintf("Line %d of the block: %s", f.Line, detail)
		}
		p.malformed(path, detail)
	}
}

var word = lazyregexp.New(`[\pL\pN]+`)

// wordsOf refuses a text with a word that the content doesn't show: it is spelled
// by numbers.
func wordsOf(content []byte) func(string) string {
	return func(text string) string {
		for _, w := range word().FindAllString(text, -1) {
			if !bytes.Contains(content, []byte(w)) {
				return "It has words that are written by the numbers of their characters; write them out."
			}
		}
		return ""
	}
}

// headingName returns the form's name of a heading, "" for any other.
func headingName(src []byte, h *ast.Heading) string {
	if h.Level != headingLevel || h.Lines().Len() != 1 {
		return ""
	}
	name := strings.TrimSpace(string(h.Lines().Value(src)))
	if slices.Contains(headings, name) {
		return name
	}
	return ""
}

// section opens a heading of the form. What stands below isn't prose.
func (p *Parsed) section(sections map[string][]ast.Node, name string) {
	if _, twice := sections[name]; twice {
		p.malformed(name, "The heading is there twice.")
	}
	sections[name] = sections[name][:0]
}

// outcome is what is told below its heading, or the content of the one code
// block below it.
func outcome(nodes []ast.Node, texts map[ast.Node]string) string {
	var parts []string
	for _, n := range nodes {
		if texts[n] != "" {
			parts = append(parts, texts[n])
		}
	}
	out := strings.TrimSpace(strings.Join(parts, "\n\n"))
	if len(nodes) == 1 && out != "" {
		if _, ok := nodes[0].(*ast.FencedCodeBlock); ok {
			out = strings.TrimSpace(out[strings.Index(out, "\n"):strings.LastIndex(out, "\n")])
		}
	}
	if out == noResponse {
		return ""
	}
	return out
}

// form reads the values of the headings.
func (p *Parsed) form(md *markdown, sections map[string][]ast.Node, texts map[ast.Node]string) {
	p.Spec.AllowedFiles = p.entries(md, HeadingFiles, sections[HeadingFiles])
	p.Spec.ExpectedOutcome = outcome(sections[HeadingOutcome], texts)
	p.Spec.Checks = p.entries(md, HeadingChecks, sections[HeadingChecks])
	if list := p.entries(md, HeadingBuilder, sections[HeadingBuilder]); len(list) == 1 {
		p.Spec.Builder = list[0]
	} else if len(list) > 1 {
		p.malformed(HeadingBuilder, "It names more than one builder.")
	}
}

// checkSpec holds the values against rules that no contract changes. An outcome
// of several lines becomes one: it stands in the frame of the instruction, and
// no line of it may look like a line of the frame (case I8).
func (p *Parsed) checkSpec() {
	s := &p.Spec
	if len(s.ExpectedOutcome) > MaxOutcomeBytes {
		p.bad(kernel.CodeInstructionTooLarge, "expected_outcome", "It is longer than 2048 bytes.")
	}
	for field, list := range map[string][]string{"expected_outcome": {s.ExpectedOutcome}, "checks": s.Checks, "builder": {s.Builder}} {
		for _, v := range list {
			// YAML escapes can hold what the raw body doesn't.
			p.Bad = append(p.Bad, checkHidden(field, v, true)...)
		}
	}
	s.ExpectedOutcome = strings.Join(strings.Fields(s.ExpectedOutcome), " ")
	for _, v := range append(slices.Clone(s.Checks), s.Builder) {
		if visible.Any(v) {
			p.malformed("checks", "A name has a control character.")
		}
	}
}

// nestedBlock reports a writ block that doesn't count because of where it is.
func nestedBlock(src []byte, doc ast.Node) bool {
	found := false
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if f, ok := n.(*ast.FencedCodeBlock); ok && entering && f.Info != nil && firstWord(f.Info.Segment.Value(src)) == infoString {
			found = true
		}
		return ast.WalkContinue, nil
	})
	return found
}

// binds reports a writ block or a heading of the form.
func binds(src []byte, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FencedCodeBlock:
		return n.Info != nil && strings.EqualFold(firstWord(n.Info.Segment.Value(src)), infoString)
	case *ast.Heading:
		return headingName(src, n) != ""
	}
	return false
}
