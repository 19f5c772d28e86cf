// Package strictyaml reads the small part of YAML that people write by hand:
// one document of mappings, lists and scalars, nothing twice, nothing unknown,
// no anchors, no tags, no null. Every fault is reported, with its line.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/writbot/writ/compliance/yamlfault"
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
	case len(data) > maxBytes:
		return r.whole("It has %d bytes; at most %d are read.", len(data), maxBytes)
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return r.whole("It begins with a byte order mark; save it as plain UTF-8.")
	case !utf8.Valid(data):
		return r.whole("It is not valid UTF-8.")
	case bytes.IndexByte(data, '\r') >= 0:
		return r.whole("It has carriage returns; save it with line feeds only.")
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return r.whole("It is empty.")
		}
		line, detail := yamlfault.Explain(err, data)
		r.Faults = append(r.Faults, Fault{Line: line, Detail: detail})
		return nil
	}
	if err := dec.Decode(&next); !errors.Is(err, io.EOF) {
		return r.whole("It holds more than one document.")
	}
	if len(doc.Content) != 1 {
		return r.whole("It is empty.")
	}
	return doc.Content[0]
}

func (r *Reader) whole(format string, args ...any) *yaml.Node {
	r.Faults = append(r.Faults, Fault{Detail: fmt.Sprintf(format, args...)})
	return nil
}

// Fail notes a fault at a node.
func (r *Reader) Fail(n *yaml.Node, path, format string, args ...any) {
	r.Faults = append(r.Faults, Fault{Line: n.Line, Path: path, Detail: fmt.Sprintf(format, args...)})
}

// plain refuses what no value here may be: an alias, an anchor, a tag that was
// written out, null.
func (r *Reader) plain(n *yaml.Node, path string) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.Fail(n, path, "Anchors and aliases are not read; write the value out.")
	case n.Style&yaml.TaggedStyle != 0:
		r.Fail(n, path, "Tags are not read.")
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		r.Fail(n, path, "It has no value; write one or leave the key out.")
	default:
		return true
	}
	return false
}

// Mapping reads a mapping with known keys.
func Mapping(fields Fields) Field {
	return func(r *Reader, n *yaml.Node, path string) {
		if !r.plain(n, path) {
			return
		}
		if n.Kind != yaml.MappingNode {
			r.Fail(n, path, "It must be a mapping of keys to values.")
			return
		}
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			at := join(path, key.Value)
			field, known := fields[key.Value]
			switch {
			case key.Kind != yaml.ScalarNode || !r.plain(key, at) || key.Tag != "!!str":
				r.Fail(key, at, "A key must be a plain word.")
			case seen[key.Value]:
				r.Fail(key, at, "The key is there twice.")
			case !known:
				r.Fail(key, at, "The key is unknown; known are %s.", names(fields))
			default:
				field(r, value, at)
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
