package installation

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"github.com/writbot/writ/cmd/internal/problem"
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

// SavedFile is where lies what was folded of a world's ledger.
func SavedFile(dir, world string) string {
	const digits = 16 // as of checkpoints
	return filepath.Join(dir, "folded-"+canon.Sum([]byte(world)).Hex()[:digits])
}

// Savings writes what a server has folded of a world. It is a cache: without the file,
// and with any that this key didn't sign for this very ledger, all records are folded.
type Savings struct {
	*Governed
	Writing sync.WaitGroup

	mu   sync.Mutex
	Size int64 // records of the last saving
	busy bool
}

var _ supervisor.Savings = (*Savings)(nil)

// Due implements supervisor.Savings.
func (s *Savings) Due(records int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.busy && records-s.Size >= max(saveLeast, s.Size/saveShare)
}

// Save implements supervisor.Savings. The mark is taken at once, for the ledger goes on.
func (s *Savings) Save(saved supervisor.Saved) {
	mark, err := s.Ledger.Mark()
	if err != nil || mark.Head != saved.World.Head {
		return // what is before is still being verified, or somebody else wrote: later
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || mark.Size() == s.Size {
		return
	}
	s.busy = true
	s.Writing.Go(func() {
		err := problem.Shelter(s.Log, "savings", func() error { return s.write(mark, saved) })
		if err != nil {
			s.Log.Warn("what is folded of a ledger could not be saved; the next start takes longer", LogWorld, s.World, "error", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy = false
		if s.Size = mark.Size(); err == nil {
			s.Log.Debug("what is folded of a ledger was saved", LogWorld, s.World, "records", s.Size)
		}
	})
}

// write keeps a checkpoint that is no older than the mark, and then the file.
func (s *Savings) write(mark ledger.Mark, saved supervisor.Saved) error {
	folded, err := saved.Encode()
	if err != nil {
		return err
	}
	doc, err := mark.Sign(s.Key, folded)
	if err != nil {
		return err
	}
	signed, err := s.Ledger.Checkpoint(context.Background())
	if err == nil {
		err = ledger.WriteCheckpoint(s.checkpointFile(), signed)
	}
	if err != nil {
		return err
	}
	return ReplaceFile(SavedFile(s.Dir.Path, s.World), doc)
}

// GoOnFrom opens a ledger from the file of its world.
func (in *Installation) GoOnFrom(ctx context.Context, world string, ended func(error)) (*ledger.Ledger, *supervisor.Saved, error) {
	mark, saved, err := in.Dir.saved(world, in.Key.Public)
	if err != nil {
		return nil, nil, err
	}
	kept, err := ledger.KeptCheckpoint(in.Dir.Path, world)
	if err != nil {
		return nil, nil, err
	}
	l, err := in.Store.WorldFrom(ctx, mark, kept, ended)
	return l, &saved, err
}

// History is what a ledger is folded to.
func (g *Governed) History(ctx context.Context, saved *supervisor.Saved) (*supervisor.History, error) {
	if saved != nil {
		h, err := supervisor.Resume(*saved, g.Ledger.Records(ctx, saved.World.Head.Seq+1, 0))
		if err == nil {
			return h, nil
		}
		g.Log.Warn("what was saved of a ledger can't be gone on from; it is folded from its first record on", LogWorld, g.World, "error", err)
	}
	return supervisor.Replay(g.Ledger.Records(ctx, 0, 0))
}

// Folded is what the records of a ledger fold to, for a command that reads: from what a
// server saved, if that is signed and its last record is the ledger's, otherwise from the
// first record on.
func (s *Dir) Folded(ctx context.Context, l *ledger.Ledger) (*supervisor.History, error) {
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
func (s *Dir) publicSaved(world string) (mark ledger.Mark, saved supervisor.Saved, err error) {
	const maxKeyBytes = 64 << 10
	line, err := ReadLimited(s.File(instancekey.PublicFile), maxKeyBytes)
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
func (s *Dir) saved(world string, key instancekey.Public) (mark ledger.Mark, saved supervisor.Saved, err error) {
	doc, err := ReadLimited(SavedFile(s.Path, world), maxSaved)
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
