package schedulertest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/writbot/writ/executor/scheduler"
)

// Store is what is tested: both halves of one store.
type Store interface {
	scheduler.Schedule
	scheduler.Notes
}

// Exercise tests an implementation; open makes a fresh, empty store.
func Exercise(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, tried){
		"order": exerciseOrder, "marks": exerciseMarks, "hasten": exerciseHasten, "notes": exerciseNotes, "wake": exerciseWake,
	} {
		t.Run(name, func(t *testing.T) { test(t, tried{t, open(t)}) })
	}
}

// tried is a store whose errors end the test.
type tried struct {
	t *testing.T
	s Store
}

func (e tried) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e tried) mark(k scheduler.Key, at int64) {
	e.t.Helper()
	e.must(e.s.Mark(context.Background(), k, at))
}

func (e tried) take(k scheduler.Key, want bool) scheduler.Ticket {
	e.t.Helper()
	t, ok, err := e.s.Take(context.Background(), k)
	e.must(err)
	if ok != want {
		e.t.Fatalf("%s taken: %v, want %v", k, ok, want)
	}
	return t
}

func (e tried) done(t scheduler.Ticket, next int64) {
	e.t.Helper()
	e.must(e.s.Done(context.Background(), t, next))
}

func (e tried) due(now int64, limit int, want ...scheduler.Key) {
	e.t.Helper()
	got, err := e.s.Due(context.Background(), now, limit)
	e.must(err)
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		e.t.Errorf("due at %d, -want +got:\n%s", now, d)
	}
}

func (e tried) next(want int64) {
	e.t.Helper()
	at, ok, err := e.s.Next(context.Background())
	e.must(err)
	if at != want || ok != (want != 0) {
		e.t.Errorf("next is %d %v, want %d", at, ok, want)
	}
}

// The worlds of the tests.
const (
	worldA = "forge.example/org/a"
	worldB = "forge.example/org/b"
)

func a(n int64) scheduler.Key { return scheduler.Key{World: worldA, Task: n} }
func b(n int64) scheduler.Key { return scheduler.Key{World: worldB, Task: n} }

func exerciseOrder(_ *testing.T, e tried) {
	e.due(1000, 10)
	e.next(0)
	e.mark(a(1), 100)
	e.mark(a(2), 101)
	e.mark(a(3), 102)
	e.mark(b(9), 500)
	e.mark(b(1), 2000)
	e.due(1000, 10, a(1), b(9), a(2), a(3))
	e.due(1000, 2, a(1), b(9))
	e.due(99, 10)
	e.due(100, 10, a(1))
	e.next(100)
	one := e.take(a(1), true)
	if one.Key != a(1) || one.Due != 100 {
		e.t.Errorf("a ticket %+v", one)
	}
	e.take(a(1), false)
	e.next(101)
	e.due(1000, 10, a(2), b(9), a(3))
	e.done(one, 3000)
	e.due(1000, 10, a(2), b(9), a(3))
	e.due(3000, 1, a(2))
	e.take(a(4), false)
}

func exerciseMarks(_ *testing.T, e tried) {
	e.mark(a(1), 500)
	e.mark(a(1), 700)
	e.next(500)
	e.mark(a(1), 400)
	e.next(400)

	t := e.take(a(1), true)
	e.mark(a(1), 600) // while it runs
	e.next(0)
	e.done(t, 900)
	e.next(600)

	t = e.take(a(1), true)
	e.mark(a(1), 950)
	e.done(t, 800)
	e.next(800)

	t = e.take(a(1), true)
	e.mark(a(1), 800) // the very time it had
	e.done(t, 0)
	e.next(800)

	t = e.take(a(1), true)
	e.done(t, 0)
	e.next(0)
	e.take(a(1), false)
	e.mark(a(1), 1000)
	t = e.take(a(1), true)
	e.done(t, 1000)
	e.next(1000)
	e.done(t, 500) // given back already: the answer to the first time was lost
	e.next(1000)
	e.take(a(1), true)
	e.done(t, 0) // and somebody else has it now
	e.take(a(1), false)
}

func exerciseHasten(_ *testing.T, e tried) {
	ctx := context.Background()
	e.mark(a(1), 1200)
	e.mark(a(2), 1100)
	e.mark(a(3), 1301)
	e.mark(a(4), 890)
	e.mark(a(5), 1150)
	taken := e.take(a(5), true)
	e.must(e.s.Hasten(ctx, 1000, 1300))
	e.due(1000, 10, a(2), a(4), a(1)) // a(2) would have been due 300 earlier
	e.due(1300, 10, a(2), a(4), a(1))
	e.due(1301, 10, a(2), a(4), a(1), a(3))
	e.done(taken, 0)
	e.due(2000, 10, a(2), a(4), a(1), a(3))
	e.must(e.s.Hasten(ctx, 1000, 5000)) // further off than there was time before
	e.next(1)
}

func exerciseNotes(_ *testing.T, e tried) {
	ctx := context.Background()
	stop := scheduler.Act{ID: "1", Kind: "stop", Actor: "17", Reason: "wrong branch"}
	halt := scheduler.Act{ID: "2", Kind: "halt", Actor: "18"}
	want := func(k scheduler.Key, n scheduler.Note) {
		e.t.Helper()
		got, err := e.s.Load(ctx, k)
		e.must(err)
		if d := cmp.Diff(n, got, cmpopts.EquateEmpty()); d != "" {
			e.t.Errorf("the note of %s, -want +got:\n%s", k, d)
		}
	}
	want(a(1), scheduler.Note{})
	e.must(e.s.Add(ctx, a(1), stop))
	e.must(e.s.Add(ctx, a(1), halt))
	e.must(e.s.Add(ctx, a(1), stop))
	want(a(1), scheduler.Note{Acts: []scheduler.Act{stop, halt}})
	want(b(1), scheduler.Note{})
	e.must(e.s.Settle(ctx, a(1), 3, []string{"1", "unknown"}))
	want(a(1), scheduler.Note{Failures: 3, Acts: []scheduler.Act{halt}})
	e.must(e.s.Settle(ctx, a(1), 0, nil))
	want(a(1), scheduler.Note{Acts: []scheduler.Act{halt}})
}

func exerciseWake(t *testing.T, e tried) {
	for range 3 {
		e.mark(a(1), 1)
	}
	select {
	case <-e.s.Wake():
	default:
		t.Error("a mark did not wake")
	}
}
