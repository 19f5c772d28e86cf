package canon_test

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/writbot/writ/kernel/canon"
)

// The SHA-256 of nothing, as every implementation has it.
const sumOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestSum(t *testing.T) {
	d := canon.Sum(nil)
	if d != "sha256:"+sumOfNothing || !d.Valid() || d.Hex() != sumOfNothing {
		t.Fatal(d)
	}
	b, err := d.Bytes()
	if err != nil || hex.EncodeToString(b[:]) != sumOfNothing {
		t.Errorf("%x, %v", b, err)
	}
}

func TestParseDigest(t *testing.T) {
	for in, want := range map[string]error{
		"sha256:" + sumOfNothing:            nil,
		"":                                  canon.ErrDigest,
		sumOfNothing:                        canon.ErrDigest,
		"sha1:" + sumOfNothing:              canon.ErrDigest,
		"SHA256:" + sumOfNothing:            canon.ErrDigest,
		"sha256:" + sumOfNothing[1:]:        canon.ErrDigest,
		"sha256:E" + sumOfNothing[1:]:       canon.ErrDigest,
		"sha256:g" + sumOfNothing[1:]:       canon.ErrDigest,
		"sha256:" + sumOfNothing + "\n":     canon.ErrDigest,
		" sha256:" + sumOfNothing[:63]:      canon.ErrDigest,
		"sha256:" + sumOfNothing[:62] + "é": canon.ErrDigest,
	} {
		d, err := canon.ParseDigest(in)
		if !errors.Is(err, want) || (err == nil) != (string(d) == in && d.Valid()) {
			t.Errorf("%q: %q, %v", in, d, err)
		}
		if _, err := canon.Digest(in).Bytes(); !errors.Is(err, want) {
			t.Errorf("bytes of %q: %v", in, err)
		}
		if h := canon.Digest(in).Hex(); (h == "") != (want != nil) {
			t.Errorf("digits of %q: %q", in, h)
		}
	}
}

// WK27: the whole formula is SHA-256 of the canonical bytes.
func TestHash_IsSumOfMarshal(t *testing.T) {
	v := map[string]any{"kind": "x", "n": 1}
	b, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, hash := range []func(any) (canon.Digest, error){canon.Hash, canon.Hash} {
		if h, err := hash(v); err != nil || h != canon.Sum(b) {
			t.Errorf("%s, %v", h, err)
		}
	}
}

// R6: what isn't tagged isn't hashed.
func TestR6_KindIsRequired(t *testing.T) {
	for name, v := range map[string]any{
		"no kind":       map[string]any{"a": 1},
		"empty":         map[string]any{"kind": ""},
		"number":        map[string]any{"kind": 1},
		"null":          map[string]any{"kind": nil},
		"object":        map[string]any{"kind": map[string]any{"kind": "x"}},
		"only inside":   map[string]any{"a": map[string]any{"kind": "x"}},
		"other case":    map[string]any{"Kind": "x"},
		"in an array":   []any{map[string]any{"kind": "x"}},
		"a bare string": "kind",
		"as a value":    map[string]any{"a": "kind", "b": `"kind":"x"`},
		"nothing":       nil,
	} {
		if h, err := canon.Hash(v); !errors.Is(err, canon.ErrKind) || h != "" {
			t.Errorf("%s: %q, %v", name, h, err)
		}
	}
}

// R6: no two different objects have the same bytes, however their fields are
// cut, and one kind can't be read as another.
func TestR6_FieldBoundaries(t *testing.T) {
	type pair struct {
		Kind string `json:"kind"`
		A    string `json:"a"`
		B    string `json:"b"`
	}
	type list struct {
		Kind  string   `json:"kind"`
		Items []string `json:"items"`
	}
	seen := map[canon.Digest]any{}
	for _, v := range []any{
		pair{"pair", "ab", "c"}, pair{"pair", "a", "bc"}, pair{"pair", "", "abc"}, pair{"pair", "abc", ""},
		pair{"pair", `a","b":"`, "c"}, pair{"pair", "a", `","b":"c`}, pair{"pair", `a\`, `"c`},
		pair{"paira", "b", "c"}, pair{"receipt", "ab", "c"}, pair{"snapshot", "ab", "c"},
		list{"pair", []string{"ab", "c"}}, list{"pair", []string{"a", "bc"}}, list{"pair", []string{"a,b", "c"}},
		list{"pair", []string{`a","b`, "c"}}, list{"pair", []string{"abc"}}, list{"pair", []string{"abc", ""}}, list{"pair", nil},
		list{"leaf", []string{"ab", "c"}}, list{"node", []string{"ab", "c"}},
		map[string]any{"kind": "pair", "items": "[]"}, map[string]any{"kind": "pair", "items": nil},
		map[string]any{"kind": "pair", "items": map[string]any{}}, map[string]any{"kind": "pair"},
		map[string]any{"kind": "pair", "n": 12, "o": 3}, map[string]any{"kind": "pair", "n": 1, "o": 23},
		map[string]any{"kind": "pair", "n": "12", "o": 3},
		map[string]any{"kind": "world", "world_id": "example.org/a"}, map[string]any{"kind": "world", "world_id": "example.org/b"},
	} {
		h, err := canon.Hash(v)
		if err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
		if other, ok := seen[h]; ok {
			t.Errorf("%+v and %+v have the same hash", v, other)
		}
		seen[h] = v
	}
}

// R6: bytes of one kind don't decode as another kind, whose members differ,
// and a hash covers the kind.
func TestR6_OneKindIsNotAnother(t *testing.T) {
	type receipt struct {
		Kind string `json:"kind"`
		Seed int    `json:"seed"`
	}
	b, err := canon.Marshal(map[string]any{"kind": "snapshot", "state": 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := canon.UnmarshalCanonical(b, &receipt{}); !errors.Is(err, canon.ErrUnknown) {
		t.Errorf("a snapshot read as a receipt: %v", err)
	}
	one, err1 := canon.Hash(receipt{"receipt", 1})
	two, err2 := canon.Hash(receipt{"snapshot", 1})
	if err1 != nil || err2 != nil || one == two {
		t.Errorf("%v, %v: the kind isn't in the hash", err1, err2)
	}
}
