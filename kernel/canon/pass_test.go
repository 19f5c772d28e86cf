package canon

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// slowly is what skip says of a whole document.
func slowly(data []byte, depth int) error {
	s := newScanner(data, Limits{MaxBytes: 1 << 20, MaxDepth: depth})
	s.canonical = true
	return s.document(s.skip)
}

var passed = []string{
	`{}`, `[]`, `null`, `true`, `false`, `0`, `-1`, `7`, `123456789012345`, `-123456789012345`, `""`, `"a"`,
	`{"a":1,"b":[1,2,{"c":null}],"c":{"d":"e","f":[]}}`, `"0123456789abcdef0123"`, `"é <b> \"quoted\"\n\t\\ 𝄞"`,
	`[["a","\b\f\r"],[true,false,null],[-0]]`, `{"":"","A":{},"a":[],"aa":0}`, `{"kind":"audit","prev":"sha256:00","seq":12}`,
	`{"b":1,"a":2}`, `{"a":1,"a":2}`, `{"é":1}`, `{"\n":1}`, `"\u0001"`, `"\u000a"`, `"\/"`, `01`, `-0`, `1.5`, `1e3`, `-`, `1234567890123456`,
	`9007199254740991`, `9007199254740992`, `"\ud834"`, "\"\xff\"", "\"\x01\"", "\"a\x00bcdefgh\"", `[1 ,2]`, `{"a" :1}`, `{"a":1,}`, `[1,]`, `[`, `{`, `"`, `"\`, `{"a"`, `{"a":`, ``, `tru`, `nul`, `falsy`, `[[[[]]]]`,
}

// TestPass_IsAsStrict: what pass takes, skip takes, to the same end; what is undecided is
// refused, or one of few things that are rare.
func TestPass_IsAsStrict(t *testing.T) {
	rare := map[string]bool{`{"\n":1}`: true, `"\u0001"`: true, `1234567890123456`: true, `9007199254740991`: true}
	for _, text := range passed {
		for _, depth := range []int{1, 3, 64} {
			end, err := pass([]byte(text), 0, depth), slowly([]byte(text), depth)
			if took := end == len(text); took && err != nil || !took && err == nil && !rare[text] {
				t.Errorf("%q with depth %d: %d of %d, but skip: %v", text, depth, end, len(text), err)
			}
		}
	}
}

// TestPass_Random changes a byte or two of documents.
func TestPass_Random(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	took := 0
	for range 300_000 {
		b := []byte(passed[r.IntN(len(passed))])
		if r.IntN(4) == 0 {
			b = fmt.Appendf(nil, `{"k":%s,"l":%s}`, b, passed[r.IntN(len(passed))])
		}
		for range r.IntN(3) {
			const letters = "{}[]\",:\\0123456789-eEn.tfa \x00\x1f\x7f\x80\xc3\xa9"
			switch i := r.IntN(len(b) + 1); {
			case i == len(b) || r.IntN(3) == 0:
				b = append(b[:i:i], append([]byte{letters[r.IntN(len(letters))]}, b[i:]...)...)
			case r.IntN(2) == 0:
				b = append(b[:i:i], b[i+1:]...)
			default:
				b[i] = letters[r.IntN(len(letters))]
			}
		}
		err := slowly(b, 4)
		if pass(b, 0, 4) == len(b) {
			if took++; err != nil {
				t.Fatalf("%q is taken, but %v", b, err)
			}
		} else if err == nil && !bytes.ContainsAny(b, `\67890`) {
			t.Fatalf("%q is undecided", b)
		}
	}
	if took < 1000 {
		t.Errorf("only %d documents were taken", took)
	}
}

// TestPass_ReasonsStay: a value that a member's pass can't decide is refused for what it is.
func TestPass_ReasonsStay(t *testing.T) {
	for text, want := range map[string]Reason{`{"a":1.5}`: ErrFloat, `{"a":-0}`: ErrFloat, `{"a":9007199254740992}`: ErrRange, `{"a":{"b":1,"b":2}}`: ErrDuplicate} {
		err := Check([]byte(text), Limits{}, func(_, _ []byte) error { return nil })
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
