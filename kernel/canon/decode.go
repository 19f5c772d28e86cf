package canon

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
)

// Unmarshal reads exactly one strict JSON document into *v; see the package
// comment for what it refuses. Zero limits are the defaults. *v is overwritten
// whole: on an error it is the zero value.
//
// A struct's member is required unless its field is a pointer, an interface or
// `,omitempty`: [ErrMissing] names all that are absent. A nil pointer after a
// success means absent or null; whoever must tell them apart uses
// json.RawMessage with omitempty, which keeps any value, null too, in
// canonical form. Into an interface go map[string]any, []any, string, int64,
// bool and nil. An array must be as long as its Go type says.
func Unmarshal(data []byte, v any, lim Limits) error {
	return unmarshal(newScanner(data, lim), v)
}

// UnmarshalCanonical is Unmarshal for bytes that must be exactly what
// [Marshal] writes for the value that was read, or else [ErrNotCanonical];
// one pass does both. The limit of depth is [DefaultMaxDepth] as in Marshal;
// the data's size is the caller's.
func UnmarshalCanonical(data []byte, v any) error {
	return unmarshal(newCanonicalScanner(data), v)
}

func newCanonicalScanner(data []byte) *scanner {
	s := newScanner(data, Limits{MaxBytes: len(data)})
	s.canonical = true
	return s
}

func unmarshal(s *scanner, v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return refuse(ErrType, "decode into a pointer that isn't nil")
	}
	d := decoder{s}
	p.Elem().SetZero()
	err := s.document(func() error { return d.value(p.Elem()) })
	if err != nil {
		p.Elem().SetZero()
	}
	return err
}

type decoder struct{ *scanner }

// value reads the next value into v.
func (d *decoder) value(v reflect.Value) error {
	c, err := d.peek()
	if err != nil {
		return err
	}
	if v.Type() == rawType {
		return d.raw(v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return d.pointer(v, c)
	case reflect.Interface:
		return d.anything(v)
	}
	if c == 'n' {
		return d.null()
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.structure(v, c)
	case reflect.String:
		return d.string(v, c)
	}
	if err := plainType(v.Type()); err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Bool:
		return d.bool(v, c)
	case reflect.Map:
		return d.mapping(v, c)
	case reflect.Slice, reflect.Array:
		return d.list(v, c)
	}
	return d.number(v, c)
}

func (d *decoder) wrong(wanted string) error { return orType(nil, d.pos, wanted) }

// null is at an n that no pointer may take.
func (d *decoder) null() error {
	from := d.pos
	if err := d.literal("null"); err != nil {
		return err
	}
	return d.fail(ErrNull, from, "this can't be null; leave it out if it is optional")
}

func (d *decoder) pointer(v reflect.Value, c byte) error {
	if c == 'n' {
		return d.literal("null")
	}
	v.Set(reflect.New(v.Type().Elem()))
	return d.value(v.Elem())
}

func (d *decoder) raw(v reflect.Value) error {
	from := d.pos
	if d.canonical {
		err := d.skip()
		v.SetBytes(bytes.Clone(d.data[from:d.pos]))
		return err
	}
	out, err := d.appendValue(nil)
	v.SetBytes(out)
	return err
}

func (d *decoder) anything(v reflect.Value) error {
	if v.NumMethod() > 0 {
		return badType(v.Type(), "only the empty interface can be read into")
	}
	x, err := d.any()
	if err == nil && x != nil {
		v.Set(reflect.ValueOf(x))
	}
	return err
}

// any reads a value of any shape.
func (d *decoder) any() (any, error) {
	c, err := d.peek()
	if err != nil {
		return nil, err
	}
	switch {
	case c == '{':
		m := map[string]any{}
		return m, d.members(func(key string) (err error) {
			m[key], err = d.any()
			return err
		})
	case c == '[':
		list := []any{}
		err := d.array(func(int) error {
			x, err := d.any()
			list = append(list, x)
			return err
		})
		return list, err
	case c == '"':
		text, _, err := d.str()
		return string(text), err
	case c == '-' || isDigit(c):
		return d.integer()
	case c == 'n':
		return nil, d.literal("null")
	}
	return c == 't', d.literal(word(c))
}

// members calls member for each key of an object, once.
func (d *decoder) members(member func(key string) error) error {
	seen := map[string]bool{}
	return d.object(func(key []byte) error {
		if seen[string(key)] {
			return d.duplicate(d.pos)
		}
		seen[string(key)] = true
		return member(string(key))
	})
}

