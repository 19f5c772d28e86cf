package forge

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// manyKeys is the size from which an object's keys are kept in a map: below it
// comparing them one by one is faster, above it that would be quadratic in the
// sender's hands.
const manyKeys = 24

// memberFunc is at the value of the member with this key, and passes it.
type memberFunc func(key []byte) error

// jsonReader reads one document from left to right. It is for JSON whose
// writer adds members as he likes; JSON that is hashed is read by kernel/canon.
type jsonReader struct {
	data  []byte
	pos   int
	depth int
	max   int
	keys  [][]byte // of all open objects, the innermost last
}

func (r *jsonReader) fail(f PayloadFault) error { return &PayloadError{Fault: f, Offset: r.pos} }

func (r *jsonReader) document(value func() error) error {
	if err := value(); err != nil {
		return err
	}
	if r.space(); r.pos != len(r.data) {
		return r.fail(PayloadSyntax)
	}
	return nil
}

func (r *jsonReader) space() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\t', '\r', '\n':
			r.pos++
		default:
			return
		}
	}
}

// peek is the first byte of the next token; 0 at the end.
func (r *jsonReader) peek() byte {
	if r.space(); r.pos < len(r.data) {
		return r.data[r.pos]
	}
	return 0
}

// members reads an object whose name is known, or null.
func (r *jsonReader) members(name string, f memberFunc) error {
	switch r.peek() {
	case '{':
		return r.object(f)
	case 'n':
		return r.literal("null")
	}
	return r.other(name)
}

// other is at a value of a type that the member can't have.
func (r *jsonReader) other(name string) error {
	if err := r.skip(); err != nil {
		return err
	}
	if name == "" {
		name = "the document"
	}
	return &PayloadError{Fault: PayloadType, Member: name}
}

func (r *jsonReader) text(name string, to *string) error {
	switch r.peek() {
	case '"':
		raw, escaped, err := r.str()
		if err != nil || !escaped {
			*to = string(raw)
			return err
		}
		*to = unescape(raw)
		return nil
	case 'n':
		return r.literal("null")
	}
	return r.other(name)
}

func (r *jsonReader) integer(name string, to *int64) error {
	c := r.peek()
	if c == 'n' {
		return r.literal("null")
	}
	if c != '-' && (c < '0' || c > '9') {
		return r.other(name)
	}
	from := r.pos
	if err := r.number(); err != nil {
		return err
	}
	n, err := strconv.ParseInt(string(r.data[from:r.pos]), 10, 64)
	if err != nil {
		return &PayloadError{Fault: PayloadType, Member: name}
	}
	*to = n
	return nil
}

// skip passes any value.
func (r *jsonReader) skip() error {
	switch c := r.peek(); c {
	case '{':
		return r.object(func([]byte) error { return r.skip() })
	case '[':
		return r.array()
	case '"':
		_, _, err := r.str()
		return err
	case 't':
		return r.literal("true")
	case 'f':
		return r.literal("false")
	case 'n':
		return r.literal("null")
	default:
		return r.number()
	}
}

func (r *jsonReader) open() error {
	if r.depth++; r.depth > r.max {
		return r.fail(PayloadDepth)
	}
	r.pos++
	return nil
}

// next passes a comma, or the closing byte.
func (r *jsonReader) next(closing byte) (more bool, err error) {
	switch r.peek() {
	case ',':
		r.pos++
		return true, nil
	case closing:
		r.pos++
		r.depth--
		return false, nil
	}
	return false, r.fail(PayloadSyntax)
}

func (r *jsonReader) array() error {
	if err := r.open(); err != nil {
		return err
	}
	if r.peek() == ']' {
		_, err := r.next(']')
		return err
	}
	for more := true; more; {
		err := r.skip()
		if err != nil {
			return err
		}
		if more, err = r.next(']'); err != nil {
			return err
		}
	}
	return nil
}

func (r *jsonReader) object(f memberFunc) error {
	if err := r.open(); err != nil {
		return err
	}
	if r.peek() == '}' {
		_, err := r.next('}')
		return err
	}
	known := keySet{reader: r, from: len(r.keys)}
	for more := true; more; {
		key, err := r.key()
		if err != nil {
			return err
		}
		if !known.add(key) {
			return r.fail(PayloadDuplicate)
		}
		if err := f(key); err != nil {
			return err
		}
		if more, err = r.next('}'); err != nil {
			return err
		}
	}
	r.keys = r.keys[:known.from]
	return nil
}

// key reads a key, without its escapes, and the colon.
func (r *jsonReader) key() ([]byte, error) {
	if r.peek() != '"' {
		return nil, r.fail(PayloadSyntax)
	}
	key, escaped, err := r.str()
	if err != nil {
		return nil, err
	}
	if escaped {
		key = []byte(unescape(key))
	}
	if r.peek() != ':' {
		return nil, r.fail(PayloadSyntax)
	}
	r.pos++
	return key, nil
}

// keySet is the keys of one object.
type keySet struct {
	reader *jsonReader
	from   int // where its keys begin in reader.keys
	many   map[string]bool
}

func (s *keySet) add(key []byte) bool {
	r := s.reader
	if s.many == nil {
		for _, k := range r.keys[s.from:] {
			if bytes.Equal(k, key) {
				return false
			}
		}
		if r.keys = append(r.keys, key); len(r.keys)-s.from > manyKeys {
			s.many = make(map[string]bool, 2*manyKeys)
			for _, k := range r.keys[s.from:] {
				s.many[string(k)] = true
			}
		}
		return true
	}
	if s.many[string(key)] {
		return false
	}
	s.many[string(key)] = true
	return true
}

func (r *jsonReader) literal(word string) error {
	if !bytes.HasPrefix(r.data[r.pos:], []byte(word)) {
		return r.fail(PayloadSyntax)
	}
	r.pos += len(word)
	return nil
}

// str passes a string. raw is what stands between the quotes, valid UTF-8.
func (r *jsonReader) str() (raw []byte, escaped bool, err error) {
	r.pos++
	from := r.pos
	for r.pos < len(r.data) {
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

// number passes a number of JSON's grammar.
func (r *jsonReader) number() error {
	if r.pos < len(r.data) && r.data[r.pos] == '-' {
		r.pos++
	}
	first := r.pos
	if n := r.digits(); n == 0 || n > 1 && r.data[first] == '0' {
		return r.fail(PayloadSyntax)
	}
	if r.pos < len(r.data) && r.data[r.pos] == '.' {
		if r.pos++; r.digits() == 0 {
			return r.fail(PayloadSyntax)
		}
	}
	if r.pos < len(r.data) && (r.data[r.pos] == 'e' || r.data[r.pos] == 'E') {
		if r.pos++; r.pos < len(r.data) && (r.data[r.pos] == '+' || r.data[r.pos] == '-') {
			r.pos++
		}
		if r.digits() == 0 {
			return r.fail(PayloadSyntax)
		}
	}
	return nil
}

func (r *jsonReader) digits() int {
	from := r.pos
	for r.pos < len(r.data) && r.data[r.pos] >= '0' && r.data[r.pos] <= '9' {
		r.pos++
	}
	return r.pos - from
}
