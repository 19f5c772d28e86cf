package shelf_test

import (
	"path/filepath"
	"testing"

	"github.com/writbot/writ/compliance/shelf"
	"github.com/writbot/writ/compliance/store"
)

func open(t *testing.T, path string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // closed already by a test that opens it again
	return db
}

// TestK11_ShelfKeepsOne: one work of each task is kept, in each world apart; it is there
// when the store is opened again, and is dropped for good.
func TestK11_ShelfKeepsOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "writ.db")
	db := open(t, path)
	s, other := shelf.Of(db, "one"), shelf.Of(db, "two")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	wants := func(s *shelf.Shelf, task int64, run, work string) {
		t.Helper()
		if r, w, err := s.Get(t.Context(), task); err != nil || r != run || string(w) != work {
			t.Errorf("task %d has %q of run %q, %v; want %q of %q", task, w, r, err, work, run)
		}
	}
	wants(s, 1, "", "")
	must(s.Put(t.Context(), 1, "r1", []byte("work")))
	must(s.Put(t.Context(), 1, "r2", []byte("more")))
	must(s.Put(t.Context(), 2, "r3", []byte("else")))
	must(other.Put(t.Context(), 1, "r4", []byte("theirs")))
	must(db.Close())
	db = open(t, path)
	s, other = shelf.Of(db, "one"), shelf.Of(db, "two")
	wants(s, 1, "r2", "more")
	must(s.Drop(t.Context(), 1))
	must(s.Drop(t.Context(), 7))
	wants(s, 1, "", "")
	wants(s, 2, "r3", "else")
	wants(other, 1, "r4", "theirs")
	if err := s.Put(t.Context(), 1, "r", make([]byte, shelf.MaxWork+1)); err == nil {
		t.Error("a work of any size is kept")
	}
}
