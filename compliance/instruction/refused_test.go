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

// TestI7_WhatRenderersReadDifferently: where one page would hide what another
// shows, nothing is guessed.
func TestI7_WhatRenderersReadDifferently(t *testing.T) {
	for name, body := range map[string]string{
		"comment not ended":              "a\n\n<!-- x\n\ny",
		"comment not ended, in a list":   "- <!-- x\n\ny -->",
		"tag not ended":                  "<div title=\"x\n\ny \"></div>",
		"end tag not ended":              "<div>\nx\n</div",
		"declaration":                    "<div>\n<!DOCTYPE x>\n</div>",
		"instruction":                    "a <?x y?> b",
		"section":                        "a <![CDATA[ x ]]> b",
		"script not ended":               "a <script> b\n\nc",
		"template not ended":             "<template>\n\na",
		"template ended elsewhere":       "> <template>\n\na </template>",
		"template ended in a paragraph":  "<template>\n\na </template> b",
		"comment in a template":          "<template><!-- </template> --></template>",
		"script in a template":           "<template><script></template></script></template>",
		"markup in a title":              "<title><b title='</title>'>x</b>",
		"attribute with a tag":           "<b title='<i>'>x</b>",
		"hidden, not ended":              "<div hidden>\n\nx",
		"comment for some":               "a <!-- x -- `y` --> b",
		"textarea":                       "<textarea>\n\nx\n\n</textarea>",
		"end of code":                    "<pre>\nx </textarea> y\n\n<b title='z'></pre>",
		"title ended by a backslash":     "[x](y \"z\\\")",
		"definition's title likewise":    "[x]: y 'a\nb\\'",
		"no blank before the title":      "[x](<y>'z')",
		"bracket in the destination":     "[x](<y<z>)",
		"brackets that don't match":      "[x](y(z \"a\")",
		"code after lonely backticks":    "``a `b` `<i title='c'>`",
		"table with two rulers":          "a | b\n|---|\n| c |\n|---|\nd | <i title='e'>",
		"table without header":           "x\n|\n|---|\n| a | b |",
		"table, then code":               "| a |\n|---|\n    <b title='x'>",
		"table, then a rule":             "x\n| a |\n|---|\n| b |\n===\n<b title='x'>",
		"table, then an element":         "| a |\n|---|\n<template>\n| b |",
		"table of quotes":                "> | a |\n> |---|\nb | c\n> | d |\n> |---|\n> | e | f |",
		"many tables in a row":           strings.Repeat("|a|\n|-|\n|\n", maxTables+2),
		"dashes after a definition":      "[x]: y\n---\n<b>\nz",
		"definition with a lost line":    "[x]:\n/y\n\"z\" a",
		"zero width space by number":     "a&#8203;b",
		"zero width space in hex":        "a&#x200B;b",
		"tag character":                  "a&#xE0041;b",
		"soft hyphen by name":            "a&shy;b",
		"joiner by name":                 "a&zwj;b",
		"selector without emoji":         "a&#xFE0F;b",
		"entity after two backslashes":   "a\\\\&#8203;b",
		"entity without end, in HTML":    "<div>\na&#8203 b\n</div>",
		"entity in a description's link": "[a&zwnj;b](c)",
	} {
		if p := Parse("t", body); !refused(p) {
			t.Errorf("%s: told %q", name, p.Prose)
		}
	}
}

// TestI7_HonestIssuesPass: what people write, mistakes included, is read.
func TestI7_HonestIssuesPass(t *testing.T) {
	for _, body := range []string{
		"The <title> is wrong, use <option> or List<String>, map<string, int>; x<y>z.",
		"`<script>` in `<head>`", "    <script>\n    x\n", "```html\n<template>\n<!-- x\n```",
		"<details>\n<summary>Log</summary>\n\n```\na < b > c -- d\n```\n\n</details>",
		"<details>\nnot closed", "<p align=\"right\">\n  <img src=\"a\">\n</p>", "<br>a</br>", "<img src=x /><hr/>", "</div>",
		"a <- b, a << b >> c, a <> b, <3, <=, 1 < 2 > 0", "<https://e.example/a?b=c>, <a@e.example>", "a\n<b\nc", "it's <not a tag",
		"[a] [b][c] [d]() ![](e) [^f] [g]: h", "[x](y 'z)", "\"[x](y)\"", "(see [x](https://e.example/(y)) and <z>)",
		"| a | b |\n|---|---|\n| `x \\| y` | z |\n", "| a | b |\n|---|\n| c | d |\n", "a | b\nc | d\n", "| a |\n|---|\n| b |\n\n---\n\n1. c\n",
		"- | a |\n  |---|\n  | b |\n", "> | a |\n> |---|\n> | b |\n\n> c", "a\n---\nb\n===\nc", "[a]: b\n\n---\n\nc",
		"cost: $5 and $10, 20% off; $HOME/$PATH", "R&D, AT&T, a&b; &copy; &nbsp; &lt;b&gt; &amp;#8203; \\&#8203; `&#8203;`", "\u26a0&#xFE0F; 1&#xFE0F;\u20e3 &#x1F469;&#x200D;&#x1F4BB;",
		"a ` b `` c", "``` inline `x` ```", "Use `a`, `b` or ``c`` and `d<e>`",
		"---\ntitle: x\n---\n\na", "*[HTML]: x", ":::note\na\n:::", "{{< x >}}", "@a #1 :tada: ~label %milestone /close",
		"<!-- a -- b -->", "a <!-- b -- c --> d", "<!-- [x](y) `z` -->\n\na <!-- `x` [y] --> b",
	} {
		if p := Parse("t", body); len(p.Bad) > 0 {
			t.Errorf("%q: %v", body, p.Bad)
		}
	}
}

func TestI7_ManyFaultsAreCounted(t *testing.T) {
	p := Parse("t", strings.Repeat("a&#8203;b\n", 500))
	if len(p.Bad) != maxHiddenListed+1 || !slices.ContainsFunc(p.Bad, func(v kernel.Violation) bool { return strings.Contains(v.Detail, "And 480 more") }) {
		t.Errorf("%d: %v", len(p.Bad), p.Bad)
	}
}

// TestI8_DrawnValues: the form's values are what the page shows of them.
func TestI8_DrawnValues(t *testing.T) {
	for body, want := range map[string]string{
		"### Expected outcome\n\nIt <b title=\"x\">works</b> [now](u \"x\") <!-- x -->\n":     "It <b>works</b> [now](u)",
		"### Expected outcome\n\n```mermaid\n%% x\n```\n":                                     "",
		"### Expected outcome\n\n```text\nIt works\n```\n\n### Checks\n\na":                   "It works",
		"### Expected outcome\n\nIt works[^1]\n\n[^2]: x\n":                                   "It works[^1]",
		"### Expected outcome\n\n<!-- x -->\nIt works\n\n### Other\n\n<template>x</template>": "It works",
	} {
		if p := Parse("t", body); p.Spec.ExpectedOutcome != want || len(p.Bad) > 0 {
			t.Errorf("%q: %q %v", body, p.Spec.ExpectedOutcome, p.Bad)
		}
	}
}
