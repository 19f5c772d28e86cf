package canon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel/canon"
)

// R5: what is no canonical JSON's business is refused, and each of the three
// readers says the same.
func TestR5_RefusedDocuments(t *testing.T) {
	deep := strings.Repeat("[", canon.DefaultMaxDepth+1) + strings.Repeat("]", canon.DefaultMaxDepth+1)
	for _, c := range []struct {
		name, in string
		want     canon.Reason
	}{
		{"2^53", `9007199254740992`, canon.ErrRange},
		{"2^53+1", `[9007199254740993]`, canon.ErrRange},
		{"-2^53", `-9007199254740992`, canon.ErrRange},
		{"2^64+1", `18446744073709551617`, canon.ErrRange},
		{"1e400", `1e400`, canon.ErrFloat},
		{"exponent", `1E2`, canon.ErrFloat},
		{"fraction", `1.0`, canon.ErrFloat},
		{"long fraction", `123456789012345678901.5`, canon.ErrFloat},
		{"minus zero", `-0`, canon.ErrFloat},
		{"leading zero", `01`, canon.ErrSyntax},
		{"plus", `+1`, canon.ErrSyntax},
		{"only minus", `-`, canon.ErrSyntax},
		{"NaN", `NaN`, canon.ErrSyntax},
		{"Infinity", `-Infinity`, canon.ErrSyntax},
		{"duplicate", `{"a":1,"a":1}`, canon.ErrDuplicate},
		{"duplicate, apart", `{"a":1,"b":2,"a":3}`, canon.ErrDuplicate},
		{"duplicate by escape", `{"a":1,"\u0061":2}`, canon.ErrDuplicate},
		{"duplicate, nested", `{"x":[{"k":{},"k":[]}]}`, canon.ErrDuplicate},
		{"lone high surrogate", `"\ud83d"`, canon.ErrSurrogate},
		{"lone high surrogate, then text", `"\ud83dx12345"`, canon.ErrSurrogate},
		{"lone low surrogate", `"\ude00"`, canon.ErrSurrogate},
		{"surrogates in the wrong order", `"\ude00\ud83d"`, canon.ErrSurrogate},
		{"surrogate in UTF-8", "\"\xed\xa0\x80\"", canon.ErrUTF8},
		{"invalid UTF-8", "\"a\xff\"", canon.ErrUTF8},
		{"invalid UTF-8 after an escape", "\"\\n\xc3\"", canon.ErrUTF8},
		{"overlong", "\"\xc0\xaf\"", canon.ErrUTF8},
		{"key beyond ASCII", `{"é":1}`, canon.ErrKey},
		{"key beyond the basic plane", `{"😀":1}`, canon.ErrKey},
		{"key beyond ASCII by escape", `{"\u00e9":1}`, canon.ErrKey},
		{"raw control", "\"\x01\"", canon.ErrSyntax},
		{"raw newline after an escape", "\"\\t\n\"", canon.ErrSyntax},
		{"unknown escape", `"\x41"`, canon.ErrSyntax},
		{"short escape", `"\u12"`, canon.ErrSyntax},
		{"no hex digit", `"\u12g4"`, canon.ErrSyntax},
		{"escape at the end", `"\`, canon.ErrSyntax},
		{"open string", `"a`, canon.ErrSyntax},
		{"open string with an escape", `"a\n`, canon.ErrSyntax},
		{"open array", `[1`, canon.ErrSyntax},
		{"open object", `{"a":1`, canon.ErrSyntax},
		{"wrong bracket", `[1}`, canon.ErrSyntax},
		{"trailing comma", `[1,]`, canon.ErrSyntax},
		{"trailing comma, object", `{"a":1,}`, canon.ErrSyntax},
		{"no colon", `{"a" 1}`, canon.ErrSyntax},
		{"number as key", `{1:1}`, canon.ErrSyntax},
		{"single quotes", `'a'`, canon.ErrSyntax},
		{"comment", `/* */ 1`, canon.ErrSyntax},
		{"byte order mark", "\ufeff1", canon.ErrSyntax},
		{"word", `nul`, canon.ErrSyntax},
		{"nothing", ``, canon.ErrSyntax},
		{"white space", " \n", canon.ErrSyntax},
		{"form feed", "\f1", canon.ErrSyntax},
		{"two documents", `{} {}`, canon.ErrTrailing},
		{"word with a tail", `nullx`, canon.ErrTrailing},
		{"NUL after the document", "1\x00", canon.ErrTrailing},
		{"deep", deep, canon.ErrDepth},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, err := canon.Canonicalize([]byte(c.in), canon.Limits{}); !errors.Is(err, c.want) {
				t.Errorf("Canonicalize: %s, %v", out, err)
			}
			var x any
			if err := canon.Unmarshal([]byte(c.in), &x, canon.Limits{}); !errors.Is(err, c.want) || x != nil {
				t.Errorf("Unmarshal: %v, %v", x, err)
			}
			if _, err := canon.Marshal(json.RawMessage(c.in)); !errors.Is(err, c.want) {
				t.Errorf("Marshal of it raw: %v", err)
			}
			if err := canon.UnmarshalCanonical([]byte(c.in), &x); err == nil {
				t.Error("UnmarshalCanonical took it")
			}
			if err := canon.Check([]byte(c.in), canon.Limits{}, nil); err == nil {
				t.Error("Check took it")
			}
		})
	}
}

