package ledgers

import (
	"context"
	"errors"
	"slices"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/cmd/internal/worlds"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// Heads are state commits of this installation that its ledger doesn't hold. They show that
// a state directory was put back from a copy as a whole: its own checkpoints show nothing.
type Heads struct {
	World  string
	Config string // the file, for the forge's token
	Heads  []string
}

// Ledger is the ledger that doesn't hold these commits, and an error where one of them
// doesn't show that it is older than its key.
func (h Heads) Ledger(ctx context.Context, proc *wire.Process, in *installation.Installation) (*ledger.Ledger, error) {
	worlds, err := in.Store.Worlds(ctx)
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(worlds, h.World):
		return nil, problem.Usage("--head needs --world, one of those that the store has: %q.", worlds)
	}
	for _, head := range h.Heads {
		if !git.OID(head).Valid() || git.OID(head).IsZero() {
			return nil, problem.Usage("--head is no commit id: %q.", head)
		}
	}
	l, err := in.Store.World(ctx, h.World)
	if err != nil {
		return nil, err
	}
	return l, h.unknown(ctx, proc, in, l)
}

// Adopt writes the record, and the checkpoint that follows from it.
func (h Heads) Adopt(ctx context.Context, proc *wire.Process, in *installation.Installation, l *ledger.Ledger, reason string) (Adopted, error) {
	done, err := l.AdoptHeads(ctx, installation.NewClock().Now().WallMs, proc.LocalActor(), reason, h.Heads)
	if errors.Is(err, ledger.ErrNothingToAdopt) {
		return Adopted{}, problem.Usage("The store has no records of %s: there is nothing to adopt.", h.World)
	}
	if err != nil {
		return Adopted{}, err
	}
	return signAdopted(ctx, proc, in, l, done, h.Heads)
}

// unknown is an error where a commit that is to be adopted isn't what the record says
// for all time: a state commit of the installation's key, of this world, that the ledger
// knows nothing of. What the supervisor found is taken from its mark; any other is looked
// for in the repository.
func (h Heads) unknown(ctx context.Context, proc *wire.Process, in *installation.Installation, l *ledger.Ledger) error {
	for r, err := range l.Records(ctx, 0, 0) {
		if err != nil {
			return err
		}
		var i kernel.Intent
		if r.Kind == kernel.KindIntent && canon.UnmarshalCanonical(r.Body, &i) == nil && i.Seq != 0 && slices.Contains(h.Heads, i.New) {
			return problem.Usage("The ledger tells of %s: record %d announces it. It shows no older store.", i.New, r.Seq)
		}
	}
	mark, err := in.Older()
	if err != nil {
		return err
	}
	heads := slices.DeleteFunc(slices.Clone(h.Heads), func(head string) bool { return mark != nil && mark.World == l.World() && mark.Head == head })
	if len(heads) == 0 {
		return nil
	}
	return ownHeads(ctx, proc, in, l.World(), h.Config, heads)
}

// ownHeads is an error where a commit isn't in the repository of a world as a state commit
// of it that the installation's key signed, or one whose place that took.
func ownHeads(ctx context.Context, proc *wire.Process, in *installation.Installation, world, file string, heads []string) (err error) {
	if in.Cfg, err = proc.Load(file); err != nil {
		return err
	}
	use := in.Dir.LastUse()
	if use.Refs == config.RefsHeads {
		in.Cfg.Refs = use.Refs
	}
	if use.Repos[world] == "" {
		return problem.Usage("The state directory doesn't say where the repository of %s is, so --head can't be looked for there. Start the server once, which notes it, or names the commit itself.", world)
	}
	p, err := worlds.Of(proc, in).Place(ctx, world, use.Repos[world])
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
