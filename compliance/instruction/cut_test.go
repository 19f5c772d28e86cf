package instruction

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestI7_CutsAreRecorded: the report can say how much was left out, what, and
// where, in a text that no issue can make long.
func TestI7_CutsAreRecorded(t *testing.T) {
	body := "<!-- one -->\n\na <!-- é\n\u00fc --> [b](u \"ti\")\n\n```go x\ny\n```\n\n[c]\n\n[c]: d\n<details>\ne\n</details>\n"
	p := Parse("t", body)
	want := []string{
		"5 things that the issue's page does not show were left out of the instruction.",
		"Left out: 2 HTML comments (24 characters), lines 1 and 3.",
		"Left out: 1 link definition (6 characters), line 12.",
		"Left out: 1 link title (5 characters), line 4.",
		"Left out: 1 code block's attributes (2 characters), line 6.",
		"The issue's page folds away 1 part that the instruction has.",
	}
	if d := cmp.Diff(want, p.Notes); d != "" || p.Cuts != 5 || len(p.Bad) > 0 {
		t.Error(d, p.Cuts, p.Bad)
	}
	p = Parse("t", strings.Repeat("<!-- x -->\n\n", 3000))
	if len(p.Notes) != 2 || p.Notes[1] != "Left out: 3000 HTML comments (30000 characters), lines 1, 3, 5, 7, 9 and more." {
		t.Errorf("%q", p.Notes)
	}
	if p := Parse("t", "<!-- x -->"); len(p.Notes) != 2 || !strings.HasPrefix(p.Notes[0], "1 thing that the issue's page does not show was ") {
		t.Errorf("%q", p.Notes)
	}
	if p := Parse("t", "a\n\n"+block); len(p.Notes) > 0 {
		t.Errorf("%q", p.Notes)
	}
	if r := Parse("t", body+block).Resolve(testContract(t, ""), nil); !slices.Contains(r.Notes, "5 things that the issue's page does not show were left out of the instruction.") {
		t.Errorf("not in the report: %q", r.Notes)
	}
	for k := silent + 1; k < kinds; k++ {
		if names[k][0] == "" || names[k][1] == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
}

// TestI14_OneDefinitionUsedOften: references bring their destination, within a
// limit.
func TestI14_OneDefinitionUsedOften(t *testing.T) {
	url := "https://e.example/" + strings.Repeat("x", 900)
	body := strings.Repeat("[a] ", 4000) + "\n\n[a]: " + url + "\n"
	p := Parse("t", body)
	if len(p.Bad) > 0 || len(p.Prose) > len(body)+MaxInlinedBytes+4000*len("()") {
		t.Errorf("%d bytes from %d: %v", len(p.Prose), len(body), p.Bad)
	}
	if n := strings.Count(p.Prose, "[a]("+url+")"); n != MaxInlinedBytes/len(url) {
		t.Errorf("%d uses have the destination", n)
	}
	want := fmt.Sprintf("Left out: %d link destinations", 4000-MaxInlinedBytes/len(url))
	if !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
		t.Errorf("%q, not in %q", want, p.Notes)
	}
}

// TestI14_EachByteIsReadOnce: how often HTML is looked at doesn't grow with the
// number of tags and comments in it.
func TestI14_EachByteIsReadOnce(t *testing.T) {
	for _, unit := range []string{
		"<!--", "<!-- ", "<!---->", "<!-- x -->", "<", "<b", "<b ", "<b>", "</", "</b>", "<?", "<!", "<!-->", "--!>", "<title>", "</title>", "<title></title>",
		"<b title='", "<div>\n<!--", "a <!-- -- -->", "<details>", "<option> </select> ", "<template>", "&#8203;", "<p>\n\n", "> <!--\n", "- <b>\n",
	} {
		for _, before := range []string{"", "<div>\n", "a "} {
			size := 32 << 10
			if unit == commentOpen {
				size = 300 << 10
			}
			body := before + strings.Repeat(unit, size/len(unit))
			md := parseMarkdown([]byte(body))
			if p := readPage(md); p.read > 2*len(body) {
				t.Errorf("%q after %q: %d bytes were read of %d", unit, before, p.read, len(body))
			}
		}
	}
}

// TestI14_ProseIsBounded: no body becomes much longer than it was.
func TestI14_ProseIsBounded(t *testing.T) {
	for _, h := range hiders {
		body := strings.Repeat(h.body+"\n\n", 300)
		if len(body) > MaxBodyBytes {
			continue
		}
		if p := Parse("t", body); len(p.Prose) > len(body)+MaxInlinedBytes {
			t.Errorf("%s: %d bytes from %d", h.name, len(p.Prose), len(body))
		}
	}
}

func TestApplyLeavesLinesInOrder(t *testing.T) {
	for body, want := range map[string]string{
		"a\n\nXX\n\nb": "a\n\nb", "XX\n\nb": "b", "a\nXX\nb": "a\nb", "a XX b": "a  b", "a\n\n\n\nXX\nb": "a\n\n\n\nb",
		"a\n\nXX\n\n\n\nb": "a\n\nb", "a\n  XX  \nb": "a\nb", "> XX\n> b": "> \n> b", "XXa": "a", "a\n\n\n\nb": "a\n\n\n\nb", "aXX": "a",
	} {
		var cuts []cut
		if i := strings.Index(body, "XX"); i >= 0 {
			cuts = []cut{{span: span{i, i + 2}}}
		}
		if got := string(apply([]byte(body), span{0, len(body)}, cuts)); got != want {
			t.Errorf("%q: %q, not %q", body, got, want)
		}
	}
}

func TestSettle(t *testing.T) {
	c := func(from, to int) cut { return cut{span: span{from, to}} }
	got := settle([]cut{c(5, 7), c(0, 4), c(1, 2), c(6, 9), c(9, 9), c(20, 30), c(20, 21)})
	if d := cmp.Diff("[{{0 4} 0 } {{5 7} 0 } {{7 9} 0 } {{20 30} 0 }]", fmt.Sprint(got)); d != "" {
		t.Error(d)
	}
	for at, want := range map[int]bool{0: true, 3: true, 4: false, 5: true, 8: true, 9: false, 29: true, 30: false, 100: false} {
		if inside(got, at) != want {
			t.Errorf("%d: %v", at, !want)
		}
	}
}
