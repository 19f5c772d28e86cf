package local

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
)

const (
	// busyTimeout is how long a write waits for another process at the file.
	busyTimeout = 5 * time.Second
	// readers may read at once.
	readers = 4
	// directoryMode and fileMode keep tokens' hashes and private repositories
	// from the machine's other users.
	directoryMode = 0o700
	fileMode      = 0o600
)

// Options says where a forge lives and how it behaves.
type Options struct {
	Dir    string           // made if it isn't there
	URL    string           // where its pages are served, such as http://127.0.0.1:3000; for links only
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: nothing is logged
	Retry  Retry            // of deliveries
	Hooks  []Hook           // who is told from the beginning; see AddHook
	// Remote serves others than the loopback interface. There is no TLS.
	Remote bool
}

// Store is a forge. Its methods may be called concurrently.
type Store struct {
	dir, url string
	now      func() time.Time
	log      *slog.Logger
	retry    Retry
	remote   bool
	first    []Hook // from the options

	write *sql.DB // one connection
	read  *sql.DB

	mu    sync.Mutex
	open  map[int64]*git.Repo
	hooks []*sender

	sessions sessions
	merging  sync.Mutex
	keeping  keeping
	client   *http.Client
	stop     context.CancelFunc // ends the senders
	ended    context.Context
	running  sync.WaitGroup
}

// Open opens the forge in a directory, or makes one there.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{
		dir: o.Dir, url: strings.TrimSuffix(o.URL, "/"), now: o.Now, log: o.Logger, retry: o.Retry.orDefaults(), remote: o.Remote, first: o.Hooks,
		open: map[int64]*git.Repo{}, client: hookClient(),
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ended, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the embedded forge in %s: %w", o.Dir, err), s.Close())
	}
	return s, nil
}

func hookClient() *http.Client {
	return &http.Client{
		Timeout:   deliveryTimeout,
		Transport: &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
		// A redirect is an answer like any other: nothing is sent elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (s *Store) start(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "repos"), directoryMode); err != nil {
		return err
	}
	path, err := filepath.Abs(filepath.Join(s.dir, "forge.db"))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if s.write, err = sql.Open("sqlite", dsn(path, "immediate", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)")); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if s.read, err = sql.Open("sqlite", dsn(path, "deferred", "query_only(1)")); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(readers)
	if err := migrate(ctx, s.write); err != nil {
		return err
	}
	for _, h := range s.first {
		if err := s.AddHook(ctx, h); err != nil {
			return err
		}
	}
	return s.catchUp(ctx)
}

func dsn(path, lock string, pragmas ...string) string {
	q := url.Values{"mode": {"rw"}, "_txlock": {lock}}
	q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()))
	for _, p := range pragmas {
		q.Add("_pragma", p)
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}
	return u.String()
}

// Close ends deliveries and closes the files. What was not delivered is sent
// after the next Open, once its hook is there again.
func (s *Store) Close() error {
	s.stop()
	s.running.Wait()
	s.client.CloseIdleConnections()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, r := range s.open {
		errs = append(errs, r.Close())
	}
	clear(s.open)
	for _, db := range []*sql.DB{s.read, s.write} { // the writer last: it tidies the file
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// session is one transaction of the database, reading or writing.
type session struct {
	ctx context.Context
	s   *Store
	tx  *sql.Tx
	now int64 // Unix milliseconds
}

// view reads from one state of the database.
func (s *Store) view(ctx context.Context, op string, f func(*session) error) error {
	return s.run(ctx, s.read, op, f)
}

// update is one durable transaction. After it the senders look for what to tell.
func (s *Store) update(ctx context.Context, op string, f func(*session) error) error {
	err := s.run(ctx, s.write, op, f)
	if err == nil {
		s.wake()
	}
	return err
}

func (s *Store) run(ctx context.Context, db *sql.DB, op string, f func(*session) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return asForge(op, err)
	}
	defer tx.Rollback()
	if err := f(&session{ctx: ctx, s: s, tx: tx, now: s.now().UnixMilli()}); err != nil {
		return asForge(op, err)
	}
	return asForge(op, tx.Commit())
}

// exec runs a statement and says how many rows it changed.
func (x *session) exec(query string, args ...any) (int64, error) {
	result, err := x.tx.ExecContext(x.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// do is exec for those who don't count.
func (x *session) do(query string, args ...any) error {
	_, err := x.exec(query, args...)
	return err
}

// one reads one row; sql.ErrNoRows if there is none.
func (x *session) one(dest []any, query string, args ...any) error {
	return x.tx.QueryRowContext(x.ctx, query, args...).Scan(dest...)
}

// each calls f for each row of a query.
func (x *session) each(f func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := x.tx.QueryContext(x.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// to makes one's list of destinations readable at the call.
func to(dest ...any) []any { return dest }

// refuse is a refusal of the forge's own.
func refuse(reason forge.Reason, format string, args ...any) error {
	return &forge.Error{Reason: reason, Op: "the embedded forge", Err: fmt.Errorf(format, args...)}
}

// asForge gives a refusal its operation, and makes a failure Unavailable.
func asForge(op string, err error) error {
	var e *forge.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return &forge.Error{Reason: e.Reason, Op: op, Err: e.Err}
	}
	return &forge.Error{Reason: forge.Unavailable, Op: op, Err: err}
}
