package lease

import (
	"flag"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// nasty are the fragments of which random messages are built: every rule of
// git's reader has some that sit on its edge.
var nasty = []string{
	"subject", "body text", "k: v", "K: V", "key:v", "key : v", "key\t : v", "key = v", "two words: v", ": v", "k:", "k: ",
	"-: v", "0: v", "k::v", "k: v: w", "k\v: v", "k: \vv\f", "é: v", "k: é\xff", "k:\r", "k: v\r", " \r", "\r",
	" folded", "\tfolded", "  k: v", " ", "\t", "", "", "", "", "#", "# comment", "#k: v", " # no comment", "---", "--- a/file", "-- ",
	"Signed-off-by: A <a@example.org>", "Signed-off-by:A", "signed-off-by: A", "(cherry picked from commit 0123)", "(cherry picked",
	"Conflicts:", "Conflicts:\r", "Conflicts: ", "# Conflicts:", "#\tpath", "\tpath", "\ta/b: c",
	"# ------------------------ >8 ------------------------", " # ------------------------ >8 ------------------------",
	"# ------------------------ >8 ------------------------\r", "# Do not modify or remove the line above.",
	"aynig-state: working", "Aynig-State: working", "aynig-state:", "aynig-run-id: x", "> quoted: v", "* item: v", "https://x/y",
	"k: v\x00w", "\x00", "\x01: v", "\u2028k: v", "\ufeffk: v", "Revert \"x\"", "Fixes #12", "diff --git a/x b/x",
}

// nastyMessage builds one random message out of fragments.
func nastyMessage(r *rand.Rand) []byte {
	var b strings.Builder
	eol := "\n"
	if r.Intn(6) == 0 {
		eol = "\r\n"
	}
	if r.Intn(10) != 0 {
		b.WriteString("subject" + eol + eol)
	}
	for n := r.Intn(12); n > 0; n-- {
		b.WriteString(nasty[r.Intn(len(nasty))])
		if n > 1 || r.Intn(8) != 0 {
			b.WriteString(eol)
		}
	}
	return []byte(b.String())
}

// messagesToParse is how many random messages git is asked about.
var messagesToParse = flag.Int("messages", 3000, "random messages that are parsed by git too")

// TestL13_ParseAgreesWithGit is the first layer of case L13: our reading of
// some thousand random messages is git's.
func TestL13_ParseAgreesWithGit(t *testing.T) {
	r := rand.New(rand.NewSource(13))
	messages := make([][]byte, *messagesToParse)
	for i := range messages {
		messages[i] = nastyMessage(r)
	}
	withTrailers := 0
	for i, want := range gitTrailers(t, messages) {
		got := printed(Parse(messages[i]).Trailers)
		if len(got) > 0 {
			withTrailers++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("message %q (-git +ours):\n%s", messages[i], diff)
		}
	}
	// A generator whose messages all lack trailers would prove nothing.
	if withTrailers < len(messages)/10 {
		t.Fatalf("only %d of %d random messages have trailers", withTrailers, len(messages))
	}
}

// TestL13_TrailerMatrix holds git's answers, and ours, for the messages that a
// predecessor of this format misread.
func TestL13_TrailerMatrix(t *testing.T) {
	const key = "aynig-state"
	for _, c := range []struct {
		name, message string
		want          []string
	}{
		{"title, body, trailer", "t\n\nbody\n\naynig-state: build\n", []string{"build"}},
		{"no body", "t\n\naynig-state: build\n", []string{"build"}},
		{"trailer as the title", "aynig-state: build\n", nil},
		{"trailer in the title paragraph", "t\naynig-state: build\n", nil},
		{"two", "t\n\naynig-state: build\naynig-state: review\n", []string{"build", "review"}},
		{"other case", "t\n\nAynig-State: build\n", []string{"build"}},
		{"upper-case value", "t\n\naynig-state: BUILD\n", []string{"BUILD"}},
		{"no blank", "t\n\naynig-state:build\n", []string{"build"}},
		{"blank before the colon", "t\n\naynig-state : build\n", []string{"build"}},
		{"equals sign", "t\n\naynig-state = build\n", nil},
		{"not in the last paragraph", "t\n\naynig-state: build\n\nmore\n", nil},
		{"divider in the body", "t\n\nbody\n---\nmore\n\naynig-state: build\n", []string{"build"}},
		{"divider above the block", "t\n\nbody\n---\n\naynig-state: build\n", []string{"build"}},
		{"mixed", "t\n\ntext\naynig-state: build\n", nil},
		{"mixed, signed off", "t\n\ntext\naynig-state: build\nSigned-off-by: A\n", []string{"build"}},
		{"mixed, signed off, below a quarter", "t\n\n1\n2\n3\n4\n5\n6\n7\naynig-state: build\nSigned-off-by: A\n", nil},
		{"mixed, cherry picked", "t\n\n1\n2\n3\naynig-state: build\n(cherry picked from commit 1)\n", []string{"build"}},
		{"folded", "t\n\naynig-state:\n  build\n", []string{"build"}},
		{"folded twice", "t\n\naynig-state: a\n b\n\tc\n", []string{"a b c"}},
		{"continuation of nothing", "t\n\n build\naynig-state: build\n", nil},
		{"CRLF", "t\r\n\r\nbody\r\n\r\naynig-state: build\r\n", []string{"build"}},
		{"blank lines at the end", "t\n\naynig-state: build\n\n \n\n", []string{"build"}},
		{"comment at the end", "t\n\naynig-state: build\n# comment\n", []string{"build"}},
		{"comment in the block", "t\n\n# text\naynig-state: build\n", []string{"build"}},
		{"comment paragraph at the end", "t\n\naynig-state: build\n\n# text\n# text\n", []string{"build"}},
		{"conflicts at the end", "t\n\naynig-state: build\n\nConflicts:\n\ta: b\n", []string{"build"}},
		{"scissors", "t\n\naynig-state: a\n# ------------------------ >8 ------------------------\n\naynig-state: b\n", []string{"a"}},
		{"no newline at the end", "t\n\naynig-state: build", []string{"build"}},
		{"path as a value", "t\n\naynig-state: ../../../bin/true\n", []string{"../../../bin/true"}},
		{"empty value", "t\n\naynig-state:\n", []string{""}},
		{"empty message", "", nil},
		{"behind a NUL", "t\n\nbody\x00\n\naynig-state: build\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Parse([]byte(c.message))
			if diff := cmp.Diff(c.want, m.Values(key)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(gitTrailers(t, [][]byte{[]byte(c.message)})[0], printed(m.Trailers)); diff != "" {
				t.Errorf("(-git +ours):\n%s", diff)
			}
		})
	}
}

// TestParse_Parts is A6: the prompt arrives unchanged and without trailers.
func TestParse_Parts(t *testing.T) {
	const scissorsBody = "a\n# ------------------------ >8 ------------------------\nk: v"
	for _, c := range []struct{ name, message, title, body string }{
		{"no body", "t\n\nk: v\n", "t", ""},
		{"no trailers", "t\n\nbody\n", "t", "body"},
		{"neither", "t\n", "t", ""},
		{"nothing", "", "", ""},
		{"title only, no newline", "t", "t", ""},
		{"title of two lines", "t\nu\n\nbody\n\nk: v\n", "t\nu", "body"},
		{"divider", "t\n\na\n---\nb\n\nk: v\n", "t", "a\n---\nb"},
		{"CRLF", "t\r\n\r\na\r\n\r\nb\r\n\r\nk: v\r\n", "t", "a\r\n\r\nb"},
		{"CRLF body in an LF message", "t\n\na\r\nb\r\n\n\nk: v\n", "t", "a\r\nb\r\n"},
		{"CR at the body's end", "t\n\na\r\n\nk: v\n", "t", "a\r"},
		{"blank lines around", "t\n\n\n\na\n\n\n\nk: v\n", "t", "\n\na\n\n"},
		{"white space", "t\n\n  a \n\nk: v\n", "t", "  a "},
		{"one blank line too many", "t\n\n\nk: v\n", "t", ""},
		{"not ASCII", "tü\n\nä\xff\u2028\n\nk: v\n", "tü", "ä\xff\u2028"},
		{"trailers in the body", "t\n\nk: w\n\nk: v\n", "t", "k: w"},
		{"heading as the last paragraph", "t\n\na\n\n# b\n", "t", "a\n\n# b"},
		{"comments below the block", "t\n\na\n\nk: v\n\n# b\n", "t", "a"},
		{"scissors without trailers", "t\n\n" + scissorsBody + "\n", "t", scissorsBody},
		{"first line blank", "\n\nk: v\n", "", ""},
		{"long", "t\n\n" + strings.Repeat("x\n", 1<<16) + "\n\nk: v\n", "t", strings.Repeat("x\n", 1<<16)},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Parse([]byte(c.message))
			if m.Title != c.title || m.Body != c.body {
				t.Errorf("title %q, body %q; want %q, %q", m.Title, m.Body, c.title, c.body)
			}
		})
	}
}

// TestMessage_Get is the look-up without regard to case.
func TestMessage_Get(t *testing.T) {
	m := Parse([]byte("t\n\nKey: 1\nother: 2\nkEY: 3\n"))
	if diff := cmp.Diff([]string{"1", "3"}, m.Values("key")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if v, ok := m.Get("OTHER"); v != "2" || !ok {
		t.Errorf("Get(OTHER) = %q, %v", v, ok)
	}
	if v, ok := m.Get("key"); v != "" || ok {
		t.Errorf("Get of a repeated key = %q, %v", v, ok)
	}
}

// FuzzParseAgainstGit skips no input: git answers for every one.
func FuzzParseAgainstGit(f *testing.F) {
	r := rand.New(rand.NewSource(31))
	for range 20 {
		f.Add(nastyMessage(r))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		want := gitTrailers(t, [][]byte{message})[0]
		if diff := cmp.Diff(want, printed(Parse(message).Trailers)); diff != "" {
			t.Errorf("message %q (-git +ours):\n%s", message, diff)
		}
	})
}
