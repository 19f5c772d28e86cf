package canon

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Marshal writes v in canonical form (seed 002, "Receipt Hashing").
//
// It takes booleans, integers within ±(2^53−1), strings of any named type,
// slices and arrays, maps with string keys, pointers, interfaces, structs and
// json.RawMessage, which is read strictly and made canonical. A nil slice is
// [], a nil map {}, a nil pointer, interface or RawMessage null.
//
// A struct's exported fields need a `json:"name"` tag; `,omitempty` and "-"
// mean what they mean in encoding/json, embedded structs without a tag are
// inlined.
//
// Refused are floats ([ErrFloat]), large integers ([ErrRange]), text that
// isn't UTF-8 ([ErrUTF8]), keys that aren't ASCII ([ErrKey]), nesting over
// [DefaultMaxDepth] and so cycles ([ErrDepth]), and as [ErrType] bytes (say:
// hex or base64 them yourself), types with a JSON or text form of their own,
// json.Number, channels and functions.
func Marshal(v any) ([]byte, error) {
	b, _, err := marshal(v)
	return b, err
}

// marshal gives the bytes, and how many objects and arrays are open in them at once.
func marshal(v any) (b []byte, depth int, err error) {
	const typical = 1024 // bytes, most records are smaller
	e := encoder{out: make([]byte, 0, typical)}
	if err := e.value(reflect.ValueOf(v)); err != nil {
		return nil, 0, err
	}
	return e.out, e.deepest, nil
}

type encoder struct {
	out   []byte
	depth int // open objects and arrays
	hops  int // pointers and interfaces on the way down

	deepest int // depth has been
}

// maxHops ends a cycle of pointers that opens no object: more than two for
// each level of the deepest document has no use.
const maxHops = 3 * DefaultMaxDepth

func (e *encoder) value(v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[json.Number]() {
			return plainType(v.Type())
		}
		return e.text(v.String())
	case reflect.Invalid:
		e.out = append(e.out, "null"...)
		return nil
	case reflect.Pointer, reflect.Interface:
		return e.pointer(v)
	case reflect.Struct:
		if v.Type() == sealedType {
			return e.sealed(v.Interface().(Sealed))
		}
		return e.structure(v)
	}
	if err := plainType(v.Type()); err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Bool:
		e.out = strconv.AppendBool(e.out, v.Bool())
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return e.integer(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return e.integer(int64(min(v.Uint(), maxInteger+1)))
	case reflect.Slice, reflect.Array:
		return e.list(v)
	case reflect.Map:
		return e.mapping(v)
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return refuse(ErrFloat, "no floats; use integers, a ratio in parts per million")
	}
	return badType(v.Type(), "this type has no JSON form")
}

func (e *encoder) text(s string) error {
	out, ok := appendText(e.out, s)
	if !ok {
		return refuse(ErrUTF8, "not valid UTF-8; encode bytes as hex or base64")
	}
	e.out = out
	return nil
}

func (e *encoder) integer(n int64) error {
	if n > maxInteger || n < -maxInteger {
		return refuse(ErrRange, "beyond 2^53-1; write it as a decimal string")
	}
	e.out = strconv.AppendInt(e.out, n, 10)
	return nil
}

func (e *encoder) pointer(v reflect.Value) error {
	if e.hops++; e.hops > maxHops {
		return refuse(ErrDepth, "a cycle of pointers; break it")
	}
	err := e.value(v.Elem())
	e.hops--
	return err
}

func (e *encoder) open(c byte) error {
	if e.depth++; e.depth > DefaultMaxDepth {
		return refuse(ErrDepth, "nested deeper than the limit, or a cycle; flatten it")
	}
	e.deepest = max(e.deepest, e.depth)
	e.out = append(e.out, c)
	return nil
}

func (e *encoder) close(c byte) {
	e.depth--
	e.out = append(e.out, c)
}

// comma separates this item from the one before, if there is one.
func (e *encoder) comma() {
	if c := e.out[len(e.out)-1]; c != '[' && c != '{' {
		e.out = append(e.out, ',')
	}
}

func (e *encoder) structure(v reflect.Value) error {
	members, err := planOf(v.Type())
	if err != nil {
		return err
	}
	if err := e.open('{'); err != nil {
		return err
	}
	for i := range members {
		m := &members[i]
		value := v.FieldByIndex(m.index)
		if m.omitEmpty && isEmpty(value) {
			continue
		}
		e.comma()
		e.out = append(append(append(e.out, '"'), m.name...), `":`...)
		if err := e.value(value); err != nil {
			return in(err, m.name)
		}
	}
	e.close('}')
	return nil
}

func (e *encoder) list(v reflect.Value) error {
	if v.Type() == rawType {
		return e.raw(v.Bytes())
	}
	if isBytes(v.Type()) {
		return badType(v.Type(), "bytes have no one form in JSON; say hex or base64 yourself, in a string")
	}
	if err := e.open('['); err != nil {
		return err
	}
	for i := range v.Len() {
		e.comma()
		if err := e.value(v.Index(i)); err != nil {
			return at(err, i)
		}
	}
	e.close(']')
	return nil
}

// raw makes kept JSON canonical. Its limits are what is left of ours.
func (e *encoder) raw(data []byte) error {
	if data == nil {
		e.out = append(e.out, "null"...)
		return nil
	}
	s := newScanner(data, Limits{MaxBytes: len(data)})
	s.depth = e.depth
	return s.document(func() (err error) {
		e.out, err = s.appendValue(e.out)
		e.deepest = max(e.deepest, s.deepest)
		return err
	})
}

func (e *encoder) mapping(v reflect.Value) error {
	if v.Type().Key().Kind() != reflect.String {
		return badType(v.Type(), "a map's keys are strings")
	}
	if err := e.open('{'); err != nil {
		return err
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range keys {
		if !isASCII(k.String()) {
			return in(refuse(ErrKey, "keys are ASCII; rename it"), k.String())
		}
		e.comma()
		e.out, _ = appendText(e.out, k.String())
		e.out = append(e.out, ':')
		if err := e.value(v.MapIndex(k)); err != nil {
			return in(err, k.String())
		}
	}
	e.close('}')
	return nil
}
