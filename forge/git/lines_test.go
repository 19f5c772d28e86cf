package git

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestCountLines: what git's own --numstat says, and nothing of what has no lines.
func TestCountLines(t *testing.T) {
	for name, c := range map[string]struct {
		before, after  string
		added, removed int
		ok             bool
	}{
		"made":                     {"", "a\nb\n", 2, 0, true},
		"removed":                  {"a\nb\n", "", 0, 2, true},
		"one line changed":         {"a\nb\nc\n", "a\nx\nc\n", 1, 1, true},
		"a blank line added":       {"a\n", "a\n\n", 1, 0, true},
		"no line end at the end":   {"a\nb", "a\nb\nc", 2, 1, true},
		"equal":                    {"a\n", "a\n", 0, 0, true},
		"binary":                   {"a\x00", "b", 0, 0, false},
		"not UTF-8":                {"a", "\xff", 0, 0, false},
		"larger than what is read": {"", strings.Repeat("x\n", MaxCounted/2+1), 0, 0, false},
		"more than is compared":    {strings.Repeat("x\n", 5000), strings.Repeat("y\n", 5000), 0, 0, false},
	} {
		added, removed, ok := CountLines([]byte(c.before), []byte(c.after))
		if added != c.added || removed != c.removed || ok != c.ok {
			t.Errorf("%s: +%d −%d, %v; want +%d −%d, %v", name, added, removed, ok, c.added, c.removed, c.ok)
		}
	}
}

// TestCompareLines: both sides can be read off the edits, and none is more than is needed.
func TestCompareLines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		side := func() (out []string) {
			for range r.IntN(12) {
				out = append(out, fmt.Sprint(r.IntN(4))+"\n")
			}
			return out
		}
		a, b := side(), side()
		var was, is []string
		changed := 0
		list, ok := CompareLines(a, b)
		if !ok {
			t.Fatalf("%q and %q aren't compared", a, b)
		}
		for _, e := range list {
			if e.Sign != '+' {
				was = append(was, e.Line)
			}
			if e.Sign != '-' {
				is = append(is, e.Line)
			}
			if e.Sign != ' ' {
				changed++
			}
		}
		if strings.Join(was, "") != strings.Join(a, "") || strings.Join(is, "") != strings.Join(b, "") {
			t.Fatalf("%q and %q come to %q and %q", a, b, was, is)
		}
		if want := len(a) + len(b) - 2*common(a, b); changed != want {
			t.Fatalf("%q and %q differ by %d lines, not by %d", a, b, want, changed)
		}
	}
}

// TestCompareLines_ManyKinds: lines are told apart by letters of Unicode, of which some stand
// for nothing.
func TestCompareLines_ManyKinds(t *testing.T) {
	var after []string
	for i := range 60_000 {
		after = append(after, fmt.Sprintln(i))
	}
	list, ok := CompareLines([]string{"was\n", "55400\n", "is\n"}, after)
	var now strings.Builder
	for _, e := range list {
		if e.Sign != '-' {
			now.WriteString(e.Line)
		}
	}
	if !ok || len(list) != len(after)+2 || now.String() != strings.Join(after, "") {
		t.Errorf("%v, %d edits, which come to other lines", ok, len(list))
	}
}

// common is how many lines two files have in common, in their order.
func common(a, b []string) int {
	best := make([][]int, len(a)+1)
	for i := range best {
		best[i] = make([]int, len(b)+1)
	}
	for i := range a {
		for j := range b {
			best[i+1][j+1] = max(best[i][j+1], best[i+1][j])
			if a[i] == b[j] {
				best[i+1][j+1] = best[i][j] + 1
			}
		}
	}
	return best[len(a)][len(b)]
}
