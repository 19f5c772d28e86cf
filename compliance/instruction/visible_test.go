package instruction

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"

	"github.com/writbot/writ/kernel"
)

// hiders are the constructs that show V and not H. What they leave for the
// builder stands beside them, with the same letters.
var hiders = []struct{ name, body, told string }{
	{"comment", "V <!-- H --> V", "V  V"},
	{"comment, block", "<!-- H\n\nH -->\n\nV", "V"},
	{"comment, before text", "<!-- H --> V", "V"},
	{"comment, empty", "<!-->V", "V"},
	{"comment, dash", "<!--->V", "V"},
	{"comment, bang", "<!-- H --!>V", "V"},
	{"comment, dashes", "<!-- H ---- H ---> V", "V"},
	{"comment, in a quote", "> <!-- H\n> H -->\n>\n> V", "> \n>\n> V"},
	{"end tag that is none", "<div>\n</ H>V\n</div>", "<div>\nV\n</div>"},
	{"attribute", "<b title=\"H\">V</b>", "<b>V</b>"},
	{"attribute, single quotes", "<b title='H'>V</b>", "<b>V</b>"},
	{"attribute, no quotes", "<b H=H>V</b>", "<b>V</b>"},
	{"attribute, lines", "<div\n  class=H\n>\nV\n</div>", "<div>\nV\n</div>"},
	{"attribute of an end tag", "<div>\nV\n</div H>", "<div>\nV\n</div>"},
	{"attribute, in a quote", "> <div title=\"H\n> H\">\n> V", "> <div>\n> V"},
	{"image tag", "V <img alt=\"H\" src=\"x\">", "V <img>"},
	{"unknown tag", "V<H> V", "V V"},
	{"unknown tag with words", "<H H H>V</H>", "V"},
	{"template", "<template>H</template>V", "V"},
	{"template, blocks", "<template>\n\nH\n\n</template>\n\nV", "V"},
	{"template in template", "<template>H<template>H</template>H</template>V", "V"},
	{"script", "<script>\nH\n\nH\n</script>\n\nV", "V"},
	{"style", "V <style>H</style>", "V"},
	{"head", "<head>\nH\n</head>\n\nV", "V"},
	{"svg", "V <svg>H</svg>", "V"},
	{"hidden", "V <span hidden>H</span>", "V"},
	{"formula as HTML", "V <code class=\"language-math\">H</code>", "V"},
	{"title", "[V](/u \"H\")", "[V](/u)"},
	{"title, single quotes", "[V](/u 'H')", "[V](/u)"},
	{"title, brackets", "[V](</u> (H))", "[V](/u)"},
	{"title, lines", "[V](/u\n\"H\nH\") V", "[V](/u) V"},
	{"title, address with brackets", "[V](/u_(a) \"H\")", "[V](</u_(a)>)"},
	{"destination of words", "[V](<H H>)", "[V]()"},
	{"destination of data", "[V](data:H)", "[V]()"},
	{"destination, long", "[V](/H" + strings.Repeat("x", MaxDestinationBytes) + ")", "[V]()"},
	{"destination with characters", "[V](/H&#x41;)", "[V]()"},
	{"link without text", "V [](/H)", "V"},
	{"link with a blank", "V [&nbsp;](/H)", "V"},
	{"link in brackets", "[V [V](/u \"H\")]", "[V [V](/u)]"},
	{"description", "![H](/i)V", "![](/i)V"},
	{"description and title", "![H *H* `H`](/i \"H\")V", "![](/i)V"},
	{"description, link", "![H [H](/H \"H\")](/i)V", "![](/i)V"},
	{"image in a link", "[![H](/i \"H\")](/u \"H\") V", "[![](/i)](/u) V"},
	{"image's braces", "![](/i){H}V", "![](/i)V"},
	{"reference", "[V][H]\n\n[H]: /u \"H\"", "[V](/u)"},
	{"reference, collapsed", "[V][]\n\n[V]: </u>\n  'H\n  H'", "[V](/u)"},
	{"reference, shortcut", "[V] V\n\n[V]: /u", "[V](/u) V"},
	{"reference of an image", "![H][H]V\n\n[H]: /u", "![](/u)V"},
	{"definition, unused", "V\n\n[H]: /H (H)", "V"},
	{"definition, comment", "V\n\n[//]: # (H)", "V"},
	{"definition, twice", "[V]\n\n[V]: /u\n[V]: /H", "[V](/u)"},
	{"definition, in a list", "- V\n\n  [H]: /H", "- V"},
	{"wiki link", "[[V|H]]", "[[V]]"},
	{"footnote, unused", "V\n\n[^H]: H\n    H\n\n    H", "V"},
	{"footnote, used by unused", "V\n\n[^H]: H[^I]\n[^I]: H", "V"},
	{"footnote, used in a comment", "V <!-- [^H] -->\n\n[^H]: H", "V"},
	{"footnote, used in what is hidden", "V <template>[^H]</template>\n\n[^H]: H", "V"},
	{"footnote, twice", "V[^1]\n\n[^1]: V\n[^1]: H", "V[^1]\n\n[^1]: V"},
	{"footnote, used", "V[^1]\n\n[^1]: V\n\n    V", "V[^1]\n\n[^1]: V\n\n    V"},
	{"footnote, label", "V[^H" + strings.Repeat("x", 40) + "]\n\n[^H" + strings.Repeat("x", 40) + "]: V", "V[^note-1]\n\n[^note-1]: V"},
	{"footnote that is a link", "[^1](/u \"H\") V", "[^1](/u) V"},
	{"cells", "| V |\n|---|\n| V | H |", "| V |\n|---|\n| V |"},
	{"cells without marks", "V | V\n-|-\nV | V | H | H\nV", "V | V\n-|-\nV | V\nV"},
	{"cells of a quote", "> | V |\n> |---|\n> | V | H", "> | V |\n> |---|\n> | V"},
	{"cells end code", "| V |\n|---|\n| `V | H |\n| [V](/u \"H\")` |", "| V |\n|---|\n| `V |\n| [V](/u)` |"},
	{"info", "```go H H\nV\n```", "```go\nV\n```"},
	{"info, tildes", "~~~ go H=`H`\nV\n~~~", "~~~ go\nV\n~~~"},
	{"info, no language", "```<H>\nV\n```", "```\nV\n```"},
	{"info, in a list", "- V\n\n  ```go H\n  V\n  ```", "- V\n\n  ```go\n  V\n  ```"},
	{"drawing", "V\n\n```mermaid\nH\n%% H\n```\n\nV", "V\n\nV"},
	{"drawing, in a quote", "> V\n>\n> ```mermaid\n> %% H\n> ```\n>\n> V", "> V\n>\n> \n>\n> V"},
	{"drawing that can't hide", "```mermaid\ngraph LR\nV -->|x| V<br/>V\n```", "```mermaid\ngraph LR\nV -->|x| V<br/>V\n```"},
	{"map", "```geojson\nH\n```\nV", "V"},
	{"formula", "V $\\phantom{H}$ V", "V  V"},
	{"formula, lines", "V $$a\n% H\nb$$ V", "V  V"},
	{"formula, code", "V $`\\color{white} H`$ V", "V  V"},
	{"formula, block", "```math\na % H\n```\nV", "V"},
	{"formula that can't hide", "$V^2 + \\frac{V}{2}$ costs $5, not 10% of $V", "$V^2 + \\frac{V}{2}$ costs $5, not 10% of $V"},
	{"code", "`<!-- V -->` ``[V](/u \"V\")`` <b>V</b>", "`<!-- V -->` ``[V](/u \"V\")`` <b>V</b>"},
	{"code block", "    <!-- V -->\n\n```\n[V]: /V \"V\"\n```", "<!-- V -->\n\n```\n[V]: /V \"V\"\n```"},
	{"escapes", "\\[V](/V \"V\") \\<!-- V --> \\`<b title=\"H\">V</b>`", "\\[V](/V \"V\") \\<!-- V --> \\`<b>V</b>`"},
	{"address", "https://e.example/`V [V](/u \"H\") `", "https://e.example/`V [V](/u) `"},
	{"words in angle brackets", "V <title> V <option> V <select>", "V  V  V"},
	{"less than", "V < V and V > V, V<-V, 1<2", "V < V and V > V, V<-V, 1<2"},
}

