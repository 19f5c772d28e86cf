package webhook

import (
	"bytes"
	"iter"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/writbot/writ/forge"
)

// value is one value of a JSON document that [forge.Members] took: its bytes, nil
// where it is absent. Nothing is kept of a document but what is asked for.
type value []byte

// document checks a body, and gives those members of it that are named.
func document(body []byte, names ...string) (map[string]value, error) {
	found, err := forge.Members(value(body), forge.MaxPayloadDepth, names...)
	if err != nil {
		return nil, malformed(err)
	}
	return found, nil
}

// members gives those members of an object that are named, by their exact
// names. Of anything else than an object it gives none.
func (v value) members(names ...string) map[string]value {
	if v.kind() != '{' {
		return nil
	}
	found, _ := forge.Members(v, forge.MaxPayloadDepth, names...) // it was checked, or is absent
	return found
}

// member is one member of an object.
func (v value) member(name string) value { return v.members(name)[name] }

// items are those of an array, one after the other: a body may have millions, of which
// nothing is kept. An item holds until the next.
func (v value) items() iter.Seq[value] {
	return func(yield func(value) bool) {
		d := jsontext.NewDecoder(bytes.NewBuffer(v))
		if _, err := d.ReadToken(); err != nil || v.kind() != '[' {
			return
		}
		for d.PeekKind() != ']' {
			item, err := d.ReadValue()
			if err != nil || !yield(value(item)) {
				return
			}
		}
	}
}

func (v value) kind() jsontext.Kind { return jsontext.Value(v).Kind() }

// there reports whether the value is neither absent nor null.
func (v value) there() bool { return v.kind() != jsontext.KindInvalid && !v.null() }

// null reports whether the value is null.
func (v value) null() bool { return v.kind() == 'n' }

// text is a string's text; false for anything else.
func (v value) text() (string, bool) {
	if v.kind() != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, v)
	return string(text), err == nil
}

// word is a string's text, "" for anything else.
func (v value) word() string {
	s, _ := v.text()
	return s
}

// id is a number above zero, 0 for anything else.
func (v value) id() int64 {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// timeLayouts are how forges write times. The last two are GitLab's.
var timeLayouts = []string{time.RFC3339, "2006-01-02 15:04:05 UTC", "2006-01-02 15:04:05 -0700"}

// time is a point in time after 1970; false for what isn't one.
func (v value) time() (time.Time, bool) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, v.word()); err == nil && t.UnixMilli() > 0 {
			return t, true
		}
	}
	return time.Time{}, false
}
