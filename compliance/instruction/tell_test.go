package instruction

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// constructs are what an issue may have, and what of it is told. V is what the
// page shows without a click, and H what it doesn't.
var constructs = []struct{ name, body, told string }{
	{"text", "V\nV  \nV\\\nV", "V\nV\nV\nV"},
	{"headings", "# V\n\n## V ##\n\nV\nV\n---\n\n###### V", "# V\n\n## V\n\n## V V\n\n###### V"},
	{"emphasis", "*V* __V__ ***V*** ~~V~~ V_V_V", "*V* __V__ ***V*** ~~V~~ V_V_V"},
	{"lists", "- V\n- V\n  - V\n\n    V\n\n3) V\n4) V", "- V\n- V\n  - V\n\n    V\n\n3) V\n4) V"},
	{"task boxes", "- [ ] V\n- [x] V", "- [ ] V\n- [x] V"},
	{"quotes", "> V\nV\n>\n> > V", "> V\n> V\n>\n> > V"},
	{"alerts", "> [!NOTE]\n> V", "> [!NOTE]\n> V"},
	{"rule", "V\n\n* * *\n\nV", "V\n\n---\n\nV"},
	{"table", "V | V\n-|:-:\n`V` | V \\| V\nV", "| V | V |\n| --- | --- |\n| `V` | V \\| V |\n| V |  |"},
	{"table right below text", "V\n| V |\n|---|\n| V |", "V\n\n| V |\n| --- |\n| V |"},
	{"code span", "`<!-- V -->` ``[V](/u \"V\")`` `` ` ``", "`<!-- V -->` `[V](/u \"V\")` `` ` ``"},
	{"code block", "```go\nV\n```\n\n~~~\n```\n[V]: /V \"V\"\n~~~", "```go\nV\n```\n\n````\n```\n[V]: /V \"V\"\n````"},
	{"code block by indentation", "V\n\n    <!-- V -->\n    V", "V\n\n```\n<!-- V -->\nV\n```"},
	{"code block without end", "```text\nV", "```text\nV\n```"},
	{"escapes", "\\*V\\* \\<V\\> &lt;V&gt; &amp; &#40; &V; &notV;", "*V* <V> <V> & ( &V; &notV;"},
	{"blanks by number and name", "V&#10;# V&#x9;V&nbsp;V", "V # V V V"},
	{"addresses", "https://e.example/V?V=V#V <https://e.example/V> www.e.example/V a@e.example", "https://e.example/V?V=V#V https://e.example/V www.e.example/V a@e.example"},
	{"mentions and emoji", "@V #1 :tada: V@V", "@V #1 :tada: V@V"},
	{"less than", "V < V and V > V, V<-V, 1<2, <3, Map<V, V>", "V < V and V > V, V<-V, 1<2, <3, Map<V, V>"},
	{"tags", "V<br>V <kbd>V</kbd> <sub>V</sub><sup>V</sup> <b>V</b> <i>V</i> <code>V</code>", "V\nV V VV V V V"},
	{"tags as a block", "<b>\nV <i>V</i>\n</b>", "V V"},
	{"money", "V costs $5 and $10, $HOME/$PATH, `$V` and `V$`, 10% of $V", "V costs $5 and $10, $HOME/$PATH, `$V` and `V$`, 10% of $V"},
	{"footnotes", "V[^1] V[^b] V[^H]\n\n[^b]: V[^c]\n[^1]: V\n    V\n\n    V\n[^c]: V", "V[^1] V[^2] V[^H]\n\n[^1]: V\n    V\n\n    V\n\n[^2]: V[^3]\n\n[^3]: V"},

	{"link", "[V](/H) [V `V`](/H \"H\") [V](<H> 'H')", "V V `V` V"},
	{"link without text", "V [](/H)", "V"},
	{"reference", "[V][H] [V][] [V]\n\n[H]: /H \"H\"\n[V]: </H>\n  'H\n  H'", "V V V"},
	{"definition, unused", "V\n\n[H]: /H (H)\n\n[//]: # (H)", "V"},
	{"definition in a task", "- [x] [H]: H \"H\"\n- [ ] V", "- [ ] V"},
	{"link for a task's box", "- [x](/H \"H\")\n- [ ][H] V\n\n[H]: H", "- x\n- V"},
	{"definition in a task, used", "- [x] [H]: /H\n\nV [V][H]\n\nV ![H][H] V", "V [V\n\nV"},
	{"titles with backslashes", "V [V](/H 'H\\')\n\n[V](/H \"H\\\\\"H\")", "V [V\n\n[V"},
	{"definition, nearly", "V\n> - [H H]: H\nV", "V\n\n> - V"},
	{"definition after text", "V\n[H]: H\nH\n\nV", "V\n\nV"},
	{"abbreviation", "V\n*[H]: H\n\nV", "V\n\nV"},
	{"image", "![H](/H \"H\") ![H *H*][H] <img alt=\"H\" src=\"H\">V\n\n[H]: /H", "(image, not shown) (image, not shown) (image, not shown)V"},
	{"image in a link", "[![H](/H \"H\")](/H \"H\") V", "(image, not shown) V"},
	{"comments", "V <!-- H --> V\n\n<!-- H\n\nH -->\n\n<!-- H -- H -->\nV", "V  V\n\nV"},
	{"tag", "List<H> V <H>V</H>", "List V V"},
	{"attributes", "V <b title=\"H\">H</b> V", "V  V"},
	{"element", "<div>\n\nH\n\n<div>\n\nH\n\n</div>\n\n- H </div>\n\n</div>\n\nV", "V"},
	{"element with a block of its own", "<p align=\"center\">\n  <img src=\"H\">\n  H\n</p>\n\nV", "V"},
	{"fold", "V\n\n<details>\n<summary>V <b>V</b></summary>\n\nH\n\n```\nH\n```\n\n</details>\n\nV", "V\n\nV V (folded, not shown)\n\nV"},
	{"fold in a line", "<details><summary>V</summary>H</details>\n\nV", "V (folded, not shown)\n\nV"},
	{"fold with a heading", "<details>\n<summary><h3>V</h3></summary>\nH\n</details>", "V (folded, not shown)"},
	{"fold without summary", "<details>\n\nH\n\n</details>\n\nV", "V"},
	{"fold in a fold", "<details>\n<details>\n<summary>H</summary>\n</details>\n<summary>H</summary>\n</details>\n\nV", "V"},
	{"fold, two summaries", "<details>\n<summary>V</summary>\n<summary>H</summary>\n</details>", "V (folded, not shown)"},
	{"fold, summary elsewhere", "<details>\n<p><summary>H</summary></p>\n</details>\n\nV", "V"},
	{"fold with attributes", "<details hidden>\n<summary>H</summary>\n</details>\n\nV", "V"},
	{"small print", "V<sub>V *V*</sub> <kbd>V</kbd><kbd>V</kbd> `V` V<sup>V</sup>\n\n<sub>\nV\n</sub>\n\n<sub>\n\nV\n\n</sub>\n\n`V`", "VV *V* VV `V` VV\n\nV\n\nV\n\n`V`"},
	{"small print inside small print", "V <sub>V <sub>H</sub> V</sub> <code>V<sup>H</sup></code> <kbd>V <kbd>H <sub>H</sub></kbd></kbd> V", "V V  V V V  V"},
	{"code in small print", "V <sub>V `H` V</sub> `V` <kbd>`H`</kbd>", "V V  V `V`"},
	{"small print as a block", "<sub>\nV <sup>H</sup>\n</sub>\n\n<kbd>V</kbd>", "V\n\nV"},
	{"small print that ends where it can't", "<sub>\n<div>\n</sub>\n</div>\n<kbd>H</kbd>\n\nV", "V"},
	{"fold with small print", "<details>\n<summary><h3><code>V</code> <sup>V</sup></h3><h6>V</h6></summary>\nH\n</details>\n\n<kbd>V</kbd>", "V VV (folded, not shown)\n\nV"},
	{"fold with small print inside small print", "<details>\n<summary>V <sub>V <sub>H</sub></sub></summary>\nH\n</details>\n\n<kbd>V</kbd>", "V V\n\nV"},
	{"fold in small print", "<sub>\n<details>\n<summary>V </sub><kbd>H</kbd></summary>\n</details>\n</sub>\n\nV", "V\n\nV"},
	{"fold with headings in headings", "<details>\n<summary><h6>V <em><h6>H</h6></em></h6></summary>\n</details>", "V"},
	{"code with blanks", "```\nV" + blanksOf(100) + "V" + blanksOf(101) + "H\n" + blanksOf(101) + "H\nV" + blanksOf(200) + "\n```\n\n    V\t\t\t\t\t\t\t\t\t\t\t\t\tH\n    " + strings.Repeat("V", 300),
		"```\nV" + blanksOf(100) + "V\n\nV" + blanksOf(200) + "\n```\n\n```\nV\n" + strings.Repeat("V", 300) + "\n```"},
	{"code attributes", "```go title=H\nV\n```\n\n~~~ rust,H\nV\n~~~", "```go\nV\n```\n\n```rust\nV\n```"},
	{"drawing", "```mermaid\nH\n```\n\n```H\nH\n```\n\n> ```geojson\n> H\n> ```\n\n```go:H\nH\n```\n\n```go&#72;\nH\n```\nV", "V"},
	{"formula", "V $H$ V $$H\nH$$ V $`H`$\n\n```math\nH\n```", "V  V  V"},
	{"cells", "| V |\n|---|\n| V | H |", "| V |\n| --- |\n| V |"},
	{"footnote that nothing shown refers to", "V <!-- [^H] -->\n\n<div>[^H]</div>\n\n[^H]: H[^c]\n[^c]: H", "V"},
	{"footnote, twice", "V[^1]\n\n[^1]: V\n[^1]: H", "V[^1]\n\n[^1]: V"},
	{"footnote's mark in a link", "V [^1](/H) H\n\n[^1]: H", "V"},
	{"footnote's mark that is none", "V !]^1] V\n\n[^1]: H", "V !"},
	{"footnote's mark over two lines", "V[^H\nH]", "V"},
	{"ruler that doesn't fit", "H <!-- H\nH --> | H\n|---|\nH\n\nV", "V"},
	{"ruler with more columns", "H <!-- H\nH -->\n|-|-|\nH\n\nV", "V"},
	{"backticks that cross", "V `` `H` <b title=\"`H`\">H</b>", "V"},
	{"address that goes on, not after a blank", "V>https://e.example/\\<img alt=\"H\"> H", "V>"},
	{"address that goes on", "V https://e.example/`H [H](/H \"H\") `\n\nV www.e.example\\<!-- H -->", "V\n\nV"},
}

