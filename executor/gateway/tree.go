package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// What a body of JSON may be made of. Agents send some thousand values, and more as a
// conversation grows; a schema of a tool is the deepest.
const (
	maxDepth  = 64
	maxValues = 1 << 20
)

// object is a JSON object in its own order, which is a part of what a model reads.
type object []member

type member struct {
	name  string
	value any
}

// get is the value of a member; nil if there is none.
func (o object) get(name string) any {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// errTree is why a body isn't understood.
var errTree = errors.New("the body isn't one JSON document with each name once")

// readTree reads one JSON document, in which nothing has two meanings: no name comes
// twice in an object, and nothing follows it. An object becomes an object, a list a
// []any, a number a json.Number.
func readTree(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errTree
	}
	t := &treeReader{d: json.NewDecoder(bytes.NewReader(data))}
	t.d.UseNumber()
	v, err := t.value(0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTree, err)
	}
	if _, err := t.d.Token(); !errors.Is(err, io.EOF) {
		return nil, errTree
	}
	return v, nil
}

type treeReader struct {
	d      *json.Decoder
	values int
}

var errTreeSize = fmt.Errorf("it is deeper than %d, or has more than %d values", maxDepth, maxValues)

func (t *treeReader) value(depth int) (any, error) {
	if t.values++; depth > maxDepth || t.values > maxValues {
		return nil, errTreeSize
	}
	token, err := t.d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return t.object(depth)
	case json.Delim('['):
		list := []any{}
		for t.d.More() {
			v, err := t.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := t.d.Token()
		return list, err
	}
	return token, nil
}

func (t *treeReader) object(depth int) (any, error) {
	o, seen := object{}, map[string]bool{}
	for t.d.More() {
		token, err := t.d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string) // a decoder takes nothing else there
		if seen[name] {
			return nil, fmt.Errorf("%q is there twice", clean(name))
		}
		seen[name] = true
		v, err := t.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o = append(o, member{name, v})
	}
	_, err := t.d.Token()
	return o, err
}

// writeTree writes what readTree has read.
func writeTree(v any) []byte {
	var b bytes.Buffer
	appendTree(&b, v)
	return b.Bytes()
}

func appendTree(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case object:
		b.WriteByte('{')
		for i, m := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			appendTree(b, m.name)
			b.WriteByte(':')
			appendTree(b, m.value)
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			appendTree(b, e)
		}
		b.WriteByte(']')
	default:
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v) // a text, a number that was read, true, false or null
		b.Truncate(b.Len() - 1)
	}
}
