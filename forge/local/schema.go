package local

import (
	"context"
	"database/sql"
	"fmt"
)

// applicationID marks a file as an embedded forge's: "Forg" in ASCII.
const applicationID = 0x466f7267

// migrations brings a file from version i to i+1 (PRAGMA user_version). An
// entry that was released never changes. Times are Unix milliseconds.
func migrations() []string {
	return []string{accounts + repositories + items + hooks, identities, itemReactions, reviewPlaces}
}

// Which forge this is, and which repository each one is, whatever they are called
// and whatever numbers another forge of this kind gives: random, and never given
// again.
const identities = `
CREATE TABLE forge (id TEXT NOT NULL) STRICT;
INSERT INTO forge (id) VALUES (lower(hex(randomblob(8))));
ALTER TABLE repos ADD COLUMN uid TEXT NOT NULL DEFAULT '';
UPDATE repos SET uid = lower(hex(randomblob(8)));`

// Where comments on a change point.
const reviewPlaces = `
CREATE TABLE review_places (
	comment  INTEGER PRIMARY KEY REFERENCES comments (id) ON DELETE CASCADE,
	path     TEXT    NOT NULL,
	start    INTEGER NOT NULL,
	stop     INTEGER NOT NULL,
	old      INTEGER NOT NULL,
	oid      TEXT    NOT NULL,
	resolved INTEGER NOT NULL
) STRICT;`

const accounts = `
CREATE TABLE users (
	id    INTEGER PRIMARY KEY AUTOINCREMENT,
	login TEXT    NOT NULL UNIQUE COLLATE NOCASE,
	kind  TEXT    NOT NULL,
	at    INTEGER NOT NULL
) STRICT;
CREATE TABLE tokens (
	hash BLOB    PRIMARY KEY,
	user INTEGER NOT NULL REFERENCES users (id),
	at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;`

const repositories = `
CREATE TABLE repos (
	id        INTEGER PRIMARY KEY AUTOINCREMENT,
	owner     TEXT    NOT NULL COLLATE NOCASE,
	name      TEXT    NOT NULL COLLATE NOCASE,
	branch    TEXT    NOT NULL,
	private   INTEGER NOT NULL,
	archived  INTEGER NOT NULL,
	fork      INTEGER NOT NULL,
	last_item INTEGER NOT NULL,
	UNIQUE (owner, name)
) STRICT;
CREATE TABLE grants (
	repo       INTEGER NOT NULL REFERENCES repos (id),
	user       INTEGER NOT NULL REFERENCES users (id),
	permission INTEGER NOT NULL,
	PRIMARY KEY (repo, user)
) STRICT, WITHOUT ROWID;
CREATE TABLE labels (
	repo        INTEGER NOT NULL REFERENCES repos (id),
	name        TEXT    NOT NULL,
	color       TEXT    NOT NULL,
	description TEXT    NOT NULL,
	PRIMARY KEY (repo, name)
) STRICT, WITHOUT ROWID;
-- Where each branch and tag was when it was last told of.
CREATE TABLE refs (
	repo INTEGER NOT NULL REFERENCES repos (id),
	name TEXT    NOT NULL,
	oid  TEXT    NOT NULL,
	PRIMARY KEY (repo, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE checks (
	repo    INTEGER NOT NULL REFERENCES repos (id),
	oid     TEXT    NOT NULL,
	name    TEXT    NOT NULL,
	state   TEXT    NOT NULL,
	summary TEXT    NOT NULL,
	detail  TEXT    NOT NULL,
	at      INTEGER NOT NULL,
	PRIMARY KEY (repo, oid, name)
) STRICT, WITHOUT ROWID;`

