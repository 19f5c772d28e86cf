package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/writbot/writ/compliance/filesystem"
)

const (
	// busyTimeout is how long the writer waits for another process: far above
	// one commit on a slow disk, far below what a person takes for a hang.
	busyTimeout = 5 * time.Second

	// readers may read at once; views are short.
	readers = 4

	// checkpointPages is how far the log may grow, in pages of 4 KiB, before it is
	// carried over into the file: pages that change often are carried over once.
	checkpointPages = 4000

	// fileMode: the file names people and private repositories.
	fileMode = 0o600
)

// Options of a store.
type Options struct {
	Logger *slog.Logger // nil is silent
}

// DB is the database in a SQLite file. WAL lets readers go on beside the one
// writer, and synchronous=FULL makes every commit wait for the disk. It is safe
// for concurrent use.
type DB struct {
	path    string
	log     *slog.Logger
	busy    time.Duration
	readers chan *conn // as many as there may be; nil is one not yet opened

	writer  *conn       // used by the one goroutine that commits; nil if read-only
	open    bool        // it was found sound, and could be opened
	altered bool        // the file isn't what it was when it was closed
	alone   bool        // read-only, and no companion of the file was there: see tidy
	still   os.FileInfo // of a file that is read where nothing may be written, without a log; nil for all others
	file    os.FileInfo // of the file that is written; nil if read-only
	failed  chan struct{}

	mu      sync.Mutex
	counts  Counts
	queue   []*call       // waiting, not begun
	running chan struct{} // closed when the goroutine that commits ends; nil without one
	err     error         // why nothing more is taken
	held    error         // another process had the file when something was to be stored last
	heldAt  time.Time     // when that was
}

var _ Store = (*DB)(nil)

// Open opens the file at path for writing, and makes it if there is none.
func Open(ctx context.Context, path string, o Options) (*DB, error) {
	db := newDB(path, o)
	if err := db.openWriter(ctx); err != nil {
		return nil, db.unopened(err)
	}
	return db.opened(ctx)
}

// OpenReadOnly opens an existing file beside its writer. Nothing is left beside the file
// that wasn't there, unless another process opens it meanwhile.
func OpenReadOnly(ctx context.Context, path string, o Options) (*DB, error) {
	db := newDB(path, o)
	db.alone = !db.accompanied()
	db.err = &Error{Detail: "the store was opened for reading"}
	if err := db.lookBeforeReading(); err != nil {
		return nil, db.unopened(err)
	}
	return db.opened(ctx)
}

// lookBeforeReading names what SQLite would take for something else, or for an input or
// output error, and finds out how the file can be read where nothing may be written:
// SQLite wants to make the log and the shared memory beside it. Where no log has anything
// the file is all there is, and is read as one that nobody changes. Beside a writer both
// are there, and are read as they are.
func (db *DB) lookBeforeReading() error {
	info, err := os.Stat(db.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrMissing
	case err != nil:
		return err
	}
	if unix.Faccessat(unix.AT_FDCWD, filepath.Dir(db.path), unix.W_OK, unix.AT_EACCESS) == nil {
		return nil
	}
	log, noLog := os.Stat(db.path + "-wal")
	_, noMemory := os.Stat(db.path + "-shm")
	switch {
	case noLog == nil && noMemory == nil:
		return nil
	case noLog == nil && log.Size() > 0:
		return errUnread
	}
	db.still = info
	return nil
}

// moved is an error once a file was changed that is read as one that nobody changes: a
// writer that began meanwhile leaves parts of two states to be read.
func (db *DB) moved() error {
	if db.still == nil {
		return nil
	}
	now, err := os.Stat(db.path)
	if err == nil && os.SameFile(now, db.still) && now.Size() == db.still.Size() && now.ModTime().Equal(db.still.ModTime()) {
		return nil
	}
	return errors.Join(errMeanwhile, err)
}

func newDB(path string, o Options) *DB {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	db := &DB{path: path, log: log, busy: busyTimeout, failed: make(chan struct{}), readers: make(chan *conn, readers)}
	for range readers {
		db.readers <- nil
	}
	return db
}

// opened reads the file's version, which shows that it can be read at all.
func (db *DB) opened(ctx context.Context) (*DB, error) {
	c, err := db.reader(ctx)
	if err == nil {
		if err = checkVersion(ctx, c); err != nil {
			err = cmp.Or(db.moved(), err)
		}
		db.readers <- c
	}
	if err != nil {
		return nil, db.unopened(err)
	}
	db.open = true
	return db, nil
}

func checkVersion(ctx context.Context, c *conn) error {
	version, err := fileVersion(ctx, c)
	switch {
	case err != nil:
		return err
	case version == unreleased: // it has no tables
		return ErrEmpty
	case version != newest():
		return fmt.Errorf("the file has version %d, not %d; start writ for writing once", version, newest())
	}
	return nil
}

func (db *DB) unopened(err error) error {
	if closeErr := db.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	switch primary(err) {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH: // the system says why
		var why *fs.PathError
		if f, openErr := os.Open(db.path); errors.As(openErr, &why) {
			err = why.Err
		} else {
			_ = f.Close() // nothing was written
		}
	}
	return db.fault("the store at "+db.path+" can't be opened", err)
}

