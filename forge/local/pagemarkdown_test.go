package local

import (
	"strings"
	"testing"
)

// TestF1_Folds: what a text folds is folded on the page, and nothing that it holds opens
// or closes a tag of the page.
func TestF1_Folds(t *testing.T) {
	t.Parallel()
	begin := "<details>\n<summary>%s</summary>\n\n"
	for name, c := range map[string]struct{ text, want string }{
		"folded":             {begin + "- a\n\n</details>\n", "<details><summary>%s</summary>\n<ul>\n<li>a</li>\n</ul>\n</details>\n"},
		"two":                {begin + "a\n\n</details>\n\nb\n\n" + begin + "c\n\n</details>\n", "<details><summary>%s</summary>\n<p>a</p>\n</details>\n<p>b</p>\n<details><summary>%s</summary>\n<p>c</p>\n</details>\n"},
		"without an end":     {begin + "a\n", "<!-- raw HTML omitted -->\n<p>a</p>\n"},
		"without a begin":    {"a\n\n</details>\n", "<p>a</p>\n<!-- raw HTML omitted -->\n"},
		"with an attribute":  {"<details onclick=x>\n<summary>%s</summary>\n\na\n\n</details>\n", "<!-- raw HTML omitted -->\n<p>a</p>\n<!-- raw HTML omitted -->\n"},
		"HTML as its title":  {"<details>\n<summary><b>%s</b></summary>\n\na\n\n</details>\n", "<!-- raw HTML omitted -->\n<p>a</p>\n<!-- raw HTML omitted -->\n"},
		"an end in code":     {begin + "```\n</details>\n```\n\n</details>\n", "<details><summary>%s</summary>\n<pre><code>&lt;/details&gt;\n</code></pre>\n</details>\n"},
		"a script within it": {begin + "<script>x</script>\n\n</details>\n", "<details><summary>%s</summary>\n<!-- raw HTML omitted -->\n</details>\n"},
	} {
		set := func(s string) string { return strings.ReplaceAll(s, "%s", `"Evidence" &amp; more`) }
		want := strings.ReplaceAll(c.want, "%s", `&#34;Evidence&#34; &amp;amp; more`)
		if got := string(markdown(newMarkdown(), set(c.text))); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}
