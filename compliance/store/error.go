package store

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/writbot/writ/kernel"
)

var (
	// ErrBusy: another process held the file all the time. Nothing was stored;
	// trying again is right.
	ErrBusy = errors.New("another process holds the store")
	// ErrFailed: storing has failed. What the failed transaction left is known
	// only after the file was opened again.
	ErrFailed = errors.New("storing has failed; the store takes nothing more until writ is started again")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store was closed")
	// ErrDamaged: the file, or a part of it, can't be made sense of.
	ErrDamaged = errors.New("the database file is damaged")
)

// Error is every failure of this package. Its code is
// environment.store.unavailable; errors.Is finds the kinds above in it.
type Error struct {
	Detail string // a sentence without secrets
	Err    error  // cause, or nil
}

func (e *Error) Error() string {
	s := string(kernel.CodeEnvStore) + ": " + e.Detail
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// FailureCode is environment.store.unavailable.
func (e *Error) FailureCode() kernel.Code { return kernel.CodeEnvStore }

// primary is the class of a SQLite error, or 0 for another error.
func primary(err error) int {
	const class = 0xff // the higher bits are details
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & class
	}
	return 0
}

// asDamaged recognises a file that SQLite can't make sense of.
func asDamaged(err error) error {
	switch primary(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return errors.Join(ErrDamaged, err)
	}
	return err
}