// fault is an error about the file, which names the file system where that is the cause.
func (db *DB) fault(detail string, err error) *Error {
	dir := filepath.Dir(db.path)
	cause := blame(err, func() bool { return filesystem.Full(dir) }, func() bool { return filesystem.ReadOnly(dir) })
	switch {
	case errors.Is(cause, errNoRoom):
		return &Error{Detail: detail + ", for " + filesystem.NoRoom(dir), Err: kinded{err, cause}}
	case errors.Is(cause, unix.EROFS):
		return &Error{Detail: detail + ", for the file system mounted at " + filesystem.MountPoint(dir) + " is read-only", Err: kinded{err, cause}}
	case errors.Is(cause, errDisk):
		return &Error{Detail: detail + ", for the disk fails on the file system mounted at " + filesystem.MountPoint(dir), Err: kinded{err, cause}}
	}
	return &Error{Detail: detail, Err: asDamaged(err)}
}

// blame is what an error comes from, as far as SQLite and the file system tell: a full file
// system, one that is read-only, a disk that fails, or nil for anything else. That it is full
// SQLite says only of some writes; growing the log or the shared memory ends as an input or
// output error. What can't be read is no matter of room, nor of how the file system is
// mounted: a kernel that meets a bad disk mounts it read-only by itself.
func blame(err error, full, readOnly func() bool) error {
	class := primary(err)
	if class == sqlite3.SQLITE_FULL || filesystem.Refused(err) {
		return errNoRoom
	}
	if class == sqlite3.SQLITE_IOERR && !wrote(err) {
		return errDisk
	}
	writing := class == sqlite3.SQLITE_IOERR || class == sqlite3.SQLITE_CANTOPEN
	switch {
	case writing && full():
		return errNoRoom
	case (writing || class == sqlite3.SQLITE_READONLY || errors.Is(err, unix.EROFS)) && readOnly():
		return unix.EROFS
	case class == sqlite3.SQLITE_IOERR:
		return errDisk
	}
	return nil
}

// wrote reports whether an input or output error is of something that was to be written or
// made. SQLite has a code for each; one that isn't here is of reading.
func wrote(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() {
	case sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE,
		sqlite3.SQLITE_IOERR_DELETE, sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP:
		return true
	}
	return false
}

func (db *DB) connect(ctx context.Context, mode string, pragmas ...string) (*conn, error) {
	if err := db.regular(); err != nil {
		return nil, err
	}
	q := url.Values{"mode": {mode}}
	q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", db.busy.Milliseconds()))
	for _, p := range append(pragmas, "trusted_schema(0)", "cell_size_check(1)") {
		q.Add("_pragma", p)
	}
	if db.still != nil && mode == "ro" {
		q.Set("immutable", "1")
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: db.path, RawQuery: q.Encode()}
	return connect(ctx, u.String())
}

// regular refuses what is no file where the database and its companions should be: a
// named pipe would be waited for.
func (db *DB) regular() error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		info, err := os.Stat(db.path + suffix)
		if err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s: %w", db.path+suffix, errIrregular)
		}
	}
	return nil
}

func (db *DB) openWriter(ctx context.Context) (err error) {
	if err := createFile(db.path); err != nil {
		return err
	}
	if db.file, err = os.Stat(db.path); err != nil {
		return err
	}
	same, err := db.compare()
	if err != nil {
		return err
	}
	// temp_store: what a savepoint may have to undo is kept in memory.
	db.writer, err = db.connect(ctx, "rw", "journal_mode(WAL)", "synchronous(FULL)", "temp_store(MEMORY)",
		fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages))
	if err != nil {
		return err
	}
	if !same {
		err = db.examine(ctx)
	}
	if err == nil {
		err = db.beginWriting()
	}
	if err != nil {
		return err
	}
	return migrate(ctx, db.writer)
}

