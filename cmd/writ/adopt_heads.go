package main

import (
	"context"
	"errors"
	"slices"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/forge/git"
)

// adoptHeads goes on with a state directory that was put back from a copy as a whole:
// its own checkpoints show nothing, but a state commit in the repository does.
func (a *app) adoptHeads(ctx context.Context, in *installation, f adoptFlags) error {
	worlds, err := in.store.Worlds(ctx)
	switch {
	case err != nil:
		return err
	case !slices.Contains(worlds, f.world):
		return usage("--head needs --world, one of those that the store has: %q.", worlds)
	}
	for _, h := range f.heads {
		if !git.OID(h).Valid() || git.OID(h).IsZero() {
			return usage("--head is no commit id: %q.", h)
		}
	}
	l, err := in.store.World(ctx, f.world)
	if err != nil {
		return err
	}
	a.print("%s\n  this store has %s, and none of them tells of %s of its key:\n", f.world, counted(l.Chain().Head.Seq+1, "record"), counted(len(f.heads), "state commit"))
	for _, h := range f.heads {
		a.print("    %s\n", h)
	}
	a.print("What was recorded after this copy was made is not in this state directory. Make sure that no\nother copy of it is in use: two would take each other's leases for their own.\n")
	if f.reason == "" {
		return usage("--reason is missing: nothing was changed. Say why this store is to be adopted.")
	}
	done, err := l.AdoptHeads(ctx, newClock().Now().WallMs, a.localActor(), f.reason, f.heads)
	if errors.Is(err, ledger.ErrNothingToAdopt) {
		return usage("The store has no records of %s: there is nothing to adopt.", f.world)
	}
	if err != nil {
		return err
	}
	return a.signAdopted(ctx, in, l, done, f.heads)
}
