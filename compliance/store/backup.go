package store

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup writes a copy of the store as it stands to a new file at path, while
// the store goes on: one consistent state, in one file of mode 0600 that can be
// opened in the place of the store's. The copy appears under its name when it
// is whole and durable; a file that is there is never overwritten.
func (db *DB) Backup(ctx context.Context, path string) (err error) {
	fail := func(err error) error {
		return &Error{Detail: "the back-up to " + path + " failed", Err: asDamaged(err)}
	}
	if errors.Is(db.Err(), ErrClosed) {
		return fail(ErrClosed)
	}
	if _, err := os.Lstat(path); err == nil {
		return fail(fs.ErrExist)
	}
	part, err := os.CreateTemp(filepath.Dir(path), ".writ-backup-*") // mode 0600
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.Remove(part.Name()) }() // only the name, after success
	if err := db.copyInto(ctx, part.Name()); err != nil {
		return fail(errors.Join(err, part.Close()))
	}
	if err := errors.Join(part.Sync(), part.Close()); err != nil {
		return fail(err)
	}
	if err := os.Link(part.Name(), path); err != nil { // fails if there is one
		return fail(err)
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return fail(err)
	}
	return nil
}

// copyInto fills an empty file, over a connection of its own: the others are
// not kept waiting.
func (db *DB) copyInto(ctx context.Context, path string) (err error) {
	c, err := db.connect(ctx, "ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	_, err = c.exec(ctx, "VACUUM INTO $1", []any{path})
	return cmp.Or(db.moved(), err) // torn pages look like damage
}
