package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/executor/supervisor"
)

// saveAll saves what is folded of all worlds, and waits until it is.
func (s *server) saveAll() {
	s.opening.Lock()
	defer s.opening.Unlock()
	for _, w := range s.ever {
		w.sup.Save()
		w.savings.writing.Wait()
	}
}

// governFrom opens a world from what an earlier process saved, where it can: the ledger's
// end is verified at once, the rest behind. What was saved is nil where nothing was, or
// nothing that is of use; the ledger is verified whole then.
func (s *server) governFrom(ctx context.Context, w *served) (*governed, *supervisor.Saved, error) {
	in := w.gen.in
	var saved *supervisor.Saved
	keep := &savings{}
	g, err := in.governing(ctx, w.world, w.display, w.repo, func(ctx context.Context, world string) (*ledger.Ledger, error) {
		l, from, err := in.goOnFrom(ctx, world, func(err error) { s.verified(in, world, err) })
		if err == nil {
			saved, keep.size = from, from.World.Head.Seq+1
			return l, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			in.log.Info("a ledger is verified and folded from its first record on", logWorld, world, "because", err)
		}
		return in.store.World(ctx, world)
	})
	if err != nil {
		return nil, nil, err
	}
	keep.governed, g.savings = g, keep
	return g, saved, nil
}

// verified takes in what the verification behind has found. After a fault nothing of the
// world is read or recorded any more, so nothing of it acts; the server ends, and the
// next start verifies the ledger whole, and refuses.
func (s *server) verified(in *installation, world string, err error) {
	if err == nil {
		in.log.Info("the whole ledger is verified", logWorld, world)
		return
	}
	if gone := os.Remove(savedFile(in.dir.path, world)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		in.log.Error("what was saved of a ledger that doesn't verify can't be removed; the next start finds out anew", logWorld, world, "error", gone)
	}
	select {
	case s.older <- err:
	default: // it ends already
	}
}