func blanksOf(n int) string { return strings.Repeat(" ", n) }

// fill puts words in the place of the letters.
func fill(s string) string { return strings.NewReplacer("V", "seen", "H", "secret").Replace(s) }

// TestI15_Constructs: what is told of each construct, and that each cut is noted.
func TestI15_Constructs(t *testing.T) {
	for _, c := range constructs {
		p := Parse("t", fill(c.body))
		if d := cmp.Diff(fill(c.told), p.Prose); d != "" || len(p.Bad) > 0 {
			t.Errorf("%s: %v\n%s", c.name, p.Bad, d)
		}
		if cuts := strings.Contains(c.body, "H") && !strings.Contains(c.told, "H"); cuts != (p.Cuts > 0) || cuts != (len(p.Notes) > 0) {
			t.Errorf("%s: %d cuts, notes %q", c.name, p.Cuts, p.Notes)
		}
	}
}

// TestI15_ConstructsOnThePage holds the table against the page itself.
func TestI15_ConstructsOnThePage(t *testing.T) {
	for _, c := range constructs {
		if shown := seen(t, page(t, fill(c.body)), false); strings.Contains(c.body, "V") && !strings.Contains(shown, "seen") {
			t.Errorf("%s: the page shows %q", c.name, shown)
		}
	}
}