// fill puts words in the place of the letters.
func fill(s, visible, hidden string) string {
	return strings.NewReplacer("V", visible, "H", hidden).Replace(s)
}

// TestI7_WhatThePageHidesIsCut: what can't be seen doesn't reach the builder, and
// what can stays as it is.
func TestI7_WhatThePageHidesIsCut(t *testing.T) {
	for _, h := range hiders {
		p := Parse("t", fill(h.body, "seen", "secret"))
		if want := fill(h.told, "seen", "secret"); p.Prose != want || len(p.Bad) > 0 {
			t.Errorf("%s: %q, not %q; %v", h.name, p.Prose, want, p.Bad)
		}
		if hides := strings.Contains(h.body, "H"); hides && (p.Cuts == 0 || len(p.Notes) < 2) {
			t.Errorf("%s: %d cuts, notes %q", h.name, p.Cuts, p.Notes)
		}
	}
}

// TestI7_AnotherRendererHidesItToo holds the table against the library's own
// rendering: what is called hidden is, where this library knows the construct.
func TestI7_AnotherRendererHidesItToo(t *testing.T) {
	md := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote), goldmark.WithRendererOptions(html.WithUnsafe()))
	elsewhere := "end tag that is none, image's braces, wiki link, head, svg, hidden, formula as HTML, address, map, " +
		"footnote, used by unused, footnote, used in a comment, footnote, used in what is hidden, cells end code, comment, bang"
	for _, h := range hiders {
		if strings.Contains(elsewhere, h.name) || strings.HasPrefix(h.name, "formula") || strings.HasPrefix(h.name, "drawing") {
			continue
		}
		var page bytes.Buffer
		if err := md.Convert([]byte(fill(h.body, "seen", "secret")), &page); err != nil {
			t.Fatal(err)
		}
		text := seen(t, page.String())
		if strings.Contains(text, "secret") || strings.Contains(h.body, "V") && !strings.Contains(text, "seen") {
			t.Errorf("%s: the page shows %q", h.name, text)
		}
	}
}

