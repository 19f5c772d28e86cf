package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Quarantine takes a tail that doesn't verify out of a world's ledger and keeps
// its rows aside with the reason, so that the ledger can go on (case R4). It is
// never done unasked, and never to a record that a checkpoint signs, the one
// given or the one kept: that would hide tampering. The report is the one of
// before; the caller writes a record about it. A ledger that verifies is left
// as it is. now is wall time in Unix milliseconds.
func (s *Store) Quarantine(ctx context.Context, world string, now int64, checkpoint []byte) (Report, error) {
	if err := checkWorld(world); err != nil {
		return Report{}, err
	}
	if s.key == nil {
		return Report{}, unavailable(world, "the store was opened for reading", nil)
	}
	if err := s.refuse(world); err != nil {
		return Report{}, err
	}
	l := &Ledger{store: s, world: world}
	v, err := l.verify(ctx, VerifyOptions{Checkpoint: checkpoint, Instance: s.key.Fingerprint()})
	if err != nil || v.report.OK {
		return v.report, err
	}
	bad := v.report.FirstBad
	if v.report.Code != kernel.CodeLedgerCorrupt || bad == nil || *bad < max(v.signedSize(), v.stays) {
		return v.report, v.report.Err()
	}
	a := aside{world: world, head: kernel.NoHead(), at: now, reason: v.report.Reason}
	if *bad > 0 {
		if a.head, a.time, err = l.last(ctx, *bad-1); err != nil {
			return v.report, err
		}
	}
	if err := s.storage.setAside(context.WithoutCancel(ctx), a); err != nil {
		return v.report, l.failed(a.head, err)
	}
	s.forget(world)
	s.log.Warn("ledger: a tail that does not verify was set aside", "world", world, "from", *bad, "reason", v.report.Reason)
	return v.report, nil
}

// signedSize is how many records a checkpoint vouches for. One that could not
// be opened vouches for all.
func (v *verification) signedSize() int64 {
	const all = 1<<63 - 1
	if len(v.signed) != len(v.given()) {
		return all
	}
	return v.report.CheckpointSize
}

// last reads the record that becomes the head.
func (l *Ledger) last(ctx context.Context, seq int64) (kernel.Head, int64, error) {
	for raw, err := range l.Lines(ctx, seq, 1) {
		if err != nil {
			return kernel.Head{}, 0, err
		}
		r, err := DecodeRecord(raw)
		if err == nil && r.Seq != seq {
			err = fmt.Errorf("record %d is in its place", r.Seq)
		}
		if err != nil {
			return kernel.Head{}, 0, unavailable(l.world, "the new head can't be read", err)
		}
		return kernel.Head{Seq: seq, Hash: canon.Sum(raw)}, r.Time, nil
	}
	return kernel.Head{}, 0, unavailable(l.world, "the new head can't be read", errors.New("there is no such record"))
}

// forget drops the ledger that callers shared, so that it is opened anew.
func (s *Store) forget(world string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ledgers, world)
}
