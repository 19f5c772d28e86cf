package forge_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/forge"
)

func samplePayload() forge.Payload {
	return forge.Payload{
		Event: forge.PayloadComment, Action: "created",
		Repository: forge.PayloadRepository{ID: 1, Owner: "o", Name: "n"},
		Sender:     forge.PayloadSender{ID: 2, Login: "l", Kind: forge.Person},
		Issue:      &forge.PayloadIssue{Number: 3, ID: 9, Title: "Ünïcode 🎉 \"quoted\"", Body: "a\r\nb\tc\u2028<&>"},
		Comment:    &forge.PayloadText{ID: 4, Body: "/writ run"}, Label: "writ",
		Ref: "refs/heads/main", Before: "aa", After: "bb", AtMS: 1,
	}
}

func TestPayload_RoundTrip(t *testing.T) {
	for name, p := range map[string]forge.Payload{
		"everything": samplePayload(),
		"nothing":    {},
		"a push":     {Event: forge.PayloadPush, Ref: "refs/heads/x"},
	} {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := forge.ParsePayload(b)
		if diff := cmp.Diff(p, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

// TestPayload_Tolerant: forges add members, and write null for what is absent.
func TestPayload_Tolerant(t *testing.T) {
	got, err := forge.ParsePayload([]byte(` {"action" : "opened", "ACTION":"labeled", "Action":[1.5e3,-0,{"a":null}],
		"new":{"deep":[[true,false]]}, "issue":null, "comment":{"id":7,"author":{}}, "label":null, "at_ms":null,
		"sender":{"id":2,"ID":3,"avatar_url":"x"}, "ev\u0065nt":"issue\u0073" } `))
	want := forge.Payload{
		Event: forge.PayloadIssues, Action: "opened", Sender: forge.PayloadSender{ID: 2}, Comment: &forge.PayloadText{ID: 7},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestPayload_Faults(t *testing.T) {
	many := strings.Builder{}
	for i := range 200 {
		many.WriteString(`"` + strings.Repeat("k", i+1) + `":1,`)
	}
	for text, want := range map[string]forge.PayloadFault{
		``:                                   forge.PayloadSyntax,
		`{`:                                  forge.PayloadSyntax,
		`{"action"`:                          forge.PayloadSyntax,
		`{"action":"x",}`:                    forge.PayloadSyntax,
		`{"action":"x"} x`:                   forge.PayloadSyntax,
		`{"action":'x'}`:                     forge.PayloadSyntax,
		`{"x":01}`:                           forge.PayloadSyntax,
		`{"x":1.}`:                           forge.PayloadSyntax,
		`{"x":1e}`:                           forge.PayloadSyntax,
		`{"x":NaN}`:                          forge.PayloadSyntax,
		`{"x":"\x"}`:                         forge.PayloadSyntax,
		`{"x":"\u12g4"}`:                     forge.PayloadSyntax,
		`{"x":"\u+123"}`:                     forge.PayloadSyntax,
		`{"x":"\ud800"}`:                     forge.PayloadSyntax,
		`{"x":"\udc00\ud800"}`:               forge.PayloadSyntax,
		`{"x":"\ud800\u0041"}`:               forge.PayloadSyntax,
		"{\"x\":\"\xc0\x80\"}":               forge.PayloadSyntax,
		"{\"x\":\"a\nb\"}":                   forge.PayloadSyntax,
		`{"action":"a","action":"a"}`:        forge.PayloadDuplicate,
		`{"action":"a","\u0061ction":"a"}`:   forge.PayloadDuplicate,
		`{"x":{"y":1,"y":1}}`:                forge.PayloadDuplicate,
		`{` + many.String() + `"kk":1}`:      forge.PayloadDuplicate,
		strings.Repeat(`{"a":`, 65) + "1":    forge.PayloadDepth,
		strings.Repeat(`[`, 1<<20):           forge.PayloadDepth,
		`[]`:                                 forge.PayloadType,
		`"x"`:                                forge.PayloadType,
		`{"action":1}`:                       forge.PayloadType,
		`{"at_ms":"1"}`:                      forge.PayloadType,
		`{"at_ms":1.0}`:                      forge.PayloadType,
		`{"at_ms":9223372036854775808}`:      forge.PayloadType,
		`{"issue":[]}`:                       forge.PayloadType,
		strings.Repeat(" ", 25<<20) + `{"x"`: forge.PayloadSize,
	} {
		short := text[:min(len(text), 60)]
		got, err := forge.ParsePayload([]byte(text))
		var e *forge.PayloadError
		if !errors.As(err, &e) || e.Fault != want {
			t.Errorf("%s: got %v, want %s", short, err, want)
		}
		if diff := cmp.Diff(forge.Payload{}, got); diff != "" {
			t.Errorf("%s: something was read: %s", short, diff)
		}
	}
}

// TestPayload_Members: the bytes of those members of the document itself that are named.
func TestPayload_Members(t *testing.T) {
	const data = " { \"a\" : {\"b\":[1],\"c\":2} ,\t\"\\u0062\":\"\\\"\" ,\"c\": [ {} ], \"d\":null,\"B\":-1.50e3\n} "
	got, err := forge.Members([]byte(data), 3, "a", "b", "c", "d", "B", "x")
	want := map[string][]byte{"a": []byte(`{"b":[1],"c":2}`), "b": []byte(`"\""`), "c": []byte(`[ {} ]`), "d": []byte(`null`), "B": []byte(`-1.50e3`)}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, other := range []string{`[{"a":1}]`, `"a"`, ` null `, `{}`, `["a",1]`} {
		if got, err := forge.Members([]byte(other), 2, "a"); err != nil || len(got) > 0 {
			t.Errorf("%s: %v, %s", other, err, got)
		}
	}
	for _, bad := range []string{data + "1", `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `{"a":[[[]]]}`} {
		if got, err := forge.Members([]byte(bad), 3, "a"); err == nil || got != nil {
			t.Errorf("%s: %s", bad, got)
		}
	}
}

func TestPayload_Check(t *testing.T) {
	if err := samplePayload().Check(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*forge.Payload){
		"repository.id": func(p *forge.Payload) { p.Repository.ID = 0 },
		"sender.id":     func(p *forge.Payload) { p.Sender.ID = -1 },
		"sender.kind":   func(p *forge.Payload) { p.Sender.Kind = "robot" },
		"at_ms":         func(p *forge.Payload) { p.AtMS = 0 },
		"action":        func(p *forge.Payload) { p.Action = "" },
		"issue.id":      func(p *forge.Payload) { p.Issue.ID = 0 },
		"comment.id":    func(p *forge.Payload) { p.Comment = nil },
		"label":         func(p *forge.Payload) { p.Event, p.Action, p.Label = forge.PayloadIssues, "unlabeled", "" },
		"ref":           func(p *forge.Payload) { p.Event, p.Ref = forge.PayloadPush, "main" },
		"before, after": func(p *forge.Payload) { p.Event, p.Before, p.After = forge.PayloadPush, "", "" },
		"action, ref":   func(p *forge.Payload) { p.Event, p.Action, p.Ref = forge.PayloadChange, "", "" },
		"event":         func(p *forge.Payload) { p.Event = "stars" },
	} {
		p := samplePayload()
		spoil(&p)
		var e *forge.PayloadError
		if err := p.Check(); !errors.As(err, &e) || e.Fault != forge.PayloadMissing || e.Member != want {
			t.Errorf("got %v, want that %s is missing", err, want)
		}
	}
}

// FuzzPayload holds the reader to encoding/json: what is taken is JSON, without
// a key twice, and says the same again after it was written; what is refused
// for its syntax is refused there as well.
func FuzzPayload(f *testing.F) {
	sample, err := json.Marshal(samplePayload())
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{string(sample), `{}`, `null`, `{"a":1,"\u0061":2}`, `{"action":"\"\\\/\b\f\n\r\t\u00e9\ud83c\udf89\uFFFE"}`, `{"x":[1,2.5e-3,{"y":"\ud83c\udf89"}]}`, `{"x":"\ud800"}`, "[[[]]]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := forge.ParsePayload(data)
		_, checked := forge.Members(data, forge.MaxPayloadDepth)
		var e *forge.PayloadError
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("an error of another type: %v", err)
		}
		if err == nil && checked != nil {
			t.Fatalf("read, and yet refused: %v", checked)
		}
		if checked == nil && (!json.Valid(data) || !utf8.Valid(data) || twice(t, data)) {
			t.Fatalf("taken: %q", data)
		}
		if errors.As(checked, &e) && e.Fault == forge.PayloadSyntax && json.Valid(data) && utf8.Valid(data) && !strings.Contains(string(data), `\u`) {
			t.Fatalf("refused: %q", data)
		}
		if err != nil {
			return
		}
		var members map[string]json.RawMessage
		var action string
		if err := json.Unmarshal(data, &members); err != nil {
			t.Fatal(err)
		}
		if raw, ok := members["action"]; ok {
			if err := json.Unmarshal(raw, &action); err != nil || action != p.Action {
				t.Fatalf("read %q, encoding/json reads %q, %v", p.Action, action, err)
			}
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := forge.ParsePayload(b)
		if diff := cmp.Diff(p, again); err != nil || diff != "" {
			t.Fatalf("%v %s", err, diff)
		}
	})
}

// twice reports whether an object has a key twice, read by encoding/json.
func twice(t *testing.T, data []byte) bool {
	t.Helper()
	in := json.NewDecoder(strings.NewReader(string(data)))
	in.UseNumber()
	var open []map[string]bool // nil for an array
	key := false               // an object's key may come
	for {
		tok, err := in.Token()
		if err != nil {
			return false
		}
		switch tok {
		case json.Delim('{'):
			open, key = append(open, map[string]bool{}), true
			continue
		case json.Delim('['):
			open, key = append(open, nil), false
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		default:
			if name, ok := tok.(string); ok && key {
				if open[len(open)-1][name] {
					return true
				}
				open[len(open)-1][name], key = true, false
				continue
			}
		}
		key = len(open) > 0 && open[len(open)-1] != nil
	}
}

func BenchmarkPayload(b *testing.B) {
	p := samplePayload()
	p.Issue.Body = strings.Repeat("Some text, and more.\n", 180)
	data, err := json.Marshal(p)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := forge.ParsePayload(data); err != nil {
			b.Fatal(err)
		}
	}
}