// R5: composed and decomposed text stay what they are.
func TestR5_NoNormalisation(t *testing.T) {
	nfc, err1 := canon.Hash(map[string]string{"kind": "k", "text": "\u00e9"})
	nfd, err2 := canon.Hash(map[string]string{"kind": "k", "text": "e\u0301"})
	if err1 != nil || err2 != nil || nfc == nfd {
		t.Errorf("%v, %v: %s, %s", err1, err2, nfc, nfd)
	}
}

type ownJSON struct{ A int }

func (*ownJSON) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

// twice has one name itself and one inlined: no rule says which one counts.
type twice struct {
	leaf
	Name string `json:"name"`
}

// R5: Go values that have no canonical form.
func TestR5_RefusedValues(t *testing.T) {
	type cycle struct {
		Next any `json:"next"`
	}
	loop := &cycle{}
	loop.Next = loop
	var self any
	self = &self
	for _, c := range []struct {
		name string
		in   any
		want canon.Reason
		path string
	}{
		{"float", map[string]any{"a": []any{1.0}}, canon.ErrFloat, "/a/0"},
		{"NaN", math.NaN(), canon.ErrFloat, ""},
		{"complex", complex(1, 0), canon.ErrFloat, ""},
		{"2^53", int64(1) << 53, canon.ErrRange, ""},
		{"-2^53", -(int64(1) << 53), canon.ErrRange, ""},
		{"largest", uint64(math.MaxUint64), canon.ErrRange, ""},
		{"invalid UTF-8", map[string]string{"a/b~": "\xff"}, canon.ErrUTF8, "/a~1b~0"},
		{"truncated UTF-8", "ab\xe2\x82", canon.ErrUTF8, ""},
		{"key", map[string]int{"é": 1}, canon.ErrKey, "/é"},
		{"integer keys", map[int]int{1: 1}, canon.ErrType, ""},
		{"bytes", []byte("x"), canon.ErrType, ""},
		{"array of bytes", [2]byte{}, canon.ErrType, ""},
		{"time", time.Time{}, canon.ErrType, ""},
		{"own form", ownJSON{}, canon.ErrType, ""},
		{"json.Number", json.Number("1"), canon.ErrType, ""},
		{"function", func() {}, canon.ErrType, ""},
		{"untagged", struct{ A int }{}, canon.ErrType, "/A"},
		{"unknown option", struct {
			A int `json:"a,string"`
		}{}, canon.ErrType, "/A"},
		{"name beyond ASCII", struct {
			A int `json:"ä"`
		}{}, canon.ErrType, "/A"},
		{"same name twice", twice{}, canon.ErrType, "/name"},
		{"embedded pointer", struct{ *cycle }{}, canon.ErrType, "/cycle"},
		{"cycle", loop, canon.ErrDepth, strings.Repeat("/next", canon.DefaultMaxDepth)},
		{"cycle of pointers", self, canon.ErrDepth, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := canon.Marshal(c.in)
			var e *canon.Error
			if !errors.As(err, &e) || e.Reason != c.want {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if e.Path != c.path || e.Offset != canon.NoOffset {
				t.Errorf("at %q, byte %d, want %q", e.Path, e.Offset, c.path)
			}
		})
	}
}

type leaf struct {
	Name string `json:"name"`
}

type document struct {
	ID    string          `json:"id"`
	Count int8            `json:"count"`
	Size  uint16          `json:"size,omitempty"`
	Note  *string         `json:"note"`
	Leafs []leaf          `json:"leafs"`
	By    map[string]leaf `json:"by,omitempty"`
	Two   *[2]bool        `json:"two,omitempty"`
	Raw   json.RawMessage `json:"raw,omitempty"`
}

