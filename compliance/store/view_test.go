package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

func TestView_IsOneState(t *testing.T) {
	db := sample(t)
	if err := db.Write(t.Context(), insert("before")); err != nil {
		t.Fatal(err)
	}
	err := db.View(t.Context(), func(q Queries) error {
		first, err := namesIn(q)
		if err != nil {
			return err
		}
		if err := db.Write(t.Context(), insert("meanwhile")); err != nil {
			return err
		}
		again, err := namesIn(q)
		if !slices.Equal(first, again) {
			t.Errorf("a view changed from %q to %q", first, again)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wantNames(t, db, "before", "meanwhile")
}

// A query within a query of the same text has rows of its own.
func TestView_QueriesNest(t *testing.T) {
	db := sample(t)
	for _, name := range []string{"a", "b", "c"} {
		if err := db.Write(t.Context(), insert(name)); err != nil {
			t.Fatal(err)
		}
	}
	pairs := 0
	count := func(q Queries) error {
		const text = `SELECT name FROM things ORDER BY name`
		return q.Rows(text, nil, func(Row) error {
			return q.Rows(text, nil, func(Row) error { pairs++; return nil })
		})
	}
	if err := db.View(t.Context(), count); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), func(tx Tx) error { return count(tx) }); err != nil {
		t.Fatal(err)
	}
	if pairs != 18 {
		t.Errorf("%d pairs, want twice nine", pairs)
	}
}

func TestView_FunctionsErrorsAreTheirs(t *testing.T) {
	db := sample(t)
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	stop := func(q Queries) error {
		return q.Rows(`SELECT name FROM things`, nil, func(Row) error { return errOwn })
	}
	if err := db.View(t.Context(), stop); err != errOwn { //nolint:errorlint // the very error
		t.Errorf("a view gave %v", err)
	}
	if err := db.Write(t.Context(), func(tx Tx) error { return stop(tx) }); err != errOwn { //nolint:errorlint // the very error
		t.Errorf("a write gave %v", err)
	}
	if err := db.View(t.Context(), func(q Queries) error {
		_, err := q.Row(`DELETE FROM things RETURNING name`, nil, new(string))
		return err
	}); err == nil {
		t.Error("a view deleted")
	}
	wantNames(t, db, "a")
}

// A view that is given up ends in the middle of a statement, and the next one
// is not disturbed.
func TestView_GivenUp(t *testing.T) {
	defer noLeak(t)
	db := sample(t)
	const endless = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n`
	var wg sync.WaitGroup
	for range 2 * readers {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			err := db.View(ctx, func(q Queries) error {
				return q.Rows(endless, nil, func(Row) error { cancel(); return ctx.Err() })
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			cancel()
		})
	}
	wg.Wait()
	wantNames(t, db)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := db.View(ctx, func(Queries) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that had ended: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestRow_TypesAreStrict(t *testing.T) {
	db := sample(t)
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	var n int64
	var s string
	var b []byte
	for _, dest := range [][]any{{&s, &s, &b}, {&n, &n, &b}, {&s, &n, &s}, {&s, &n}, {&s, &n, &b, &n}, {&s, new(int), &b}, {&s, n, &b}} {
		err := db.View(t.Context(), func(q Queries) error {
			_, err := q.Row(`SELECT name, part, body FROM things`, nil, dest...)
			return err
		})
		if err == nil {
			t.Errorf("%T was read", dest)
		}
	}
	err := db.View(t.Context(), func(q Queries) error {
		found, err := q.Row(`SELECT name, part, body FROM things WHERE name = $1`, []any{"a"}, &s, &n, &b)
		if !found || s != "a" || n != 1 || string(b) != "a" {
			t.Errorf("read %v %q %d %q", found, s, n, b)
		}
		if found, err := q.Row(`SELECT part FROM things WHERE name = 'z'`, nil, &n); found || err != nil {
			t.Errorf("an absent row: %v %v", found, err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	defer noLeak(t)
	db := sample(t)
	release := held(t, db)
	waits := make(chan error)
	go func() { waits <- db.Write(context.Background(), insert("waits")) }()
	waitFor(db, 1)
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	if err := <-waits; !errors.Is(err, ErrClosed) {
		t.Errorf("who waited got %v", err)
	}
	release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if err := db.Write(context.Background(), insert("late")); !errors.Is(err, ErrClosed) {
		t.Errorf("a late write: %v", err)
	}
	if err := db.View(context.Background(), func(Queries) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("a late view: %v", err)
	}
	if err := db.Backup(context.Background(), t.TempDir()+"/late"); !errors.Is(err, ErrClosed) {
		t.Errorf("a late back-up: %v", err)
	}
}
