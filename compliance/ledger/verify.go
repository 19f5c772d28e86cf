package ledger

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/writbot/writ/kernel"
)

// VerifyOptions says against what a ledger is verified.
type VerifyOptions struct {
	// Checkpoint is one kept outside the store; only it shows that the end of
	// the ledger was cut off (ledger.rollback).
	Checkpoint []byte
	// Outside: Checkpoint is what lies outside the store, where one belongs from the
	// first record on. That none lies there is ledger.rollback then.
	Outside bool
	// Others are further ones, from wherever somebody kept them.
	Others [][]byte
	// Instance is the fingerprint that the ledger must belong to; "" takes the
	// genesis' word.
	Instance string
	// Deep also has the database check its own file and indexes.
	Deep bool
	// Archived: what is archived must be at hand, and is read, too. Otherwise an archive
	// that isn't whole is left out, and the report says so.
	Archived bool
}

// Verify reads every row of the ledger again and checks it: strict canonical
// bytes, sequence, hashes, one world and one instance, a genesis that binds
// both, time, each column and each stored tree hash, the head, and the
// checkpoints. The report names the first bad record. The error is about
// reading (ledger.unavailable), not about what was read.
func (l *Ledger) Verify(ctx context.Context, o VerifyOptions) (Report, error) {
	v, err := l.verify(ctx, o)
	if err != nil {
		return Report{World: l.world, Code: CodeOf(err), Reason: err.Error(), Head: kernel.NoHead()}, err
	}
	return v.report, nil
}

var errStop = errors.New("stop")

func (l *Ledger) verify(ctx context.Context, o VerifyOptions) (*verification, error) {
	v := newVerification(Expect{World: l.world, Instance: o.Instance, Checkpoint: o.Checkpoint, Others: o.Others})
	err := l.store.storage.view(ctx, func(s snapshot) error {
		w, ok, err := s.world(ctx, l.world)
		if err != nil || !v.report.OK {
			return err
		}
		if !ok {
			w.head = kernel.NoHead()
		}
		v.want.Head, v.stored, v.stays = &w.head, w.checkpoint, w.closed
		if ok {
			err = v.begin(ctx, s, w, o.Archived)
		}
		if ok && err == nil && v.report.OK {
			err = v.read(ctx, s, rowQuery{world: w.id, from: v.from()})
		}
		if err != nil {
			return err
		}
		if v.report.OK {
			v.worldRow(w)
		}
		return nil
	})
	if err != nil {
		return v, readError(l.world, err)
	}
	v.finish()
	if v.report.OK && o.Outside && len(o.Checkpoint) == 0 && v.c.tree.size > 1 {
		v.fail(kernel.CodeLedgerRollback, NoSeq, unsigned)
	}
	if v.report.OK && o.Deep {
		err = l.store.checkFile(ctx, v)
	}
	return v, err
}

// read takes stored records until one is at fault.
func (v *verification) read(ctx context.Context, s snapshot, q rowQuery) error {
	err := s.rows(ctx, q, v.row)
	var f *segmentFault
	switch {
	case errors.Is(err, errStop):
		return nil
	case errors.As(err, &f):
		v.fail(kernel.CodeLedgerCorrupt, f.first, f.Error())
		return nil
	}
	return err
}

// row takes the next stored record, columns and all.
func (v *verification) row(r row) error {
	if v.suspect != nil {
		v.decide(r.raw)
		return errStop
	}
	seq := v.c.tree.size
	switch {
	case r.seq > seq:
		v.fail(kernel.CodeLedgerCorrupt, seq, "it is missing from the store")
		return errStop
	case r.seq < seq:
		v.fail(kernel.CodeLedgerCorrupt, r.seq, "the store holds it out of place")
		return errStop
	}
	e, nodes, err := v.c.add(r.raw, v.nodes[:0])
	v.nodes = nodes
	if b, ok := asBroken(err); ok {
		if v.suspect = b; b.link && seq > 0 {
			if r.in != nil {
				return nil // no hash of it is kept
			}
			leaf := nodes[:min(len(nodes), hashSize)]
			v.blame(seq, bytes.HasPrefix(r.nodes, leaf))
		} else {
			v.fail(kernel.CodeLedgerCorrupt, seq, b.reason)
		}
		return errStop
	}
	switch {
	case r.in != nil:
		v.inSegment(r, e)
	case r.task != e.task:
		v.fail(kernel.CodeLedgerCorrupt, seq, "the store files it under another task")
	case !bytes.Equal(r.nodes, nodes):
		v.fail(kernel.CodeLedgerCorrupt, seq, "its tree hashes are not those that were kept with it: it or they were changed")
	default:
		v.passed(e)
	}
	if !v.report.OK {
		return errStop
	}
	return nil
}

// inSegment takes a record of a closed segment that continues the chain. What is stored
// beside the segment's bytes is checked with the last.
func (v *verification) inSegment(r row, e envelope) {
	if r.seq == r.in.first {
		v.tasks, v.whole = v.tasks[:0], true
	}
	if e.task != 0 {
		v.tasks = append(v.tasks, e.task)
	}
	if r.seq+1 == r.in.end() {
		slices.Sort(v.tasks)
		v.tasks = slices.Compact(v.tasks)
		switch {
		case !bytes.Equal(r.in.nodes, v.nodes):
			v.fail(kernel.CodeLedgerCorrupt, r.seq, "its tree hashes are not those that were kept with its closed segment: it or they were changed")
			return
		case v.whole && !slices.Equal(v.tasks, r.in.tasks):
			v.fail(kernel.CodeLedgerCorrupt, r.in.first, "the store files its closed segment under other tasks")
			return
		}
		v.whole = false
	}
	v.passed(e)
	if r.seq+1 == r.in.end() && v.segmentEnds != nil && v.report.OK {
		v.segmentEnds(r)
	}
}

// worldRow checks what is stored of the world as a whole.
func (v *verification) worldRow(w worldRow) {
	switch {
	case v.c.tree.size == 0:
		// matchHead and finish say what is missing.
	case w.instance != v.report.Instance:
		v.fail(kernel.CodeLedgerCorrupt, NoSeq, "the store files the ledger under another instance")
	case w.head == v.c.head() && w.time != v.c.time:
		v.fail(kernel.CodeLedgerCorrupt, w.head.Seq, "the store's time of the head is not the record's")
	case w.size != v.storedSize():
		v.fail(kernel.CodeLedgerCorrupt, NoSeq, "the store's size of the checkpoint is not the one signed")
	}
}

func (v *verification) storedSize() int64 {
	if len(v.stored) == 0 {
		return 0
	}
	cp, err := v.c.open(v.stored)
	if err != nil {
		return 0 // matchKeys says so
	}
	return cp.Size
}

func asBroken(err error) (*broken, bool) {
	var b *broken
	ok := errors.As(err, &b)
	return b, ok
}

func readError(world string, err error) error {
	var f *segmentFault
	var gone *absent
	switch {
	case CodeOf(err) != "":
		return err
	case errors.As(err, &f):
		return corrupt(world, f.first, f.Error())
	case errors.As(err, &gone):
		return &Error{Code: kernel.CodeLedgerArchived, World: world, Seq: gone.first, Detail: gone.Error()}
	}
	return unavailable(world, "the ledger can't be read", err)
}