// The strict reader: unknown, duplicate, missing, mistyped members.
func TestUnmarshal_Strict(t *testing.T) {
	const head = `{"id":"x","count":1,"leafs":[]`
	for _, c := range []struct {
		name, in string
		want     canon.Reason // "" is success
		path     string
	}{
		{"whole", head + `}`, "", ""},
		{"null where a pointer is", head + `,"note":null}`, "", ""},
		{"any order", `{"leafs":[{"name":"é"}],"note":"n","id":"","count":-128}`, "", ""},
		{"other case", head + `,"Note":"n"}`, canon.ErrUnknown, "/Note"},
		{"unknown", head + `,"x":1}`, canon.ErrUnknown, "/x"},
		{"unknown, nested", `{"id":"x","count":1,"leafs":[{"name":"n","x":1}]}`, canon.ErrUnknown, "/leafs/0/x"},
		{"duplicate", head + `,"id":"x"}`, canon.ErrDuplicate, "/id"},
		{"duplicate, nested", head + `,"by":{"k":{"name":"n","name":"n"}}}`, canon.ErrDuplicate, "/by/k/name"},
		{"duplicate in a map", head + `,"by":{"k":{"name":"n"},"\u006b":{"name":"n"}}}`, canon.ErrDuplicate, "/by/k"},
		{"duplicate in raw", head + `,"raw":{"a":1,"a":2}}`, canon.ErrDuplicate, "/raw/a"},
		{"missing, nested", head + `,"by":{"k":{}}}`, canon.ErrMissing, "/by/k"},
		{"null member", `{"id":null,"count":1,"leafs":[]}`, canon.ErrNull, "/id"},
		{"null slice", `{"id":"x","count":1,"leafs":null}`, canon.ErrNull, "/leafs"},
		{"null item", `{"id":"x","count":1,"leafs":[null]}`, canon.ErrNull, "/leafs/0"},
		{"null map", head + `,"by":null}`, canon.ErrNull, "/by"},
		{"null document", `null`, canon.ErrNull, ""},
		{"number for text", `{"id":1,"count":1,"leafs":[]}`, canon.ErrType, "/id"},
		{"text for a number", `{"id":"x","count":"1","leafs":[]}`, canon.ErrType, "/count"},
		{"object for an array", `{"id":"x","count":1,"leafs":{}}`, canon.ErrType, "/leafs"},
		{"array for an object", `[]`, canon.ErrType, ""},
		{"too large for the field", `{"id":"x","count":128,"leafs":[]}`, canon.ErrRange, "/count"},
		{"negative for unsigned", head + `,"size":-1}`, canon.ErrRange, "/size"},
		{"array too short", head + `,"two":[true]}`, canon.ErrType, "/two"},
		{"array too long", head + `,"two":[true,true,true]}`, canon.ErrType, "/two/2"},
		{"no boolean", head + `,"two":[1,true]}`, canon.ErrType, "/two/0"},
		{"float", `{"id":"x","count":1.5,"leafs":[]}`, canon.ErrFloat, "/count"},
		{"two documents", head + `}{}`, canon.ErrTrailing, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := document{ID: "left over"}
			err := canon.Unmarshal([]byte(c.in), &v, canon.Limits{})
			var e *canon.Error
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want == "":
				return
			case !errors.As(err, &e) || e.Reason != c.want || e.Path != c.path || e.Offset < 0:
				t.Fatalf("got %v, want %v at %q", err, c.want, c.path)
			}
			if diff := cmp.Diff(document{}, v); diff != "" {
				t.Errorf("left behind after an error: %s", diff)
			}
		})
	}
}

func TestUnmarshal_NamesAllMissing(t *testing.T) {
	var v document
	err := canon.Unmarshal([]byte(`{"note":null}`), &v, canon.Limits{})
	var e *canon.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"count", "id", "leafs"}, e.Missing); diff != "" {
		t.Error(diff)
	}
}

func TestUnmarshal_Limits(t *testing.T) {
	var x any
	for _, c := range []struct {
		in   string
		lim  canon.Limits
		want error
	}{
		{`[[1]]`, canon.Limits{MaxBytes: 5, MaxDepth: 2}, nil},
		{`[[1]]`, canon.Limits{MaxBytes: 4}, canon.ErrSize},
		{`[[1]]`, canon.Limits{MaxDepth: 1}, canon.ErrDepth},
		{`[1,{"a":[]}]`, canon.Limits{MaxDepth: 2}, canon.ErrDepth},
		{`[[],[],[],{}]`, canon.Limits{MaxDepth: 2}, nil},
	} {
		if err := canon.Unmarshal([]byte(c.in), &x, c.lim); !errors.Is(err, c.want) {
			t.Errorf("%s with %+v: %v", c.in, c.lim, err)
		}
	}
	if lim := canon.DefaultLimits(); lim.MaxBytes != canon.DefaultMaxBytes || lim.MaxDepth != canon.DefaultMaxDepth {
		t.Errorf("%+v", lim)
	}
}

