package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// shape is what may be in one place of a body. The tables of the interfaces are made of
// it; see apis/README.md for how one is written. Exactly one of its fields is set.
type shape struct {
	Kind   string            `json:"kind,omitempty"`   // text, number, bool, scalar, data or schema
	Named  string            `json:"named,omitempty"`  // a shape of the table's own
	Fields map[string]*shape `json:"fields,omitempty"` // of an object
	List   *shape            `json:"list,omitempty"`   // of each element
	// By names the field whose text chooses one of Of; without it Otherwise is chosen.
	By        string            `json:"by,omitempty"`
	Of        map[string]*shape `json:"of,omitempty"`
	Otherwise string            `json:"otherwise,omitempty"`
	// One are shapes of which the first is taken that is for the value's kind of JSON.
	One    []*shape       `json:"one,omitempty"`
	In     []string       `json:"in,omitempty"`     // texts, of which it is one
	Begins string         `json:"begins,omitempty"` // a text that begins so
	Lacks  []string       `json:"lacks,omitempty"`  // a text that has none of these words in it
	Always jsontext.Value `json:"always,omitempty"` // what is sent, whatever was asked for
	Drop   bool           `json:"drop,omitempty"`   // it is left out
	Refuse string         `json:"refuse,omitempty"` // why nothing but null is taken
}

// sieve lets a body through a shape, and notes what it leaves out.
type sieve struct {
	shapes map[string]*shape
	rows   []string // that the operator lets through beside them
	left   []string
	lacks  string // the row that would let through what was refused last
}

// leave notes that something isn't sent: once for all elements of a list.
func (s *sieve) leave(at string) {
	if len(s.left) == maxLeft {
		return
	}
	if at = pattern(clipped(at)); !slices.Contains(s.left, at) {
		s.left = append(s.left, at)
	}
}

// refused is the error for what may not be sent. It names the place, and is no longer than
// a record has room for.
func refused(at, why string) error {
	return denied(CodeBody, clipped(at)+": "+why)
}

// clipped makes what came from the inside fit for a phrase.
func clipped(text string) string {
	text = clean(text)
	return text[:min(len(text), maxPlace)]
}

const (
	maxPlace = 120 // bytes of the name of a place in a body
	maxLeft  = 16  // things that are noted as left out: a record has room for fewer
)

// take gives what is sent of a value. keep is false if nothing is.
func (s *sieve) take(sh *shape, at string, v any) (out any, keep bool, err error) {
	switch {
	case sh.Named != "":
		return s.take(s.shapes[sh.Named], at, v)
	case sh.Drop:
		s.leave(at)
		return nil, false, nil
	case sh.Always != nil:
		out, err := readTree(sh.Always)
		return out, true, err
	case sh.Refuse != "":
		if v == nil {
			return nil, false, nil
		}
		return nil, false, refused(at, sh.Refuse)
	case len(sh.One) > 0:
		for _, one := range sh.One {
			if s.fits(one, v) {
				return s.take(one, at, v)
			}
		}
		return nil, false, refused(at, "it isn't of a form that is known")
	case v == nil && sh.Kind != "data":
		return nil, true, nil // who reads it takes it for absent
	case !s.fits(sh, v):
		return nil, false, refused(at, "it isn't of the form that is known")
	}
	return s.inside(sh, at, v)
}

// inside gives what is sent of a value that has its shape's kind of JSON.
func (s *sieve) inside(sh *shape, at string, v any) (any, bool, error) {
	switch {
	case sh.Kind == "schema":
		return v, true, remoteSchema(at, v)
	case sh.Kind != "":
		return v, true, nil
	case sh.List != nil:
		return s.list(sh.List, at, v.([]any)) //nolint:forcetypeassert // it fits
	case sh.By != "":
		return s.union(sh, at, v.(object)) //nolint:forcetypeassert // it fits
	case sh.Fields != nil:
		return s.object(sh.Fields, at, v.(object)) //nolint:forcetypeassert // it fits
	}
	text, _ := v.(string)
	if sh.Lacks != nil {
		for _, word := range sh.Lacks {
			if strings.Contains(strings.ToLower(text), word) {
				return nil, false, refused(at, strconv.Quote(clipped(text))+" isn't allowed there")
			}
		}
		return v, true, nil
	}
	if sh.Begins != "" && !strings.HasPrefix(text, sh.Begins) || sh.Begins == "" && !slices.Contains(sh.In, text) {
		return nil, false, refused(at, strconv.Quote(clipped(text))+" isn't allowed there")
	}
	return v, true, nil
}

// fits reports whether a value is of a shape's kind of JSON.
func (s *sieve) fits(sh *shape, v any) bool {
	switch v.(type) {
	case string:
		return sh.Named != "" && s.fits(s.shapes[sh.Named], v) || sh.Kind == "text" || sh.Kind == "scalar" || sh.Kind == "data" || sh.In != nil || sh.Begins != "" || sh.Lacks != nil
	case jsontext.Value: // a number
		return sh.Kind == "number" || sh.Kind == "scalar" || sh.Kind == "data"
	case bool:
		return sh.Kind == "bool" || sh.Kind == "scalar" || sh.Kind == "data" || sh.Kind == "schema"
	case object:
		return sh.Named != "" && s.fits(s.shapes[sh.Named], v) || sh.Fields != nil || sh.By != "" || sh.Kind == "data" || sh.Kind == "schema"
	case []any:
		return sh.Named != "" && s.fits(s.shapes[sh.Named], v) || sh.List != nil || sh.Kind == "data"
	}
	return true // null
}

