package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWrite_WaitingCallersShareACommit(t *testing.T) {
	defer noLeak(t)
	db := sample(t)
	before := db.Counts()
	var calls []func(Tx) error
	for i := range 40 {
		calls = append(calls, insert(fmt.Sprint(i)))
	}
	for i, err := range together(t, db, calls...) {
		if err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	after := db.Counts()
	if writes := after.Writes - before.Writes; writes != 41 {
		t.Errorf("%d writes are counted, want 41", writes)
	}
	if commits := after.Commits - before.Commits; commits != 1 {
		t.Errorf("41 callers who waited for each other took %d commits", commits)
	}
	if n := len(names(t, db)); n != 40 {
		t.Errorf("%d of 40 rows are stored", n)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestWrite_GroupsAreBounded(t *testing.T) {
	db := sample(t)
	before := db.Counts().Commits
	const size = maxGroupBytes/3 + 1
	big := func(name string) func(Tx) error {
		return run(`INSERT INTO things (name, part, body) VALUES ($1, 0, $2)`, name, make([]byte, size))
	}
	for _, err := range together(t, db, big("a"), big("b"), big("c"), big("d")) {
		if err != nil {
			t.Error(err)
		}
	}
	if commits := db.Counts().Commits - before; commits != 2 {
		t.Errorf("four large writes took %d commits, want 2", commits)
	}
}

func TestWrite_AnErrorUndoesItsPartOnly(t *testing.T) {
	twice := func(tx Tx) error { return errors.Join(insert("half")(tx), insert("half")(tx)) }
	own := func(tx Tx) error { return errors.Join(insert("own")(tx), errOwn) }
	for place := range 3 {
		db := sample(t)
		var calls []func(Tx) error
		for i := range 3 {
			if i == place {
				calls = append(calls, own, twice)
			}
			calls = append(calls, insert(fmt.Sprint(i)))
		}
		for i, err := range together(t, db, calls...) {
			switch i {
			case place:
				if !errors.Is(err, errOwn) {
					t.Errorf("place %d: the function's error became %v", place, err)
				}
			case place + 1:
				if err == nil {
					t.Errorf("place %d: a name stands there twice", place)
				}
			default:
				if err != nil {
					t.Errorf("place %d: call %d suffers from another: %v", place, i, err)
				}
			}
		}
		wantNames(t, db, "0", "1", "2")
		if err := db.Err(); err != nil {
			t.Errorf("a function's error is no failure of the store: %v", err)
		}
	}
}

func TestWrite_TheFirstPartIsUndoneToo(t *testing.T) {
	db := sample(t)
	begun, end := make(chan struct{}), make(chan struct{})
	first, second := make(chan error), make(chan error)
	go func() {
		first <- db.Write(context.Background(), func(tx Tx) error {
			close(begun)
			<-end
			return errors.Join(insert("own")(tx), errOwn)
		})
	}()
	<-begun
	go func() { second <- db.Write(context.Background(), insert("other")) }()
	waitFor(db, 1)
	close(end)
	if err := <-first; !errors.Is(err, errOwn) {
		t.Errorf("the function's error became %v", err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
	wantNames(t, db, "other")
}

func TestWrite_APanicReachesItsOwnCaller(t *testing.T) {
	db := sample(t)
	release := held(t, db)
	caught, other := make(chan any), make(chan error)
	go func() {
		defer func() { caught <- recover() }()
		_ = db.Write(context.Background(), func(tx Tx) error {
			_ = insert("half")(tx)
			panic("mine")
		})
	}()
	waitFor(db, 1)
	go func() { other <- db.Write(context.Background(), insert("other")) }()
	waitFor(db, 2)
	release()
	if got := <-caught; got != "mine" {
		t.Errorf("the caller caught %v", got)
	}
	if err := <-other; err != nil {
		t.Error(err)
	}
	wantNames(t, db, "other")
}

func TestWrite_GivenUpBeforeItsTurn(t *testing.T) {
	db := sample(t)
	release := held(t, db)
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error)
	go func() { gone <- db.Write(ctx, insert("never")) }()
	waitFor(db, 1)
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) { // while the writer is still busy
		t.Errorf("who gave up got %v", err)
	}
	release()
	if err := db.Write(ctx, insert("never")); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that had ended: %v", err)
	}
	wantNames(t, db)
}

func TestWrite_BegunIsSeenThrough(t *testing.T) {
	db := sample(t)
	ctx, cancel := context.WithCancel(context.Background())
	err := db.Write(ctx, func(tx Tx) error {
		cancel()
		return insert("stays")(tx)
	})
	if err != nil {
		t.Error(err)
	}
	wantNames(t, db, "stays")
}

// Another process has the file: who waits may leave, and nothing is wrong with
// the store.
func TestW10_AnotherProcessHoldsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	other := openAt(t, path)
	if err := other.Write(t.Context(), run(table)); err != nil {
		t.Fatal(err)
	}
	db := newDB(path, Options{})
	db.busy = 50 * time.Millisecond
	if err := db.openWriter(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	release := held(t, other)
	if err := db.Write(t.Context(), insert("a")); !errors.Is(err, ErrBusy) {
		t.Errorf("after the time to wait: %v, want busy", err)
	}
	if err := db.Ready(); !errors.Is(err, ErrBusy) || db.Err() != nil {
		t.Errorf("it is said to be %v", err)
	}
	db.heldAt = db.heldAt.Add(-busyTimeout)
	if err := db.Ready(); err != nil {
		t.Errorf("long after, when nobody sends anything: %v", err)
	}
	release()
	if err := db.Write(t.Context(), insert("b")); err != nil {
		t.Errorf("a busy store is not a broken one: %v", err)
	}
	if err := db.Ready(); err != nil {
		t.Error(err)
	}
	wantNames(t, db, "b")
}

// TestR4_FileTakenAway: what would be stored in a file that nobody finds again isn't
// stored, and the store has failed.
func TestR4_FileTakenAway(t *testing.T) {
	for name, take := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		},
		"with its directory": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, FileName)
			db, err := Open(t.Context(), path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := errors.Join(db.Write(t.Context(), run(table)), db.Ready(), take(path)); err != nil {
				t.Fatal(err)
			}
			if db.Ready() == nil {
				t.Error("it is said to be well")
			}
			if err := db.Write(t.Context(), insert("a")); err == nil || db.Err() == nil {
				t.Errorf("stored: %v, %v", err, db.Err())
			}
			select {
			case <-db.Failed():
			default:
				t.Error("nobody is told")
			}
		})
	}
}

