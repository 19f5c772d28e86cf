package inbox

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel"
)

func TestMark_TheEarliestCounts(t *testing.T) {
	e := tried{t, sample(t)}
	e.next(0)
	e.mark(500, a(1))
	e.woken(true)
	e.mark(700, a(1))
	e.mark(500, a(1))
	e.woken(false) // nothing is due sooner than it was
	e.next(500)
	e.mark(400, a(1), b(2))
	e.woken(true)
	e.next(400)
	e.due(399, 10)
	e.due(400, 10, a(1), b(2))
	e.mark(-5, c(1)) // the beginning of time is a time
	e.next(1)
}

func TestTake_OneHolder(t *testing.T) {
	e := tried{t, sample(t)}
	e.notTaken(a(1))
	e.mark(100, a(1))
	one := e.take(a(1))
	if one.Key != a(1) || one.DueMs != 100 {
		t.Errorf("the ticket is %+v", one)
	}
	e.mark(9000, a(1))
	e.notTaken(a(1))
	e.due(10000, 10)
	e.next(0)
	e.done(one, 3000)
	e.next(3000)
	two := e.take(a(1)) // before its time: who wants to look may
	if two.Generation == one.Generation {
		t.Error("two takes have the same ticket")
	}
	var wrong *Error
	if err := e.in.Done(t.Context(), one, 1); !errors.As(err, &wrong) {
		t.Errorf("an old ticket: %v", err)
	}
	e.due(5000, 10)
	e.done(two, 0)
	if err := e.in.Done(t.Context(), two, 1); !errors.As(err, &wrong) || wrong.FailureCode() != kernel.CodeDeliveryInvalid {
		t.Errorf("given back twice: %v", err)
	}
	e.next(0)
	e.notTaken(a(1))
}

// A mark that comes while a task is taken is never lost, and doesn't disturb
// who has it.
func TestDone_MarksSinceCount(t *testing.T) {
	for _, c := range []struct{ mark, next, want int64 }{
		{600, 900, 600}, {950, 800, 800}, {800, 800, 800}, {500, 0, 500}, {0, 700, 700}, {0, 0, 0}, {100, 0, 100}, {50, 60, 50},
	} {
		e := tried{t, sample(t)}
		e.mark(100, a(1))
		ticket := e.take(a(1))
		if c.mark != 0 {
			e.mark(c.mark+7, a(1))
			e.mark(c.mark, a(1))
			e.mark(c.mark+5, a(1))
		}
		e.notTaken(a(1))
		e.next(0)
		e.done(ticket, c.next)
		e.woken(true)
		if e.next(c.want); t.Failed() {
			t.Fatalf("marked for %d, given back for %d", c.mark, c.next)
		}
	}
}

func TestRecover_WhatADeadProcessHad(t *testing.T) {
	path := t.TempDir() + "/" + store.FileName
	in, db := openAt(t, path)
	e := tried{t, in}
	e.mark(100, a(1), a(2), a(3))
	for _, k := range []Key{a(1), a(2), a(3)} {
		e.take(k)
	}
	e.mark(50, a(2))
	e.mark(150, a(3))
	e.must(db.Close())

	in, _ = openAt(t, path)
	e.in = in
	e.next(0)
	tasks, err := in.Recover(t.Context())
	if tasks != 3 || err != nil {
		t.Errorf("%d tasks were given back (%v), want 3", tasks, err)
	}
	e.woken(true)
	e.due(50, 10, a(2))
	e.due(100, 10, a(2), a(1), a(3)) // a(3) by the time it had, which is earlier than its mark
	if tasks, err := in.Recover(t.Context()); tasks != 0 || err != nil {
		t.Errorf("once more: %d %v", tasks, err)
	}
}

func TestDue_WorldsTakeTurns(t *testing.T) {
	e := tried{t, sample(t)}
	for n := range int64(300) {
		e.mark(100+n, a(n+1))
	}
	e.mark(400, b(9), b(8))
	e.mark(500, c(1))
	e.mark(2000, c(2))
	e.due(1000, 6, a(1), b(8), c(1), a(2), b(9), a(3))
	e.due(1000, 2, a(1), b(8))
	e.due(1000, 0)
	for limit, want := range map[int]int{200: 200, 302: 302, 303: 303, 1000: 303} {
		if list, err := e.in.Due(t.Context(), 1000, limit); err != nil || len(list) != want {
			t.Errorf("%d are due (%v), want %d", len(list), err, want)
		}
	}
	all, err := e.in.Scheduled(t.Context(), worldC)
	if want := []Due{{c(1), 500}, {c(2), 2000}}; err != nil || !cmp.Equal(all, want) {
		t.Errorf("scheduled are %v (%v), want %v", all, err, want)
	}
	if all, err = e.in.Scheduled(t.Context(), ""); err != nil || len(all) != 304 {
		t.Errorf("%d are scheduled (%v), want 304", len(all), err)
	}
}

