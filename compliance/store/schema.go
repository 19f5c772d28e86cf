package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// unreleased is how many forms of the file there were before the oldest that is read.
// No release had them.
const unreleased = 6

// migrations brings a file from version unreleased+i to the next one (PRAGMA
// user_version). An entry that was released never changes; a new table is a further
// entry. The SQL is what PostgreSQL takes too, but for the types' names and the words
// after the last bracket.
func migrations() []string {
	return []string{ledgerTables + ";" + inboxTables + ";" + shelfTable + ";" + pushedTable + ";" + pushedClock}
}

// newest is the version of the files that this writ writes.
func newest() int { return unreleased + len(migrations()) }

// ledgerTables belong to compliance/ledger. A record is a row until its segment is
// closed; then its bytes are part of the segment's, compressed, and segment_tasks says
// which segments have records of a task. Of an archived one the data lie in a file of
// the archive's directory. Rows of some hundred bytes to some thousand have
// a rowid: in a table without one each would take whole pages beside the tree.
const ledgerTables = `CREATE TABLE worlds (
			id              INTEGER PRIMARY KEY,
			world           TEXT    NOT NULL UNIQUE,
			instance        TEXT    NOT NULL,
			head_seq        INTEGER NOT NULL,
			head_hash       TEXT    NOT NULL,
			head_time       INTEGER NOT NULL,
			checkpoint_size INTEGER NOT NULL,
			checkpoint      BLOB    NOT NULL
		) STRICT;
		CREATE TABLE records (
			world INTEGER NOT NULL REFERENCES worlds (id),
			seq   INTEGER NOT NULL,
			task  INTEGER NOT NULL,
			nodes BLOB    NOT NULL,
			raw   BLOB    NOT NULL,
			PRIMARY KEY (world, seq)
		) STRICT;
		CREATE INDEX records_task ON records (world, task, seq) WHERE task <> 0;
		CREATE TABLE segments (
			world INTEGER NOT NULL REFERENCES worlds (id),
			first INTEGER NOT NULL,
			nodes BLOB    NOT NULL,
			data  BLOB    NOT NULL,
			PRIMARY KEY (world, first)
		) STRICT;
		CREATE TABLE segment_tasks (
			world INTEGER NOT NULL REFERENCES worlds (id),
			task  INTEGER NOT NULL,
			first INTEGER NOT NULL,
			PRIMARY KEY (world, task, first)
		) STRICT, WITHOUT ROWID;
		CREATE TABLE archives (
			world INTEGER PRIMARY KEY REFERENCES worlds (id),
			size  INTEGER NOT NULL,
			dir   TEXT    NOT NULL,
			mark  BLOB    NOT NULL
		) STRICT;
		CREATE TABLE quarantined (
			world  TEXT    NOT NULL,
			at     INTEGER NOT NULL,
			reason TEXT    NOT NULL,
			seq    INTEGER NOT NULL,
			task   INTEGER NOT NULL,
			nodes  BLOB    NOT NULL,
			raw    BLOB    NOT NULL
		) STRICT`

// shelfTable belongs to compliance/shelf: one work of each task.
const shelfTable = `CREATE TABLE shelf (
			world TEXT    NOT NULL,
			task  INTEGER NOT NULL,
			run   TEXT    NOT NULL,
			work  BLOB    NOT NULL,
			PRIMARY KEY (world, task)
		) STRICT, WITHOUT ROWID`

// pushedTable belongs to compliance/pushed: the pushes of each task, the newest last.
// old is the commit of the state ref that a push stands on, "" for none.
const pushedTable = `CREATE TABLE pushed (
			id    INTEGER PRIMARY KEY,
			world TEXT    NOT NULL,
			task  INTEGER NOT NULL,
			head  TEXT    NOT NULL,
			old   TEXT    NOT NULL,
			at_ms INTEGER NOT NULL,
			moves BLOB    NOT NULL,
			pack  BLOB    NOT NULL,
			UNIQUE (world, task, head)
		) STRICT;
		CREATE INDEX pushed_at ON pushed (at_ms)`

// pushedClock belongs to compliance/pushed, too: one row.
const pushedClock = `CREATE TABLE pushed_clock (
			id      INTEGER PRIMARY KEY,
			kept_ms INTEGER NOT NULL,
			wall_ms INTEGER NOT NULL
		) STRICT`

