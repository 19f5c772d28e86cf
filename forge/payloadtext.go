package forge

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// str passes a string. raw is what stands between the quotes, valid UTF-8.
func (r *jsonReader) str() (raw []byte, escaped bool, err error) {
	r.pos++
	from := r.pos
	for r.pos < len(r.data) {
		if r.pos+8 <= len(r.data) && plain(binary.LittleEndian.Uint64(r.data[r.pos:])) {
			r.pos += 8
			continue
		}
		switch c := r.data[r.pos]; {
		case c == '"':
			raw = r.data[from:r.pos]
			if !utf8.Valid(raw) {
				return nil, false, r.fail(PayloadSyntax)
			}
			r.pos++
			return raw, escaped, nil
		case c < ' ':
			return nil, false, r.fail(PayloadSyntax)
		case c == '\\':
			escaped = true
			if err := r.escape(); err != nil {
				return nil, false, err
			}
		default:
			r.pos++
		}
	}
	return nil, false, r.fail(PayloadSyntax)
}

// plain reports whether none of eight bytes ends a string, begins an escape, or
// is a control character. It errs on the other side only.
func plain(word uint64) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	quote, backslash := word^each*'"', word^each*'\\'
	return ((word-each*' ')&^word|(quote-each)&^quote|(backslash-each)&^backslash)&high == 0
}

// escape passes a backslash and what belongs to it. A surrogate must be a pair:
// half of one is no text, and decoders make different things of it.
func (r *jsonReader) escape() error {
	rest := r.data[r.pos+1:]
	if len(rest) == 0 {
		return r.fail(PayloadSyntax)
	}
	if rest[0] != 'u' {
		if escapes[rest[0]] == 0 {
			return r.fail(PayloadSyntax)
		}
		r.pos += 2
		return nil
	}
	unit := hex4(rest[1:])
	switch {
	case unit < 0 || unit >= 0xdc00 && unit <= 0xdfff:
		return r.fail(PayloadSyntax)
	case !utf16.IsSurrogate(unit):
		r.pos += 6
		return nil
	}
	if len(rest) < 7 || rest[5] != '\\' || rest[6] != 'u' {
		return r.fail(PayloadSyntax)
	}
	if low := hex4(rest[7:]); low < 0xdc00 || low > 0xdfff {
		return r.fail(PayloadSyntax)
	}
	r.pos += 12
	return nil
}

// hex4 is the number that four hexadecimal digits are, -1 if they aren't.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 32)
	if err != nil {
		return -1
	}
	return rune(n)
}

// escapes are what stands for the letter after a backslash.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape decodes a string that str has passed: each escape in it is whole.
func unescape(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return string(append(out, raw...))
		}
		out = append(out, raw[:i]...)
		if raw = raw[i+1:]; raw[0] != 'u' {
			out, raw = append(out, escapes[raw[0]]), raw[1:]
			continue
		}
		r := hex4(raw[1:])
		if raw = raw[5:]; utf16.IsSurrogate(r) {
			r, raw = utf16.DecodeRune(r, hex4(raw[2:])), raw[6:]
		}
		out = utf8.AppendRune(out, r)
	}
}
