package store

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
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
	// ErrMissing: there is no file, and who reads makes none.
	ErrMissing = errors.New("there is no such file")
	// ErrEmpty: the file has no tables, or no byte at all.
	ErrEmpty = errors.New("it is empty: nothing was ever stored in it, or what was is lost")

	errForeign    = errors.New("the file is another program's database")
	errUnreleased = errors.New("a form that no release had")
	errNewer      = errors.New("it was written by a newer writ")
	errIrregular  = errors.New("it is no regular file")
	errUnread     = errors.New("what was stored last is in its log (-wal), which can't be read where nothing may be written")
	errMeanwhile  = errors.New("the file was changed while it was read")
	errNoRoom     = errors.New("there is no room")
	errDisk       = errors.New("the disk fails")
)

const restoreIt = "restore a back-up: docs/operations.md, \"Back-up and restore\"."

// remedies are what to do about a cause. The first one that fits counts.
var remedies = []struct {
	cause error
	text  string
}{
	{ErrMissing, "Name the state directory of an installation that ran. If this is the one, the file was removed: put it back, or " + restoreIt},
	{ErrEmpty, "If writ never worked here, its next start fills the file. Otherwise stop writ, and " + restoreIt},
	{ErrDamaged, "Stop writ, keep the file aside, and " + restoreIt},
	{errForeign, "Give another state directory."},
	{errUnreleased, "Keep the state directory aside and begin with a new one."},
	{errNewer, "Use the writ that wrote it, or a newer one."},
	{errIrregular, "Move aside what is there. If a store was there before, " + restoreIt},
	{errUnread, "Read it where the directory can be written, or copy the directory as it is and read the copy."},
	{errMeanwhile, "Call it again: writ began to work with the directory."},
	{errNoRoom, "Make room there; then start writ again, if it has ended."},
	{unix.EROFS, "Mount that file system for writing (mount -o remount,rw), or give another state directory. If nobody mounted it so, the kernel did over a fault of the disk: dmesg says which."},
	{errDisk, "The kernel's log (dmesg) says what failed. Copy the state directory to a sound disk before writ is started again."},
	{fs.ErrPermission, "Directory and file must belong to the user that runs writ (`id -un`), with the modes 700 and 600."},
	{ErrBusy, "`fuser` with the name of the file shows who has it. Wait for it, and try again."},
	{ErrFailed, "Look at the disk; then start writ again, which looks at what is stored."},
}

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

// Remedy is what to do about it, as a sentence; "" where nobody knows.
func (e *Error) Remedy() string {
	for _, r := range remedies {
		if errors.Is(e.Err, r.cause) {
			return r.text
		}
	}
	return ""
}

// kinded is an error of a kind that its text doesn't name.
type kinded struct {
	error
	kind error
}

func (k kinded) Unwrap() []error { return []error{k.kind, k.error} }

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
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
