package canon_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"github.com/writbot/writ/kernel/canon"
)

// FuzzCanonicalize: what is accepted has one form, and the readers agree.
func FuzzCanonicalize(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.In))
		f.Add([]byte(v.Out))
	}
	for _, s := range []string{`{"b":1,"a":[{"d":"\ud83d\ude00\/","c":-1}]}`, `-0`, `{"a":1,"a":2}`, `"\ud800"`, `[1e9]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var x any
		out, err := canon.Canonicalize(data, canon.Limits{})
		decoded := canon.Unmarshal(data, &x, canon.Limits{})
		if (err == nil) != (decoded == nil) {
			t.Fatalf("Canonicalize: %v, Unmarshal: %v", err, decoded)
		}
		form := canon.Check(data, canon.Limits{}, nil)
		if (form == nil) != (err == nil && bytes.Equal(out, data)) {
			t.Fatalf("Check: %v, canonical form %q", form, out)
		}
		if err != nil {
			return
		}
		if !json.Valid(data) || !json.Valid(out) || !utf8.Valid(out) {
			t.Fatalf("accepted what is no JSON: %q", data)
		}
		again, err := canon.Canonicalize(out, canon.Limits{})
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("not idempotent: %q, %v", again, err)
		}
		written, err := canon.Marshal(x)
		if err != nil || !bytes.Equal(written, out) {
			t.Fatalf("through values %q, %v; through bytes %q", written, err, out)
		}
		agreeWithJCS(t, data, out)
	})
}

// agreeWithJCS: RFC 8785 knows only objects and arrays at the top.
func agreeWithJCS(t *testing.T, in, out []byte) {
	t.Helper()
	if out[0] != '{' && out[0] != '[' {
		return
	}
	theirs, err := jcs.Transform(in)
	if err != nil || !bytes.Equal(theirs, out) {
		t.Fatalf("RFC 8785 says %q, %v\nwe say %q", theirs, err, out)
	}
}

// FuzzUnmarshal: what a struct accepts is what it writes.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"count":1,"id":"x","leafs":[{"name":"é"}],"note":null}`))
	f.Add([]byte(`{"by":{"k":{"name":""}},"count":-1,"id":"","leafs":[],"note":"n","raw":{"b":[1],"a":null},"size":7,"two":[true,false]}`))
	f.Add([]byte(`{"by":{},"count":1,"id":"\/","leafs":[],"size":0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v, back document
		if canon.Unmarshal(data, &v, canon.Limits{}) != nil {
			if canon.UnmarshalCanonical(data, &v) == nil {
				t.Fatal("only the stricter reader took it")
			}
			return
		}
		out, err := canon.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := canon.UnmarshalCanonical(out, &back); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if diff := cmp.Diff(v, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if err := canon.UnmarshalCanonical(data, &v); (err == nil) != bytes.Equal(data, out) {
			t.Fatalf("%q is written as %q, but: %v", data, out, err)
		}
	})
}

// jsonValue draws any value of the shared set.
func jsonValue(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just(any(nil)), rapid.Bool().AsAny(), rapid.String().AsAny(),
		rapid.Int64Range(-(1<<53 - 1), 1<<53-1).AsAny(),
	}
	if depth > 0 {
		key := rapid.StringMatching(`[\x00-\x7f]{0,6}`)
		kinds = append(kinds,
			rapid.MapOfN(key, jsonValue(depth-1), 0, 5).AsAny(),
			rapid.SliceOfN(jsonValue(depth-1), 0, 5).AsAny())
	}
	return rapid.OneOf(kinds...)
}

// TestR5_AgreesWithRFC8785: over shared values we write what the standard
// says, and every order of keys gives the same bytes (WK31).
func TestR5_AgreesWithRFC8785(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := rapid.MapOf(rapid.StringMatching(`[ -~]{0,8}`), jsonValue(3)).Draw(rt, "value")
		ours, err := canon.Marshal(v)
		if err != nil {
			rt.Fatal(err)
		}
		loose, err := json.MarshalIndent(v, " ", "\t")
		if err != nil {
			rt.Fatal(err)
		}
		theirs, err := jcs.Transform(loose)
		if err != nil || !bytes.Equal(theirs, ours) {
			rt.Fatalf("RFC 8785 says %q, %v\nwe say %q", theirs, err, ours)
		}
		fromText, err := canon.Canonicalize(loose, canon.Limits{})
		if err != nil || !bytes.Equal(fromText, ours) {
			rt.Fatalf("from text %q, %v", fromText, err)
		}
		var back any
		if err := canon.UnmarshalCanonical(ours, &back); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(any(v), back); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// Round trip of a struct: object, JSON, object, JSON.
func TestRoundTrip(t *testing.T) {
	text := rapid.String()
	leafs := rapid.Custom(func(t *rapid.T) leaf { return leaf{Name: text.Draw(t, "name")} })
	documents := rapid.Custom(func(t *rapid.T) document {
		return document{
			ID: text.Draw(t, "id"), Count: rapid.Int8().Draw(t, "count"), Size: rapid.Uint16().Draw(t, "size"),
			Note: rapid.Ptr(text, true).Draw(t, "note"), Leafs: rapid.SliceOf(leafs).Draw(t, "leafs"),
			By: rapid.MapOfN(rapid.StringMatching(`[a-z]{1,3}`), leafs, 1, 4).Draw(t, "by"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		v := documents.Draw(rt, "document")
		one, err := canon.Marshal(v)
		if err != nil {
			rt.Fatal(err)
		}
		var back, loose document
		if err := canon.UnmarshalCanonical(one, &back); err != nil {
			rt.Fatal(err)
		}
		if err := canon.Unmarshal(one, &loose, canon.Limits{}); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff([]document{v, v}, []document{back, loose}); diff != "" {
			rt.Fatal(diff)
		}
		two, err := canon.Marshal(back)
		if err != nil || !slices.Equal(one, two) {
			rt.Fatalf("%s\n%s, %v", one, two, err)
		}
	})
}
