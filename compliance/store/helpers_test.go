package store

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

const table = `CREATE TABLE things (name TEXT NOT NULL PRIMARY KEY, part INTEGER NOT NULL, body BLOB NOT NULL) STRICT`

var errOwn = errors.New("the function's own error")

func openAt(t testing.TB, path string) *DB {
	t.Helper()
	db, err := Open(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// sample is a store with a table of the tests' own.
func sample(t testing.TB) *DB {
	t.Helper()
	db := openAt(t, filepath.Join(t.TempDir(), FileName))
	if err := db.Write(context.Background(), run(table)); err != nil {
		t.Fatal(err)
	}
	return db
}

func run(text string, args ...any) func(Tx) error {
	return func(tx Tx) error {
		_, err := tx.Exec(text, args...)
		return err
	}
}

func insert(name string) func(Tx) error {
	return run(`INSERT INTO things (name, part, body) VALUES ($1, $2, $3)`, name, int64(len(name)), []byte(name))
}

func names(t testing.TB, db *DB) (found []string) {
	t.Helper()
	if err := db.View(context.Background(), func(q Queries) (err error) { found, err = namesIn(q); return err }); err != nil {
		t.Fatal(err)
	}
	return found
}

func namesIn(q Queries) (found []string, err error) {
	err = q.Rows(`SELECT name FROM things ORDER BY name`, nil, func(r Row) error {
		var name string
		err := r.Scan(&name)
		found = append(found, name)
		return err
	})
	return found, err
}

func wantNames(t testing.TB, db *DB, want ...string) {
	t.Helper()
	if got := names(t, db); !slices.Equal(got, want) {
		t.Errorf("stored are %q, want %q", got, want)
	}
}

func noLeak(t *testing.T) { goleak.VerifyNone(t) }

// held keeps the writer in one function until release is called, so that the
// calls made meanwhile become one group.
func held(t testing.TB, db *DB) (release func()) {
	t.Helper()
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- db.Write(context.Background(), func(Tx) error {
			close(begun)
			<-end
			return nil
		})
	}()
	<-begun
	return func() {
		close(end)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// together makes all calls wait at the same time, in their order, and gives
// their errors.
func together(t testing.TB, db *DB, calls ...func(Tx) error) []error {
	t.Helper()
	errs := make([]error, len(calls))
	done := make(chan struct{})
	release := held(t, db)
	for i, f := range calls {
		go func() {
			errs[i] = db.Write(context.Background(), f)
			done <- struct{}{}
		}()
		waitFor(db, i+1)
	}
	release()
	for range calls {
		<-done
	}
	return errs
}

// waitFor returns when n calls wait.
func waitFor(db *DB, n int) {
	for {
		db.mu.Lock()
		waiting := len(db.queue)
		db.mu.Unlock()
		if waiting >= n {
			return
		}
		runtime.Gosched()
	}
}
