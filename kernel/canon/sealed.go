package canon

import "reflect"

// Sealed is a value with its canonical bytes and their digest. What is hashed is encoded
// once, by who makes it, and goes on as this: to a fold, into a record, to a store. Only
// Seal makes one, so that the bytes are what the value says, and nobody who is handed one
// encodes or reads it again. Nobody writes to the value or the bytes afterwards.
//
// Marshal writes a Sealed as its bytes. It can't be read back: whoever reads has bytes.
type Sealed struct {
	bytes []byte
	hash  Digest
	depth int // most objects and arrays that are open at once
	value any
}

// Seal is [Marshal], and keeps what it was of. A value that is sealed stays as it is.
func Seal(v any) (Sealed, error) {
	if s, ok := v.(Sealed); ok && s.bytes != nil {
		return s, nil
	}
	b, depth, err := marshal(v)
	if err != nil {
		return Sealed{}, err
	}
	return Sealed{b, Sum(b), depth, v}, nil
}

// Bytes are the canonical bytes, nil of the zero Sealed.
func (s Sealed) Bytes() []byte { return s.bytes }

// Hash is SHA-256 of the bytes. Whoever hands it out sees to it that they name a kind,
// as [Hash] does.
func (s Sealed) Hash() Digest { return s.hash }

// Value is what was sealed.
func (s Sealed) Value() any { return s.value }

var sealedType = reflect.TypeFor[Sealed]()

// sealed writes what is encoded already.
func (e *encoder) sealed(s Sealed) error {
	switch {
	case s.bytes == nil:
		return badType(sealedType, "nothing is sealed in it")
	case e.depth+s.depth > DefaultMaxDepth:
		return refuse(ErrDepth, "nested deeper than the limit; flatten it")
	}
	e.out, e.deepest = append(e.out, s.bytes...), max(e.deepest, e.depth+s.depth)
	return nil
}
