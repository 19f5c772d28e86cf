package store

import (
	"context"
	"errors"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// group is the transaction of the calls that were begun together. It is the
// Tx of each of them in turn.
type group struct {
	c     *conn
	calls []*call
	bytes int   // of arguments
	parts int   // that stand so far
	ended bool  // rolled back, as nothing stood in it
	bad   error // the storage failed: nothing of the group can stand
}

// uncancelled: a transaction that has begun is seen through, for a cancelled
// statement would undo the others' parts too.
func uncancelled() context.Context { return context.Background() }

// commitGroup runs one transaction. It begins the calls only once it may write,
// so that they can be withdrawn while another process has the file.
func (db *DB) commitGroup() {
	g := &group{c: db.writer}
	if err := g.sql("BEGIN IMMEDIATE"); err != nil {
		db.notBegun(err)
		return
	}
	if err := db.inPlace(); err != nil {
		g.bad = err
	}
	for len(g.calls) < maxGroup && g.bytes < maxGroupBytes && g.bad == nil && !g.ended {
		w := db.next()
		if w == nil {
			break
		}
		g.run(w)
	}
	db.settle(g, g.end())
}

// notBegun answers those who waited for a transaction that can't be had.
func (db *DB) notBegun(err error) {
	if primary(err) != sqlite3.SQLITE_BUSY {
		_ = db.fail(err)
		return
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.held = &Error{Detail: "nothing was stored", Err: errors.Join(ErrBusy, err)}
	db.heldAt = time.Now()
	db.settleQueue(db.held)
}

// next begins the call that has waited longest, or gives nil.
func (db *DB) next() *call {
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(db.queue) == 0 {
		return nil
	}
	w := db.queue[0]
	db.queue = db.queue[1:]
	return w
}

func (db *DB) settle(g *group, err error) {
	if err != nil {
		err = db.fail(err)
	} else {
		db.count(g.parts)
	}
	for _, w := range g.calls {
		if err != nil {
			w.err = err
		}
		close(w.done)
	}
}

func (db *DB) count(parts int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.held = nil
	if parts > 0 {
		db.counts.Commits++
		db.counts.Writes += int64(parts)
	}
}

// end makes the group durable, or gives the error after which it is unknown.
func (g *group) end() error {
	if !g.ended {
		g.must("COMMIT")
	}
	if g.bad == nil {
		return nil
	}
	// SQLite may have undone it already, and calls that an error of its own: what counts is
	// the first one. The connection isn't used again.
	_ = g.sql("ROLLBACK")
	return g.bad
}

// run runs a call's function as its part of the transaction. The first part
// needs no savepoint: without it there is nothing that must stay.
func (g *group) run(w *call) {
	g.calls = append(g.calls, w)
	alone := g.parts == 0
	if !alone {
		g.must("SAVEPOINT part")
	}
	if g.bad != nil {
		return
	}
	w.err = g.call(w)
	switch {
	case w.err != nil && alone:
		g.must("ROLLBACK")
		g.ended = true
	case w.err != nil:
		g.must("ROLLBACK TO part")
		g.must("RELEASE part")
	default:
		if !alone {
			g.must("RELEASE part")
		}
		g.parts++
	}
}

// call runs the function and keeps a panic for the caller's own goroutine.
func (g *group) call(w *call) (err error) {
	defer func() {
		if w.panicked = recover(); w.panicked != nil {
			err = errors.New("the caller's function panicked")
		}
	}()
	return w.f(g)
}

func (g *group) sql(text string) error {
	_, err := g.c.exec(uncancelled(), text, nil)
	return err
}

// must runs a statement without which the group can't go on.
func (g *group) must(text string) {
	if g.bad == nil {
		g.bad = g.sql(text)
	}
}

// note remembers that the storage itself failed: SQLite may have undone the
// whole transaction.
func (g *group) note(err error) error {
	if err == nil {
		return nil
	}
	if !harmless(err) && g.bad == nil {
		g.bad = err
	}
	return &Error{Detail: "a statement failed", Err: asDamaged(err)}
}

// harmless tells a statement that was refused, and undone by itself, from a
// storage that failed. What isn't known to be harmless isn't.
func harmless(err error) bool {
	switch primary(err) {
	case 0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH,
		sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_AUTH:
		return true
	}
	return false
}

func (g *group) Exec(text string, args ...any) (int64, error) {
	for _, a := range args {
		switch v := a.(type) {
		case string:
			g.bytes += len(v)
		case []byte:
			g.bytes += len(v)
		}
	}
	changed, err := g.c.exec(uncancelled(), text, args)
	return changed, g.note(err)
}

func (g *group) Row(text string, args []any, dest ...any) (bool, error) {
	found, err := g.c.row(uncancelled(), text, args, dest)
	return found, g.note(err)
}

// Rows gives f's own error as it is.
func (g *group) Rows(text string, args []any, f func(Row) error) error {
	var own error
	err := g.c.query(uncancelled(), text, args, func(r Row) error {
		own = f(r)
		return own
	})
	if own != nil {
		return own
	}
	return g.note(err)
}