func TestW10_NobodyIsKeptWhileTheFileIsHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	other, db := openAt(t, path), openAt(t, path)
	release := held(t, other)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := db.Write(ctx, run(table)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the caller's own deadline", err)
	}
	if waited := time.Since(start); waited > busyTimeout/2 {
		t.Errorf("the caller's deadline was 20 ms, it was kept for %v", waited)
	}
	release()
	if err := db.Write(t.Context(), run(table)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestWrite_StatementsTakeThreeTypes(t *testing.T) {
	db := sample(t)
	for _, arg := range []any{1, 1.5, true, nil, time.Time{}} {
		if err := db.Write(t.Context(), run(`INSERT INTO things VALUES ($1, 1, $2)`, "x", arg)); err == nil {
			t.Errorf("%T was taken", arg)
		}
	}
	if err := db.Write(t.Context(), run(`INSERT INTO things VALUES ($1, 1, $2)`, "x", []byte(nil))); err != nil {
		t.Errorf("no bytes: %v", err)
	}
	if err := db.Err(); err != nil {
		t.Error(err)
	}
}

// What groups of calls leave is what the calls that succeeded leave one by one.
func TestWrite_LikeOneByOne(t *testing.T) {
	db := sample(t)
	rapid.Check(t, func(rt *rapid.T) {
		if err := db.Write(context.Background(), run(`DELETE FROM things`)); err != nil {
			rt.Fatal(err)
		}
		model := map[string]bool{}
		for range rapid.IntRange(1, 4).Draw(rt, "groups") {
			var calls []func(Tx) error
			var want []bool
			for range rapid.IntRange(1, 6).Draw(rt, "calls") {
				set := rapid.SliceOfN(rapid.StringMatching(`[a-e]`), 1, 3).Draw(rt, "names")
				fails := rapid.Bool().Draw(rt, "fails")
				next := maps.Clone(model)
				for _, name := range set {
					fails = fails || next[name]
					next[name] = true
				}
				if !fails {
					model = next
				}
				want = append(want, !fails)
				calls = append(calls, func(tx Tx) error {
					for _, name := range set {
						if err := insert(name)(tx); err != nil {
							return err
						}
					}
					if fails {
						return errOwn
					}
					return nil
				})
			}
			for i, err := range together(t, db, calls...) {
				if (err == nil) != want[i] {
					rt.Fatalf("call %d: %v", i, err)
				}
			}
		}
		if got, want := names(t, db), slices.Sorted(maps.Keys(model)); !slices.Equal(got, want) {
			rt.Fatalf("stored are %q, want %q", got, want)
		}
	})
}
