package ledgers

import (
	"context"
	"time"

	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/ledger"
)

// Archive moves what was recorded before a moment from the ledgers of a state directory, of
// one world or of all, into a directory. It tells of each when it is done.
func Archive(ctx context.Context, proc *wire.Process, state, world string, before time.Time, dir string, tell func(ledger.Archived)) error {
	in, err := OpenRestored(ctx, proc, state)
	if err != nil {
		return err
	}
	defer in.Close()
	worlds, err := in.Store.Worlds(ctx)
	if err != nil {
		return err
	}
	if world != "" {
		worlds = []string{in.Dir.LastUse().Meant(world)}
	}
	for _, w := range worlds {
		l, err := in.Store.World(ctx, w)
		if err != nil {
			return err
		}
		done, err := l.Archive(ctx, dir, before.UnixMilli())
		if err != nil {
			return err
		}
		tell(done)
	}
	return nil
}
