package instruction

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/writbot/writ/kernel"
)

// documents is how many are generated; `make instruction` takes ten thousand.
var (
	documents = flag.Int("documents", 500, "generated documents held against cmark-gfm")
	seed      = flag.Uint64("seed", 1, "of the first document")
)

// pieces of documents. W is a word that no other place has.
var pieces = []string{
	"W", "W", "W ", "W ", "W W ", "\n", "\n", "\n\n", "\n\n", "\n\n", " ", "  ", "    ", "\t", "\r\n",
	"> ", "> ", "- ", "- ", "1. ", "* ", "+ ", "10) ", "# ", "### ", "\n---\n", "\n===\n", "***", "* * *\n", "---", "- [ ] ", "- [x] ", "[x] ", "[ ] ",
	"[", "]", "(", ")", "![", "[W]", "[W]: ", "](", "(W)", "[W](/W \"W\")", "[W](/W 'W')", "[W](</W> (W))", "![W](/W)", "![W][W]", "[W][W]", "[W][]", "[^W]", "[^1]", "[^1]", "[^1]: W", "[^1]: ", "[^2]: W",
	"[1]", "[1]: ", "[1]: /W \"W\"\n", "[1]: /W\n'W W'\n", "\n\n[1]: <W> (W)\n\n", "\"W\"", "\n\"W\"", "'", "\"", ": W", "*[W]: W", "[[W|W]]", "{W}",
	"`", "``", "```", "~~~", "```\n", "```W\n", "```go\n", "\n```\n", "`W`", "``W``", "    W\n",
	"<", ">", "<b>", "</b>", "<kbd>", "</kbd>", "<sub>", "</sub>", "<code>", "</code>", "<br>", "<b title=\"W\">", "<i W='W'>", "<!-- W -->", "<!-- W\nW -->", "<!--", "-->", "--", "<!-->", "<div>\n", "</div>", "\n</div>\n\n", "<W>", "</W>",
	"<script>", "</script>", "<pre>\n", "</pre>\n", "\n\n<template>\n", "</template>", "<?W?>", "<!W>", "<![CDATA[W]]>", "<a href='W'title='W'>", "<W W", "<img alt=\"W\">",
	"<details>\n", "<details>\n<summary>W</summary>\n\n", "\n\n</details>\n\n", "<span hidden>W</span>", "<p align=right>W</p>\n",
	"\\", "\\\\", "\\`", "\\[", "\\<", "*", "**", "_", "__", "~~", "~", "  \n", "\\\n",
	"| W | W |\n|---|---|\n| W | W | W |\n", "|---|\n", "|-|-|\n", "\n| ", "|", " | ", "|W|W|\n", "\n:-: | -\n",
	"&amp;", "&#65;", "&lt;", "&W;", "https://W.example/W?W", "www.W.example", "<https://W.example>", "<W@W.example>", "W@W.example", "http://", "://", "@",
}

// generate is a document, always the same for a seed.
func generate(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 15))
	some := make([]string, 30) // few, so that they meet one another
	for i := range some {
		some[i] = pieces[r.IntN(len(pieces))]
	}
	var b strings.Builder
	word := 0
	for range 3 + r.IntN(24) {
		for c := range strings.SplitSeq(some[r.IntN(len(some))], "") {
			if c == "W" {
				word++
				c = fmt.Sprintf("w%dz", word)
			}
			b.WriteString(c)
		}
	}
	return b.String()
}

// page is the document as cmark-gfm renders it for GitHub.
func page(t testing.TB, body string) string {
	t.Helper()
	c := exec.Command("cmark-gfm", "--unsafe", "-e", "table", "-e", "strikethrough", "-e", "autolink", "-e", "tagfilter", "-e", "tasklist", "-e", "footnotes")
	c.Stdin = strings.NewReader(body)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("cmark-gfm, which .ci/setup installs: %v", err)
	}
	return string(out)
}

// unseen are the elements whose content a page doesn't show.
var unseen = []string{"script", "style", "template", "title", "textarea", "iframe", "noembed", "noframes", "xmp", "head", "select", "svg"}

// seen is the text of a page: what stands in no comment, attribute or element
// that hides it, and not in small print inside small print. Without a click, only
// the summary of a fold is seen.
func seen(t testing.TB, page string, clicks bool) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader("<body>" + page))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var walk func(*html.Node)
	small := 0
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode && slices.Contains([]string{"code", "kbd", "sub", "sup"}, n.Data) && n.Parent.Data != "pre" {
			small++
			defer func() { small-- }()
		}
		hides := func(a html.Attribute) bool { return a.Key == "hidden" }
		switch {
		case n.Type == html.TextNode && small > 1:
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
		case n.Type == html.ElementNode && n.Data == "br":
			b.WriteString("\n")
		case !clicks && n.Parent != nil && n.Parent.Data == "details" && n.Data != "summary":
			return
		case n.Type == html.ElementNode && (slices.Contains(unseen, n.Data) || slices.ContainsFunc(n.Attr, hides)):
			return
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(root)
	return b.String()
}

var generatedWord = regexp.MustCompile(`w[0-9]+z`)

// told are the texts that reach the builder, "" if the issue is refused.
func told(body string) string {
	p := Parse("t", body)
	if slices.ContainsFunc(p.Bad, func(v kernel.Violation) bool { return v.Code == kernel.CodeInstructionHidden }) {
		return ""
	}
	return strings.Join(append([]string{p.Prose, p.Spec.ExpectedOutcome, p.Spec.Builder}, slices.Concat(p.Spec.AllowedFiles, p.Spec.Checks)...), "\n")
}

// TestI15_NothingThatThePageHides: no word reaches the builder that the text of
// the page doesn't have.
func TestI15_NothingThatThePageHides(t *testing.T) {
	words, refused := 0, 0
	for i := range uint64(*documents) {
		body := generate(*seed + i)
		text := told(body)
		shown := seen(t, page(t, body), true)
		if text == "" {
			refused++
		}
		for _, w := range generatedWord.FindAllString(text, -1) {
			if words++; !strings.Contains(shown, w) {
				t.Errorf("document %d: told %s\n%q\n%q\n%q", *seed+i, w, body, text, page(t, body))
				break
			}
		}
	}
	t.Logf("%d documents, %d of them refused or empty, %d words told", *documents, refused, words)
	if words < *documents {
		t.Errorf("of %d documents only %d words were told", *documents, words)
	}
}
