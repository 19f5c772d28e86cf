package forge

import (
	"bytes"
	"strconv"
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

// usualKeys is how many keys stand open at once in the payloads of the field.
const usualKeys = 32

func newJSONReader(data []byte, depth int) *jsonReader {
	return &jsonReader{data: data, max: depth, keys: make([][]byte, 0, usualKeys)}
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