func TestStats(t *testing.T) {
	e := tried{t, sample(t)}
	e.mark(100, a(1), a(2))
	e.mark(200, b(1))
	e.mark(900, c(1), c(2))
	e.take(a(1))
	e.take(c(2))
	e.accept(delivery("1", 300))
	got, err := e.in.Stats(t.Context(), 350)
	if err != nil || got.BodyBytes == 0 {
		t.Errorf("%+v %v", got, err)
	}
	got.BodyBytes = 0
	if want := (Stats{Pending: 2, Taken: 2, Scheduled: 3, OldestDueMs: 100, LagMs: 250}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, err := e.in.Stats(t.Context(), 50); err != nil || got.Pending != 0 || got.LagMs != 0 || got.OldestDueMs != 0 {
		t.Errorf("before anything is due: %+v %v", got, err)
	}
}

func TestNotes(t *testing.T) {
	ctx := context.Background()
	e := tried{t, sample(t)}
	stop := Act{ID: "1", Kind: "stop", Actor: "17", Reason: "wrong branch"}
	halt := Act{ID: "2", Kind: "halt", Actor: "18"}
	want := func(k Key, n Note) {
		t.Helper()
		got, err := e.in.Note(ctx, k)
		if err != nil || !cmp.Equal(got, n) {
			t.Errorf("the note of %v is %+v (%v), want %+v", k, got, err, n)
		}
	}
	want(a(1), Note{})
	for _, act := range []Act{stop, halt, stop} {
		e.must(e.in.AddAct(ctx, a(1), act))
	}
	e.must(e.in.AddAct(ctx, b(1), stop))
	want(a(1), Note{Acts: []Act{stop, halt}})
	e.must(e.in.Settle(ctx, a(1), 3, []string{"1", "unknown"}))
	want(a(1), Note{Failures: 3, Acts: []Act{halt}})
	want(b(1), Note{Acts: []Act{stop}})
	e.next(0) // nothing of this makes a task due
	e.mark(5, a(1))
	e.done(e.take(a(1)), 0)
	want(a(1), Note{Failures: 3, Acts: []Act{halt}})
	e.must(e.in.Settle(ctx, a(1), 0, nil))
	want(a(1), Note{Acts: []Act{halt}})
}

func TestCursors(t *testing.T) {
	ctx := context.Background()
	e := tried{t, sample(t)}
	want := func(world, name, value string) {
		t.Helper()
		if got, err := e.in.Cursor(ctx, world, name); got != value || err != nil {
			t.Errorf("%q %v, want %q", got, err, value)
		}
	}
	want(worldA, "issues", "")
	e.must(e.in.SetCursor(ctx, worldA, "issues", "100"))
	e.must(e.in.SetCursor(ctx, worldA, "comments", "7"))
	e.must(e.in.SetCursor(ctx, worldB, "issues", "9"))
	e.must(e.in.SetCursor(ctx, worldA, "issues", "200"))
	want(worldA, "issues", "200")
	want(worldA, "comments", "7")
	want(worldB, "issues", "9")
}

func TestPauses(t *testing.T) {
	ctx := context.Background()
	e := tried{t, sample(t)}
	want := func(world string, p Pause, paused bool) {
		t.Helper()
		got, ok, err := e.in.Paused(ctx, world)
		if got != p || ok != paused || err != nil {
			t.Errorf("%s: %+v %v %v, want %+v", world, got, ok, err, p)
		}
	}
	want(worldA, Pause{}, false)
	one := Pause{World: worldA, SinceMs: 5, By: "17", Reason: "deploy"}
	all := Pause{SinceMs: 6, By: "18"}
	e.must(e.in.SetPause(ctx, one, true))
	e.must(e.in.SetPause(ctx, Pause{World: worldA, SinceMs: 9}, true)) // it holds since before
	want(worldA, one, true)
	want(worldB, Pause{}, false)
	e.must(e.in.SetPause(ctx, all, true))
	want(worldA, all, true)
	want(worldB, all, true)
	if got, err := e.in.Pauses(ctx); err != nil || !cmp.Equal(got, []Pause{all, one}) {
		t.Errorf("%v %v", got, err)
	}
	e.woken(false)
	e.must(e.in.SetPause(ctx, Pause{}, false))
	e.woken(true)
	want(worldA, one, true)
	want(worldB, Pause{}, false)
}

func TestRefuses(t *testing.T) {
	ctx := context.Background()
	e := tried{t, sample(t)}
	long := string(make([]byte, maxText+1))
	good := func(change func(*Delivery)) Delivery { d := delivery("1", 1); change(&d); return d }
	for name, err := range map[string]error{
		"no world":     e.in.Mark(ctx, []Key{{"", 1}}, 1),
		"no task":      e.in.Mark(ctx, []Key{a(0)}, 1),
		"long world":   e.in.Mark(ctx, []Key{{long, 1}}, 1),
		"no text":      e.in.SetCursor(ctx, worldA, "\xff", "1"),
		"a zero byte":  e.in.SetCursor(ctx, worldA, "a", "1\x00"),
		"long reason":  e.in.AddAct(ctx, a(1), Act{Reason: long}),
		"act for none": e.in.AddAct(ctx, Key{}, Act{}),
		"settle none":  e.in.Settle(ctx, Key{}, 1, nil),
		"long pause":   e.in.SetPause(ctx, Pause{Reason: long}, true),
		"no hook":      second(e.in.Accept(ctx, good(func(d *Delivery) { d.Hook = "" }), nil)),
		"no id":        second(e.in.Accept(ctx, good(func(d *Delivery) { d.ID = "" }), nil)),
		"long event":   second(e.in.Accept(ctx, good(func(d *Delivery) { d.Event = long }), nil)),
		"bad evidence": second(e.in.Accept(ctx, good(func(d *Delivery) { d.Evidence = []Evidence{{World: worldA}} }), nil)),
		"bad key":      second(e.in.Accept(ctx, delivery("1", 1), []Key{a(1), {}})),
		"many keys":    second(e.in.Accept(ctx, delivery("1", 1), make([]Key, maxKeys+1))),
	} {
		var wrong *Error
		if !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e.next(0)
	if _, found, err := e.in.Payload(ctx, "local", "1"); found || err != nil {
		t.Errorf("a refused delivery is stored: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestHasten_WhatWasNearIsDueInItsOrder(t *testing.T) {
	e := tried{t, sample(t)}
	e.mark(1200, a(1))
	e.mark(1100, a(2))
	e.mark(1301, a(3))
	e.mark(890, a(4)) // is due already
	e.mark(1150, a(5))
	ticket := e.take(a(5))
	e.woken(true)
	e.must(e.in.Hasten(t.Context(), 1000, 1300))
	e.woken(true)
	e.due(1000, 10, a(2), a(4), a(1))
	e.due(1300, 10, a(2), a(4), a(1))
	e.done(ticket, 0)
	e.due(2000, 10, a(2), a(4), a(1), a(3))
	e.must(e.in.Hasten(t.Context(), 1000, 5000)) // there were no 4000 ms before
	e.next(1)
}

func TestMarkWorld_AlsoWhatIsTaken(t *testing.T) {
	e := tried{t, sample(t)}
	e.mark(90_000, a(1), a(2), a(3), b(1))
	e.mark(900, a(4)) // is due already
	ended := e.take(a(3))
	e.done(ended, 0)
	ticket := e.take(a(2))
	e.woken(true)
	e.must(e.in.MarkWorld(t.Context(), worldA, 1000))
	e.woken(true)
	e.due(1000, 10, a(4), a(1))
	e.done(ticket, 80_000) // its look had begun before
	e.due(1000, 10, a(4), a(1), a(2))
}

// Old work that is found in masses keeps nothing waiting that somebody asks for
// now, wherever it stood before; and it is worked off all the same.
func TestW13_TheBacklogComesLast(t *testing.T) {
	in, _ := openAt(t, filepath.Join(t.TempDir(), store.FileName))
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const old = 50_000
	var keys []Key
	for n := range int64(old) {
		keys = append(keys, Key{World: "w", Task: n + 1})
	}
	ok(in.Mark(ctx, keys[:2], 500))           // due before, and stays so
	ok(in.Mark(ctx, keys[2:4], 1_000+soonMs)) // not due soon
	ok(in.MarkBehind(ctx, keys, 1_000))
	asked := Key{World: "w", Task: old + 1}
	ok(in.Mark(ctx, []Key{asked, keys[7]}, 2_000)) // one of the old is asked for, too
	other := Key{World: "x", Task: 1}
	ok(in.Mark(ctx, []Key{other}, 3_000))
	first := func() (tasks []int64) {
		t.Helper()
		due, err := in.Due(ctx, 5_000, 6)
		ok(err)
		for _, d := range due {
			if d.Key.World == "w" {
				tasks = append(tasks, d.Key.Task)
			}
		}
		return tasks
	}
	for turn := range 2 * backlogTurn {
		want := []int64{1, 2, 8, old + 1, 3}
		if (turn+1)%backlogTurn == 0 {
			want = []int64{3, 4, 5, 6, 7}
		}
		if got := first(); !slices.Equal(got, want) {
			t.Errorf("call %d: first are %v, want %v", turn, got, want)
		}
	}
	for _, next := range []int64{4_000, 0} { // a task that was taken comes back among the others
		ticket, taken, err := in.Take(ctx, keys[9])
		if err != nil || !taken {
			t.Fatal(taken, err)
		}
		if next == 0 {
			ok(in.MarkBehind(ctx, keys[9:10], 4_000))
		}
		ok(in.Done(ctx, ticket, next))
		if got := first(); slices.Contains(got, 10) != (next != 0) {
			t.Errorf("given back for %d: first are %v", next, got)
		}
	}
}
