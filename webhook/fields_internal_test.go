package webhook

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzMembers: a member is what encoding/json finds under that very name, in
// every document that is taken.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":{"a":"x"},"c":[{"a":null},[],"]}"]}`, ` { "a" : "\\" , "b":"\"}" } `, `{"\u0061":"é\ud83d\ude00","b":"\\\\\""}`,
		`{"a":-1.5e3,"b":true,"c":[1,"[",{"b":[]}]}`, `[{"a":1}]`, `{}`, `"a"`, `{"b":"{\"a\":1}"}`, `{"A":1,"a":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := document(data, "a", "b", "c")
		if err != nil {
			return
		}
		var want map[string]json.RawMessage
		if value(data).kind() != '{' {
			if len(found) != 0 {
				t.Fatalf("%q in %q", found, data)
			}
			return
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c"} {
			if !bytes.Equal(found[name], want[name]) {
				t.Fatalf("%s is %q, want %q", name, found[name], want[name])
			}
			sameText(t, found[name])
			sameItems(t, found[name])
		}
	})
}

func sameText(t *testing.T, v value) {
	t.Helper()
	var want string
	isText := json.Unmarshal(v, &want) == nil && strings.HasPrefix(string(v), `"`)
	if got, ok := v.text(); ok != isText || got != want {
		t.Fatalf("%q is %q, want %q", v, got, want)
	}
	var n int64
	isID := json.Unmarshal(v, &n) == nil && n > 0
	if got := v.id(); (got != 0) != isID || isID && got != n {
		t.Fatalf("%q is number %d, want %d", v, got, n)
	}
}

func sameItems(t *testing.T, v value) {
	t.Helper()
	var want []json.RawMessage
	if len(v) > 0 && v[0] == '[' && json.Unmarshal(v, &want) != nil {
		t.Fatalf("%q", v)
	}
	var got []value
	for item := range v.items() {
		got = append(got, item)
	}
	if len(got) != len(want) {
		t.Fatalf("%q has %d items, want %d", v, len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("item %d of %q is %q", i, v, got[i])
		}
	}
}

// TestW5_ManyItems: what a body's bytes are counted for isn't taken many times over by the
// items of a list, and of labels no more are read than count.
func TestW5_ManyItems(t *testing.T) {
	const many = 1 << 20
	list := value("[" + strings.Repeat("0,", many-1) + "{}]")
	n := 0
	if allocs := testing.AllocsPerRun(1, func() {
		n = 0
		for item := range list.items() {
			item.member("title")
			n++
		}
	}); n != many || allocs > 100 {
		t.Errorf("%d items of %d take %v allocations", n, many, allocs)
	}
	if names := labels(list); len(names) != maxLabels+1 {
		t.Errorf("%d labels are read, want one more than %d", len(names), maxLabels)
	}
}

// TestTime: the ways in which forges write times, and no others.
func TestTime(t *testing.T) {
	for text, want := range map[string]int64{
		`"2027-01-15T08:00:00Z"`: 1_800_000_000, `"2027-01-15T09:00:00.123+01:00"`: 1_800_000_000, `"2027-01-15 08:00:00 UTC"`: 1_800_000_000,
		`"2027-01-15 09:00:00 +0100"`: 1_800_000_000, `"2027-01-15 08:00:00 CET"`: 0, `1800000000`: 0, `null`: 0, ``: 0, `"1960-01-01T00:00:00Z"`: 0,
	} {
		got, ok := value(text).time()
		if ok != (want != 0) || ok && got.Unix() != want {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
}
