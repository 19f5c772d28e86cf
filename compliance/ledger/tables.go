package ledger

import (
	"context"
	"errors"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

const hashSize = tlog.HashSize

// maxWorlds bounds the worlds of one store, far above what one server can serve.
const maxWorlds = 100_000

// tables is the storage in an instance's database: worlds, records and
// quarantined, which nobody else writes.
type tables struct{ db store.Store }

// commit is one transaction, or one part of one that others share.
func (t tables) commit(ctx context.Context, c change) error {
	return stored(t.db.Write(ctx, func(tx store.Tx) error {
		id, err := compare(tx, c)
		if err != nil {
			return err
		}
		const insert = `INSERT INTO records (world, seq, task, nodes, raw) VALUES ($1, $2, $3, $4, $5)`
		for _, r := range c.rows {
			if _, err := tx.Exec(insert, id, r.seq, r.task, r.nodes, r.raw); err != nil {
				return err
			}
		}
		const move = `UPDATE worlds SET head_seq = $1, head_hash = $2, head_time = $3 WHERE id = $4`
		_, err = tx.Exec(move, c.head.Seq, string(c.head.Hash), c.time, id)
		return err
	}))
}

// stored says errBusy where nothing was stored and nothing is wrong.
func stored(err error) error {
	if errors.Is(err, store.ErrBusy) {
		return errors.Join(errBusy, err)
	}
	return err
}

// compare finds the world's row, and errFork if its head isn't the expected one.
func compare(tx store.Tx, c change) (id int64, err error) {
	var head kernel.Head
	var hash string
	found, err := tx.Row(`SELECT id, head_seq, head_hash FROM worlds WHERE world = $1`, []any{c.world}, &id, &head.Seq, &hash)
	if err != nil {
		return 0, err
	}
	head.Hash = canon.Digest(hash)
	if !found && c.expected == kernel.NoHead() {
		const create = `INSERT INTO worlds (world, instance, head_seq, head_hash, head_time, checkpoint_size, checkpoint)
			VALUES ($1, $2, -1, '', 0, 0, $3) RETURNING id`
		_, err = tx.Row(create, []any{c.world, c.instance, []byte{}}, &id)
		return id, err
	}
	if !found || head != c.expected {
		return 0, errFork
	}
	return id, nil
}

func (t tables) keep(ctx context.Context, world string, size int64, signed []byte) error {
	return stored(t.db.Write(ctx, func(tx store.Tx) error {
		_, err := tx.Exec(`UPDATE worlds SET checkpoint_size = $1, checkpoint = $2 WHERE world = $3`, size, signed, world)
		return err
	}))
}

func (t tables) setAside(ctx context.Context, a aside) error {
	const (
		tail = `world = (SELECT id FROM worlds WHERE world = $1) AND (seq > $2 OR seq < 0)`
		keep = `INSERT INTO quarantined (world, at, reason, seq, task, nodes, raw)
			SELECT $1, $3, $4, seq, task, nodes, raw FROM records WHERE ` + tail
		drop  = `DELETE FROM records WHERE ` + tail
		setTo = `UPDATE worlds SET head_seq = $1, head_hash = $2, head_time = $3 WHERE world = $4`
	)
	return stored(t.db.Write(ctx, func(tx store.Tx) error {
		if _, err := tx.Exec(keep, a.world, a.head.Seq, a.at, a.reason); err != nil {
			return err
		}
		if _, err := tx.Exec(drop, a.world, a.head.Seq); err != nil {
			return err
		}
		_, err := tx.Exec(setTo, a.head.Seq, string(a.head.Hash), a.time, a.world)
		return err
	}))
}

// check has the database look at its own structure.
func (t tables) check(ctx context.Context) (fault string, err error) {
	fault, err = t.db.Check(ctx)
	return fault, asCorrupt(err)
}

func (t tables) view(ctx context.Context, f func(snapshot) error) error {
	return asCorrupt(t.db.View(ctx, func(q store.Queries) error { return f(view{q}) }))
}

// asCorrupt recognises a file that the database can't make sense of.
func asCorrupt(err error) error {
	if errors.Is(err, store.ErrDamaged) {
		return &Error{Code: kernel.CodeLedgerCorrupt, Seq: NoSeq, Detail: "the database file is damaged", Err: err}
	}
	return err
}

type view struct{ q store.Queries }

func (v view) worlds(context.Context) (names []string, err error) {
	const text = `SELECT CASE WHEN octet_length(world) <= $1 THEN world ELSE '' END FROM worlds ORDER BY world LIMIT $2 + 0`
	err = v.q.Rows(text, []any{int64(maxWorldBytes), int64(maxWorlds + 1)}, func(r store.Row) error {
		var name string
		if err := r.Scan(&name); err != nil || name == "" || len(names) == maxWorlds {
			return corrupt("", NoSeq, "the list of worlds can't be: too many of them, or a name that none has")
		}
		names = append(names, name)
		return nil
	})
	return names, err
}

func (v view) world(_ context.Context, name string) (w worldRow, ok bool, err error) {
	const text = `SELECT id, CASE WHEN octet_length(instance) <= $2 THEN instance ELSE '' END, head_seq,
		CASE WHEN octet_length(head_hash) <= $2 THEN head_hash ELSE '' END, head_time, checkpoint_size,
		CASE WHEN octet_length(checkpoint) <= $2 THEN checkpoint ELSE substr(checkpoint, 1, $2) END FROM worlds WHERE world = $1`
	var hash string
	ok, err = v.q.Row(text, []any{name, int64(maxCheckpointBytes)}, &w.id, &w.instance, &w.head.Seq, &hash, &w.time, &w.size, &w.checkpoint)
	w.head.Hash = canon.Digest(hash)
	if !ok {
		return worldRow{}, false, err
	}
	return w, true, nil
}

// What is larger than any record, or than the hashes that one completes, is read as none.
const (
	selected   = `SELECT seq, task, CASE WHEN octet_length(nodes) <= 4096 THEN nodes ELSE x'' END, CASE WHEN octet_length(raw) <= 4194304 THEN raw ELSE x'' END FROM records `
	selectAll  = selected + `WHERE world = $1 AND seq >= $2 ORDER BY seq LIMIT $3 + 0`
	selectTask = selected + `WHERE world = $1 AND seq >= $2 AND task = $4 AND task <> 0 ORDER BY seq LIMIT $3 + 0`
)

const unlimited = 1<<63 - 1

func (v view) rows(_ context.Context, q rowQuery, f func(row) error) error {
	if q.limit == 0 {
		q.limit = unlimited
	}
	text, args := selectAll, []any{q.world, q.from, q.limit}
	if q.task != 0 {
		text, args = selectTask, append(args, q.task)
	}
	var r row // one for all, so that none is made for each
	return v.q.Rows(text, args, func(stored store.Row) error {
		if err := stored.Scan(&r.seq, &r.task, &r.nodes, &r.raw); err != nil {
			return corrupt("", r.seq, "a stored column has another type")
		}
		return f(r)
	})
}
