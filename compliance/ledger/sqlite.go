package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/kernel"
)

const hashSize = tlog.HashSize

const (
	// busyTimeout is how long a write waits for another process: far above one
	// commit on a slow disk, far below what a person takes for a hang.
	busyTimeout = 5 * time.Second

	// readers may read at once; pages of rows are short.
	readers = 4
)

// database is the storage in a SQLite file. WAL lets readers go on beside the
// one writer, and synchronous=FULL makes every commit wait for the disk.
type database struct {
	write *sql.DB // one connection; nil if read-only
	read  *sql.DB

	world, move, insert, keepStmt *sql.Stmt // of write
}

func openDatabase(ctx context.Context, path string, readOnly bool) (_ *database, err error) {
	d := &database{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if !readOnly {
		if err := d.openWriter(ctx, path); err != nil {
			return d, err
		}
	}
	if d.read, err = sql.Open("sqlite", dsn(path, "ro", "query_only(1)")); err != nil {
		return d, err
	}
	d.read.SetMaxOpenConns(readers)
	return d, checkVersion(ctx, d.read)
}

func dsn(path, mode string, pragmas ...string) string {
	q := url.Values{"mode": {mode}, "_txlock": {"immediate"}}
	if mode == "ro" {
		q.Set("_txlock", "deferred")
	}
	q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()))
	for _, p := range pragmas {
		q.Add("_pragma", p)
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}
	return u.String()
}

func (d *database) openWriter(ctx context.Context, path string) (err error) {
	if err := createFile(path); err != nil {
		return err
	}
	d.write, err = sql.Open("sqlite", dsn(path, "rw", "journal_mode(WAL)", "synchronous(FULL)"))
	if err != nil {
		return err
	}
	d.write.SetMaxOpenConns(1)
	if err := migrate(ctx, d.write); err != nil {
		return err
	}
	return d.prepare(ctx)
}

