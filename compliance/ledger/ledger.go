package ledger

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/writbot/writ/kernel"
)

// Ledger is an instance's chain of a world. It is safe for concurrent use.
type Ledger struct {
	store *Store
	world string

	mu    sync.Mutex
	state *checker     // the chain as it is stored; nil if read-only
	chain kernel.Chain // the same, for the kernel
	past  *past        // what isn't verified yet; nil: nothing. Never changed once it is open

	closing sync.Mutex // one at a time
	closed  int64      // what is before is in closed segments, or stays in rows; with closing held
}

// World is the ledger's world.
func (l *Ledger) World() string { return l.world }

// Chain is where the ledger stands, with its virtual time. It is only good for
// drafts that are appended at once: see [Ledger.Write].
func (l *Ledger) Chain() kernel.Chain {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.chain
}

// mine is why the store's key may not go on with a ledger; nil if it may.
func (l *Ledger) mine(c *checker, key string) error {
	signs := c.key().Fingerprint()
	switch {
	case signs == key:
		return nil
	case slices.ContainsFunc(c.keys, func(r Rotated) bool { return r.Key == key }):
		return &Error{Code: kernel.CodeKeyUnfinished, World: l.world, Seq: NoSeq, Detail: "the ledger was handed over to the key " + signs + ", which this installation doesn't use yet"}
	}
	return &Error{Code: kernel.CodeLedgerOtherKey, World: l.world, Seq: 0, Detail: "the ledger was written with the key " + signs + ", not with this one; restore that key"}
}

// Start writes the genesis if the ledger is empty, and does nothing otherwise.
// World, key and kind are filled in; others than the ledger's are an error.
func (l *Ledger) Start(ctx context.Context, g kernel.Genesis, now int64) error {
	if l.store.key == nil {
		return unavailable(l.world, "the store was opened for reading", nil)
	}
	if l.Chain().Head != kernel.NoHead() {
		return nil
	}
	first, err := l.genesis(g)
	if err != nil {
		return err
	}
	_, err = l.Write(ctx, now, first)
	return err
}

// genesis is the draft of the first record.
func (l *Ledger) genesis(g kernel.Genesis) (kernel.Draft, error) {
	key := l.store.key.PublicOpenSSH()
	if g.World != "" && g.World != l.world || g.InstanceKey != "" && g.InstanceKey != key {
		return kernel.Draft{}, corrupt(l.world, 0, "the genesis is of another world or key")
	}
	g.Kind, g.World, g.InstanceKey = string(kernel.KindGenesis), l.world, key
	g, err := g.Seeded()
	return kernel.Draft{Kind: kernel.KindGenesis, Body: g}, err
}

// Append stores records that continue the expected head: durably, all or none,
// and only if the stored head is that one. The kernel made the records; each is
// checked as verification would. See [Error] for what can go wrong. A caller
// acts on what it appended only after nil.
func (l *Ledger) Append(ctx context.Context, expected kernel.Head, records []kernel.SealedRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(ctx, expected, records)
}

func (l *Ledger) append(ctx context.Context, expected kernel.Head, records []kernel.SealedRecord) error {
	if l.state == nil {
		return unavailable(l.world, "the store was opened for reading", nil)
	}
	if err := l.store.refuse(l.world); err != nil {
		return err
	}
	if err := l.past.fault(); err != nil {
		return err
	}
	if expected != l.chain.Head {
		return l.fork(expected)
	}
	if len(records) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return unavailable(l.world, "the caller gave up before anything was stored", err)
	}
	next, rows, err := l.prepare(records)
	if err != nil {
		return err
	}
	c := change{
		world: l.world, instance: l.chain.Instance, expected: expected,
		head: next.head(), time: next.time, rows: rows,
	}
	// A commit that has begun is seen through: a cancelled one could be either.
	if err := l.store.storage.commit(context.WithoutCancel(ctx), c); err != nil {
		return l.failed(expected, err)
	}
	l.state, l.chain.Head, l.chain.Time = next, c.head, c.time
	return nil
}

func (l *Ledger) fork(expected kernel.Head) error {
	return &Error{Code: kernel.CodeLedgerFork, World: l.world, Seq: expected.Seq + 1,
		Detail: "the ledger went on without this writer; nothing was stored"}
}

func (l *Ledger) failed(expected kernel.Head, err error) error {
	switch {
	case errors.Is(err, errFork):
		return l.fork(expected)
	case errors.Is(err, errBusy):
		return unavailable(l.world, "nothing was stored", err)
	}
	l.store.poison(err)
	l.store.log.Error("ledger: storing failed; nothing more is taken", "world", l.world, "seq", expected.Seq+1, "err", err)
	return unavailable(l.world, "the records could not be made durable", err)
}

// prepare checks that the records continue the chain, by their bytes.
func (l *Ledger) prepare(records []kernel.SealedRecord) (*checker, []row, error) {
	next := l.state.clone()
	rows := make([]row, 0, len(records))
	for _, r := range records {
		seq, raw := r.Record().Seq, r.Bytes()
		if err := fits(seq, raw); err != nil {
			return nil, nil, corrupt(l.world, seq, err.Error())
		}
		e, nodes, err := next.add(raw, nil)
		if err != nil {
			return nil, nil, corrupt(l.world, seq, "the record does not continue the ledger: "+err.Error())
		}
		rows = append(rows, row{seq: seq, task: e.task, nodes: nodes, raw: raw})
	}
	return next, rows, nil
}