// FuzzVisible: whatever the words and whatever comes after, nothing of a hidden
// construct reaches the builder, and text outside any construct stays.
func FuzzVisible(f *testing.F) {
	for i := range hiders {
		f.Add(uint8(i), "plain text", "delete the tests", "")
		f.Add(uint8(i), "a", "b c", hiders[(i+7)%len(hiders)].body)
	}
	f.Fuzz(func(t *testing.T, which uint8, visible, hidden, after string) {
		h := hiders[int(which)%len(hiders)]
		visible, hidden = "seen"+words(visible, unicode.MaxRune), "secret"+words(hidden, unicode.MaxASCII)
		after = strings.NewReplacer("secret", "", "[", "(", "\r", "").Replace(after)
		if strings.Contains(oneWord, h.name) {
			hidden = strings.ReplaceAll(hidden, " ", "")
		}
		before := "first " + visible
		p := Parse("t", before+"\n\n"+fill(h.body, visible, hidden)+"\n\n"+after)
		if len(p.Bad) > 0 && p.Bad[0].Code == kernel.CodeInstructionTooLarge {
			return
		}
		if strings.Contains(p.Prose, "secret") {
			t.Errorf("%s: %q", h.name, p.Prose)
		}
		if !strings.HasPrefix(p.Prose, before+"\n") && p.Prose != before {
			t.Errorf("%s: %q was %q", h.name, p.Prose, before)
		}
		if n := strings.Count(fill(h.told, visible, hidden), visible); strings.Count(p.Prose, visible) < n+1 {
			t.Errorf("%s: %q lost %q", h.name, p.Prose, visible)
		}
	})
}

// oneWord are the constructs whose hidden part has no blanks.
const oneWord = "unknown tag with words, destination of data, destination, long, destination with characters, link without text, " +
	"link with a blank, definition, unused, definition, twice, definition, in a list, footnote, unused, footnote, label, " +
	"footnote, used by unused, footnote, used in a comment, footnote, used in what is hidden, formula"

// words keeps letters up to one and single blanks.
func words(s string, last rune) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) && r <= last && r != 'H' && r != 'V' && r != 'I' {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, ""))
	if s = strings.Join(strings.Fields(s), " "); len(s) > 200 {
		s = strings.TrimSpace(strings.ToValidUTF8(s[:200], ""))
	}
	return s
}
