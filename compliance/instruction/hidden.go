package instruction

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/kernel"
)

// maxHiddenListed is how many hidden code points are named one by one.
const maxHiddenListed = 20

// checkHidden lists what a reader of the text can't see (case I7).
func checkHidden(subject, text string, lineEnds bool) []kernel.Violation {
	var out []kernel.Violation
	found, line, column := 0, 1, 0
	var before rune // the last visible code point of a possible emoji, else 0
	for i := 0; i < len(text); {
		r, width := utf8.DecodeRuneInString(text[i:])
		column++
		switch {
		case r == '\n' && lineEnds:
			line, column, before = line+1, 0, 0
		case r == '\t' && lineEnds, r == '\r' && lineEnds && next(text, i+1) == '\n':
			before = 0
		case r == utf8.RuneError && width == 1:
			found++
			out = appendHidden(out, found, subject, fmt.Sprintf("byte %02X, which is not UTF-8,", text[i]), line, column)
		case joins(r, before, next(text, i+width)):
			before = r
		case visible.Hidden(r):
			found++
			out = appendHidden(out, found, subject, fmt.Sprintf("U+%04X", r), line, column)
			before = 0
		default:
			before = r
		}
		i += width
	}
	if found > maxHiddenListed {
		out = append(out, kernel.Violation{Code: kernel.CodeInstructionHidden, Subject: subject, Detail: fmt.Sprintf("And %d more.", found-maxHiddenListed)})
	}
	return out
}

func appendHidden(out []kernel.Violation, n int, subject, what string, line, column int) []kernel.Violation {
	if n > maxHiddenListed {
		return out
	}
	return append(out, kernel.Violation{Code: kernel.CodeInstructionHidden, Subject: subject,
		Detail: fmt.Sprintf("Line %d, character %d: %s can't be seen.", line, column, what)})
}

func next(text string, i int) rune {
	if i >= len(text) {
		return 0
	}
	r, _ := utf8.DecodeRuneInString(text[i:])
	return r
}

const (
	zeroWidthJoiner = 0x200D
	textStyle       = 0xFE0E
	emojiStyle      = 0xFE0F
	keycap          = 0x20E3
)

// joins reports whether r is a part of an emoji: a style selector right after
// an emoji or before a keycap, a joiner between two.
func joins(r, before, after rune) bool {
	switch r {
	case textStyle, emojiStyle:
		return emoji(before) || r == emojiStyle && after == keycap && (unicode.IsDigit(before) || before == '#' || before == '*')
	case zeroWidthJoiner:
		return (emoji(before) || before == emojiStyle) && emoji(after)
	}
	return false
}

// emojiRanges are the blocks that hold emoji; a little wide, because new emoji
// come each year, and a selector after some other symbol hides nothing.
var emojiRanges = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x00A9, 0x00A9, 1}, {0x00AE, 0x00AE, 1}, {0x203C, 0x203C, 1}, {0x2049, 0x2049, 1}, {0x2122, 0x2122, 1},
		{0x2139, 0x2139, 1}, {0x2190, 0x21FF, 1}, {0x2300, 0x23FF, 1}, {0x24C2, 0x24C2, 1}, {0x25A0, 0x27BF, 1},
		{0x2934, 0x2935, 1}, {0x2B00, 0x2BFF, 1}, {0x3030, 0x3030, 1}, {0x303D, 0x303D, 1}, {0x3297, 0x3297, 1}, {0x3299, 0x3299, 1},
	},
	R32:         []unicode.Range32{{0x1F000, 0x1FAFF, 1}},
	LatinOffset: 2,
}

func emoji(r rune) bool { return unicode.Is(emojiRanges, r) }
