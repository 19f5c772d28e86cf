package server

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/executor/supervisor"
)

// saveAll saves what is folded of all worlds, and waits until it is.
func (s *server) saveAll() {
	s.opening.Lock()
	defer s.opening.Unlock()
	for _, w := range s.ever {
		w.sup.Save()
		w.Savings.Writing.Wait()
	}
}

// governFrom opens a world from what an earlier process saved, where it can: the ledger's
// end is verified at once, the rest behind. What was saved is nil where nothing was, or
// nothing that is of use; the ledger is verified whole then.
func (s *server) governFrom(ctx context.Context, w *served) (*installation.Governed, *supervisor.Saved, error) {
	in := w.gen.in
	var saved *supervisor.Saved
	keep := &installation.Savings{}
	g, err := in.Governing(ctx, w.World, w.Display, w.Repo, func(ctx context.Context, world string) (*ledger.Ledger, error) {
		l, from, err := in.GoOnFrom(ctx, world, func(err error) { s.verified(in, world, err) })
		if err == nil {
			saved, keep.Size = from, from.World.Head.Seq+1
			return l, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			in.Log.Info("a ledger is verified and folded from its first record on", installation.LogWorld, world, "because", err)
		}
		return in.Store.World(ctx, world)
	})
	if err != nil {
		return nil, nil, err
	}
	keep.Governed, g.Savings = g, keep
	return g, saved, nil
}

// verified takes in what the verification behind has found. After a fault nothing of the
// world is read or recorded any more, so nothing of it acts; the server ends, and the
// next start verifies the ledger whole, and refuses.
func (s *server) verified(in *installation.Installation, world string, err error) {
	if err == nil {
		in.Log.Info("the whole ledger is verified", installation.LogWorld, world)
		return
	}
	if gone := os.Remove(installation.SavedFile(in.Dir.Path, world)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		in.Log.Error("what was saved of a ledger that doesn't verify can't be removed; the next start finds out anew", installation.LogWorld, world, "error", gone)
	}
	select {
	case s.older <- err:
	default: // it ends already
	}
}
