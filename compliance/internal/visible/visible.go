// Package visible says which code points a reader can't see. Issues, paths and
// reports all ask here, so that they agree.
package visible

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden reports whether r can't be seen, or ends a line without being one of
// the line ends that a text may have: controls (tab and line feed among them),
// format characters such as zero-width and bidirectional ones and the tag
// block, variation selectors, line and paragraph separators, fillers,
// non-characters. Arabic signs that enclose a number are format characters by
// category, but can be seen.
func Hidden(r rune) bool {
	switch {
	case r >= ' ' && r <= '~':
		return false
	case r >= 0xE0000 && r <= 0xE0FFF: // tags, more selectors, and room for the like
		return true
	case r&0xFFFE == 0xFFFE || r >= 0xFDD0 && r <= 0xFDEF: // non-characters
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// Any reports whether s holds a hidden code point.
func Any(s string) bool { return strings.IndexFunc(s, Hidden) >= 0 }

// Line makes s one line without hidden code points: white space becomes single
// spaces, the rest is dropped, invalid UTF-8 is replaced by U+FFFD.
func Line(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	return strings.Map(func(r rune) rune {
		if Hidden(r) {
			return -1
		}
		return r
	}, s)
}

// Escape writes a code point that can't be seen as a string of Go has it. Whatever shows
// one shows it so.
func Escape(r rune) string {
	switch {
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// Blank reports whether r shows nothing, or nothing that tells it from a blank: it is hidden,
// or a space of another width.
func Blank(r rune) bool { return r != ' ' && (Hidden(r) || !unicode.IsPrint(r) || r == '\u2800') }

// Path shows a file's name so that no two names look the same because of what can't
// be seen in one of them: bytes that aren't UTF-8, code points that are hidden or
// blank, a backslash, and a blank that isn't between two other characters of a
// segment are written as escapes, as in a string of Go.
func Path(s string) string {
	var b strings.Builder
	before := '/'
	for i := 0; i < len(s); {
		r, width := utf8.DecodeRuneInString(s[i:])
		after := '/'
		if rest := s[i+width:]; rest != "" {
			after, _ = utf8.DecodeRuneInString(rest)
		}
		switch {
		case r == utf8.RuneError && width == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\\':
			b.WriteString(`\\`)
		case r == ' ' && (before == ' ' || before == '/' || after == ' ' || after == '/'):
			b.WriteString(`\x20`)
		case r == ' ':
			b.WriteByte(' ')
		case Blank(r):
			b.WriteString(Escape(r))
		default:
			b.WriteRune(r)
		}
		before, i = r, i+width
	}
	return b.String()
}