// An item is an issue or a change: both have a number and comments.
const items = `
CREATE TABLE items (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	repo    INTEGER NOT NULL REFERENCES repos (id),
	number  INTEGER NOT NULL,
	change  INTEGER NOT NULL,
	title   TEXT    NOT NULL,
	body    TEXT    NOT NULL,
	state   TEXT    NOT NULL,
	author  INTEGER NOT NULL REFERENCES users (id),
	locked  INTEGER NOT NULL,
	at      INTEGER NOT NULL,
	updated INTEGER NOT NULL,
	UNIQUE (repo, number)
) STRICT;
CREATE INDEX items_updated ON items (repo, updated, number);
CREATE TABLE changes (
	item   INTEGER PRIMARY KEY REFERENCES items (id),
	head   TEXT    NOT NULL,
	base   TEXT    NOT NULL,
	draft  INTEGER NOT NULL,
	state  TEXT    NOT NULL,
	oid    TEXT    NOT NULL, -- of the head, as last seen
	start  TEXT    NOT NULL, -- where the base was when it was merged or closed
	merged TEXT    NOT NULL
) STRICT;
CREATE INDEX changes_head ON changes (head, item);
CREATE TABLE item_labels (
	item INTEGER NOT NULL REFERENCES items (id),
	name TEXT    NOT NULL,
	PRIMARY KEY (item, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE versions (
	item   INTEGER NOT NULL REFERENCES items (id),
	n      INTEGER NOT NULL,
	title  TEXT    NOT NULL,
	body   TEXT    NOT NULL,
	digest TEXT    NOT NULL,
	editor INTEGER NOT NULL REFERENCES users (id),
	at     INTEGER NOT NULL,
	PRIMARY KEY (item, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
	id     INTEGER PRIMARY KEY AUTOINCREMENT,
	item   INTEGER NOT NULL REFERENCES items (id),
	kind   TEXT    NOT NULL,
	actor  INTEGER NOT NULL REFERENCES users (id),
	label  TEXT    NOT NULL,
	digest TEXT    NOT NULL,
	at     INTEGER NOT NULL
) STRICT;
CREATE INDEX events_item ON events (item, id);
CREATE TABLE comments (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	item    INTEGER NOT NULL REFERENCES items (id),
	author  INTEGER NOT NULL REFERENCES users (id),
	body    TEXT    NOT NULL,
	at      INTEGER NOT NULL,
	updated INTEGER NOT NULL
) STRICT;
CREATE INDEX comments_item ON comments (item, id);
CREATE TABLE reactions (
	comment INTEGER NOT NULL REFERENCES comments (id) ON DELETE CASCADE,
	user    INTEGER NOT NULL REFERENCES users (id),
	kind    TEXT    NOT NULL,
	PRIMARY KEY (comment, user, kind)
) STRICT, WITHOUT ROWID;`

// Answers without words to an issue itself.
const itemReactions = `
CREATE TABLE item_reactions (
	item INTEGER NOT NULL REFERENCES items (id) ON DELETE CASCADE,
	user INTEGER NOT NULL REFERENCES users (id),
	kind TEXT    NOT NULL,
	PRIMARY KEY (item, user, kind)
) STRICT, WITHOUT ROWID;`

// Who is told is kept here, so that whatever process acts writes the deliveries;
// the secret is known to the one that sends.
const hooks = `
CREATE TABLE hooks (
	url TEXT    PRIMARY KEY,
	at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE hook_deliveries (
	seq      INTEGER PRIMARY KEY AUTOINCREMENT,
	id       TEXT    NOT NULL UNIQUE,
	hook     TEXT    NOT NULL,
	event    TEXT    NOT NULL,
	body     BLOB    NOT NULL,
	state    TEXT    NOT NULL,
	attempts INTEGER NOT NULL,
	status   INTEGER NOT NULL,
	fault    TEXT    NOT NULL,
	at       INTEGER NOT NULL,
	due      INTEGER NOT NULL
) STRICT;
CREATE INDEX hook_deliveries_pending ON hook_deliveries (hook, seq) WHERE state = 'pending';`

// migrate makes the file current, or refuses one of another program or of a
// newer version.
func migrate(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var version, application int
	if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&application); err != nil {
		return err
	}
	steps := migrations()
	if version != 0 && application != applicationID || version > len(steps) {
		return fmt.Errorf("the file is of another program, or of a newer forge (version %d, this one knows %d)", version, len(steps))
	}
	for n, step := range steps[version:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("migration %d: %w", version+n, err)
		}
	}
	mark := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, len(steps))
	if _, err := tx.ExecContext(ctx, mark); err != nil {
		return err
	}
	return tx.Commit()
}
