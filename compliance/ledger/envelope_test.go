package ledger

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// before is a checker that has read all lines but the last.
func before(t testing.TB, lines [][]byte) *checker {
	t.Helper()
	c, err := newChecker(worldA, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range lines[:len(lines)-1] {
		if _, _, err := c.add(raw, nil); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// agree checks that the fast way takes nothing that the strict one refuses, and
// understands the rest alike.
func agree(t *testing.T, c *checker, raw []byte) (taken bool) {
	t.Helper()
	fast, taken := c.plain(raw)
	if !taken {
		return false
	}
	slow, err := c.read(raw)
	if err != nil {
		t.Fatalf("taken by plain, refused by read (%v): %q", err, raw)
	}
	same := fast.kind == slow.kind && fast.task == slow.task && fast.time == slow.time &&
		fast.link == slow.link && bytes.Equal(fast.body, slow.body)
	if !same {
		t.Fatalf("read in two ways: %+v, %+v: %q", fast, slow, raw)
	}
	return true
}

func TestR1_FastWayIsAsStrict(t *testing.T) {
	_, l, _ := sample(t, 3)
	lines := linesOf(t, l)
	c, raw := before(t, lines), lines[2]
	if !agree(t, c, raw) {
		t.Fatal("the fast way doesn't take an ordinary record")
	}
	tokens := [][]byte{[]byte(" "), []byte("0"), []byte("-"), []byte(","), []byte(`"`), []byte(`\`), []byte("{"), []byte("}"), {0}, {0xff}, []byte(`,"seq":2`)}
	for i := range raw {
		for bit := range 8 {
			changed := bytes.Clone(raw)
			changed[i] ^= 1 << bit
			agree(t, c, changed)
		}
		for _, token := range tokens {
			agree(t, c, slices.Insert(bytes.Clone(raw), i, token...))
		}
		agree(t, c, slices.Delete(bytes.Clone(raw), i, i+1))
		agree(t, c, raw[:i])
	}
}

func FuzzR1_FastWayIsAsStrict(f *testing.F) {
	_, l, _ := sample(f, 3)
	lines := linesOf(f, l)
	c := before(f, lines)
	for _, raw := range lines {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { agree(t, c, raw) })
}

// Numbers at the edge of what the fast way takes still pass, the other way.
func TestLargeNumbers(t *testing.T) {
	_, l, _ := sample(t, 2)
	for _, task := range []int64{0, 9, 10, 999_999_999_999_999, 1_000_000_000_000_000, 1<<53 - 1} {
		d := audit(1)
		d.Task, d.Run = task, "r\"\\é\n"
		records, err := l.Write(t.Context(), task, d)
		if err != nil {
			t.Fatalf("task %d: %v", task, err)
		}
		if task > 0 {
			for r, err := range l.RecordsOfTask(t.Context(), task) {
				if diff := cmp.Diff(records[0].Record(), r); diff != "" || err != nil {
					t.Errorf("task %d (%v): %s", task, err, diff)
				}
			}
		}
	}
	if r := mustVerify(t, l, VerifyOptions{Deep: true}); !r.OK {
		t.Errorf("%+v", r)
	}
}
