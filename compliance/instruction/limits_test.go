package instruction

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/writbot/writ/kernel"
)

func tooLarge(p Parsed) bool {
	return slices.ContainsFunc(p.Bad, func(v kernel.Violation) bool { return v.Code == kernel.CodeInstructionTooLarge })
}

// TestI14_Nesting: what is nested deep stands at the right edge of the page, or
// beyond it.
func TestI14_Nesting(t *testing.T) {
	for unit, most := range map[string]int{"> ": 20, "- ": 10} {
		for deep, want := range map[int]bool{most: false, most + 10: true} {
			if got := tooLarge(Parse("t", strings.Repeat(unit, deep)+"x")); got != want {
				t.Errorf("%d times %q: refused %v", deep, unit, got)
			}
		}
	}
}

func TestI14_CostlyMarkdown(t *testing.T) {
	for _, unit := range []string{"[a](", "**x_ ", "_a*", "![", "> ", "1. ", "| \\| ", strings.Repeat("> ", MaxNesting-2) + strings.Repeat("a\n", 4000)} {
		if !tooLarge(Parse("t", strings.Repeat(unit, max(1, MaxBodyBytes/len(unit))))) {
			t.Errorf("%.20q passes", unit)
		}
	}
}

// TestI14_TimeGrowsWithTheBody: a body costs about eight times the processor time
// of one of an eighth of its size, whatever it repeats: nothing that a body can
// hold takes the square of its size, which would be 64 times.
func TestI14_TimeGrowsWithTheBody(t *testing.T) {
	const size, parts = MaxBodyBytes / 4, 8
	units := append(slices.Clone(pieces),
		"<!-- ", "<!---->", "&#8203;", "a <!-- -- -->", "<b title='", "<option> </select> ", "[^1] [^2]: W\n\n", "[^W]: W\n", "`W`` ", "|W", "|`\\|`",
		"<details>", "</details>", "http:(", "www.", "a@", "$W", "$$W", "[[W|", "~~W", "[W]: ", "- [x] [W", "\\`", "| W |\n|-|\n", "(image, not shown){", "%{", "::include{")
	slices.Sort(units)
	for _, unit := range slices.Compact(units) {
		cost := func(bytes int) time.Duration {
			return processorTime(t, func() { Parse("t", "a "+strings.Repeat(unit, (bytes-2)/len(unit))) })
		}
		least := 5 * time.Millisecond // below it the clock and the garbage collector decide
		part := max(least, cost(size/parts), cost(size/parts))
		whole := cost(size)
		if whole > 4*parts*part { // a neighbour may have had the memory's caches
			whole, part = min(whole, cost(size)), max(part, cost(size/parts))
		}
		if whole > 4*parts*part {
			t.Errorf("%q took %v, and an eighth of it %v", unit, whole, part)
		}
	}
}

// processorTime is what work takes of the processor, on one thread: it doesn't
// grow with what else the machine does.
func processorTime(t *testing.T, work func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &before); err != nil {
		t.Fatal(err)
	}
	work()
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &after); err != nil {
		t.Fatal(err)
	}
	spent := func(u unix.Rusage) int64 { return u.Utime.Nano() + u.Stime.Nano() }
	return time.Duration(spent(after) - spent(before))
}

// TestI7_CutsAreRecorded: the report can say how much was left out, what, and
// where, in a text that no issue can make long.
func TestI7_CutsAreRecorded(t *testing.T) {
	body := "<!-- one -->\n\na <!-- é\n\u00fc --> [b](u \"ti\")\n\n```go x\ny\n```\n\n[c]\n\n[c]: d\n<details>\ne\n</details>\n"
	p := Parse("t", body)
	want := []string{
		"7 things of the issue were left out of the instruction, because they are or may be hidden on the page.",
		"Left out: 2 HTML comments, lines 1 and 3.",
		"Left out: 1 part that the page folds away, line 13.",
		"Left out: 1 link definition, or what looks like one, line 12.",
		"Left out: 2 links' addresses, lines 4 and 10.",
		"Left out: 1 code block's attributes, line 6.",
	}
	if d := cmp.Diff(want, p.Notes); d != "" || p.Cuts != 7 || len(p.Bad) > 0 {
		t.Error(d, p.Cuts, p.Bad)
	}
	p = Parse("t", strings.Repeat("<!-- x -->\n\n", 3000))
	if len(p.Notes) != 2 || p.Notes[1] != "Left out: 3000 HTML comments, lines 1, 3, 5, 7, 9 and more." {
		t.Errorf("%q", p.Notes)
	}
	if p := Parse("t", "<!-- x -->"); len(p.Notes) != 2 || !strings.HasPrefix(p.Notes[0], "1 thing of the issue was ") {
		t.Errorf("%q", p.Notes)
	}
	if p := Parse("t", "a\n\n"+block); len(p.Notes) > 0 {
		t.Errorf("%q", p.Notes)
	}
	if r := Parse("t", body+"\n"+block).Resolve(testContract(t, ""), nil); !slices.Contains(r.Notes, want[0]) {
		t.Errorf("not in the report: %q", r.Notes)
	}
	for k := range kinds {
		if names[k][0] == "" || names[k][1] == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
}
