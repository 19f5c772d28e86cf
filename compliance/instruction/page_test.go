package instruction

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// seen is the text of a page: what stands in no comment, attribute, script,
// style or template.
func seen(t testing.TB, page string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader("<body>" + page))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		switch {
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
		case n.Type == html.ElementNode && slices.Contains([]string{"script", "style", "template", "title"}, n.Data):
			return
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
		b.WriteString(" ")
	}
	walk(root)
	return b.String()
}

var markedWord = regexp.MustCompile(`\b(?:vis|hid|odd)[a-z]*`)

// TestI7_PagesAsGitHubRendersThem: the pages in testdata were rendered by
// cmark-gfm 0.29.0.gfm.6 with tables, footnotes, strikethrough, autolink,
// tagfilter and task lists. Words that begin with vis are on the page, those with
// hid are not, those with odd are on some forges' pages.
func TestI7_PagesAsGitHubRendersThem(t *testing.T) {
	files, err := filepath.Glob("testdata/pages/*.md")
	if err != nil || len(files) < 7 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(strings.TrimSuffix(file, ".md") + ".html")
		if err != nil {
			t.Fatal(err)
		}
		p := Parse("t", string(body))
		if len(p.Bad) > 0 {
			t.Errorf("%s is refused: %v", file, p.Bad)
		}
		onPage, told := markedWord.FindAllString(seen(t, string(page)), -1), markedWord.FindAllString(p.Prose, -1)
		for _, w := range markedWord.FindAllString(string(body), -1) {
			visible := strings.HasPrefix(w, "vis")
			if slices.Contains(onPage, w) != visible && !strings.HasPrefix(w, "odd") {
				t.Errorf("%s: the fixture is wrong about %s", file, w)
			}
			if slices.Contains(told, w) != visible {
				t.Errorf("%s: %s told: %v\n%s", file, w, !visible, p.Prose)
			}
		}
	}
}
