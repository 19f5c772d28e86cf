package main

import (
	"context"
	"errors"
	"slices"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/worlds"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// adoptHeads goes on with a state directory that was put back from a copy as a whole:
// its own checkpoints show nothing, but a state commit in the repository does.
func (a *app) adoptHeads(ctx context.Context, in *installation.Installation, f adoptFlags) error {
	worlds, err := in.Store.Worlds(ctx)
	switch {
	case err != nil:
		return err
	case !slices.Contains(worlds, f.world):
		return problem.Usage("--head needs --world, one of those that the store has: %q.", worlds)
	}
	for _, h := range f.heads {
		if !git.OID(h).Valid() || git.OID(h).IsZero() {
			return problem.Usage("--head is no commit id: %q.", h)
		}
	}
	l, err := in.Store.World(ctx, f.world)
	if err != nil {
		return err
	}
	if err := a.unknownHeads(ctx, in, l, f); err != nil {
		return err
	}
	a.print("%s\n  this store has %s, and none of them tells of %s of its key:\n", f.world, report.Counted(l.Chain().Head.Seq+1, "record"), report.Counted(len(f.heads), "state commit"))
	for _, h := range f.heads {
		a.print("    %s\n", h)
	}
	a.print("What was recorded after this copy was made is not in this state directory. Make sure that no\nother copy of it is in use: two would take each other's leases for their own.\n")
	if f.reason == "" {
		return problem.Usage("--reason is missing: nothing was changed. Say why this store is to be adopted.")
	}
	done, err := l.AdoptHeads(ctx, installation.NewClock().Now().WallMs, a.LocalActor(), f.reason, f.heads)
	if errors.Is(err, ledger.ErrNothingToAdopt) {
		return problem.Usage("The store has no records of %s: there is nothing to adopt.", f.world)
	}
	if err != nil {
		return err
	}
	return a.signAdopted(ctx, in, l, done, f.heads)
}

// unknownHeads is an error where a commit that is to be adopted isn't what the record says
// for all time: a state commit of the installation's key, of this world, that the ledger
// knows nothing of. What the supervisor found is taken from its mark; any other is looked
// for in the repository.
func (a *app) unknownHeads(ctx context.Context, in *installation.Installation, l *ledger.Ledger, f adoptFlags) error {
	for r, err := range l.Records(ctx, 0, 0) {
		if err != nil {
			return err
		}
		var i kernel.Intent
		if r.Kind == kernel.KindIntent && canon.UnmarshalCanonical(r.Body, &i) == nil && i.Seq != 0 && slices.Contains(f.heads, i.New) {
			return problem.Usage("The ledger tells of %s: record %d announces it. It shows no older store.", i.New, r.Seq)
		}
	}
	mark, err := in.Older()
	if err != nil {
		return err
	}
	heads := slices.DeleteFunc(slices.Clone(f.heads), func(h string) bool { return mark != nil && mark.World == l.World() && mark.Head == h })
	if len(heads) == 0 {
		return nil
	}
	return a.ownHeads(ctx, in, l.World(), f.config, heads)
}

// ownHeads is an error where a commit isn't in the repository of a world as a state commit
// of it that the installation's key signed, or one whose place that took.
func (a *app) ownHeads(ctx context.Context, in *installation.Installation, world, file string, heads []string) (err error) {
	if in.Cfg, err = a.Load(file); err != nil {
		return err
	}
	use := in.Dir.LastUse()
	if use.Refs == config.RefsHeads {
		in.Cfg.Refs = use.Refs
	}
	if use.Repos[world] == "" {
		return problem.Usage("The state directory doesn't say where the repository of %s is, so --head can't be looked for there. Start the server once, which notes it, or names the commit itself.", world)
	}
	p, err := worlds.Of(a.Process, in).Place(ctx, world, use.Repos[world])
	if err != nil {
		return err
	}
	defer installation.CloseRepo(p.Repo)
	own := in.Key.SSHSigner().PublicKey()
	acts := p.Room.Standing(own)
	for _, h := range heads {
		c, err := p.Repo.Commit(ctx, git.OID(h))
		if err != nil && !git.Lasting(err) {
			return err
		}
		signer, bad := c.Verify(nil)
		if bad != nil && git.CodeOf(bad) != git.CodeUntrusted {
			signer = ""
		}
		stamp, fault := kernel.ReadStamp(lease.Parse(c.Message).Trailers)
		if err != nil || signer == "" || acts.Successor(signer) != git.Fingerprint(own) || fault != nil || stamp.World != world {
			return problem.Usage("%s is no state commit of this installation's key in %s, so it doesn't show that the store is older. ledger.rollback names the one that does.", h, p.Display)
		}
	}
	return nil
}
