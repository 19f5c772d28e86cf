package instruction

import (
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

func refused(p Parsed) bool {
	return slices.ContainsFunc(p.Bad, func(v kernel.Violation) bool { return v.Code == kernel.CodeInstructionHidden })
}

// TestI7_WhatHasNoCertainEnd: where it isn't certain how far something is hidden,
// nothing is guessed.
func TestI7_WhatHasNoCertainEnd(t *testing.T) {
	for name, body := range map[string]string{
		"comment not ended":                "a\n\n<!-- x\n\ny",
		"comment not ended, in a list":     "- <!-- x\n\ny -->",
		"comment without text":             "<!--> x -->",
		"comment without text, three":      "<!---> x -->",
		"comment with a bang":              "<div>\n<!-- x --!> y --></div>",
		"tag not ended":                    "<div title=\"x\n\ny \"></div>",
		"end tag not ended":                "<div>\nx\n</div",
		"declaration":                      "<div>\n<!DOCTYPE x>\n</div>",
		"declaration like a comment":       "a <!X b -->",
		"instruction":                      "a <?x y?> b",
		"section":                          "a <![CDATA[ x ]]> b",
		"script":                           "a <script> b </script>",
		"template":                         "<template>\n\na\n\n</template>",
		"words that are elements":          "The <title> and the <select> are wrong",
		"element not ended":                "<details>\n\nx",
		"element ended elsewhere":          "<div>\n\n- x </div>\n\ny",
		"element ended in a table":         "<div>\n\n| a |\n|---|\n| </div> |\n",
		"element in itself":                "<div>\n\n<div>\n\n</div>\n\nx",
		"element that goes on":             "<div><b hidden></div>\n\nx",
		"end tag of a raw element":         "</script>\n[a]: b",
		"end tag of pre":                   "</pre>\na",
		"tag alone that is text":           "</b>\t\n<!w1z> *a*",
		"tag on a line of no quote":        "> a\n<x>\nb",
		"table on a line of no quote":      "> | a | b |\n|---|---|\n| c | <!-- d\ne -->",
		"table, then a list":               "| a |\n|---|\n10) b",
		"table, then code":                 "| a |\n|---|\n    <b title='x'>",
		"table, then an element":           "| a |\n|---|\n<x>\n| b |",
		"table in a heading":               "a <!-- x\ny -->\n:-: | -\nb\n===",
		"footnote that begins with blanks": "[^1]:     x\n<y>z",
		"footnote that begins with none":   "[^1]:\nx",
		"footnote with two words":          "a[^x y]\n\n[^x y]: z",
		"footnote in another case":         "a[^x]\n\n[^X]: y\n[^x]: z",
		"footnote with a bracket":          "[^[x]: y\n\n    z",
		"table that is none":               "a\n-|-\nb|c|<b hidden>d\n\ne</b>",
		"footnote that is unused":          "[^1]: x\n</y>\n</z>",
		"code after an empty item":         "* *\n\n      [a](b \"x\")",
		"zero width space by number":       "a&#8203;b",
		"zero width space in hex":          "a&#x200B;b",
		"tag character":                    "a&#xE0041;b",
		"soft hyphen by name":              "a&shy;b",
		"joiner by name":                   "[a&zwj;b](c)",
		"selector without emoji":           "a&#xFE0F;b",
		"entity in a block of HTML":        "<b>\na&#8203;b\n</b>",
		"small print ended elsewhere":      "<sub>\n\na </sub> b <kbd>c</kbd>",
		"small print not ended, then code": "<kbd>\n\n`a`",
		"small print of a list not ended":  "- <sub>a\n  - <sub>b\n    - <sub>c</sub>",
	} {
		if p := Parse("t", body); !refused(p) {
			t.Errorf("%s: told %q", name, p.Prose)
		}
	}
}

// TestI7_HonestIssuesPass: what people write, mistakes included, is read.
func TestI7_HonestIssuesPass(t *testing.T) {
	for _, body := range []string{
		"List<String>, map<string, int>; x<y>z, usage: a <name> [<file>] <other-file>",
		"`<script>` in `<head>`", "    <script>\n    x\n", "```html\n<template>\n<!-- x\n```",
		"<details>\n<summary>Log</summary>\n\n```\na < b > c -- d\n```\n\n</details>",
		"<p align=\"right\">\n  <img src=\"a\">\n</p>", "a\n<br>\nb</br>", "<img src=x /><hr/>", "</div>",
		"- a\n  <img src=x>\n\n  b", "a <- b, a << b >> c, a <> b, <3, <=, 1 < 2 > 0", "a\n<b\nc", "it's <not a tag",
		"[a] [b][c] [d]() ![](e) [^f] [g]: h", "[x](y 'z)", "\"[x](y)\"", "(see [x](https://e.example/(y)) and <z>)",
		"| a | b |\n|---|---|\n| `x \\| y` | z |\nand text", "| a | b |\n|---|\n| c | d |\n", "a | b\nc | d\n", "| a |\n|---|\n| b |\n\n---\n\n1. c\n",
		"- | a |\n  |---|\n  | b |\n", "> | a |\n> |---|\n> | b |\n\n> c", "a\n---\nb\n===\nc", "[a]: b\n\n---\n\nc",
		"R&D, AT&T, a&b; &copy; &nbsp; &lt;b&gt; &amp;#8203; \\&#8203; `&#8203;`", "\u26a0&#xFE0F; 1&#xFE0F;\u20e3 &#x1F469;&#x200D;&#x1F4BB;",
		"press <kbd>a</b> b", "a <code> b\n\nc", "<sub>a `b` c</sub>", "a ` b `` c", "``` inline `x` ```", "---\ntitle: x\n---\n\na", ":::note\na\n:::", "{{< x >}}", "<!-- a -- b -->", "a <!-- b -- c --> d",
	} {
		if p := Parse("t", body); len(p.Bad) > 0 {
			t.Errorf("%q: %v", body, p.Bad)
		}
	}
}

func TestI7_ManyFaultsAreCounted(t *testing.T) {
	p := Parse("t", strings.Repeat("a&#8203;b\n\n", 500))
	if len(p.Bad) != maxHiddenListed+1 || !slices.ContainsFunc(p.Bad, func(v kernel.Violation) bool { return strings.Contains(v.Detail, "And 480 more") }) {
		t.Errorf("%d: %v", len(p.Bad), p.Bad)
	}
}

// TestI8_ToldValues: the form's values are what is told of them.
func TestI8_ToldValues(t *testing.T) {
	for body, want := range map[string]string{
		"### Expected outcome\n\nIt <b>works</b> [now](u \"x\") <!-- x -->\n":                "It works now",
		"### Expected outcome\n\n```mermaid\n%% x\n```\n":                                    "",
		"### Expected outcome\n\n```text\nIt works\n```\n\n### Checks\n\na":                  "It works",
		"### Expected outcome\n\n```\nIt works" + strings.Repeat(" ", 101) + "x\nnow\n```\n": "It works now",
		"### Expected outcome\n\n__It__ *works* _now_\n":                                     "__It__ *works* _now_",
		"### Expected outcome\n\nIt works[^1]\n\n[^1]: x\n":                                  "It works[^1]",
		"### Expected outcome\n\n<!-- x -->\nIt works\n\n### Other\n\n<span>x</span>":        "It works",
		"### Expected outcome\n\nIt works\n\n<details>\n<p>x</p>\n</details>\n\n## More":     "It works",
	} {
		if p := Parse("t", body); p.Spec.ExpectedOutcome != want || len(p.Bad) > 0 {
			t.Errorf("%q: %q %v", body, p.Spec.ExpectedOutcome, p.Bad)
		}
	}
}

func TestI8_EnclosedBlock(t *testing.T) {
	for _, open := range []string{"<details>", "<div hidden>", "x <details>"} {
		p := Parse("t", open+"\n\n"+block)
		if p.Found || len(p.Bad) == 0 || p.Bad[0].Code != kernel.CodeInstructionHidden {
			t.Errorf("%s: %+v", open, p)
		}
	}
	if p := Parse("t", "<details>\n\nlog\n\n</details>\n\n"+block); !p.Found || len(p.Bad) > 0 {
		t.Errorf("closed: %v", p.Bad)
	}
}
