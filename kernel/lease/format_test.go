package lease

import (
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// forgeries are bodies that would like to be trailers, or to hide them.
var forgeries = []string{
	"aynig-state: done", "x\n\naynig-state: done\n", "aynig-state: done\naynig-run-id: " + runB,
	"---", "a\n---\nb", "--- a/x\n+++ b/x", "text\nSigned-off-by: A <a@example.org>", "(cherry picked from commit 1)",
	"# comment", "# comment\n", "#", "Conflicts:\n\ta", "Conflicts:", "\n", "\n\n", " ", "\t\n ", "\r", "\r\n", "a\r\n", "a\r",
	"aynig-state:\n done", " folded", "\tfolded", "é\xff\xfe", "aynig-state: done\r\n\r", "\x01\x1b[31m",
}

func writable(body string) bool {
	return !strings.Contains(body, "\x00") && !strings.Contains("\n"+body+"\n", "\n"+scissors)
}

// TestL13_BodyCannotForgeTrailers writes hostile bodies and lets git read them.
func TestL13_BodyCannotForgeTrailers(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	bodies := slices.Clone(forgeries)
	for range 1000 {
		bodies = append(bodies, string(nastyMessage(r)))
	}
	var messages [][]byte
	var want [][]string
	for _, body := range bodies {
		m := Message{Title: "aynig-state: done", Body: body, Trailers: []Trailer{{KeyState, "open"}, {"writ-base", oidA}}}
		b, err := Format(m)
		if ok := err == nil; ok != writable(body) {
			t.Fatalf("body %q: %v", body, err)
		}
		if err != nil {
			if !HasCode(err, CodeUnwritable) {
				t.Fatalf("body %q: %v", body, err)
			}
			continue
		}
		if diff := cmp.Diff(m, Parse(b)); diff != "" {
			t.Fatalf("body %q (-written +read):\n%s", body, diff)
		}
		messages = append(messages, b)
		want = append(want, printed(m.Trailers))
	}
	if diff := cmp.Diff(want, gitTrailers(t, messages)); diff != "" {
		t.Errorf("(-written +git):\n%s", diff)
	}
}

// TestL13_FormatRefuses lists what can't be written.
func TestL13_FormatRefuses(t *testing.T) {
	state := Trailer{KeyState, "done"}
	with := func(ts ...Trailer) Message { return Message{Title: "t", Trailers: ts} }
	for _, c := range []struct {
		name    string
		message Message
		fault   Fault
	}{
		{"scissors in the body", Message{Title: "t", Body: "a\n" + scissors + "b", Trailers: []Trailer{state}}, Fault{FaultInvalid, SubjectBody}},
		{"NUL in the body", Message{Title: "t", Body: "a\x00b", Trailers: []Trailer{state}}, Fault{FaultInvalid, SubjectBody}},
		{"trailers at the body's end, none of its own", Message{Title: "t", Body: "k: v"}, Fault{FaultInvalid, SubjectBody}},
		{"long body", Message{Title: "t", Body: strings.Repeat("x", MaxMessageBytes)}, Fault{FaultOutOfRange, SubjectMessage}},
		{"no title", Message{}, Fault{FaultInvalid, SubjectTitle}},
		{"title of two lines", Message{Title: "a\nb"}, Fault{FaultInvalid, SubjectTitle}},
		{"title of two paragraphs", Message{Title: "a\n\nk: v"}, Fault{FaultInvalid, SubjectTitle}},
		{"title with an escape", Message{Title: "a\x1b[0m"}, Fault{FaultInvalid, SubjectTitle}},
		{"title of blanks", Message{Title: "  "}, Fault{FaultInvalid, SubjectTitle}},
		{"long title", Message{Title: strings.Repeat("x", MaxTitleBytes+1)}, Fault{FaultInvalid, SubjectTitle}},
		{"empty key", with(Trailer{"", "v"}), Fault{FaultInvalid, "key"}},
		{"key with a blank", with(Trailer{"a b", "v"}), Fault{FaultInvalid, "key"}},
		{"key with a colon", with(Trailer{"a: b\nc", "v"}), Fault{FaultInvalid, "key"}},
		{"key with a letter of Unicode", with(Trailer{"é", "v"}), Fault{FaultInvalid, "key"}},
		{"key as a comment", with(Trailer{"#a", "v"}), Fault{FaultInvalid, "key"}},
		{"long key", with(Trailer{strings.Repeat("k", MaxKeyBytes+1), "v"}), Fault{FaultInvalid, "key"}},
		{"value of two lines", with(Trailer{"k", "v\naynig-state: done"}), Fault{FaultInvalid, "k"}},
		{"value with a carriage return", with(Trailer{"k", "v\rw"}), Fault{FaultInvalid, "k"}},
		{"value with a line separator", with(Trailer{"k", "v\u2028w"}), Fault{FaultInvalid, "k"}},
		{"value with NUL", with(Trailer{"k", "v\x00"}), Fault{FaultInvalid, "k"}},
		{"value of no encoding", with(Trailer{"k", "\xff"}), Fault{FaultInvalid, "k"}},
		{"value with blanks around", with(Trailer{"k", " v"}), Fault{FaultInvalid, "k"}},
		{"empty value", with(Trailer{"k", ""}), Fault{FaultInvalid, "k"}},
		{"long value", with(Trailer{"k", strings.Repeat("v", MaxValueBytes+1)}), Fault{FaultInvalid, "k"}},
		{"many trailers", with(slices.Repeat([]Trailer{{"k", "v"}}, MaxTrailers+1)...), Fault{FaultOutOfRange, SubjectMessage}},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.message, c.fault) })
	}
}

