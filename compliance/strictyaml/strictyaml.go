// Package strictyaml reads the small part of YAML that people write by hand:
// one document of mappings, lists and scalars, nothing twice, nothing unknown,
// no anchors, no tags, no null. Every fault is reported, with its line.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Fault is one thing that is wrong.
type Fault struct {
	Line   int    // from 1; 0 where no line is concerned
	Path   string // dotted keys, list items by index from 0
	Detail string // a sentence
}

// Reader collects faults while a document is read.
type Reader struct{ Faults []Fault }

// Field reads one value. Path is for messages.
type Field func(r *Reader, n *yaml.Node, path string)

// Fields is what a mapping may hold, by key.
type Fields map[string]Field

// Parse reads data, which must be one mapping with these fields. It returns the
// faults in the order of the text.
func Parse(data []byte, maxBytes int, fields Fields) []Fault {
	r := &Reader{}
	if n := r.document(data, maxBytes); n != nil {
		Mapping(fields)(r, n, "")
	}
	slices.SortStableFunc(r.Faults, func(a, b Fault) int { return a.Line - b.Line })
	return r.Faults
}

func (r *Reader) document(data []byte, maxBytes int) *yaml.Node {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return r.whole("It begins with a byte order mark; save it as plain UTF-8.")
	case bytes.IndexByte(data, '\r') >= 0:
		return r.whole("It has carriage returns; save it with line feeds only.")
	}
	n, fault := Document(data, maxBytes)
	switch {
	case fault != nil:
		r.Faults = append(r.Faults, *fault)
	case n == nil:
		return r.whole("It is empty.")
	}
	return n
}

// Document finds the one value of a text of at most maxBytes bytes; nil without a fault
// where it is empty.
func Document(data []byte, maxBytes int) (*yaml.Node, *Fault) {
	switch {
	case len(data) > maxBytes:
		return nil, &Fault{Detail: fmt.Sprintf("It has more than %d bytes; shorten it.", maxBytes)}
	case !utf8.Valid(data):
		return nil, &Fault{Detail: "It is not valid UTF-8; save it as UTF-8."}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		line, detail := explain(err, data)
		return nil, &Fault{Line: line, Detail: detail}
	}
	if err := dec.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, &Fault{Detail: "It holds more than one document; leave one."}
	}
	if len(doc.Content) != 1 {
		return nil, nil
	}
	return doc.Content[0], nil
}

func (r *Reader) whole(format string, args ...any) *yaml.Node {
	r.Faults = append(r.Faults, Fault{Detail: fmt.Sprintf(format, args...)})
	return nil
}

// Fail notes a fault at a node.
func (r *Reader) Fail(n *yaml.Node, path, format string, args ...any) {
	r.Faults = append(r.Faults, Fault{Line: n.Line, Path: path, Detail: fmt.Sprintf(format, args...)})
}

// plain notes what [Odd] says.
func (r *Reader) plain(n *yaml.Node, path string) bool {
	odd := Odd(n)
	if odd != "" {
		r.Fail(n, path, "%s", odd)
	}
	return odd == ""
}

// Odd says of a node what no value may be, "" of a plain one: an alias, an anchor, a tag
// that was written out, null.
func Odd(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return "Anchors and aliases are not read; write the value out."
	case n.Style&yaml.TaggedStyle != 0:
		return "Tags are not read; leave it out."
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return "It has no value; write one or leave the key out."
	}
	return ""
}

// Mapping reads a mapping with known keys.
func Mapping(fields Fields) Field {
	return func(r *Reader, n *yaml.Node, path string) {
		if !r.plain(n, path) {
			return
		}
		if n.Kind != yaml.MappingNode {
			r.Fail(n, path, NoMapping)
			return
		}
		for key, value := range Pairs(n, func(key *yaml.Node, why string) { r.Fail(key, join(path, key.Value), "%s", why) }) {
			at := join(path, key.Value)
			if field, known := fields[key.Value]; known {
				field(r, value, at)
			} else {
				r.Fail(key, at, "The key is unknown; known are %s.", names(fields))
			}
		}
	}
}

// NoMapping is said of what isn't a mapping where one belongs.
const NoMapping = "It must be a mapping of keys to values."

// Pairs are the keys of a mapping with their values, each key once. Fail is told of the
// others.
func Pairs(n *yaml.Node, fail func(key *yaml.Node, why string)) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			switch {
			case key.Kind != yaml.ScalarNode || Odd(key) != "" || key.Tag != "!!str":
				fail(key, "A key must be a plain word.")
			case seen[key.Value]:
				fail(key, "The key is there twice; delete one.")
			case !yield(key, n.Content[i+1]):
				return
			}
			seen[key.Value] = true
		}
	}
}

func names(fields Fields) string {
	return strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}

func join(path, key string) string {
	if len(key) > 64 {
		key = key[:64] + "…"
	}
	key = strings.ToValidUTF8(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, key), "?")
	if path == "" {
		return key
	}
	return path + "." + key
}

// Items reads a list of at most most items, each by the field that item returns
// for its index.
func Items(most int, item func(i int) Field) Field {
	return func(r *Reader, n *yaml.Node, path string) {
		switch {
		case !r.plain(n, path):
		case n.Kind != yaml.SequenceNode:
			r.Fail(n, path, "It must be a list.")
		case len(n.Content) > most:
			r.Fail(n, path, "It has %d items; at most %d are read.", len(n.Content), most)
		default:
			for i, c := range n.Content {
				item(i)(r, c, fmt.Sprintf("%s.%d", path, i))
			}
		}
	}
}
