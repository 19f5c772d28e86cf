package store

import (
	"context"
	"errors"
	"slices"
)

const (
	// maxGroup bounds the functions that share a transaction, and
	// maxGroupBytes the bytes of their arguments, so that no caller waits long
	// for others.
	maxGroup      = 256
	maxGroupBytes = 8 << 20
)

// call is a call of Write.
type call struct {
	f        func(Tx) error
	err      error
	panicked any
	done     chan struct{} // closed when it is settled
}

// Write runs f in a transaction that it shares with the callers that wait at
// the same time; see [Store].
func (db *DB) Write(ctx context.Context, f func(Tx) error) error {
	if err := ctx.Err(); err != nil {
		return gaveUp(err)
	}
	w := &call{f: f, done: make(chan struct{})}
	if err := db.enqueue(w); err != nil {
		return err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if db.withdraw(w) {
			return gaveUp(ctx.Err())
		}
		<-w.done
	}
	if w.panicked != nil {
		panic(w.panicked) // f's own, in the goroutine of who gave it
	}
	return w.err
}

func gaveUp(err error) error {
	return &Error{Detail: "the caller gave up before anything was stored", Err: err}
}

func (db *DB) enqueue(w *call) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.err != nil {
		return db.err
	}
	db.queue = append(db.queue, w)
	if db.running == nil {
		db.running = make(chan struct{})
		go db.commitAll()
	}
	return nil
}

// withdraw takes a call back that was not begun.
func (db *DB) withdraw(w *call) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	i := slices.Index(db.queue, w)
	if i < 0 {
		return false
	}
	db.queue = slices.Delete(db.queue, i, i+1)
	return true
}

// commitAll commits group after group until nobody waits.
func (db *DB) commitAll() {
	for db.waiting() {
		db.commitGroup()
	}
}

// waiting says whether somebody waits; if not, the goroutine that asks ends.
func (db *DB) waiting() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(db.queue) > 0 {
		return true
	}
	db.queue = nil
	close(db.running)
	db.running = nil
	return false
}

// settleQueue tells all who wait that nothing of theirs was stored. The caller
// holds mu.
func (db *DB) settleQueue(err error) {
	for _, w := range db.queue {
		w.err = err
		close(w.done)
	}
	db.queue = nil
}

// fail ends all writing.
func (db *DB) fail(cause error) error {
	err := db.fault("it could not be made durable", cause)
	err.Err = errors.Join(ErrFailed, err.Err)
	db.log.Error("store: storing failed; nothing more is taken", "err", err)
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.err == nil {
		db.err = err
	}
	db.settleQueue(err)
	close(db.failed)
	return err
}
