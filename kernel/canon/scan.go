package canon

import (
	"bytes"
	"unicode/utf8"
)

// The limits a document has when its caller gives none.
const (
	// DefaultMaxBytes is 16 MiB: above the largest record with its capped
	// streams, far below what hurts a small machine.
	DefaultMaxBytes = 16 << 20
	// DefaultMaxDepth is 64 open objects and arrays: the deepest schema has
	// under ten. It also bounds what Marshal writes.
	DefaultMaxDepth = 64
)

// maxInteger is 2^53−1: up to here every reader of JSON keeps an integer exact.
const maxInteger = 1<<53 - 1

// Limits bound one document. A field that is zero or less has its default.
type Limits struct {
	// MaxBytes is the size of the document in bytes.
	MaxBytes int
	// MaxDepth is how many objects and arrays may be open at once.
	MaxDepth int
}

// DefaultLimits are [DefaultMaxBytes] and [DefaultMaxDepth].
func DefaultLimits() Limits { return Limits{}.withDefaults() }

func (l Limits) withDefaults() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = DefaultMaxBytes
	}
	if l.MaxDepth <= 0 {
		l.MaxDepth = DefaultMaxDepth
	}
	return l
}

// scanner reads one strict JSON document from left to right.
type scanner struct {
	data      []byte
	pos       int
	depth     int // open objects and arrays
	deepest   int // depth has been
	lim       Limits
	canonical bool   // refuse what Marshal would not have written
	text      []byte // the last text that had escapes
}

func newScanner(data []byte, lim Limits) *scanner {
	return &scanner{data: data, lim: lim.withDefaults()}
}

func (s *scanner) fail(r Reason, offset int, detail string) error {
	return &Error{Reason: r, Offset: offset, Detail: detail}
}

// document runs value on the only value of the data.
func (s *scanner) document(value func() error) error {
	if len(s.data) > s.lim.MaxBytes {
		return s.fail(ErrSize, s.lim.MaxBytes, "the document is larger than its limit; send less")
	}
	if err := value(); err != nil {
		return err
	}
	from := s.pos
	s.space()
	if s.pos < len(s.data) {
		return s.fail(ErrTrailing, s.pos, "something follows the document; send exactly one")
	}
	return s.noSpace(from)
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) noSpace(from int) error {
	if s.canonical && s.pos > from {
		return s.fail(ErrNotCanonical, from, "white space between tokens; remove it")
	}
	return nil
}

// peek passes white space and gives the first byte of the next token.
func (s *scanner) peek() (byte, error) {
	if s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return s.data[s.pos], nil
	}
	from := s.pos
	s.space()
	if s.pos == len(s.data) {
		return 0, s.fail(ErrSyntax, s.pos, "the document ends too early")
	}
	return s.data[s.pos], s.noSpace(from)
}

func (s *scanner) open() error {
	if s.depth++; s.depth > s.lim.MaxDepth {
		return s.fail(ErrDepth, s.pos, "nested deeper than the limit; flatten it")
	}
	s.deepest = max(s.deepest, s.depth)
	s.pos++
	return nil
}

// next is at a comma or at the closing byte of an object or array.
func (s *scanner) next(closing byte) (more bool, err error) {
	c, err := s.peek()
	if err != nil {
		return false, err
	}
	switch c {
	case ',':
		s.pos++
		return true, nil
	case closing:
		s.pos++
		s.depth--
		return false, nil
	}
	return false, s.fail(ErrSyntax, s.pos, "a comma or the closing bracket is missing")
}

// empty passes an opening bracket, and the closing one if it follows at once.
func (s *scanner) empty(closing byte) (bool, error) {
	if err := s.open(); err != nil {
		return false, err
	}
	c, err := s.peek()
	if err != nil || c != closing {
		return false, err
	}
	s.pos++
	s.depth--
	return true, nil
}

// object calls member at the value of each member. A key is good until the
// object ends. Only canonical scanners notice duplicates; others do so where
// the members go.
func (s *scanner) object(member func(key []byte) error) error {
	if empty, err := s.empty('}'); empty || err != nil {
		return err
	}
	var last []byte
	for more := true; more; {
		key, err := s.key()
		if err != nil {
			return err
		}
		if s.canonical && last != nil && bytes.Compare(last, key) >= 0 {
			return in(s.misordered(last, key), key)
		}
		last = key
		if err := member(key); err != nil {
			return in(err, key)
		}
		if more, err = s.next('}'); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) misordered(last, key []byte) error {
	if bytes.Equal(last, key) {
		return s.duplicate(s.pos)
	}
	return s.fail(ErrNotCanonical, s.pos, "keys are not in order; sort them by bytes")
}

func (s *scanner) duplicate(offset int) error {
	return s.fail(ErrDuplicate, offset, "the key stands twice in one object; keep one")
}

// key reads an object's key and the colon after it.
func (s *scanner) key() ([]byte, error) {
	c, err := s.peek()
	if err != nil {
		return nil, err
	}
	if c != '"' {
		return nil, s.fail(ErrSyntax, s.pos, "an object's key must be a string")
	}
	from := s.pos
	key, plain, err := s.str()
	if err != nil {
		return nil, err
	}
	if !isASCII(key) {
		return nil, s.fail(ErrKey, from, "keys are ASCII; rename it")
	}
	if !plain {
		key = bytes.Clone(key)
	}
	if c, err = s.peek(); err != nil {
		return nil, err
	}
	if c != ':' {
		return nil, s.fail(ErrSyntax, s.pos, "a colon is missing after the key")
	}
	s.pos++
	return key, nil
}

func isASCII[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// array calls item at each item.
func (s *scanner) array(item func(i int) error) error {
	if empty, err := s.empty(']'); empty || err != nil {
		return err
	}
	for i, more := 0, true; more; i++ {
		err := item(i)
		if err != nil {
			return at(err, i)
		}
		if more, err = s.next(']'); err != nil {
			return err
		}
	}
	return nil
}

// literal reads true, false or null.
func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		return s.fail(ErrSyntax, s.pos, "no JSON value starts like this")
	}
	s.pos += len(word)
	return nil
}

// word is the only literal that starts with c.
func word(c byte) string {
	switch c {
	case 't':
		return "true"
	case 'f':
		return "false"
	}
	return "null"
}

// integer reads a number, which must be a whole one in range.
func (s *scanner) integer() (int64, error) {
	from, n, large := s.pos, int64(0), false
	negative := s.data[s.pos] == '-'
	if negative {
		s.pos++
	}
	digits := s.pos
	for ; s.pos < len(s.data) && isDigit(s.data[s.pos]); s.pos++ {
		if large = large || n > maxInteger/10; !large {
			n = n*10 + int64(s.data[s.pos]-'0')
		}
	}
	switch length := s.pos - digits; {
	case length == 0 || length > 1 && s.data[digits] == '0':
		return 0, s.fail(ErrSyntax, from, "a number is an optional minus and digits without a leading zero")
	case s.pos < len(s.data) && isFloatSign(s.data[s.pos]) || negative && n == 0 && !large:
		return 0, s.fail(ErrFloat, from, "no fraction, exponent or -0; use integers, a ratio in parts per million")
	case large || n > maxInteger:
		return 0, s.fail(ErrRange, from, "beyond 2^53-1; write it as a decimal string")
	}
	if negative {
		n = -n
	}
	return n, nil
}

func isDigit(c byte) bool     { return c >= '0' && c <= '9' }
func isFloatSign(c byte) bool { return c == '.' || c == 'e' || c == 'E' }