func TestUnmarshal_RefusedTargets(t *testing.T) {
	for name, v := range map[string]any{
		"no pointer":     document{},
		"nil":            (*document)(nil),
		"float":          new(float64),
		"bytes":          new([]byte),
		"own form":       new(ownJSON),
		"json.Number":    new(json.Number),
		"integer keys":   new(map[int]int),
		"with methods":   new(error),
		"untyped":        nil,
		"channel":        new(chan int),
		"untagged field": new(struct{ A int }),
	} {
		for _, in := range []string{`1`, `"x"`, `{}`, `[]`, `{"a":1}`} {
			if err := canon.Unmarshal([]byte(in), v, canon.Limits{}); !errors.Is(err, canon.ErrType) {
				t.Errorf("%s from %s: %v", name, in, err)
			}
		}
	}
}

// R5: our own records have one form, byte for byte.
func TestR5_OnlyCanonicalBytes(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"canonical", `{"count":1,"id":"\u0001\n/é","leafs":[{"name":""}],"note":null,"raw":{"a":1}}`, nil},
		{"white space", `{"count":1, "id":"","leafs":[],"note":null}`, canon.ErrNotCanonical},
		{"newline at the end", `{"count":1,"id":"","leafs":[],"note":null}` + "\n", canon.ErrNotCanonical},
		{"order", `{"id":"","count":1,"leafs":[],"note":null}`, canon.ErrNotCanonical},
		{"order in raw", `{"count":1,"id":"","leafs":[],"note":null,"raw":{"b":1,"a":1}}`, canon.ErrNotCanonical},
		{"escaped slash", `{"count":1,"id":"\/","leafs":[],"note":null}`, canon.ErrNotCanonical},
		{"escaped letter", `{"count":1,"id":"\u0061","leafs":[],"note":null}`, canon.ErrNotCanonical},
		{"escaped letter beyond ASCII", `{"count":1,"id":"\u00e9","leafs":[],"note":null}`, canon.ErrNotCanonical},
		{"escaped pair", `{"count":1,"id":"\ud83d\ude00","leafs":[],"note":null}`, canon.ErrNotCanonical},
		{"long escape", `{"count":1,"id":"\u000a","leafs":[],"note":null}`, canon.ErrNotCanonical},
		{"upper-case escape", `{"count":1,"id":"\u001F","leafs":[],"note":null}`, canon.ErrNotCanonical},
		{"escaped key", `{"count":1,"i\u0064":"","leafs":[],"note":null}`, canon.ErrNotCanonical},
		{"null left out", `{"count":1,"id":"","leafs":[]}`, canon.ErrNotCanonical},
		{"empty value kept", `{"count":1,"id":"","leafs":[],"note":null,"size":0}`, canon.ErrNotCanonical},
		{"empty map kept", `{"by":{},"count":1,"id":"","leafs":[],"note":null}`, canon.ErrNotCanonical},
		{"duplicate", `{"count":1,"count":1,"id":"","leafs":[],"note":null}`, canon.ErrDuplicate},
		{"missing", `{"id":"","leafs":[],"note":null}`, canon.ErrMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v document
			err := canon.UnmarshalCanonical([]byte(c.in), &v)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if c.want != nil {
				return
			}
			if out, err := canon.Marshal(v); err != nil || string(out) != c.in {
				t.Errorf("written again: %s, %v", out, err)
			}
		})
	}
}

func TestCheck_Members(t *testing.T) {
	got := map[string]string{}
	collect := func(name, value []byte) error {
		got[string(name)] = string(value)
		return nil
	}
	if err := canon.Check([]byte(`{"a":{"b":[1]},"c":"x"}`), canon.Limits{}, collect); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": `{"b":[1]}`, "c": `"x"`}, got); diff != "" {
		t.Error(diff)
	}
	if err := canon.Check([]byte(`[1]`), canon.Limits{}, collect); !errors.Is(err, canon.ErrType) {
		t.Errorf("an array has no members: %v", err)
	}
	stop := errors.New("stop")
	if err := canon.Check([]byte(`{"a":1}`), canon.Limits{}, func(_, _ []byte) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

func TestErrorText(t *testing.T) {
	_, err := canon.Canonicalize([]byte(`{"a":[1.5]}`), canon.Limits{})
	const want = "canon: float at /a/0 (byte 6): no fraction, exponent or -0; use integers, a ratio in parts per million"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// TestCheck_EveryByteAtEveryPlace: text that is passed eight bytes at a time is looked at
// as closely as byte by byte.
func TestCheck_EveryByteAtEveryPlace(t *testing.T) {
	const length = 19
	for at := range length {
		for c := range 256 {
			text := bytes.Repeat([]byte("a"), length)
			text[at] = byte(c)
			doc := append(append([]byte(`{"k":"`), text...), `"}`...)
			want := c >= ' ' && c < 0x80 && c != '"' && c != '\\'
			if err := canon.Check(doc, canon.Limits{}, nil); (err == nil) != want {
				t.Fatalf("byte %#x at %d: %v", c, at, err)
			}
		}
	}
}
