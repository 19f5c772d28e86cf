package ledger

import (
	"bytes"
	"context"
	"errors"

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
		v.want.Head, v.stored = &w.head, w.checkpoint
		if ok {
			err = s.rows(ctx, rowQuery{world: w.id, from: allRows}, v.row)
		}
		if err != nil && !errors.Is(err, errStop) {
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

// row takes the next stored record, columns and all.
func (v *verification) row(r row) error {
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
			leaf := nodes[:min(len(nodes), hashSize)]
			v.blame(seq, bytes.HasPrefix(r.nodes, leaf))
		} else {
			v.fail(kernel.CodeLedgerCorrupt, seq, b.reason)
		}
		return errStop
	}
	switch {
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
	if CodeOf(err) != "" {
		return err
	}
	return unavailable(world, "the ledger can't be read", err)
}
