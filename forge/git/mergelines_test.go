package git

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gitMerges is what git makes of three texts.
func gitMerges(t *testing.T, dir, base, ours, theirs string) (merged string, ok bool) {
	t.Helper()
	for name, text := range map[string]string{"base": base, "ours": ours, "theirs": theirs} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "git", "merge-file", "-p", "ours", "base", "theirs")
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 127) {
		t.Fatal(err)
	}
	return string(out), err == nil
}

// letters are a text with a line for each letter.
func letters(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteString(string(r) + "\n")
	}
	return b.String()
}

// TestS7_MergeLines: what two sides changed apart from one another is merged as git does it;
// what touches is a conflict, and bytes stay what they were.
func TestS7_MergeLines(t *testing.T) {
	dir := t.TempDir()
	l := letters
	for name, c := range map[string]struct {
		base, ours, theirs, want string
		ok                       bool
	}{
		"apart":                   {l("abcdefg"), l("aXcdefg"), l("abcdeYg"), l("aXcdeYg"), true},
		"one line between":        {l("abc"), l("Xbc"), l("abY"), l("XbY"), true},
		"beside one another":      {l("abcd"), l("aXcd"), l("abYd"), "", false},
		"the same line":           {l("abc"), l("aXc"), l("aYc"), "", false},
		"the same line alike":     {l("abc"), l("aXc"), l("aXc"), l("aXc"), true},
		"alike, and apart":        {l("abcde"), l("aXcdY"), l("aXcde"), l("aXcdY"), true},
		"added at one place":      {l("ab"), l("aXb"), l("aYb"), "", false},
		"added and deleted there": {l("abc"), l("aXbc"), l("ac"), "", false},
		"deleted apart":           {l("abcde"), l("acde"), l("abce"), l("ace"), true},
		"deleted alike":           {l("abc"), l("ac"), l("ac"), l("ac"), true},
		"nothing by one":          {l("abc"), l("abc"), l("Xabc"), l("Xabc"), true},
		"all deleted by one":      {l("abc"), "", l("abc"), "", true},
		"deleted and changed":     {l("abc"), "", l("aXc"), "", false},
		"of an empty file alike":  {"", l("a"), l("a"), l("a"), true},
		"of an empty file":        {"", l("a"), l("b"), "", false},
		"CRLF":                    {"a\r\nb\r\nc\r\n", "X\r\nb\r\nc\r\n", "a\r\nb\r\nY\r\n", "X\r\nb\r\nY\r\n", true},
		"mixed ends":              {"a\r\nb\nc\r\n", "X\nb\nc\r\n", "a\r\nb\nY", "X\nb\nY", true},
		"ends changed by one":     {l("abc"), "a\r\nb\r\nc\r\n", l("aXc"), "", false},
		"lone CR":                 {"a\rb\nc\nd\n", "a\rX\nc\nd\n", "a\rb\nc\nY\n", "a\rX\nc\nY\n", true},
		"no last newline":         {"a\nb\nc", "X\nb\nc", "a\nb\nc\n", "X\nb\nc\n", true},
		"none anywhere":           {"a\nb\nc", "X\nb\nc", "a\nb\nc", "X\nb\nc", true},
		"newline by both":         {"a\nb", "a\nb\n", "a\nb\n", "a\nb\n", true},
		"newline and a line":      {"a\nb", "a\nb\n", "a\nb\nc", "", false},
		"bytes that are no text":  {"\xff\nb\n\xfe\n", "X\nb\n\xfe\n", "\xff\nb\nY\n", "X\nb\nY\n", true},
	} {
		got, ok := MergeLines([]byte(c.base), []byte(c.ours), []byte(c.theirs))
		if ok != c.ok || string(got) != c.want {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, ok, c.want, c.ok)
		}
		back, again := MergeLines([]byte(c.base), []byte(c.theirs), []byte(c.ours))
		if again != ok || !bytes.Equal(back, got) {
			t.Errorf("%s: the other way round %q, %v", name, back, again)
		}
		if merged, is := gitMerges(t, dir, c.base, c.ours, c.theirs); is != c.ok || is && merged != c.want {
			t.Errorf("%s: git makes %q, %v of it", name, merged, is)
		}
	}
}

