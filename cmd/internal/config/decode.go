package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/writbot/writ/compliance/strictyaml"
	"go.yaml.in/yaml/v3"
)

// maxItems bounds each list and mapping of a file: more is a mistake.
const maxItems = 256

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[Size]()
	mountType    = reflect.TypeFor[Mount]()
	builderType  = reflect.TypeFor[Builder]()
)

// value reads one node into dst; tag holds the bounds of the field.
func (r *reader) value(n *yaml.Node, dst reflect.Value, key string, tag reflect.StructTag) {
	r.lines[key] = n.Line
	if odd := strictyaml.Odd(n); odd != "" {
		r.fail(n.Line, key, "%s", odd)
		return
	}
	switch {
	case dst.Type() == mountType, dst.Type() == durationType, dst.Type() == sizeType:
		r.worded(n, dst, key, tag)
	case dst.Kind() == reflect.Struct:
		r.mapping(n, dst, key)
	case dst.Kind() == reflect.Map:
		r.named(n, dst, key)
	case dst.Kind() == reflect.Slice:
		r.list(n, dst, key)
	default:
		r.scalar(n, dst, key, tag)
	}
}

// mapping reads the fields of a struct.
func (r *reader) mapping(n *yaml.Node, dst reflect.Value, key string) {
	fields := map[string]int{}
	var known []string
	for i := range dst.NumField() {
		name := dst.Type().Field(i).Tag.Get("key")
		fields[name] = i
		known = append(known, name)
	}
	r.pairs(n, key, func(name string, k, v *yaml.Node) {
		i, ok := fields[name]
		if !ok {
			r.fail(k.Line, join(key, name), "The key is unknown; known are %s.%s", strings.Join(known, ", "), didYouMean(name, known))
			return
		}
		r.value(v, dst.Field(i), join(key, name), dst.Type().Field(i).Tag)
	})
}

// named reads a mapping whose keys the operator chooses.
func (r *reader) named(n *yaml.Node, dst reflect.Value, key string) {
	out := reflect.MakeMap(dst.Type())
	r.pairs(n, key, func(name string, _, v *yaml.Node) {
		item := reflect.New(dst.Type().Elem()).Elem()
		if item.Type() == builderType {
			item.Set(reflect.ValueOf(DefaultBuilder()))
		}
		r.value(v, item, join(key, name), "")
		out.SetMapIndex(reflect.ValueOf(name), item)
	})
	dst.Set(out)
}

// pairs goes through a mapping, each key once.
func (r *reader) pairs(n *yaml.Node, key string, f func(name string, k, v *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, key, "%s", strictyaml.NoMapping)
		return
	}
	if len(n.Content) > 2*maxItems {
		r.fail(n.Line, key, "It has more than %d keys.", maxItems)
		return
	}
	for k, v := range strictyaml.Pairs(n, func(k *yaml.Node, why string) { r.fail(k.Line, join(key, k.Value), "%s", why) }) {
		f(k.Value, k, v)
	}
}

func (r *reader) list(n *yaml.Node, dst reflect.Value, key string) {
	if n.Kind != yaml.SequenceNode {
		r.fail(n.Line, key, "It must be a list, such as [one, two].")
		return
	}
	if len(n.Content) > maxItems {
		r.fail(n.Line, key, "It has more than %d items.", maxItems)
		return
	}
	out := reflect.MakeSlice(dst.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		r.value(c, out.Index(i), join(key, strconv.Itoa(i)), "")
	}
	dst.Set(out)
}

// scalar reads text, a truth or a number.
func (r *reader) scalar(n *yaml.Node, dst reflect.Value, key string, tag reflect.StructTag) {
	switch dst.Kind() {
	case reflect.String:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
			r.fail(n.Line, key, "It must be text; put it in quotes.")
			return
		}
		if words := strings.Fields(tag.Get("oneof")); len(words) > 0 && !slices.Contains(words, n.Value) {
			r.fail(n.Line, key, "It must be %s.", strings.Join(words, " or "))
			return
		}
		if strings.ContainsRune(n.Value, 0) {
			r.fail(n.Line, key, "It holds a NUL character; take it out.")
			return
		}
		dst.SetString(n.Value)
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
			r.fail(n.Line, key, "It must be true or false.")
			return
		}
		dst.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int64:
		v, err := strconv.ParseInt(n.Value, 10, 64)
		least, most := number(tag.Get("min"), 0), number(tag.Get("max"), 1_000_000_000)
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || v < least || v > most {
			r.fail(n.Line, key, "It must be a whole number from %d to %d.", least, most)
			return
		}
		dst.SetInt(v)
	}
}

func number(s string, otherwise int64) int64 {
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return v
	}
	return otherwise
}

// join is a dotted key. What a file can put into it is made printable.
func join(key, name string) string {
	name = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == '\u2028' || c == '\u2029' {
			return '?'
		}
		return c
	}, name)
	const longest = 64
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	if key == "" {
		return name
	}
	return key + "." + name
}
