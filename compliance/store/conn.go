package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"modernc.org/sqlite"
)

// conn is one connection to the file, for one user at a time. It asks the
// driver itself: the conversions of database/sql cost a third of a ledger's
// verification, and would make a number of a text without a word.
type conn struct {
	raw   driver.Conn
	stmts map[string]*statement
}

// statement is kept for the next use of the same text.
type statement struct {
	stmt driver.Stmt
	busy bool // its rows are being read
}

// maxStatements bounds what a connection keeps. The texts are constants, far
// fewer than this.
const maxStatements = 256

func connect(ctx context.Context, dsn string) (*conn, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, stmts: map[string]*statement{}}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.stmt.Close())
	}
	c.stmts = nil
	return errors.Join(append(errs, c.raw.Close())...)
}

// script runs several statements that take no arguments.
func (c *conn) script(ctx context.Context, text string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(ctx, text, nil)
	return err
}

// prepared gives the statement of a text, and what to do after its use.
func (c *conn) prepared(text string) (s *statement, release func() error, err error) {
	if s := c.stmts[text]; s != nil && !s.busy {
		s.busy = true
		return s, func() error { s.busy = false; return nil }, nil
	}
	stmt, err := c.raw.Prepare(text)
	if err != nil {
		return nil, nil, err
	}
	s = &statement{stmt: stmt, busy: true}
	if c.stmts[text] != nil || len(c.stmts) >= maxStatements {
		return s, stmt.Close, nil
	}
	c.stmts[text] = s
	return s, func() error { s.busy = false; return nil }, nil
}

func (c *conn) exec(ctx context.Context, text string, args []any) (changed int64, err error) {
	values, err := valuesOf(args)
	if err != nil {
		return 0, err
	}
	s, release, err := c.prepared(text)
	if err != nil {
		return 0, err
	}
	result, err := s.stmt.(driver.StmtExecContext).ExecContext(ctx, values)
	if err == nil {
		changed, err = result.RowsAffected()
	}
	return changed, errors.Join(err, release())
}

// open begins a query; end is called when its rows have been read.
func (c *conn) open(ctx context.Context, text string, args []any) (rows driver.Rows, end func() error, err error) {
	values, err := valuesOf(args)
	if err != nil {
		return nil, nil, err
	}
	s, release, err := c.prepared(text)
	if err != nil {
		return nil, nil, err
	}
	rows, err = s.stmt.(driver.StmtQueryContext).QueryContext(ctx, values)
	if err != nil {
		return nil, nil, errors.Join(err, release())
	}
	return rows, func() error { return errors.Join(rows.Close(), release()) }, nil
}

func (c *conn) query(ctx context.Context, text string, args []any, f func(Row) error) error {
	rows, end, err := c.open(ctx, text, args)
	if err != nil {
		return err
	}
	r := Row{values: make([]driver.Value, len(rows.Columns()))}
	for err == nil {
		if err = rows.Next(r.values); err == nil {
			err = f(r)
		} else if errors.Is(err, io.EOF) {
			return errors.Join(ctx.Err(), end())
		}
	}
	return errors.Join(err, end())
}

func (c *conn) row(ctx context.Context, text string, args, dest []any) (found bool, err error) {
	rows, end, err := c.open(ctx, text, args)
	if err != nil {
		return false, err
	}
	r := Row{values: make([]driver.Value, len(rows.Columns()))}
	if err = rows.Next(r.values); errors.Is(err, io.EOF) {
		return false, errors.Join(ctx.Err(), end())
	}
	if err == nil {
		err = r.Scan(dest...)
	}
	err = errors.Join(err, end())
	return err == nil, err
}

// Row is one row of a result, good until the next one.
type Row struct{ values []driver.Value }

// Scan reads the columns into dest (*int64, *string, *[]byte). It takes the
// types that were stored and no others: a changed type is a changed row. Bytes
// are the caller's own.
func (r Row) Scan(dest ...any) error {
	if len(dest) != len(r.values) {
		return fmt.Errorf("%d columns are read into %d places", len(r.values), len(dest))
	}
	for i, v := range r.values {
		ok := false
		switch d := dest[i].(type) {
		case *int64:
			*d, ok = v.(int64)
		case *string:
			*d, ok = v.(string)
		case *[]byte:
			*d, ok = v.([]byte)
		}
		if !ok {
			return &TypeError{Column: i}
		}
	}
	return nil
}

// TypeError is a stored value of another type than was asked for.
type TypeError struct{ Column int } // from 0

func (e *TypeError) Error() string {
	return fmt.Sprintf("the stored column %d has another type", e.Column)
}

func valuesOf(args []any) ([]driver.NamedValue, error) {
	values := make([]driver.NamedValue, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case int64, string:
		case []byte:
			if v == nil {
				a = []byte{} // no column is null
			}
		default:
			return nil, fmt.Errorf("argument %d is a %T; a store takes int64, string and []byte", i+1, a)
		}
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return values, nil
}
