package canon_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/writbot/writ/kernel/canon"
)

type vector struct {
	Name   string `json:"name"`
	In     string `json:"in"`
	Out    string `json:"out"`
	SHA256 string `json:"sha256"`
}

// vectors were computed by Python; testdata/golden.py says how.
func vectors(t testing.TB) []vector {
	t.Helper()
	f, err := os.Open("testdata/golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []vector
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if len(all) < 20 {
		t.Fatalf("only %d vectors", len(all))
	}
	return all
}

// WK24, WK25, WK27, T43: over shared values bytes and hash are the seed's.
func TestR5_GoldenVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			out, err := canon.Canonicalize([]byte(v.In), canon.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if string(out) != v.Out {
				t.Errorf("canonical form\n got %q\nwant %q", out, v.Out)
			}
			if got := canon.Sum(out).Hex(); got != v.SHA256 {
				t.Errorf("hash %s, want %s", got, v.SHA256)
			}
			var x any
			if err := canon.Unmarshal([]byte(v.In), &x, canon.Limits{}); err != nil {
				t.Fatal(err)
			}
			again, err := canon.Marshal(x)
			if err != nil || string(again) != v.Out {
				t.Errorf("through Go values: %q, %v", again, err)
			}
			if err := canon.Check(out, canon.Limits{}, nil); err != nil {
				t.Errorf("own output not canonical: %v", err)
			}
		})
	}
}

// WK31: inputs with the same meaning give the same bytes.
func TestR5_SameMeaningSameBytes(t *testing.T) {
	const want = `{"a":"é/<","b":[1,true],"kind":"k"}`
	for _, in := range []string{
		want,
		`{"kind":"k","b":[1,true],"a":"é/<"}`,
		" {\n\t\"b\" : [ 1 , true ] , \"a\" : \"\\u00E9\\/\\u003c\", \"kind\":\"k\"}\r\n",
		`{"\u0061":"é/<","b":[1,true],"k\u0069nd":"k"}`,
	} {
		out, err := canon.Canonicalize([]byte(in), canon.Limits{})
		if err != nil || string(out) != want {
			t.Errorf("%q: %s, %v", in, out, err)
		}
	}
}

// What Marshal writes for Go values, and that it is what Canonicalize writes.
func TestMarshal(t *testing.T) {
	type name string
	type inner struct {
		X int `json:"x"`
	}
	type Base struct {
		Z string `json:"z"`
		A uint8  `json:"a"`
	}
	type all struct {
		Base
		inner
		Named   name            `json:"named"`
		Nil     *int            `json:"nil"`
		Ptr     *inner          `json:"ptr"`
		Slice   []string        `json:"slice"`
		Map     map[name]int    `json:"map"`
		Array   [2]bool         `json:"array"`
		Any     any             `json:"any"`
		Raw     json.RawMessage `json:"raw"`
		NoRaw   json.RawMessage `json:"no_raw"`
		Empty   string          `json:"empty,omitempty"`
		Full    []int           `json:"full,omitempty"`
		Skipped func()          `json:"-"`
		hidden  int
	}
	v := all{
		Base: Base{Z: "é<", A: 255}, inner: inner{X: -1}, Named: "n", Ptr: &inner{X: 2}, hidden: 1,
		Any: map[string]any{"b": int64(1), "a": []any{nil}}, Raw: json.RawMessage(` {"b":1, "a":"\u0041"}`), Full: []int{0},
	}
	const want = `{"a":255,"any":{"a":[null],"b":1},"array":[false,false],"full":[0],"map":{},"named":"n","nil":null,` +
		`"no_raw":null,"ptr":{"x":2},"raw":{"a":"A","b":1},"slice":[],"x":-1,"z":"é<"}`
	out, err := canon.Marshal(v)
	if err != nil || string(out) != want {
		t.Fatalf("%v\n got %s\nwant %s", err, out, want)
	}
	var back all
	if err := canon.UnmarshalCanonical(out, &back); err != nil {
		t.Fatal(err)
	}
	again, err := canon.Marshal(&back)
	if err != nil || string(again) != want {
		t.Fatalf("after a round trip: %s, %v", again, err)
	}
	if _, err := canon.Hash(v); err == nil {
		t.Error("hashed without a kind")
	}
}
