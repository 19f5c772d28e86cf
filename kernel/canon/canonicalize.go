package canon

import (
	"bytes"
	"slices"
)

// Canonicalize reads one strict JSON document of any shape and writes it in
// canonical form. What it accepts differs from the form only in white space,
// order of keys and longer escapes; all else is an [*Error]. Zero limits are
// the defaults.
func Canonicalize(data []byte, lim Limits) ([]byte, error) {
	s := newScanner(data, lim)
	var out []byte
	err := s.document(func() (err error) {
		out, err = s.appendValue(make([]byte, 0, len(data)))
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Check reports whether data is exactly one canonical document, in one pass
// and without building anything: nil, or an [*Error], which is
// [ErrNotCanonical] if only the form is wrong. If member isn't nil, the
// document must be an object, and member is called with the name and the
// canonical value of each of its own members, in order; both are parts of data.
// Verification of long chains lives on this.
func Check(data []byte, lim Limits, member func(name, value []byte) error) error {
	s := newScanner(data, lim)
	s.canonical = true
	if member == nil && len(data) <= s.lim.MaxBytes && pass(data, 0, s.lim.MaxDepth) == len(data) {
		return nil
	}
	return s.document(func() error {
		if member == nil {
			return s.skip()
		}
		if c, err := s.peek(); err != nil || c != '{' {
			return orType(err, s.pos, "an object")
		}
		return s.object(func(key []byte) error {
			from := s.pos
			if end := pass(data, from, s.lim.MaxDepth-s.depth); end != undecided {
				s.pos = end
			} else if err := s.skip(); err != nil {
				return err
			}
			return member(key, data[from:s.pos])
		})
	})
}

// orType is err, or the complaint that something else was wanted.
func orType(err error, offset int, wanted string) error {
	if err != nil {
		return err
	}
	return &Error{Reason: ErrType, Offset: offset, Detail: "this must be " + wanted}
}

// skip passes one value. Duplicate keys are noticed if the scanner is a
// canonical one.
func (s *scanner) skip() error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	switch {
	case c == '{':
		return s.object(func([]byte) error { return s.skip() })
	case c == '[':
		return s.array(func(int) error { return s.skip() })
	case c == '"':
		_, _, err = s.str()
	case c == '-' || isDigit(c):
		_, err = s.integer()
	default:
		err = s.literal(word(c))
	}
	return err
}

// appendValue writes one value in canonical form.
func (s *scanner) appendValue(out []byte) ([]byte, error) {
	c, err := s.peek()
	if err != nil {
		return nil, err
	}
	from := s.pos
	switch {
	case c == '{':
		return s.appendObject(out)
	case c == '[':
		return s.appendArray(out)
	case c == '"':
		text, plain, err := s.str()
		if err != nil || plain {
			return append(out, s.data[from:s.pos]...), err
		}
		out, _ = appendText(out, text)
		return out, nil
	case c == '-' || isDigit(c):
		_, err = s.integer()
	default:
		err = s.literal(word(c))
	}
	return append(out, s.data[from:s.pos]...), err
}

func (s *scanner) appendArray(out []byte) ([]byte, error) {
	out = append(out, '[')
	err := s.array(func(i int) (err error) {
		if i > 0 {
			out = append(out, ',')
		}
		out, err = s.appendValue(out)
		return err
	})
	return append(out, ']'), err
}

// span is one written member: its key, where the value was read, and the
// bytes of both in the output.
type span struct {
	key      []byte
	offset   int
	from, to int
}

func (s *scanner) appendObject(out []byte) ([]byte, error) {
	out = append(out, '{')
	var spans []span
	sorted := true
	err := s.object(func(key []byte) (err error) {
		if n := len(spans); n > 0 {
			out = append(out, ',')
			sorted = sorted && bytes.Compare(spans[n-1].key, key) < 0
		}
		m := span{key: key, offset: s.pos, from: len(out)}
		out, _ = appendText(out, key)
		out, err = s.appendValue(append(out, ':'))
		m.to = len(out)
		spans = append(spans, m)
		return err
	})
	if err == nil && !sorted {
		err = s.sort(out, spans)
	}
	return append(out, '}'), err
}

// sort puts the members that end the output into order.
func (s *scanner) sort(out []byte, spans []span) error {
	start := spans[0].from
	old := bytes.Clone(out[start:])
	slices.SortStableFunc(spans, func(a, b span) int { return bytes.Compare(a.key, b.key) })
	w := out[:start]
	for i, m := range spans {
		if i > 0 {
			if bytes.Equal(spans[i-1].key, m.key) {
				return in(s.duplicate(m.offset), m.key)
			}
			w = append(w, ',')
		}
		w = append(w, old[m.from-start:m.to-start]...)
	}
	return nil
}