func (s *sieve) list(sh *shape, at string, list []any) (any, bool, error) {
	out := make([]any, 0, len(list))
	for i, e := range list {
		v, keep, err := s.take(sh, at+"."+strconv.Itoa(i), e)
		if err != nil {
			return nil, false, err
		}
		if keep {
			out = append(out, v)
		}
	}
	return out, true, nil
}

func (s *sieve) union(sh *shape, at string, o object) (any, bool, error) {
	kind, isText := o.get(sh.By).(string)
	if o.get(sh.By) == nil && sh.Otherwise != "" {
		kind, isText = sh.Otherwise, true
	}
	one := sh.Of[kind]
	if !isText || one == nil {
		row := pattern(at+"."+sh.By) + "=" + kind
		if known, err := s.byRow(row, at, o); known {
			return o, true, err
		}
		s.lacks = row
		return nil, false, refused(at+"."+sh.By, strconv.Quote(clipped(kind))+" isn't known")
	}
	if one.Fields == nil {
		return s.take(one, at+"("+kind+")", o)
	}
	fields := map[string]*shape{sh.By: {Kind: "text"}}
	maps.Copy(fields, one.Fields)
	return s.object(fields, at, o)
}

// object takes the fields that are known. Of others an option is left out, for agents add
// them from version to version; what could hold an address or an id in it is refused.
func (s *sieve) object(fields map[string]*shape, at string, o object) (any, bool, error) {
	out := object{}
	for _, m := range o {
		place := strings.TrimPrefix(at+"."+m.name, ".")
		sh := fields[m.name]
		if sh == nil {
			row := pattern(place)
			if strings.ContainsAny(m.name, ".=() ") {
				row = "" // it could be read as a row for something else
			}
			if known, err := s.byRow(row, place, m.value); err != nil {
				return nil, false, err
			} else if known {
				out = append(out, m)
				continue
			}
			if !isOption(m.value) {
				s.lacks = row
				return nil, false, refused(place, "it isn't known")
			}
			s.leave(place)
			continue
		}
		v, keep, err := s.take(sh, place, m.value)
		if err != nil {
			return nil, false, err
		}
		if keep {
			out = append(out, member{m.name, v})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if sh := fields[name]; sh.Always != nil && !slices.ContainsFunc(o, func(m member) bool { return m.name == name }) {
			v, err := readTree(sh.Always)
			if err != nil {
				return nil, false, err
			}
			out = append(out, member{name, v})
		}
	}
	return out, true, nil
}

// isOption tells what is of one value, or empty.
func isOption(v any) bool {
	switch v := v.(type) {
	case object:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return true
}

// remoteSchema refuses a schema that refers to another document.
func remoteSchema(at string, v any) error {
	switch v := v.(type) {
	case object:
		for _, m := range v {
			ref, isText := m.value.(string)
			if isText && strings.HasSuffix(strings.ToLower(m.name), "ref") && strings.HasPrefix(m.name, "$") && !strings.HasPrefix(ref, "#") {
				return refused(at+"."+m.name, "a schema refers to another document")
			}
			if err := remoteSchema(clipped(at+"."+m.name), m.value); err != nil {
				return err
			}
		}
	case []any:
		for i, e := range v {
			if err := remoteSchema(clipped(at+"."+strconv.Itoa(i)), e); err != nil {
				return err
			}
		}
	}
	return nil
}

// check refuses a shape that says nothing, or two things, or names what isn't there.
func (sh *shape) check(at string, shapes map[string]*shape) error {
	if sh == nil {
		return fmt.Errorf("%s: there is no shape", at)
	}
	said := 0
	for _, there := range []bool{sh.Kind != "", sh.Named != "", sh.Fields != nil, sh.List != nil, sh.By != "", len(sh.One) > 0, sh.In != nil, sh.Begins != "", sh.Lacks != nil, sh.Always != nil, sh.Drop, sh.Refuse != ""} {
		if there {
			said++
		}
	}
	kinds := []string{"", "text", "number", "bool", "scalar", "data", "schema"}
	switch {
	case said != 1:
		return fmt.Errorf("%s: a shape says one thing, and this says %d", at, said)
	case !slices.Contains(kinds, sh.Kind):
		return fmt.Errorf("%s: the kind %q isn't known", at, sh.Kind)
	case sh.Named != "" && shapes[sh.Named] == nil:
		return fmt.Errorf("%s: there is no shape %q", at, sh.Named)
	}
	inner := map[string]*shape{}
	for _, m := range []map[string]*shape{sh.Fields, sh.Of} {
		maps.Copy(inner, m)
	}
	if sh.List != nil {
		inner["list"] = sh.List
	}
	for i, one := range sh.One {
		inner[strconv.Itoa(i)] = one
	}
	for _, name := range slices.Sorted(maps.Keys(inner)) {
		if err := inner[name].check(at+"."+name, shapes); err != nil {
			return err
		}
	}
	return nil
}