// TestS7_MergeLinesAsGit: where a merge isn't ok for git it isn't here, and where both are
// ok they are the same. Few kinds of lines make many ways to compare.
func TestS7_MergeLinesAsGit(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(3, 7))
	merged, stricter := 0, 0
	const tries = 500
	for n := range tries {
		kinds := 2 + n%12
		text := func(most int) (out []string) {
			for range r.IntN(most) {
				out = append(out, fmt.Sprint(r.IntN(kinds))+"\n")
			}
			return out
		}
		base := text(24)
		edited := func() string {
			out := append([]string{}, base...)
			for range 1 + r.IntN(3) {
				at := r.IntN(len(out) + 1)
				to := min(len(out), at+r.IntN(3))
				out = append(append(append([]string{}, out[:at]...), text(3)...), out[to:]...)
			}
			s := strings.Join(out, "")
			if r.IntN(8) == 0 {
				s = strings.TrimSuffix(s, "\n")
			}
			return s
		}
		b, ours, theirs := strings.Join(base, ""), edited(), edited()
		got, ok := MergeLines([]byte(b), []byte(ours), []byte(theirs))
		want, is := gitMerges(t, dir, b, ours, theirs)
		if ok && (!is || string(got) != want) {
			t.Fatalf("of %q, %q and %q it makes %q, and git %q, %v", b, ours, theirs, got, want, is)
		}
		if ok {
			merged++
		} else if is {
			stricter++
		}
	}
	t.Logf("merged %d, stricter %d", merged, stricter)
	if merged < tries/5 || stricter > tries/5 {
		t.Errorf("of %d it merges %d, and leaves %d that git merges", tries, merged, stricter)
	}
}

// TestS7_MergeLinesIsBounded: what would take long is a conflict, and what is large and
// differs little isn't.
func TestS7_MergeLinesIsBounded(t *testing.T) {
	lines := func(n int, format string) []byte {
		var b bytes.Buffer
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.Bytes()
	}
	long := lines(60_000, "line %d\n")
	ours, theirs := append([]byte("first\n"), long...), append(bytes.Clone(long), "last\n"...)
	want := append(append([]byte("first\n"), long...), "last\n"...)
	if got, ok := MergeLines(long, ours, theirs); !ok || !bytes.Equal(got, want) {
		t.Errorf("a long text isn't merged: %v, %d bytes", ok, len(got))
	}
	for name, c := range map[string][3][]byte{
		"too large":          {bytes.Repeat([]byte("a"), MaxMerged+1), []byte("a"), []byte("a")},
		"all lines differ":   {lines(4200, "was %d\n"), lines(4200, "is %d\n"), lines(4200, "was %d\n")},
		"all lines differ 2": {lines(4200, "was %d\n"), lines(4200, "was %d\n"), lines(4200, "is %d\n")},
		"newlines only":      {bytes.Repeat([]byte("\n"), 100_000), bytes.Repeat([]byte("\n"), 110_000), nil},
		"NUL in the base":    {[]byte("a\nb\nc\x00\n"), []byte("X\nb\nc\x00\n"), []byte("a\nb\nc\x00\n")},
		"NUL in ours":        {[]byte("a\nb\nc\n"), []byte("X\x00\nb\nc\n"), []byte("a\nb\nY\n")},
		"NUL in theirs":      {[]byte("a\nb\nc\n"), []byte("X\nb\nc\n"), []byte("a\nb\nY\x00\n")},
		"NUL far in":         {append(bytes.Clone(long), 0), ours, append(bytes.Clone(long), 0)},
		"one line, no end":   {bytes.Repeat([]byte("a"), 9000), bytes.Repeat([]byte("b"), 9000), bytes.Repeat([]byte("c"), 9000)},
	} {
		if got, ok := MergeLines(c[0], c[1], c[2]); ok {
			t.Errorf("%s: merged to %d bytes", name, len(got))
		}
	}
}
