package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// For any stream in any pieces: head is its beginning, tail its end, both are
// as long as the cap allows, and count and digest are those of the whole.
func TestCapture_AnyStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "cap")
		pieces := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 60)).Draw(t, "pieces")
		c := &Capture{Cap: int64(limit)}
		var whole []byte
		for _, p := range pieces {
			if n, err := c.Write(p); n != len(p) || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
			whole = append(whole, p...)
		}
		head, tail := c.Parts()
		if !bytes.HasPrefix(whole, head) || !bytes.HasSuffix(whole, tail) || len(head)+len(tail) != min(limit, len(whole)) {
			t.Fatalf("head %q and tail %q of %q with cap %d", head, tail, whole, limit)
		}
		sum := sha256.Sum256(whole)
		if c.Digest() != "sha256:"+hex.EncodeToString(sum[:]) || c.Total() != int64(len(whole)) {
			t.Fatalf("digest %s of %d bytes", c.Digest(), c.Total())
		}
		if c.Dropped() != int64(max(0, len(whole)-limit)) {
			t.Fatalf("dropped %d", c.Dropped())
		}
		if !utf8.ValidString(c.Text()) {
			t.Fatalf("text %q", c.Text())
		}
	})
}

func TestX7_TextIsSafeToPrint(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain\ttext\n", "plain\ttext\n"},
		{"invalid \xff\xfe bytes", "invalid \ufffd\ufffd bytes"},
		{"\x1b[31mred\x1b[0m\a", "[31mred[0m"},
		{"10%\r20%\r\ndone\r\n", "10%\n20%\ndone\n"},
		{"a\u202eb\u2066c\u009bd", "abcd"},
		{"zero\x00byte", "zerobyte"},
	} {
		got := &Capture{}
		_, _ = got.Write([]byte(c.in))
		if got.Text() != c.want {
			t.Errorf("Text of %q = %q, want %q", c.in, got.Text(), c.want)
		}
	}
}

func TestCapture_TellsWhatIsMissing(t *testing.T) {
	c := &Capture{Cap: 8}
	_, _ = c.Write([]byte("0123456789abcdef"))
	if got, want := c.Text(), "0123\n[... 8 bytes left out ...]\ncdef"; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
	if got := c.TailText(2); got != "ef" {
		t.Errorf("TailText = %q", got)
	}
}

func TestCapture_Lines(t *testing.T) {
	var got []string
	c := &Capture{OnLine: func(s string) { got = append(got, s) }}
	for _, p := range []string{"one\ntw", "o\n", strings.Repeat("x", MaxLineBytes+100), "\nrest"} {
		_, _ = c.Write([]byte(p))
	}
	c.Flush()
	want := []string{"one", "two", strings.Repeat("x", MaxLineBytes), "rest"}
	if !slices.Equal(got, want) {
		t.Errorf("lines = %q", got)
	}
	got = nil
	_, _ = c.Write(bytes.Repeat([]byte("y\n"), 10_000))
	if len(got) != liveLinesPerWrite {
		t.Errorf("%d lines of a flood, want %d", len(got), liveLinesPerWrite)
	}
}