func (d *decoder) string(v reflect.Value, c byte) error {
	if c != '"' {
		return d.wrong("a string")
	}
	if err := plainType(v.Type()); err != nil {
		return err
	}
	text, _, err := d.str()
	if err == nil {
		v.SetString(string(text))
	}
	return err
}

func (d *decoder) bool(v reflect.Value, c byte) error {
	if c != 't' && c != 'f' {
		return d.wrong("true or false")
	}
	v.SetBool(c == 't')
	return d.literal(word(c))
}

func (d *decoder) number(v reflect.Value, c byte) error {
	if !v.CanInt() && !v.CanUint() {
		return badType(v.Type(), "this type can't be read; floats are integers in parts per million")
	}
	if c != '-' && !isDigit(c) {
		return d.wrong("an integer")
	}
	from := d.pos
	n, err := d.integer()
	switch {
	case err != nil:
		return err
	case v.CanInt() && !v.OverflowInt(n):
		v.SetInt(n)
		return nil
	case v.CanUint() && n >= 0 && !v.OverflowUint(uint64(n)):
		v.SetUint(uint64(n))
		return nil
	}
	return d.fail(ErrRange, from, "beyond what this field holds")
}

func (d *decoder) list(v reflect.Value, c byte) error {
	if isBytes(v.Type()) {
		return badType(v.Type(), "bytes have no one form in JSON; read a string")
	}
	if c != '[' {
		return d.wrong("an array")
	}
	if v.Kind() == reflect.Array {
		return d.fixed(v)
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	return d.array(func(i int) error {
		v.Grow(1)
		v.SetLen(i + 1)
		return d.value(v.Index(i))
	})
}

func (d *decoder) fixed(v reflect.Value) error {
	from, n := d.pos, 0
	err := d.array(func(i int) error {
		if n++; i >= v.Len() {
			return d.wrong("absent: the array is full")
		}
		return d.value(v.Index(i))
	})
	if err == nil && n < v.Len() {
		return d.fail(ErrType, from, "the array is too short")
	}
	return err
}

func (d *decoder) mapping(v reflect.Value, c byte) error {
	t := v.Type()
	if t.Key().Kind() != reflect.String {
		return badType(t, "a map's keys are strings")
	}
	if c != '{' {
		return d.wrong("an object")
	}
	v.Set(reflect.MakeMap(t))
	return d.members(func(key string) error {
		item := reflect.New(t.Elem()).Elem()
		if err := d.value(item); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), item)
		return nil
	})
}

func (d *decoder) structure(v reflect.Value, c byte) error {
	if c != '{' {
		return d.wrong("an object")
	}
	members, err := planOf(v.Type())
	if err != nil {
		return err
	}
	from := d.pos
	seen := make([]bool, len(members))
	next := 0 // canonical documents have the plan's order
	err = d.object(func(key []byte) error {
		i := members.find(key, next)
		if i < 0 {
			return d.fail(ErrUnknown, d.pos, "unknown member; names are case-sensitive")
		}
		if seen[i] {
			return d.duplicate(d.pos)
		}
		seen[i], next = true, i+1
		return d.member(v, &members[i])
	})
	if err != nil {
		return err
	}
	return d.complete(members, seen, from)
}

// find is the member's place in the plan, -1 if there is none.
func (p plan) find(key []byte, guess int) int {
	for ; guess < len(p) && p[guess].name <= string(key); guess++ {
		if p[guess].name == string(key) {
			return guess
		}
	}
	i, ok := slices.BinarySearchFunc(p, key, func(f field, k []byte) int { return bytes.Compare([]byte(f.name), k) })
	if !ok {
		return -1
	}
	return i
}

// member reads one member's value.
func (d *decoder) member(v reflect.Value, m *field) error {
	from := d.pos
	f := v.FieldByIndex(m.index)
	if err := d.value(f); err != nil {
		return err
	}
	if d.canonical && m.omitEmpty && isEmpty(f) {
		return d.fail(ErrNotCanonical, from, "an empty value that is left out in canonical form")
	}
	return nil
}

// complete complains about the absent members that must not be absent. In
// canonical form only an empty omitempty field is left out.
func (d *decoder) complete(members plan, seen []bool, offset int) error {
	var missing []string
	reason := ErrNotCanonical
	for i := range members {
		m := &members[i]
		if seen[i] || m.omitEmpty || m.optional && !d.canonical {
			continue
		}
		if !m.optional {
			reason = ErrMissing
		}
		missing = append(missing, m.name)
	}
	if missing == nil {
		return nil
	}
	return &Error{Reason: reason, Offset: offset, Missing: missing,
		Detail: "members are absent: " + strings.Join(missing, ", ")}
}
