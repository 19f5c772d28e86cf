package visible

import (
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
