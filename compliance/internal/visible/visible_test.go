package visible

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// TestI7_Hidden: what leaves no mark on a page, and what does.
func TestI7_Hidden(t *testing.T) {
	for name, r := range map[string]rune{
		"nul": 0, "tab": '\t', "line feed": '\n', "return": '\r', "escape": 0x1B, "delete": 0x7F, "c1": 0x9B, "next line": 0x85,
		"soft hyphen": 0xAD, "grapheme joiner": 0x34F, "arabic letter mark": 0x61C, "hangul choseong filler": 0x115F, "khmer vowel": 0x17B4,
		"mongolian selector": 0x180B, "mongolian separator": 0x180E, "zero width space": 0x200B, "non-joiner": 0x200C, "joiner": 0x200D,
		"left-to-right mark": 0x200E, "line separator": 0x2028, "paragraph separator": 0x2029, "bidi override": 0x202E, "word joiner": 0x2060,
		"invisible times": 0x2062, "unassigned in that block": 0x2065, "bidi isolate": 0x2066, "deprecated": 0x206F, "hangul filler": 0x3164,
		"selector 1": 0xFE00, "emoji style": 0xFE0F, "byte order mark": 0xFEFF, "halfwidth filler": 0xFFA0, "interlinear": 0xFFF9,
		"non-character": 0xFFFE, "other non-character": 0xFDD0, "far non-character": 0x1FFFF, "musical": 0x1D173, "shorthand": 0x1BCA0,
		"tag begin": 0xE0001, "tag": 0xE0041, "selector 17": 0xE0100, "room for more": 0xE0FFF,
	} {
		if !Hidden(r) {
			t.Errorf("%s, U+%04X, counts as visible", name, r)
		}
	}
	for _, r := range "a~! é日ש\u0600\u06dd\u00a0\u2009\u3000\ufffd\u200a😀\U0001F3FD\u0301\u2800\ue000" {
		if Hidden(r) {
			t.Errorf("U+%04X counts as hidden", r)
		}
	}
}

// TestI7_HiddenByItsClass: no code point of the classes that Unicode says are
// ignored or control something is left out.
func TestI7_HiddenByItsClass(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		class := unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Noncharacter_Code_Point) ||
			unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
		if class && !Hidden(r) {
			t.Errorf("U+%04X counts as visible", r)
		}
		if unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.Sm, unicode.Sc, unicode.Sk) && Hidden(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) {
			t.Errorf("U+%04X counts as hidden", r)
		}
	}
}

func TestI7_Line(t *testing.T) {
	for _, row := range [][2]string{
		{"", ""}, {"a", "a"}, {" a \t b\r\nc ", "a b c"}, {"a\u200bb\x1b[31mc", "ab[31mc"}, {"a\xffb", "a\ufffdb"}, {"\u202e", ""},
		{"a\u2028b", "a b"}, {"a\u0085b", "a b"},
	} {
		in, want := row[0], row[1]
		got := Line(in)
		if got != want || Any(got) {
			t.Errorf("%q: %q, not %q", in, got, want)
		}
	}
	if !Any("a\nb") || Any(strings.Repeat("é ", 10)) {
		t.Error("Any")
	}
}

// TestF1_Path: a name is shown as it is where everything of it is seen, and else
// with escapes from which it can be read again.
func TestF1_Path(t *testing.T) {
	for path, want := range map[string]string{
		"src/a b.go": "src/a b.go", "é/日本語/٣.md": "é/日本語/٣.md", "a-_.+@#$%&'(){}[]~`^;!,=.go": "a-_.+@#$%&'(){}[]~`^;!,=.go", "x\u0301": "x\u0301", "😀": "😀",
		"a  b": `a\x20\x20b`, " a": `\x20a`, "a ": `a\x20`, "a /b": `a\x20/b`, "a/ b": `a/\x20b`, "a\u00a0b": `a\u00a0b`, "a\u2003b": `a\u2003b`,
		"a\u3000": `a\u3000`, "\u2800": `\u2800`, "\x1b[31m": `\x1b[31m`, "\xff": `\xff`, "\ufffd": "\ufffd", `\xff`: `\\xff`, "a\tb\n": `a\x09b\x0a`,
		"a\u202eb": `a\u202eb`, "a\U000e0041": `a\U000e0041`, "\u009b": `\u009b`, "\xe2\x80": `\xe2\x80`, "\x7f\x00": `\x7f\x00`, "\ue000": `\ue000`,
	} {
		if got := Path(path); got != want {
			t.Errorf("%q: %s, not %s", path, got, want)
		}
		if back, err := strconv.Unquote(`"` + Path(path) + `"`); err != nil || back != path {
			t.Errorf("%q is %q again, %v", path, back, err)
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if got := Path("a" + string(r) + "b"); Any(got) || r != ' ' && strings.ContainsFunc(got, unicode.IsSpace) {
			t.Fatalf("U+%04X is shown as %q", r, got)
		}
	}
}
