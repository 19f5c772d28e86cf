package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel/canon"
)

const (
	// saveLeast is how many records are worth saving what they fold to: some thirty tasks,
	// which are folded anew in a tenth of a second.
	saveLeast = 4096
	// saveShare: what follows the last saving is folded anew at the next start, and what is
	// saved grows with the history, so that both stay in proportion.
	saveShare = 16
	// maxSaved bounds what is read of one file, in bytes: 100,000 tasks have some 300 MB.
	maxSaved = 1 << 30
)

// savedFile is where lies what was folded of a world's ledger.
func savedFile(dir, world string) string {
	const digits = 16 // as of checkpoints
	return filepath.Join(dir, "folded-"+canon.Sum([]byte(world)).Hex()[:digits])
}

// savings writes what a server has folded of a world. It is a cache: without the file,
// and with any that this key didn't sign for this very ledger, all records are folded.
type savings struct {
	*governed
	writing sync.WaitGroup

	mu   sync.Mutex
	size int64 // records of the last saving
	busy bool
}

var _ supervisor.Savings = (*savings)(nil)

// Due implements supervisor.Savings.
func (s *savings) Due(records int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.busy && records-s.size >= max(saveLeast, s.size/saveShare)
}

// Save implements supervisor.Savings. The mark is taken at once, for the ledger goes on.
func (s *savings) Save(saved supervisor.Saved) {
	mark, err := s.ledger.Mark()
	if err != nil || mark.Head != saved.World.Head {
		return // what is before is still being verified, or somebody else wrote: later
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || mark.Size() == s.size {
		return
	}
	s.busy = true
	s.writing.Go(func() {
		err := shelter(s.log, "savings", func() error { return s.write(mark, saved) })
		if err != nil {
			s.log.Warn("what is folded of a ledger could not be saved; the next start takes longer", logWorld, s.world, "error", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy = false
		if s.size = mark.Size(); err == nil {
			s.log.Debug("what is folded of a ledger was saved", logWorld, s.world, "records", s.size)
		}
	})
}

// write keeps a checkpoint that is no older than the mark, and then the file.
func (s *savings) write(mark ledger.Mark, saved supervisor.Saved) error {
	folded, err := saved.Encode()
	if err != nil {
		return err
	}
	doc, err := mark.Sign(s.key, folded)
	if err != nil {
		return err
	}
	signed, err := s.ledger.Checkpoint(context.Background())
	if err == nil {
		err = ledger.WriteCheckpoint(s.checkpointFile(), signed)
	}
	if err != nil {
		return err
	}
	return replaceFile(savedFile(s.dir.path, s.world), doc)
}

// goOnFrom opens a ledger from the file of its world.
func (in *installation) goOnFrom(ctx context.Context, world string, ended func(error)) (*ledger.Ledger, *supervisor.Saved, error) {
	mark, saved, err := in.dir.saved(world, in.key.Public)
	if err != nil {
		return nil, nil, err
	}
	kept, err := ledger.KeptCheckpoint(in.dir.path, world)
	if err != nil {
		return nil, nil, err
	}
	l, err := in.store.WorldFrom(ctx, mark, kept, ended)
	return l, &saved, err
}

// history is what a ledger is folded to.
func (g *governed) history(ctx context.Context, saved *supervisor.Saved) (*supervisor.History, error) {
	if saved != nil {
		h, err := supervisor.Resume(*saved, g.ledger.Records(ctx, saved.World.Head.Seq+1, 0))
		if err == nil {
			return h, nil
		}
		g.log.Warn("what was saved of a ledger can't be gone on from; it is folded from its first record on", logWorld, g.world, "error", err)
	}
	return supervisor.Replay(g.ledger.Records(ctx, 0, 0))
}

// folded is what the records of a ledger fold to, for a command that reads: from what a
// server saved, if that is signed and its last record is the ledger's, otherwise from the
// first record on.
func (s *stateDir) folded(ctx context.Context, l *ledger.Ledger) (*supervisor.History, error) {
	mark, saved, err := s.publicSaved(l.World())
	if err == nil {
		for raw, err := range l.Lines(ctx, mark.Head.Seq, 1) {
			if err == nil && canon.Sum(raw) == mark.Head.Hash {
				if h, err := supervisor.Resume(saved, l.Records(ctx, mark.Size(), 0)); err == nil {
					return h, nil
				}
			}
		}
	}
	return supervisor.Replay(l.Records(ctx, 0, 0))
}

// publicSaved is saved with the public half of the key that lies in the directory.
func (s *stateDir) publicSaved(world string) (mark ledger.Mark, saved supervisor.Saved, err error) {
	const maxKeyBytes = 64 << 10
	line, err := readLimited(s.file(instancekey.PublicFile), maxKeyBytes)
	if err != nil {
		return mark, saved, err
	}
	key, err := instancekey.ParsePublic(strings.TrimSpace(string(line)))
	if err != nil {
		return mark, saved, err
	}
	return s.saved(world, key)
}

// saved reads what a server with this key has saved of a world.
func (s *stateDir) saved(world string, key instancekey.Public) (mark ledger.Mark, saved supervisor.Saved, err error) {
	doc, err := readLimited(savedFile(s.path, world), maxSaved)
	if err != nil {
		return mark, saved, err
	}
	mark, folded, err := ledger.OpenMark(doc, key)
	if err == nil {
		saved, err = supervisor.DecodeSaved(folded)
	}
	if err == nil && (mark.World != world || saved.World.Genesis.World != world || saved.World.Head != mark.Head) {
		err = errors.New("what was saved is of another ledger")
	}
	return mark, saved, err
}