// inboxTables belong to webhook/inbox. The body of a delivery stands apart from
// it, so that looking through deliveries reads no bodies. due_ms 0 is no due
// time; while a task is taken it is the earliest mark since, and taken_ms is
// the due time that it was taken with. backlog 1 is a task that nobody waits for, and
// that others which are due go before.
const inboxTables = `CREATE TABLE deliveries (
			id        INTEGER PRIMARY KEY,
			hook      TEXT    NOT NULL,
			delivery  TEXT    NOT NULL,
			event     TEXT    NOT NULL,
			action    TEXT    NOT NULL,
			ignored   TEXT    NOT NULL,
			signature TEXT    NOT NULL,
			digest    TEXT    NOT NULL,
			first_ms  INTEGER NOT NULL,
			last_ms   INTEGER NOT NULL,
			arrivals  INTEGER NOT NULL,
			kept      INTEGER NOT NULL,
			UNIQUE (hook, delivery)
		) STRICT;
		CREATE INDEX deliveries_kept ON deliveries (kept) WHERE kept <> 0;
		CREATE TABLE payloads (
			delivery INTEGER PRIMARY KEY REFERENCES deliveries (id),
			body     BLOB    NOT NULL
		) STRICT;
		CREATE TABLE evidence (
			id       INTEGER PRIMARY KEY,
			delivery INTEGER NOT NULL REFERENCES deliveries (id),
			world    TEXT    NOT NULL,
			task     INTEGER NOT NULL,
			event_ms INTEGER NOT NULL,
			kind     TEXT    NOT NULL,
			ref      TEXT    NOT NULL,
			actor    TEXT    NOT NULL,
			digest   TEXT    NOT NULL,
			UNIQUE (world, task, event_ms, kind, ref, actor, digest)
		) STRICT;
		CREATE INDEX evidence_delivery ON evidence (delivery);
		CREATE TABLE schedule (
			world      TEXT    NOT NULL,
			task       INTEGER NOT NULL,
			due_ms     INTEGER NOT NULL,
			taken_ms   INTEGER NOT NULL,
			generation INTEGER NOT NULL,
			failures   INTEGER NOT NULL,
			backlog    INTEGER NOT NULL DEFAULT 0,
			PRIMARY KEY (world, task)
		) STRICT, WITHOUT ROWID;
		CREATE INDEX schedule_due ON schedule (world, due_ms) WHERE due_ms <> 0 AND taken_ms = 0;
		CREATE INDEX schedule_backlog ON schedule (world, backlog, due_ms) WHERE due_ms <> 0 AND taken_ms = 0;
		CREATE INDEX schedule_taken ON schedule (taken_ms) WHERE taken_ms <> 0;
		CREATE TABLE acts (
			id     INTEGER PRIMARY KEY,
			world  TEXT    NOT NULL,
			task   INTEGER NOT NULL,
			act    TEXT    NOT NULL,
			kind   TEXT    NOT NULL,
			actor  TEXT    NOT NULL,
			reason TEXT    NOT NULL,
			UNIQUE (world, task, act)
		) STRICT;
		CREATE TABLE cursors (
			world TEXT NOT NULL,
			name  TEXT NOT NULL,
			value TEXT NOT NULL,
			PRIMARY KEY (world, name)
		) STRICT, WITHOUT ROWID;
		CREATE TABLE pauses (
			world    TEXT    NOT NULL PRIMARY KEY,
			since_ms INTEGER NOT NULL,
			actor    TEXT    NOT NULL,
			reason   TEXT    NOT NULL
		) STRICT, WITHOUT ROWID`

// applicationID marks a file as writ's: "Writ" in ASCII.
const applicationID = 0x57726974

// fileVersion is the version of the file, that of one which knows no tables yet where it
// is empty.
func fileVersion(ctx context.Context, c *conn) (int, error) {
	var version, id, tables int64
	_, err := c.row(ctx, `SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_user_version, pragma_application_id`, nil, []any{&version, &id, &tables})
	switch {
	case err != nil:
		return 0, err
	case tables == 0 && version == 0:
		return unreleased, nil
	case id != applicationID:
		return 0, errForeign
	case version > 0 && version <= unreleased:
		return 0, fmt.Errorf("the file has version %d, %w, and this writ reads %d only", version, errUnreleased, newest())
	case version < 0 || version > int64(newest()):
		return 0, fmt.Errorf("the file has version %d, this writ knows %d: %w", version, newest(), errNewer)
	}
	return int(version), nil
}

// maxObjects and maxDefinition bound what is read of a file's schema: far more than
// writ's own.
const (
	maxObjects    = 256
	maxDefinition = 16 << 10 // bytes
)

// CheckTables is an error where the file's tables and indexes aren't writ's very own. A
// view, a trigger or a computed column in their place would run what somebody else wrote,
// for as long as he likes: whoever reads a file comes here first.
func (db *DB) CheckTables(ctx context.Context) error {
	c, err := db.reader(ctx)
	if err != nil {
		return unreadable(err)
	}
	defer func() { db.readers <- c }()
	return unreadable(checkTables(ctx, c))
}

func checkTables(ctx context.Context, c *conn) error {
	plain, err := connect(ctx, "file::memory:")
	if err != nil {
		return err
	}
	defer func() { _ = plain.close() }() // nothing is in it
	for _, step := range migrations() {
		if err := plain.script(ctx, step); err != nil {
			return err
		}
	}
	want, err := definitions(ctx, plain)
	if err != nil {
		return err
	}
	have, err := definitions(ctx, c)
	if err == nil && !slices.Equal(have, want) {
		err = errors.Join(ErrDamaged, errors.New("its tables aren't those of writ: somebody else made or changed them"))
	}
	return err
}

// definitions are the objects of a schema, sorted.
func definitions(ctx context.Context, c *conn) (list []string, err error) {
	const text = `SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, ''),
		octet_length(type) + octet_length(name) + octet_length(tbl_name) + coalesce(octet_length(sql), 0)
		FROM sqlite_schema LIMIT $1 + 0`
	err = c.query(ctx, text, []any{int64(maxObjects)}, func(r Row) error {
		var one string
		var size int64
		if err := r.Scan(&one, &size); err != nil || size > maxDefinition {
			return errors.Join(ErrDamaged, errors.New("its schema can't be read"))
		}
		list = append(list, one)
		return nil
	})
	slices.Sort(list)
	return list, err
}
