package instruction

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/internal/strictyaml"
	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/kernel"
	"github.com/yuin/goldmark/ast"
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

// binding finds the binding part and fills in the spec. It returns what is to
// be left out of the prose.
func (p *Parsed) binding(pg *page) []span {
	var fences []*ast.FencedCodeBlock
	var spans []span
	var block span
	sections := map[string]string{}
	for n := pg.md.doc.FirstChild(); n != nil; n = n.NextSibling() {
		if !binds(pg.src, n) {
			continue
		}
		if pg.enclosed[n] {
			p.bad(kernel.CodeInstructionHidden, "body", "A writ block or form heading stands inside an HTML element; move it out, or close the element before it.")
			continue
		}
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			fences, block = append(fences, n), fenceSpan(pg.src, n)
			spans = append(spans, block)
		case *ast.Heading:
			s := sectionSpan(pg.src, n)
			spans = append(spans, s)
			p.section(sections, headingName(pg.src, n), n, pg, s)
		}
	}
	switch {
	case len(fences) > 1:
		p.malformed("writ block", "There are two; which one counts is not clear.")
	case len(fences) == 1 && len(sections) > 0:
		p.malformed("writ block", "There is a writ block and a form heading as well; keep one of them.")
	case len(fences) == 1:
		p.fence(pg.src, fences[0], block)
	case len(sections) > 0:
		p.form(sections)
	case nestedBlock(pg.src, pg.md.doc):
		p.Notes = append(p.Notes, "A writ block in a quote, a list or HTML does not count.")
	}
	p.Found = len(fences)+len(sections) > 0
	p.checkSpec()
	return spans
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

// fenceSpan is the block with both its fences.
func fenceSpan(src []byte, n *ast.FencedCodeBlock) span {
	from := bytes.LastIndexByte(src[:n.Info.Segment.Start], '\n') + 1
	end := n.Info.Segment.Stop
	if k := n.Lines().Len(); k > 0 {
		end = n.Lines().At(k - 1).Stop
	} else {
		end = lineEnd(src, end)
	}
	return span{from, lineEnd(src, end)}
}

// lineEnd is the place after the line that at stands in.
func lineEnd(src []byte, at int) int {
	if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(src)
}

var closingFence = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})[ \t]*\n?$")

// fence reads the block's YAML.
func (p *Parsed) fence(src []byte, n *ast.FencedCodeBlock, whole span) {
	if info := strings.TrimSpace(string(n.Info.Segment.Value(src))); info != infoString {
		p.malformed("writ block", "The info string must be writ and nothing else.")
	}
	content := string(n.Lines().Value(src))
	lastLine := bytes.LastIndexByte(src[:max(whole.to-1, 0)], '\n') + 1
	if !closingFence.Match(src[lastLine:whole.to]) {
		p.malformed("writ block", "It is not closed.")
	}
	spec := &p.Spec
	for _, f := range strictyaml.Parse([]byte(content), MaxBodyBytes, strictyaml.Fields{
		"allowed_files":    strictyaml.Words(&spec.AllowedFiles, scope.MaxPatterns, nil),
		"expected_outcome": strictyaml.Text(&spec.ExpectedOutcome, nil),
		"checks":           strictyaml.Texts(&spec.Checks, maxChecks, nil),
		"builder":          strictyaml.Text(&spec.Builder, nil),
	}) {
		path := f.Path
		if path == "" {
			path = "writ block"
		}
		p.malformed(path, f.Detail)
	}
}

// headingName returns the form's name of a heading, "" for any other.
func headingName(src []byte, h *ast.Heading) string {
	if h.Level != headingLevel || h.Lines().Len() != 1 {
		return ""
	}
	name := strings.TrimSpace(string(h.Lines().Value(src)))
	if slices.Contains([]string{HeadingFiles, HeadingOutcome, HeadingChecks, HeadingBuilder}, name) {
		return name
	}
	return ""
}

// sectionSpan reaches from a heading's line to the next heading.
func sectionSpan(src []byte, h *ast.Heading) span {
	line := h.Lines().At(0)
	s := span{bytes.LastIndexByte(src[:line.Start], '\n') + 1, len(src)}
	for n := h.NextSibling(); n != nil; n = n.NextSibling() {
		if next, ok := n.(*ast.Heading); ok && next.Lines().Len() > 0 {
			s.to = bytes.LastIndexByte(src[:next.Lines().At(0).Start], '\n') + 1
			break
		}
	}
	return s
}

// section notes the value under a heading: what the page shows of it, or the
// content of the one code block under it.
func (p *Parsed) section(sections map[string]string, name string, h *ast.Heading, pg *page, s span) {
	if _, twice := sections[name]; twice {
		p.malformed(name, "The heading is there twice.")
		return
	}
	s.from = min(lineEnd(pg.src, h.Lines().At(0).Stop), s.to)
	value := apply(pg.src, s, pg.cuts)
	if f, ok := h.NextSibling().(*ast.FencedCodeBlock); ok && !pg.drawn[f] && (f.NextSibling() == nil || isHeading(f.NextSibling())) {
		value = f.Lines().Value(pg.src)
	}
	text := strings.TrimSpace(string(value))
	if text == noResponse {
		text = ""
	}
	sections[name] = text
}

func isHeading(n ast.Node) bool {
	_, ok := n.(*ast.Heading)
	return ok
}

// form reads the values of the headings.
func (p *Parsed) form(sections map[string]string) {
	p.Spec.AllowedFiles = listItems(sections[HeadingFiles])
	p.Spec.ExpectedOutcome = sections[HeadingOutcome]
	p.Spec.Checks = listItems(sections[HeadingChecks])
	if list := listItems(sections[HeadingBuilder]); len(list) == 1 {
		p.Spec.Builder = list[0]
	} else if len(list) > 1 {
		p.malformed(HeadingBuilder, "It names more than one builder.")
	}
}

var (
	listMark = regexp.MustCompile(`^(?:[-*+] |[0-9]{1,3}[.)] )[ \t]*`)
	box      = regexp.MustCompile(`^\[([ xX])\][ \t]+`)
)

// listItems reads a form's list: lines, or parts separated by a comma and a
// blank. A box that isn't ticked is no item.
func listItems(value string) []string {
	out := []string{}
	for line := range strings.SplitSeq(value, "\n") {
		line = listMark.ReplaceAllString(strings.TrimSpace(line), "")
		if m := box.FindStringSubmatch(line); m != nil {
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
			if part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

// checkSpec holds the values against rules that no contract changes. An outcome
// of several lines becomes one: it stands in the frame of the instruction, and
// no line of it may look like a line of the frame (CASES I8).
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
