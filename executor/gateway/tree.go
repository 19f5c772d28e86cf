package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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

// MarshalJSONTo writes the members in their order.
func (o object) MarshalJSONTo(e *jsontext.Encoder) error {
	err := e.WriteToken(jsontext.BeginObject)
	for _, m := range o {
		err = errors.Join(err, e.WriteToken(jsontext.String(m.name)), json.MarshalEncode(e, m.value))
	}
	return errors.Join(err, e.WriteToken(jsontext.EndObject))
}

// readTree reads one JSON document, in which nothing has two meanings: no name comes
// twice in an object, and nothing follows it. An object becomes an object, a list a
// []any, a number a jsontext.Value with its digits as they were sent. Half a surrogate, which
// agents send of a text that they cut, becomes U+FFFD.
func readTree(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errTree
	}
	t := &treeReader{d: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowInvalidUTF8(true))}
	v, err := t.value()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTree, err)
	}
	if _, err := t.d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errTree
	}
	return v, nil
}

type treeReader struct {
	d      *jsontext.Decoder
	values int
}

var errTreeSize = fmt.Errorf("it is deeper than %d, or has more than %d values", maxDepth, maxValues)

func (t *treeReader) value() (any, error) {
	if t.values++; t.d.StackDepth() > maxDepth || t.values > maxValues {
		return nil, errTreeSize
	}
	token, err := t.d.ReadToken()
	switch token.Kind() {
	case '{':
		return t.object()
	case '[':
		return t.list()
	case '"':
		return token.String(), nil
	case '0':
		return jsontext.Value(token.String()), nil
	case 't', 'f':
		return token.Bool(), nil
	}
	return nil, err // nil for null
}

func (t *treeReader) object() (any, error) {
	o := object{}
	for t.d.PeekKind() != '}' {
		token, err := t.d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		v, err := t.value()
		if err != nil {
			return nil, err
		}
		o = append(o, member{name, v})
	}
	_, err := t.d.ReadToken()
	return o, err
}

func (t *treeReader) list() (any, error) {
	list := []any{}
	for t.d.PeekKind() != ']' {
		v, err := t.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := t.d.ReadToken()
	return list, err
}

// writeTree writes what readTree has read, or words of our own. A letter that was cut in two
// is replaced.
// An object with a name twice is an error: whoever adds a name looks for it first.
func writeTree(v any) ([]byte, error) {
	return json.Marshal(v, jsontext.AllowInvalidUTF8(true), jsontext.EscapeForJS(true))
}
