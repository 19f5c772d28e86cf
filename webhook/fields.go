package webhook

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/writbot/writ/forge"
)

// value is one value of a JSON document that [forge.CheckJSON] took: its bytes,
// nil where it is absent. Nothing is kept of a document but what is asked for.
type value []byte

// document checks a body, and is the value that it holds.
func document(body []byte) (value, error) {
	if err := forge.CheckJSON(body, forge.MaxPayloadDepth); err != nil {
		return nil, malformed(err)
	}
	return bytes.TrimSpace(body), nil
}

// members gives those members of an object that are named, by their exact
// names. Of anything else than an object it gives none.
func (v value) members(names ...string) map[string]value {
	found := make(map[string]value, len(names))
	if len(v) == 0 || v[0] != '{' {
		return found
	}
	for i := space(v, 1); v[i] != '}'; {
		end := stringEnd(v, i)
		key := unquote(v[i:end])
		from := space(v, space(v, end)+1) // after the colon
		end = valueEnd(v, from)
		for _, name := range names {
			if key == name {
				found[name] = v[from:end]
			}
		}
		if i = space(v, end); v[i] == ',' {
			i = space(v, i+1)
		}
	}
	return found
}

// member is one member of an object.
func (v value) member(name string) value { return v.members(name)[name] }

// items calls f for each item of an array.
func (v value) items(f func(value)) {
	if len(v) == 0 || v[0] != '[' {
		return
	}
	for i := space(v, 1); v[i] != ']'; {
		end := valueEnd(v, i)
		f(v[i:end])
		if i = space(v, end); v[i] == ',' {
			i = space(v, i+1)
		}
	}
}

// there reports whether the value is neither absent nor null.
func (v value) there() bool { return len(v) > 0 && v[0] != 'n' }

// null reports whether the value is null.
func (v value) null() bool { return len(v) > 0 && v[0] == 'n' }

// isTrue reports whether the value is true.
func (v value) isTrue() bool { return len(v) > 0 && v[0] == 't' }

// text is a string's text; false for anything else.
func (v value) text() (string, bool) {
	if len(v) == 0 || v[0] != '"' {
		return "", false
	}
	return unquote(v), true
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

// space is the first byte from i on that is none.
func space(v []byte, i int) int {
	for v[i] == ' ' || v[i] == '\t' || v[i] == '\r' || v[i] == '\n' {
		i++
	}
	return i
}

// stringEnd is the byte after a string that begins at i.
func stringEnd(v []byte, i int) int {
	for i++; ; {
		from := i
		i += bytes.IndexByte(v[i:], '"')
		escapes := 0
		for i-escapes > from && v[i-escapes-1] == '\\' {
			escapes++
		}
		if i++; escapes%2 == 0 {
			return i
		}
	}
}

// valueEnd is the byte after a value that begins at i.
func valueEnd(v []byte, i int) int {
	depth := 0
	for i < len(v) {
		switch v[i] {
		case '"':
			i = stringEnd(v, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			i++
		default:
			i = wordEnd(v, i)
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// wordEnd is the byte after a number, true, false or null.
func wordEnd(v []byte, i int) int {
	for i < len(v) {
		switch v[i] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			return i
		}
		i++
	}
	return i
}

// unquote is the text of a string with its quotes.
func unquote(v []byte) string {
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}