// compare reports whether the file is what it was when it was closed. It comes
// before the first connection, which may mend what it finds in the file's head.
func (db *DB) compare() (same bool, err error) {
	sum, err := os.ReadFile(db.path + sumSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	now, err := fileSum(db.path)
	if err != nil {
		return false, err
	}
	same = bytes.Equal(sum, now)
	db.altered = !same && sameFile(sum, now)
	return same, nil
}

// sameFile compares the files' numbers.
func sameFile(a, b []byte) bool {
	of, _, _ := bytes.Cut(a, []byte(" "))
	with, _, _ := bytes.Cut(b, []byte(" "))
	return bytes.Equal(of, with)
}

// examine has the database look at its own structure where it isn't known to be
// what it was, before anything is written. What it finds is ErrDamaged.
func (db *DB) examine(ctx context.Context) error {
	var fault string
	if _, err := db.writer.row(ctx, "PRAGMA integrity_check(1)", nil, []any{&fault}); err != nil {
		return err
	}
	if fault != "ok" {
		return errors.Join(ErrDamaged, errors.New(oneLine(fault)))
	}
	if db.altered {
		db.log.Error("the store was changed while nobody had it open: its ledgers are verified, but what else it holds may not be what was stored",
			"file", db.path, "remedy", "find out who wrote there, or look at the disk; to be sure, restore a back-up")
	}
	return nil
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

// beginWriting takes the note of the last closing away, durably.
func (db *DB) beginWriting() error {
	err := os.Remove(db.path + sumSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(db.path))
}

// migrate makes the file current, or refuses one of another program or of a
// newer writ.
func migrate(ctx context.Context, c *conn) error {
	if err := c.script(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := migrateIn(ctx, c); err != nil {
		return errors.Join(err, c.script(ctx, "ROLLBACK"))
	}
	return c.script(ctx, "COMMIT")
}

func migrateIn(ctx context.Context, c *conn) error {
	version, err := fileVersion(ctx, c)
	if err != nil {
		return err
	}
	if version == newest() {
		return nil
	}
	for i, step := range migrations()[version-unreleased:] {
		if err := c.script(ctx, step); err != nil {
			return fmt.Errorf("migration %d: %w", version+i+1, err)
		}
	}
	return c.script(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, newest()))
}

// createFile makes the file with its mode before SQLite would; its companions
// take the mode from it.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Err is nil as long as the store takes writes.
func (db *DB) Err() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.err
}

// Ready is why nothing can be stored now, nil if it can as far as is known: the
// store has failed, its file isn't where it was, or another process held it when
// something was to be stored last, in the last five seconds: who asks before he sends
// anything would else never learn that it is free again.
func (db *DB) Ready() error {
	db.mu.Lock()
	err := db.err
	if err == nil && time.Since(db.heldAt) < busyTimeout {
		err = db.held
	}
	db.mu.Unlock()
	if err == nil {
		err = db.inPlace()
	}
	return err
}

// inPlace is an error unless the file that is written is the one of its name: what
// is stored in a file that was removed or replaced is gone with the process.
func (db *DB) inPlace() error {
	if db.file == nil {
		return nil
	}
	now, err := os.Stat(db.path)
	if err == nil && !os.SameFile(now, db.file) {
		err = errors.New("another file has its name now")
	}
	if err != nil {
		return &Error{Detail: "the store's file is not where it was opened", Err: err}
	}
	return nil
}

// Counts is how much was stored since the store was opened.
type Counts struct {
	Writes  int64 // calls of Write that stored something durably
	Commits int64 // transactions that they shared
}

// Counts says how much was stored since the store was opened.
func (db *DB) Counts() Counts {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.counts
}

// Failed is closed when storing has failed: the process should stop, and look
// at what is stored when it starts again.
func (db *DB) Failed() <-chan struct{} { return db.failed }

// Close ends the store. What was begun is seen through; what waits gets
// [ErrClosed]. A second Close does nothing.
func (db *DB) Close() error {
	db.mu.Lock()
	if errors.Is(db.err, ErrClosed) {
		db.mu.Unlock()
		return nil
	}
	sound := db.err == nil
	db.err = &Error{Detail: "nothing was stored", Err: errors.Join(ErrClosed, db.err)}
	db.settleQueue(db.err)
	running := db.running
	db.mu.Unlock()
	if running != nil {
		<-running
	}
	var errs []error
	for range readers { // the writer last: it tidies the file
		if c := <-db.readers; c != nil {
			errs = append(errs, c.close())
		}
	}
	close(db.readers)
	if db.writer != nil {
		errs = append(errs, db.writer.close())
		if sound && db.open && errors.Join(errs...) == nil {
			errs = append(errs, db.endWriting())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &Error{Detail: "the store can't be closed", Err: err}
	}
	db.tidy()
	return nil
}

// endWriting notes what the file is, once the last writer has closed it. Where
// somebody still reads, the log beside the file stays, and there is no note.
func (db *DB) endWriting() error {
	if _, err := os.Lstat(db.path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	sum, err := fileSum(db.path)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(db.path), ".writ-sum-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(part.Name()) }() // only the name, after success
	_, err = part.Write(sum)
	if err = errors.Join(err, part.Sync(), part.Close()); err != nil {
		return err
	}
	if err := os.Rename(part.Name(), db.path+sumSuffix); err != nil {
		return err
	}
	return syncDir(filepath.Dir(db.path))
}

// accompanied reports whether the file's log or its shared memory is there.
func (db *DB) accompanied() bool {
	_, wal := os.Lstat(db.path + "-wal")
	_, shm := os.Lstat(db.path + "-shm")
	return !errors.Is(wal, fs.ErrNotExist) || !errors.Is(shm, fs.ErrNotExist)
}

// tidy has the log and the shared memory removed that a read-only connection had to make,
// and can't remove: the last connection that may write does that as it is closed, under
// SQLite's own locks, so that another process which has the file open keeps them. Where
// nothing may be written there is nothing to remove, and what is left harms nobody.
func (db *DB) tidy() {
	if !db.alone || !db.accompanied() {
		return
	}
	ctx := context.Background()
	if c, err := db.connect(ctx, "rw"); err == nil {
		var version int64
		_, _ = c.row(ctx, "PRAGMA schema_version", nil, []any{&version}) // it opens the log
		_ = c.close()
	}
}