// createFile makes the file with its mode before SQLite would; its companions
// take the mode from it.
func createFile(path string) error {
	const mode = 0o600 // a ledger names people and private repositories
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, mode)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func (d *database) prepare(ctx context.Context) (err error) {
	for text, stmt := range map[string]**sql.Stmt{
		`SELECT id, head_seq, head_hash FROM worlds WHERE world = ?`:                &d.world,
		`UPDATE worlds SET head_seq = ?, head_hash = ?, head_time = ? WHERE id = ?`: &d.move,
		`INSERT INTO records (world, seq, task, nodes, raw) VALUES (?, ?, ?, ?, ?)`: &d.insert,
		`UPDATE worlds SET checkpoint_size = ?, checkpoint = ? WHERE world = ?`:     &d.keepStmt,
	} {
		if *stmt, err = d.write.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) close() error {
	var errs []error
	for _, db := range []*sql.DB{d.read, d.write} { // the writer last: it tidies the file
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// commit is one immediate transaction.
func (d *database) commit(ctx context.Context, c change) error {
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return busyOr(err)
	}
	if err := d.store(ctx, tx, c); err != nil {
		if rollback := tx.Rollback(); errors.Is(err, errFork) && rollback == nil {
			return err
		}
		return fmt.Errorf("%w: rolled back", nonFork(err))
	}
	return tx.Commit()
}

// nonFork hides that a lost race came with a failed rollback.
func nonFork(err error) error {
	if errors.Is(err, errFork) {
		return errors.New("the rollback failed")
	}
	return err
}

func busyOr(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && primary(e) == sqlite3.SQLITE_BUSY {
		return errors.Join(errBusy, err)
	}
	return err
}

// primary is the error's class without its details.
func primary(e *sqlite.Error) int { return e.Code() & 0xff }

func (d *database) store(ctx context.Context, tx *sql.Tx, c change) error {
	id, err := d.compare(ctx, tx, c)
	if err != nil {
		return err
	}
	insert := tx.StmtContext(ctx, d.insert)
	for _, r := range c.rows {
		if _, err := insert.ExecContext(ctx, id, r.seq, r.task, r.nodes, r.raw); err != nil {
			return err
		}
	}
	_, err = tx.StmtContext(ctx, d.move).ExecContext(ctx, c.head.Seq, string(c.head.Hash), c.time, id)
	return err
}

// compare finds the world's row, and errFork if its head isn't the expected one.
func (d *database) compare(ctx context.Context, tx *sql.Tx, c change) (id int64, err error) {
	var head kernel.Head
	err = tx.StmtContext(ctx, d.world).QueryRowContext(ctx, c.world).Scan(&id, &head.Seq, &head.Hash)
	if errors.Is(err, sql.ErrNoRows) && c.expected == kernel.NoHead() {
		const create = `INSERT INTO worlds (world, instance, head_seq, head_hash, head_time, checkpoint_size, checkpoint)
			VALUES (?, ?, -1, '', 0, 0, ?) RETURNING id`
		err = tx.QueryRowContext(ctx, create, c.world, c.instance, []byte{}).Scan(&id)
		return id, err
	}
	if errors.Is(err, sql.ErrNoRows) || err == nil && head != c.expected {
		return 0, errFork
	}
	return id, err
}

func (d *database) keep(ctx context.Context, world string, size int64, signed []byte) error {
	_, err := d.keepStmt.ExecContext(ctx, size, signed, world)
	return busyOr(err)
}

func (d *database) setAside(ctx context.Context, a aside) error {
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return busyOr(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing, after the commit
	const (
		tail = `world = (SELECT id FROM worlds WHERE world = ?) AND (seq > ? OR seq < 0)`
		keep = `INSERT INTO quarantined (world, at, reason, seq, task, nodes, raw)
			SELECT ?, ?, ?, seq, task, nodes, raw FROM records WHERE ` + tail
		drop  = `DELETE FROM records WHERE ` + tail
		setTo = `UPDATE worlds SET head_seq = ?, head_hash = ?, head_time = ? WHERE world = ?`
	)
	for _, s := range []struct {
		text string
		args []any
	}{
		{keep, []any{a.world, a.at, a.reason, a.world, a.head.Seq}},
		{drop, []any{a.world, a.head.Seq}},
		{setTo, []any{a.head.Seq, string(a.head.Hash), a.time, a.world}},
	} {
		if _, err := tx.ExecContext(ctx, s.text, s.args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// check has SQLite look at the structure of the file and its indexes.
func (d *database) check(ctx context.Context) (fault string, err error) {
	err = d.read.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&fault)
	if fault == "ok" {
		fault = ""
	}
	return fault, asCorrupt(err)
}

// view holds one connection in one read transaction.
func (d *database) view(ctx context.Context, f func(snapshot) error) (err error) {
	conn, err := d.read.Conn(ctx)
	if err != nil {
		return asCorrupt(err)
	}
	defer func() {
		if closeErr := conn.Close(); err == nil {
			err = closeErr
		}
	}()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return asCorrupt(err)
	}
	// Nothing was written: the end of the transaction can't lose anything.
	defer func() { _ = tx.Rollback() }()
	return asCorrupt(f(view{conn: conn, tx: tx}))
}

// asCorrupt recognises a file that SQLite can't make sense of.
func asCorrupt(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) {
		if p := primary(e); p == sqlite3.SQLITE_CORRUPT || p == sqlite3.SQLITE_NOTADB {
			return &Error{Code: kernel.CodeLedgerCorrupt, Seq: NoSeq, Detail: "the database file is damaged", Err: err}
		}
	}
	return err
}

type view struct {
	conn *sql.Conn
	tx   *sql.Tx
}

func (v view) worlds(ctx context.Context) (names []string, err error) {
	rows, err := v.tx.QueryContext(ctx, `SELECT world FROM worlds ORDER BY world`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

func (v view) world(ctx context.Context, name string) (w worldRow, ok bool, err error) {
	const q = `SELECT id, instance, head_seq, head_hash, head_time, checkpoint_size, checkpoint FROM worlds WHERE world = ?`
	err = v.tx.QueryRowContext(ctx, q, name).
		Scan(&w.id, &w.instance, &w.head.Seq, &w.head.Hash, &w.time, &w.size, &w.checkpoint)
	if errors.Is(err, sql.ErrNoRows) {
		return worldRow{}, false, nil
	}
	return w, err == nil, err
}

const (
	selectAll  = `SELECT seq, task, nodes, raw FROM records WHERE world = ? AND seq >= ? ORDER BY seq LIMIT ?`
	selectTask = `SELECT seq, task, nodes, raw FROM records WHERE world = ? AND seq >= ? AND task = ? AND task <> 0 ORDER BY seq LIMIT ?`
)

// rows asks the driver itself: database/sql's conversions cost a third of a
// verification, and would make a number of a text without a word.
func (v view) rows(ctx context.Context, q rowQuery, f func(row) error) error {
	if q.limit == 0 {
		q.limit = -1
	}
	text, args := selectAll, []int64{q.world, q.from, q.limit}
	if q.task != 0 {
		text, args = selectTask, []int64{q.world, q.from, q.task, q.limit}
	}
	named := make([]driver.NamedValue, len(args))
	for i, a := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return v.conn.Raw(func(raw any) error {
		rows, err := raw.(driver.QueryerContext).QueryContext(ctx, text, named)
		if err != nil {
			return err
		}
		return errors.Join(each(ctx, rows, f), rows.Close())
	})
}

func each(ctx context.Context, rows driver.Rows, f func(row) error) error {
	const columns = 4
	values := make([]driver.Value, columns)
	for {
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return ctx.Err()
		} else if err != nil {
			return err
		}
		r, err := rowOf(values)
		if err == nil {
			err = f(r)
		}
		if err != nil {
			return err
		}
	}
}

// rowOf takes the types that were stored and no others.
func rowOf(v []driver.Value) (r row, err error) {
	var ok [4]bool
	r.seq, ok[0] = v[0].(int64)
	r.task, ok[1] = v[1].(int64)
	r.nodes, ok[2] = v[2].([]byte)
	r.raw, ok[3] = v[3].([]byte)
	if ok != [4]bool{true, true, true, true} {
		return r, corrupt("", r.seq, "a stored column has another type")
	}
	return r, nil
}
