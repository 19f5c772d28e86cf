package store

import (
	"cmp"
	"context"
)

// reader takes a connection for reading out of those there may be; it is put
// back into db.readers.
func (db *DB) reader(ctx context.Context) (*conn, error) {
	select {
	case c, open := <-db.readers:
		if !open {
			return nil, ErrClosed
		}
		if c != nil {
			return c, nil
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c, err := db.connect(ctx, "ro", "query_only(1)")
	if err != nil {
		db.readers <- nil
		return nil, err
	}
	return c, nil
}

// View runs f on one consistent state; later writes don't show. f's error is
// returned as it is.
func (db *DB) View(ctx context.Context, f func(Queries) error) (err error) {
	c, err := db.reader(ctx)
	if err != nil {
		return unreadable(err)
	}
	sound := false
	defer func() {
		if !sound { // interrupted, or f left by a panic: nothing is known of it
			if closeErr := c.close(); closeErr != nil {
				db.log.Warn("store: a connection for reading can't be closed", "err", closeErr)
			}
			c = nil
		}
		db.readers <- c
	}()
	if _, err := c.exec(ctx, "BEGIN", nil); err != nil {
		return unreadable(err)
	}
	err = f(view{ctx, c})
	// Nothing was written: the end of the transaction can't lose anything.
	if ctx.Err() == nil {
		_, end := c.exec(ctx, "ROLLBACK", nil)
		sound = end == nil
	}
	return cmp.Or(unreadable(db.moved()), err)
}

// view reads in a transaction that ends with the function it is given to.
type view struct {
	ctx context.Context
	c   *conn
}

func (v view) Row(text string, args []any, dest ...any) (bool, error) {
	found, err := v.c.row(v.ctx, text, args, dest)
	return found, unreadable(err)
}

// Rows gives f's own error as it is.
func (v view) Rows(text string, args []any, f func(Row) error) error {
	var own error
	err := v.c.query(v.ctx, text, args, func(r Row) error {
		own = f(r)
		return own
	})
	if own != nil {
		return own
	}
	return unreadable(err)
}

func unreadable(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Detail: "the store can't be read", Err: asDamaged(err)}
}

// Check has SQLite look at the structure of the file and its indexes, and for rows that
// belong to nothing: records of a world that the store doesn't name.
func (db *DB) Check(ctx context.Context) (fault string, err error) {
	c, err := db.reader(ctx)
	if err != nil {
		return "", unreadable(err)
	}
	defer func() {
		db.readers <- c
		if moved := db.moved(); moved != nil { // torn pages look like damage
			fault, err = "", unreadable(moved)
		}
	}()
	if _, err = c.row(ctx, "PRAGMA integrity_check(1)", nil, []any{&fault}); err != nil {
		return "", unreadable(err)
	}
	if fault != "ok" {
		return fault, nil
	}
	lost, err := c.row(ctx, "SELECT 1 FROM pragma_foreign_key_check LIMIT 1", nil, []any{new(int64)})
	if err != nil || !lost {
		return "", unreadable(err)
	}
	return "it holds records of a world that it doesn't name", nil
}
