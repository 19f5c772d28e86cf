package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"

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
type tables struct {
	db  store.Store
	dir string // where archived segments are looked for; "": where they were put
}

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

// archivedIn is the same storage, for which archived segments lie in dir.
func (t tables) archivedIn(dir string) storage { return tables{db: t.db, dir: dir} }

func (t tables) view(ctx context.Context, f func(snapshot) error) error {
	return asCorrupt(t.db.View(ctx, func(q store.Queries) error { return f(view{q, t.dir, &kept{}}) }))
}

// asCorrupt recognises a file that the database can't make sense of.
func asCorrupt(err error) error {
	if errors.Is(err, store.ErrDamaged) {
		return &Error{Code: kernel.CodeLedgerCorrupt, Seq: NoSeq, Detail: "the database file is damaged", Err: err}
	}
	return err
}

type view struct {
	q    store.Queries
	dir  string
	kept *kept
}

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
		CASE WHEN octet_length(checkpoint) <= $2 THEN checkpoint ELSE substr(checkpoint, 1, $2) END,
		(SELECT coalesce(max(first) + $3, 0) FROM segments WHERE segments.world = worlds.id) FROM worlds WHERE world = $1`
	var hash string
	ok, err = v.q.Row(text, []any{name, int64(maxCheckpointBytes), int64(segmentRecords)},
		&w.id, &w.instance, &w.head.Seq, &hash, &w.time, &w.size, &w.checkpoint, &w.closed)
	w.head.Hash = canon.Digest(hash)
	if !ok || err != nil {
		return worldRow{}, false, err
	}
	w.name = name
	const archived = `SELECT size, CASE WHEN octet_length(dir) <= 4096 THEN dir ELSE '' END, CASE WHEN octet_length(mark) <= 4194304 THEN mark ELSE x'' END
		FROM archives WHERE world = $1`
	if _, err := v.q.Row(archived, []any{w.id}, &w.archive.size, &w.archive.dir, &w.archive.mark); err != nil {
		return worldRow{}, false, err
	}
	if v.dir != "" {
		w.archive.dir = v.dir
	}
	v.kept.worlds = append(v.kept.worlds, w)
	return w, true, nil
}

// What is larger than any record, than the hashes that one completes, or than a segment
// is read as none.
const (
	selected   = `SELECT seq, task, CASE WHEN octet_length(nodes) <= 4096 THEN nodes ELSE x'' END, CASE WHEN octet_length(raw) <= 4194304 THEN raw ELSE x'' END FROM records `
	selectRows = selected + `WHERE world = $1 AND seq >= $2 AND seq < $3 ORDER BY seq LIMIT $4 + 0`
	selectTask = selected + `WHERE world = $1 AND seq >= $2 AND seq < $3 AND task = $5 AND task <> 0 ORDER BY seq LIMIT $4 + 0`

	segmentsAll  = `SELECT first FROM segments WHERE world = $1 AND first >= $2 ORDER BY first`
	segmentsTask = `SELECT first FROM segment_tasks WHERE world = $1 AND first >= $2 AND task = $3 ORDER BY first`
	segmentData  = `SELECT CASE WHEN octet_length(nodes) <= 4096 THEN nodes ELSE x'' END, CASE WHEN octet_length(data) <= 33554432 THEN data ELSE x'' END
		FROM segments WHERE world = $1 AND first = $2`
	segmentTasks = `SELECT task FROM segment_tasks WHERE world = $1 AND first = $2 ORDER BY task LIMIT 513`
)

// endless is after every sequence.
const endless = 1<<63 - 1

// errEnough ends a read at its limit.
var errEnough = errors.New("enough")

// rows reads rows and segments in turn. A row that stands where a segment is closed comes
// after it, out of order, so that a verification sees it.
func (v view) rows(_ context.Context, q rowQuery, f func(row) error) error {
	if q.limit == 0 {
		q.limit = endless
	}
	counted := func(r row) error {
		if q.limit--; q.limit < 0 {
			return errEnough
		}
		return f(r)
	}
	firsts, err := v.segments(q)
	for _, first := range firsts {
		if err == nil {
			err = v.plain(q, first, counted)
		}
		if err == nil {
			err = v.closed(q, first, counted)
			q.from = max(q.from, first)
		}
	}
	if err == nil {
		err = v.plain(q, endless, counted)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// segments are those that the rows of a query may be in.
func (v view) segments(q rowQuery) (firsts []int64, err error) {
	lowest := q.from
	if lowest > 0 {
		lowest -= segmentRecords - 1
	}
	text, args := segmentsAll, []any{q.world, lowest}
	if q.task != 0 {
		text, args = segmentsTask, append(args, q.task)
	}
	err = v.q.Rows(text, args, func(r store.Row) error {
		var first int64
		if err := r.Scan(&first); err != nil {
			return corrupt("", NoSeq, "a stored column has another type")
		}
		if n := len(firsts); n > 0 && firsts[n-1] >= first {
			return corrupt("", first, "the database's index of closed segments is damaged")
		}
		firsts = append(firsts, first)
		return nil
	})
	return firsts, err
}

// plain reads the rows before end.
func (v view) plain(q rowQuery, end int64, f func(row) error) error {
	text, args := selectRows, []any{q.world, q.from, end, q.limit}
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

// closed reads the records of a segment from the query's first on.
func (v view) closed(q rowQuery, first int64, f func(row) error) error {
	s, err := v.stored(q.world, first)
	if err != nil {
		return err
	}
	lines, used, err := s.lines(v.kept.scratch)
	if v.kept.scratch = used; err != nil {
		return err
	}
	for i, raw := range lines {
		r := row{seq: first + int64(i), raw: raw, in: s}
		if r.seq < q.from {
			continue
		}
		if q.task != 0 {
			if task, err := taskOf(raw); err != nil || task != q.task {
				continue // whoever verifies reads all
			}
		}
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// stored reads what is stored of a segment.
func (v view) stored(world, first int64) (*closedRows, error) {
	s := &closedRows{segment: segment{first: first}}
	found, err := v.q.Row(segmentData, []any{world, first}, &s.nodes, &s.data)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, &segmentFault{first, "is missing from the store"}
	}
	for _, w := range v.kept.worlds {
		if len(s.data) == 0 && w.id == world && first < w.archive.size {
			if s.data, err = readArchived(w, first); err != nil {
				return nil, err
			}
		}
	}
	err = v.q.Rows(segmentTasks, []any{world, first}, func(r store.Row) error {
		var task int64
		if err := r.Scan(&task); err != nil {
			return corrupt("", first, "a stored column has another type")
		}
		s.tasks = append(s.tasks, task)
		return nil
	})
	return s, err
}

func readArchived(w worldRow, first int64) ([]byte, error) {
	if err := statArchived(w, first); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(archiveFile(w, first))
	if err != nil {
		return nil, &absent{first, archiveFile(w, first), err}
	}
	return data, nil
}

func (v view) segment(_ context.Context, w worldRow, first int64) (segment, error) {
	s, err := v.stored(w.id, first)
	if err != nil {
		return segment{}, err
	}
	return s.segment, nil
}

func (v view) missing(_ context.Context, w worldRow) *absent {
	for first := int64(0); first < w.archive.size; first += segmentRecords {
		if err := statArchived(w, first); err != nil {
			return err
		}
	}
	return nil
}

func (v view) completed(_ context.Context, w worldRow, first int64) (nodes []byte, err error) {
	_, err = v.q.Row(`SELECT CASE WHEN octet_length(nodes) <= 4096 THEN nodes ELSE x'' END FROM segments WHERE world = $1 AND first = $2`, []any{w.id, first}, &nodes)
	return nodes, err
}

func (t tables) archive(ctx context.Context, world string, a archive) error {
	return stored(t.db.Write(ctx, func(tx store.Tx) error {
		var id int64
		if found, err := tx.Row(`SELECT id FROM worlds WHERE world = $1`, []any{world}, &id); err != nil || !found {
			return errors.Join(err, errFork)
		}
		if _, err := tx.Exec(`UPDATE segments SET data = $1 WHERE world = $2 AND first < $3`, []byte{}, id, a.size); err != nil {
			return err
		}
		const put = `INSERT INTO archives (world, size, dir, mark) VALUES ($1, $2, $3, $4)
			ON CONFLICT (world) DO UPDATE SET size = excluded.size, dir = excluded.dir, mark = excluded.mark`
		_, err := tx.Exec(put, id, a.size, a.dir, a.mark)
		return err
	}))
}

// node is the tree's hash of a level that record seq completed: from what is kept with it,
// or from the bytes of its segment.
func (v view) node(ctx context.Context, world, seq int64, level int) (h tlog.Hash, err error) {
	var nodes []byte
	found, err := v.q.Row(`SELECT CASE WHEN octet_length(nodes) <= 4096 THEN nodes ELSE x'' END FROM records WHERE world = $1 AND seq = $2`, []any{world, seq}, &nodes)
	if err != nil {
		return h, err
	}
	if found {
		return nodeOf(nodes, level, seq)
	}
	first := seq - seq%segmentRecords
	if level >= segmentLevel {
		if nodes, err = v.completed(ctx, worldRow{id: world}, first); err != nil {
			return h, err
		}
		return nodeOf(nodes, level, seq)
	}
	if v.kept.first != first || v.kept.hashes == nil {
		s, err := v.stored(world, first)
		if err != nil {
			return h, err
		}
		lines, used, err := s.lines(v.kept.scratch)
		if v.kept.scratch = used; err != nil {
			return h, err
		}
		v.kept.first, v.kept.hashes = s.first, subtree(lines)
	}
	return nodeOf(v.kept.hashes[seq-first], level, seq)
}

// kept is what lasts as long as a view: room for one segment's records, and the hashes
// within one, of which a proof asks for many.
type kept struct {
	worlds  []worldRow // that were asked for
	scratch []byte
	first   int64
	hashes  [][]byte
}

// nodeOf takes a level's hash out of those that a record completed.
func nodeOf(nodes []byte, level int, seq int64) (h tlog.Hash, err error) {
	if len(nodes) < (level+1)*hashSize {
		return h, fmt.Errorf("the tree hashes kept with record %d are too few", seq)
	}
	copy(h[:], nodes[level*hashSize:])
	return h, nil
}

func (t tables) close(ctx context.Context, c closing) error {
	return stored(t.db.Write(ctx, func(tx store.Tx) error {
		var id int64
		if found, err := tx.Row(`SELECT id FROM worlds WHERE world = $1`, []any{c.world}, &id); err != nil || !found {
			return errors.Join(err, errFork)
		}
		gone, err := tx.Exec(`DELETE FROM records WHERE world = $1 AND seq >= $2 AND seq < $3`, id, c.first, c.end())
		if err != nil || gone != segmentRecords {
			return errors.Join(err, errFork)
		}
		if _, err := tx.Exec(`INSERT INTO segments (world, first, nodes, data) VALUES ($1, $2, $3, $4)`, id, c.first, c.nodes, c.data); err != nil {
			return err
		}
		for _, task := range c.tasks {
			if _, err := tx.Exec(`INSERT INTO segment_tasks (world, task, first) VALUES ($1, $2, $3)`, id, task, c.first); err != nil {
				return err
			}
		}
		return nil
	}))
}