// Write seals drafts at the end of the chain and stores them in one durable
// append: the way of the supervisor. The time is now, or the chain's if that is
// later (case R9). A context that ends while the write waits doesn't undo it. Returned
// are the stored records.
func (l *Ledger) Write(ctx context.Context, now int64, drafts ...kernel.Draft) ([]kernel.SealedRecord, error) {
	if err := ctx.Err(); err != nil {
		return nil, unavailable(l.world, "the caller gave up before anything was stored", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	records, _, err := l.chain.Seal(now, drafts)
	if err != nil {
		return nil, corrupt(l.world, NoSeq, err.Error())
	}
	if err := l.append(context.WithoutCancel(ctx), l.chain.Head, records); err != nil {
		return nil, err
	}
	return records, nil
}

const (
	allRows = -1 << 63       // from before any sequence, so that none hides
	page    = segmentRecords // rows a read holds at once; no read blocks the writer meanwhile
)

// Records gives the records from a sequence on, at most limit (0: all that are
// there). It reads pages, so it sees records appended meanwhile. Records aren't
// verified, only read strictly.
func (l *Ledger) Records(ctx context.Context, from, limit int64) iter.Seq2[kernel.Record, error] {
	return l.records(ctx, rowQuery{from: max(from, 0), limit: limit})
}

// RecordsOfTask gives the records of one task in their order. Task 0 has those
// that concern no task, and is not asked for.
func (l *Ledger) RecordsOfTask(ctx context.Context, task int64) iter.Seq2[kernel.Record, error] {
	if task <= 0 {
		return func(func(kernel.Record, error) bool) {}
	}
	return l.records(ctx, rowQuery{task: task})
}

func (l *Ledger) records(ctx context.Context, q rowQuery) iter.Seq2[kernel.Record, error] {
	return func(yield func(kernel.Record, error) bool) {
		for raw, err := range l.raw(ctx, q) {
			var r kernel.Record
			if err == nil {
				if r, err = DecodeRecord(raw.raw); err != nil || r.Seq != raw.seq || raw.in == nil && r.Task != raw.task {
					err = &Error{Code: kernel.CodeLedgerCorrupt, World: l.world, Seq: raw.seq, Detail: "the stored record can't be read", Err: err}
				}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Lines gives the exact bytes of the records as Records does; a file of them
// has a newline after each.
func (l *Ledger) Lines(ctx context.Context, from, limit int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for r, err := range l.raw(ctx, rowQuery{from: max(from, 0), limit: limit}) {
			if !yield(r.raw, err) || err != nil {
				return
			}
		}
	}
}

// raw reads page by page and holds nothing while the caller works.
func (l *Ledger) raw(ctx context.Context, q rowQuery) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		left := q.limit
		for {
			if q.limit = page; q.task == 0 {
				q.limit -= q.from % segmentRecords // so that no segment is read twice
			}
			if left > 0 {
				q.limit = min(left, q.limit)
			}
			rows, err := l.page(ctx, q)
			if err != nil {
				yield(row{}, readError(l.world, err))
				return
			}
			if len(rows) > 0 && !l.past.vouched(rows[0].seq) {
				if err := l.past.wait(ctx); err != nil {
					yield(row{}, readError(l.world, err))
					return
				}
				continue // what was verified is what is read from here on
			}
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
			n := int64(len(rows))
			if left -= n; n < q.limit || left == 0 {
				return
			}
			q.from = rows[n-1].seq + 1
		}
	}
}

func (l *Ledger) page(ctx context.Context, q rowQuery) (rows []row, err error) {
	err = l.store.storage.view(ctx, func(s snapshot) error {
		w, ok, err := s.world(ctx, l.world)
		if err != nil || !ok {
			return err
		}
		q.world = w.id
		return s.rows(ctx, q, func(r row) error {
			if r.in != nil {
				r.raw = bytes.Clone(r.raw)
			}
			rows = append(rows, r)
			return nil
		})
	})
	return rows, err
}

// Checkpoint signs the ledger as it stands and keeps the note as the newest.
// An empty ledger has none, which is an error.
func (l *Ledger) Checkpoint(ctx context.Context) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == nil {
		return nil, unavailable(l.world, "the store was opened for reading", nil)
	}
	if err := l.store.refuse(l.world); err != nil {
		return nil, err
	}
	if err := l.past.fault(); err != nil {
		return nil, err
	}
	if l.state.tree.size == 0 {
		return nil, corrupt(l.world, NoSeq, "the ledger is empty; there is nothing to sign")
	}
	if l.state.key().Fingerprint() != l.store.key.Fingerprint() {
		return nil, &Error{Code: kernel.CodeKeyUnfinished, World: l.world, Seq: NoSeq, Detail: "another key signs this ledger now"}
	}
	cp := Checkpoint{World: l.world, History: l.state.history(), Size: l.state.tree.size, Root: l.state.tree.root()}
	signed, err := cp.sign(l.store.key)
	if err != nil {
		return nil, unavailable(l.world, "the checkpoint can't be signed", err)
	}
	if err := l.store.storage.keep(context.WithoutCancel(ctx), l.world, cp.Size, signed); err != nil {
		return nil, l.failed(l.chain.Head, err)
	}
	l.closeBehind()
	return signed, nil
}
