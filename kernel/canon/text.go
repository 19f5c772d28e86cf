package canon

import (
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string. A plain one, without escapes, is a part of the data;
// another is good until the next call.
func (s *scanner) str() (text []byte, plain bool, err error) {
	from := s.pos + 1
	for i := s.plain(from); i < len(s.data); {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			return s.data[from:i], true, nil
		case c == '\\':
			text, err = s.escaped(from, i)
			return text, false, err
		case c >= utf8.RuneSelf:
			n, err := s.rune(i)
			if err != nil {
				return nil, false, err
			}
			i = s.plain(i + n)
		case c < ' ':
			return nil, false, s.fail(ErrSyntax, i, "a control character must be escaped")
		default:
			i++
		}
	}
	return nil, false, s.fail(ErrSyntax, len(s.data), "a string is not closed")
}

// plain passes characters of a string that need no look, eight at once: most of all
// text is digests and words.
func (s *scanner) plain(i int) int {
	for i+8 <= len(s.data) && specials(s.data[i:]) == 0 {
		i += 8
	}
	return i
}

// specials has the highest bit of a byte set for each of the first eight bytes that is a
// control character, a quote, a backslash or beyond ASCII: a subtraction that borrows sets
// it. Above the lowest such byte, which is the first one, it may be set for others, too.
func specials(b []byte) uint64 {
	_ = b[7]
	eight := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56 // one load
	const each, highest = 0x0101010101010101, 0x8080808080808080
	quote, backslash := eight^each*'"', eight^each*'\\'
	return ((eight - each*' ') | (quote - each) | (backslash - each) | eight) & highest
}

// rune is the length of the character at i beyond ASCII.
func (s *scanner) rune(i int) (int, error) {
	if r, n := utf8.DecodeRune(s.data[i:]); r != utf8.RuneError || n > 1 {
		return n, nil
	}
	return 0, s.fail(ErrUTF8, i, "not valid UTF-8; encode bytes as hex or base64")
}

// escaped reads the rest of a string that began at from and has its first
// backslash at i.
func (s *scanner) escaped(from, i int) ([]byte, error) {
	s.text = append(s.text[:0], s.data[from:i]...)
	for i < len(s.data) {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			return s.text, nil
		case c == '\\':
			n, err := s.escape(i)
			if err != nil {
				return nil, err
			}
			i += n
		case c >= utf8.RuneSelf:
			n, err := s.rune(i)
			if err != nil {
				return nil, err
			}
			s.text = append(s.text, s.data[i:i+n]...)
			i += n
		case c < ' ':
			return nil, s.fail(ErrSyntax, i, "a control character must be escaped")
		default:
			s.text = append(s.text, c)
			i++
		}
	}
	return nil, s.fail(ErrSyntax, len(s.data), "a string is not closed")
}

// escape appends the character of the escape at i and gives the escape's length.
func (s *scanner) escape(i int) (int, error) {
	if i+1 >= len(s.data) {
		return 0, s.fail(ErrSyntax, i, "a string is not closed")
	}
	c := s.data[i+1]
	if c == 'u' {
		return s.unicode(i)
	}
	plain, ok := unescape(c)
	if !ok {
		return 0, s.fail(ErrSyntax, i, "JSON has no such escape")
	}
	if s.canonical && c == '/' {
		return 0, s.longer(i)
	}
	s.text = append(s.text, plain)
	return len(`\n`), nil
}

func (s *scanner) longer(i int) error {
	return s.fail(ErrNotCanonical, i, "this character has a shorter canonical form")
}

// unicode appends the character of the \u escape, or pair of them, at i.
func (s *scanner) unicode(i int) (int, error) {
	const length = len(`\u0000`)
	r, ok := s.hex4(i)
	if !ok {
		return 0, s.fail(ErrSyntax, i, `\u needs four hexadecimal digits`)
	}
	n := length
	if utf16.IsSurrogate(r) {
		low, _ := s.hex4(i + length)
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return 0, s.fail(ErrSurrogate, i, "half of a surrogate pair; write the character itself")
		}
		n = 2 * length
	}
	if s.canonical && string(appendRune(nil, byte(min(r, utf8.RuneSelf)))) != string(s.data[i:i+n]) {
		return 0, s.longer(i)
	}
	s.text = utf8.AppendRune(s.text, r)
	return n, nil
}

// hex4 is the number of the \u escape at i, if there is one.
func (s *scanner) hex4(i int) (r rune, ok bool) {
	if i+6 > len(s.data) || s.data[i] != '\\' || s.data[i+1] != 'u' {
		return 0, false
	}
	for _, c := range s.data[i+2 : i+6] {
		switch {
		case isDigit(c):
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func unescape(c byte) (byte, bool) {
	switch c {
	case '"', '\\', '/':
		return c, true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	}
	return 0, false
}

// appendText writes text in quotes with the fewest escapes. It reports false
// if the text isn't UTF-8.
func appendText[T string | []byte](out []byte, text T) ([]byte, bool) {
	out = append(out, '"')
	from := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			// At most four bytes, so the conversion stays on the stack.
			r, n := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
			if r == utf8.RuneError && n == 1 {
				return out, false
			}
			i += n
			continue
		}
		if c < ' ' || c == '"' || c == '\\' {
			out = appendRune(append(out, text[from:i]...), c)
			from = i + 1
		}
		i++
	}
	return append(append(out, text[from:]...), '"'), true
}

// appendRune writes one ASCII character as canonical text has it.
func appendRune(out []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(out, '\\', c)
	case '\b':
		return append(out, `\b`...)
	case '\f':
		return append(out, `\f`...)
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	}
	if c < ' ' {
		const digits = "0123456789abcdef"
		return append(out, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
	}
	return append(out, c)
}
