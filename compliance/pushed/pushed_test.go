package pushed_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/writbot/writ/compliance/pushed"
	"github.com/writbot/writ/compliance/store"
)

const ref = "refs/writ/task/1"

func open(t *testing.T, path string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // closed already by a test that opens it again
	return db
}

func keep(t *testing.T, p *pushed.Pushes, now int64, old, head string, size int) {
	t.Helper()
	one := pushed.Push{Moves: []pushed.Move{{Ref: ref, Old: old, New: head}}, Pack: make([]byte, size)}
	if err := p.Keep(t.Context(), 1, now, one); err != nil {
		t.Fatal(err)
	}
}

// since fails unless these pushes lead from one commit to the other, or none does and
// the gap is this one.
func since(t *testing.T, p *pushed.Pushes, from, head, wantGap string, want ...string) {
	t.Helper()
	list, gap, err := p.Since(t.Context(), 1, from, head)
	var heads []string
	for _, one := range list {
		heads = append(heads, one.Moves[0].New)
	}
	if err != nil || gap != wantGap || !slices.Equal(heads, want) {
		t.Errorf("from %q to %s: %v, gap %q, %v; want %v, gap %q", from, head, heads, gap, err, want, wantGap)
	}
}

// TestL19_PushesAreKept: what was pushed leads from any earlier commit to the last one,
// also after the store was opened again; each world and task has its own.
func TestL19_PushesAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "writ.db")
	db := open(t, path)
	p := pushed.Of(db, "one")
	keep(t, p, 1, "", "a", 10)
	keep(t, p, 2, "a", "b", 10)
	keep(t, p, 2, "a", "b", 10)
	keep(t, p, 3, "b", "lost", 10)
	keep(t, p, 4, "b", "c", 10)
	if err := p.Forget(t.Context(), 1, "lost"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path)
	p = pushed.Of(db, "one")
	since(t, p, "", "c", "", "a", "b", "c")
	since(t, p, "b", "c", "", "c")
	since(t, p, "x", "c", "")
	list, gap, err := p.SinceInside(t.Context(), 1, "x", "c", func(one pushed.Push) bool { return one.Moves[0].New == "b" })
	if err != nil || gap != "" || len(list) != 2 || list[0].Moves[0].New != "b" {
		t.Errorf("from inside a push: %d pushes, gap %q, %v", len(list), gap, err)
	}
	since(t, p, "", "lost", "lost")
	since(t, pushed.Of(db, "two"), "", "c", "c")
	if list, gap, err := p.Since(t.Context(), 2, "", "c"); len(list) > 0 || gap != "c" || err != nil {
		t.Errorf("another task has %d pushes, gap %q, %v", len(list), gap, err)
	}
}

// TestL19_PushesAreBounded: a push is forgotten after its time, and the oldest of a task
// that pushed too much. What is newer still leads from where it begins.
func TestL19_PushesAreBounded(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "writ.db"))
	p, others := pushed.Of(db, "one"), pushed.Of(db, "two")
	day := int64(24 * 3_600_000)
	keep(t, p, day, "", "a", 10)
	keep(t, p, 2*day, "a", "b", 10)
	for i := int64(3); i <= 15; i++ {
		keep(t, others, i*day, "", fmt.Sprint(i), 10)
	}
	keep(t, p, day+pushed.MaxAge.Milliseconds()+1, "b", "c", 10)
	since(t, p, "", "c", "a")
	since(t, p, "a", "c", "", "b", "c")

	last, now := "c", day+pushed.MaxAge.Milliseconds()+2
	for i := range 5 {
		next := fmt.Sprint("d", i)
		keep(t, p, now, last, next, pushed.MaxTask/4)
		last = next
	}
	since(t, p, "", "d4", "d0")
	since(t, p, "c", "d0", "d0")
	since(t, p, "d0", "d4", "", "d1", "d2", "d3", "d4")
	one := pushed.Push{Moves: []pushed.Move{{Ref: ref, Old: last, New: "e"}}, Pack: make([]byte, pushed.MaxTask+1)}
	if err := p.Keep(t.Context(), 1, now, one); err == nil {
		t.Error("a pack of any size is kept")
	}
}

// TestL19_PushesAndTheClock: a clock that jumps ahead, and back, has no push forgotten
// before its time; those after it age as ever.
func TestL19_PushesAndTheClock(t *testing.T) {
	p := pushed.Of(open(t, filepath.Join(t.TempDir(), "writ.db")), "one")
	day := int64(24 * 3_600_000)
	now, last := 100*day, ""
	push := func(at int64) {
		t.Helper()
		next := fmt.Sprint(at, "-", last)[:min(40, len(fmt.Sprint(at, "-", last)))]
		keep(t, p, at, last, next, 10)
		last = next
	}
	push(now)
	first := last
	for range 2 {
		push(now + 400*day)
		push(now + 400*day + 1000)
		push(now)
	}
	since(t, p, "", first, "", first)
	for i := range int64(11) {
		push(now + (i+1)*day)
	}
	since(t, p, "", first, "", first)
	for i := range int64(4) {
		push(now + (i+12)*day)
	}
	since(t, p, "", first, first)
}
