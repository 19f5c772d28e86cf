package canon_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel/canon"
)

// TestSeal: what is sealed has the bytes and the digest that everybody else gets, and
// stands in another document as its value would.
func TestSeal(t *testing.T) {
	value := map[string]any{"kind": "x", "n": []int{1, 2}}
	s, err := canon.Seal(value)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := canon.Marshal(value)
	if err != nil || string(s.Bytes()) != string(plain) || s.Hash() != canon.Sum(plain) || s.Value().(map[string]any)["kind"] != "x" {
		t.Errorf("%s, %s, %v", s.Bytes(), s.Hash(), err)
	}
	if again, err := canon.Seal(s); err != nil || &again.Bytes()[0] != &s.Bytes()[0] {
		t.Errorf("sealed again: %v", err)
	}
	type holder struct {
		Body any    `json:"body"`
		Kind string `json:"kind"`
	}
	within, err := canon.Marshal(holder{s, "y"})
	if want := `{"body":` + string(plain) + `,"kind":"y"}`; err != nil || string(within) != want {
		t.Errorf("%s, %v", within, err)
	}
}

// TestSeal_Refusals: nothing stands for a value that can't be written, goes deeper than
// what is written otherwise, or is read back.
func TestSeal_Refusals(t *testing.T) {
	if _, err := canon.Seal(1.5); !errors.Is(err, canon.ErrFloat) {
		t.Errorf("a float: %v", err)
	}
	if _, err := canon.Marshal(canon.Sealed{}); !errors.Is(err, canon.ErrType) {
		t.Errorf("nothing sealed: %v", err)
	}
	var deep any = 1
	for range canon.DefaultMaxDepth {
		deep = []any{deep}
	}
	s, err := canon.Seal(deep)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := canon.Marshal([]any{s}); !errors.Is(err, canon.ErrDepth) {
		t.Errorf("deeper than the limit: %v", err)
	}
	raw, err := canon.Seal(json.RawMessage(strings.Repeat("[", canon.DefaultMaxDepth) + strings.Repeat("]", canon.DefaultMaxDepth)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := canon.Marshal([]any{raw}); !errors.Is(err, canon.ErrDepth) {
		t.Errorf("kept JSON that is deeper than the limit: %v", err)
	}
	if err := canon.UnmarshalCanonical([]byte("{}"), &s); !errors.Is(err, canon.ErrType) {
		t.Errorf("read back: %v", err)
	}
}