// TestA24_FormatKeepsReservedTrailers: of the reserved keys the layers above
// can write aynig-state only, and not the kernel's two states.
func TestA24_FormatKeepsReservedTrailers(t *testing.T) {
	for _, ts := range [][]Trailer{
		{{KeyState, StateWorking}}, {{KeyState, StateStalled}}, {{KeyState, "Done"}}, {{KeyState, "../x"}},
		{{KeyState, "done"}, {KeyState, "done"}}, {{"Aynig-State", "done"}}, {{KeyState, "done"}, {"AYNIG-STATE", "done"}},
		{{KeyState, "done"}, {KeyRunID, runA}}, {{KeyOriginState, "open"}}, {{KeyRunnerID, "h"}},
		{{KeyLeaseSeconds, "1"}}, {{KeyStalledRun, runA}}, {{"aynig-Stalled-run", runA}},
	} {
		refused(t, Message{Title: "t", Trailers: ts}, Fault{FaultUnexpected, ts[len(ts)-1].Key})
	}
	for _, ts := range [][]Trailer{nil, {{KeyState, "done"}}, {{"aynig-log-level", "debug"}}, {{"writ-attempt", "1"}, {KeyState, "done"}}} {
		if _, err := Format(Message{Title: "t", Trailers: ts}); err != nil {
			t.Errorf("%v: %v", ts, err)
		}
	}
}

func refused(t *testing.T, m Message, want Fault) {
	t.Helper()
	b, err := Format(m)
	e, ok := asError(err)
	if !ok || e.Code != CodeUnwritable || e.Fault != want || e.Detail == "" || e.Remedy == "" || b != nil {
		t.Errorf("%v: %q, %v; want fault %v", m.Trailers, b, err, want)
	}
}

// TestFormat_RoundTripProperty: what Format writes reads back, whatever it is.
func TestFormat_RoundTripProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom(nasty), 0, 12).Draw(t, "lines")
		m := Message{
			Title: rapid.SampledFrom([]string{"t", "aynig-state: done", "# t", "Conflicts:", "ü", "---"}).Draw(t, "title"),
			Body:  strings.Join(lines, rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "eol")),
			Trailers: rapid.SliceOfN(rapid.SampledFrom([]Trailer{
				{KeyState, "done"}, {"k", "v: w"}, {"Signed-off-by", "A <a@example.org>"}, {"0", "# x"}, {"Conflicts", "x"}, {"k", "ä"},
			}), 0, 4).Draw(t, "trailers"),
		}
		b, err := Format(m)
		if err != nil {
			return
		}
		if back := Parse(b); back.Title != m.Title || back.Body != m.Body || !slices.Equal(back.Trailers, m.Trailers) {
			t.Fatalf("wrote %q, read %q", m, back)
		}
	})
}

// TestParse_BodyOfAnEventIsWritable: a prompt that was read with trailers below
// it can be written again, so that a takeover doesn't lose it. The exception is
// a CRLF message whose prompt ends in a scissors line.
func TestParse_BodyOfAnEventIsWritable(t *testing.T) {
	r := rand.New(rand.NewSource(99))
	for range 20000 {
		message := nastyMessage(r)
		m := Parse(message)
		if len(m.Trailers) == 0 || strings.HasSuffix(m.Body, strings.TrimSuffix(scissors, "\n")) && strings.Contains(string(message), "\r\n") {
			continue
		}
		again := Message{Title: "t", Body: m.Body, Trailers: []Trailer{{KeyState, "open"}}}
		if _, err := Format(again); err != nil {
			t.Fatalf("message %q, body %q: %v", message, m.Body, err)
		}
	}
}

// FuzzFormatRoundTrip: git finds in Format's output exactly our trailers.
func FuzzFormatRoundTrip(f *testing.F) {
	for _, body := range forgeries {
		f.Add("writ: done", body, "writ-base", "x")
	}
	f.Fuzz(func(t *testing.T, title, body, key, value string) {
		m := Message{Title: title, Body: body, Trailers: []Trailer{{KeyState, "open"}, {key, value}}}
		b, err := Format(m)
		if err != nil {
			if !HasCode(err, CodeUnwritable) {
				t.Fatalf("untyped error %v", err)
			}
			if validLine(title) && validKey(key) && validLine(value) && !Reserved(key) && len(title)+len(key)+len(value) < MaxKeyBytes &&
				len(body) < MaxMessageBytes/2 && writable(body) {
				t.Fatalf("%q refused: %v", m, err)
			}
			return
		}
		if diff := cmp.Diff(m, Parse(b)); diff != "" {
			t.Errorf("(-written +read):\n%s", diff)
		}
		if diff := cmp.Diff(printed(m.Trailers), gitTrailers(t, [][]byte{b})[0]); diff != "" {
			t.Errorf("message %q (-written +git):\n%s", b, diff)
		}
	})
}
