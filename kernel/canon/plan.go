package canon

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// rawType is JSON that was kept as bytes; it is always made canonical.
var rawType = reflect.TypeFor[json.RawMessage]()

// field is one member of a struct.
type field struct {
	name      string
	index     []int // as in reflect.VisibleFields
	omitEmpty bool
	optional  bool // may be absent from what Unmarshal reads
}

// plan is a struct's members, sorted by name.
type plan []field

// plans keeps the plan of each struct type that was asked for: a program has only so
// many types, a plan depends on its type alone, and making one takes longer than a
// small record.
var plans sync.Map // of reflect.Type to plan

// planOf is the plan of a struct type, or an [ErrType] error.
func planOf(t reflect.Type) (plan, error) {
	if known, ok := plans.Load(t); ok {
		return known.(plan), nil
	}
	if t == sealedType {
		return nil, badType(t, "what is sealed isn't read back; read its bytes")
	}
	made, err := addFields(make(plan, 0, t.NumField()), t, nil)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(made, func(a, b field) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(made); i++ {
		if made[i].name == made[i-1].name {
			return nil, in(badType(t, "two fields have this name"), made[i].name)
		}
	}
	plans.Store(t, made)
	return made, nil
}

// addFields adds the members of t, which is inlined at the index path outer.
func addFields(to plan, t reflect.Type, outer []int) (_ plan, err error) {
	if err := plainType(t); err != nil {
		return nil, err
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		index := f.Index
		if outer != nil {
			index = append(slices.Clone(outer), i)
		}
		switch {
		case tag == "-":
		case f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct:
			if to, err = addFields(to, f.Type, index); err != nil {
				return nil, err
			}
		case !f.IsExported() && !f.Anonymous:
		case !f.IsExported():
			return nil, in(badType(f.Type, "embed structs by value and without a tag, or name the field"), f.Name)
		default:
			m, err := newField(f, tag)
			if err != nil {
				return nil, err
			}
			m.index = index
			to = append(to, m)
		}
	}
	return to, nil
}

// newField reads a tag. A field without one is an error: what is hashed is
// named on purpose.
func newField(f reflect.StructField, tag string) (field, error) {
	name, option, _ := strings.Cut(tag, ",")
	switch {
	case name == "":
		return field{}, in(badType(f.Type, "the field has no json name; add one, or \"-\""), f.Name)
	case option != "" && option != "omitempty":
		return field{}, in(badType(f.Type, "the only known json option is omitempty"), f.Name)
	case !isPlainKey(name):
		return field{}, in(badType(f.Type, "a member's name is printable ASCII without quote and backslash"), f.Name)
	}
	kind := f.Type.Kind()
	m := field{name: name, omitEmpty: option != ""}
	m.optional = m.omitEmpty || kind == reflect.Pointer || kind == reflect.Interface
	return m, nil
}

// isPlainKey reports whether the name needs no escape.
func isPlainKey(name string) bool {
	for _, c := range []byte(name) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func badType(t reflect.Type, detail string) error {
	return refuse(ErrType, t.String()+": "+detail)
}

// plainType refuses types that would write or read themselves: their form is
// not ours to vouch for. Named strings are text whatever they do.
func plainType(t reflect.Type) error {
	switch {
	case t == reflect.TypeFor[json.Number]():
		return badType(t, "use int64")
	case t.PkgPath() == "" && t.Kind() != reflect.Struct, t.Kind() == reflect.String, t == rawType:
		return nil
	}
	pointer := reflect.PointerTo(t) // has the methods of t, too
	for _, own := range []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](),
		reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	} {
		if pointer.Implements(own) {
			return badType(t, "types with their own JSON or text form are not canonical; use plain fields")
		}
	}
	return nil
}

// isBytes reports whether t is a slice or array of bytes, which has no one
// form in JSON.
func isBytes(t reflect.Type) bool { return t.Elem().Kind() == reflect.Uint8 }

// isEmpty is the omitempty of encoding/json.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}
