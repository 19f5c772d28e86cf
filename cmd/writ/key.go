package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
)

// Fault points of a rotation and of a revocation, for crash tests.
const (
	faultRotateBegun  supervisor.Point = "key.rotate.begun"
	faultRotateActed  supervisor.Point = "key.rotate.acted"
	faultRotateLedger supervisor.Point = "key.rotate.ledger"
	faultRotateDone   supervisor.Point = "key.rotate.done"
	faultRevokeActed  supervisor.Point = "key.revoke.acted"
)

func (a *app) keyRotate() *cobra.Command {
	var f worldFlags
	var without []string
	cmd := &cobra.Command{
		Use:   "rotate --state-dir DIR --reason TEXT",
		Short: "Give this installation another key, and say how far the old one counts",
		Long: `Rotate makes a new key, says in each repository of the state directory which commits
of the old key count, up to the very commit on each task's ref, and goes on with the
new one; the old private key is gone then. Nothing newer of the old key counts. The
old key signs the statement too, which shows that it was handed over; it lets nobody
in: other installations, and contracts with runners, list the new key.

What counts is what this installation's ledger knows of. Where a ref was set back or
removed, or has a commit of the old key that the ledger doesn't know of, the commit
that was seen there last counts, and the ref is named.

Without --reason it only shows. No process may use the state directory: stop the
server first. Whatever interrupts it, the same command finishes it.`,
		Example: "  writ key rotate --state-dir /var/lib/writ/state --config writ.yaml --reason yearly",
		Args:    cobra.NoArgs,
	}
	f.add(cmd)
	cmd.Flags().StringArrayVar(&without, "without", nil, "repository that is gone for good, by its name or its identity; may be repeated")
	cmd.RunE = a.acting(&f, true, func(ctx context.Context, in *installation.Installation, _ []string) error {
		return a.rotateKey(ctx, in, f.reason, without)
	})
	return cmd
}

// rotateKey does all of it in an order in which whatever was done already is found
// done: the new key, the statement in each repository, the record in each ledger,
// and last the one step that makes the new key the installation's.
func (a *app) rotateKey(ctx context.Context, in *installation.Installation, reason string, without []string) error {
	worlds, err := in.WorldsOf(ctx, "", without)
	if err != nil {
		return err
	}
	places, end, err := a.eachWorld(ctx, in, worlds)
	if err != nil {
		return err
	}
	defer end()
	old := in.Key.SSHSigner()
	marks, err := a.counting(ctx, in, places, old.PublicKey(), true)
	if err != nil {
		return err
	}
	if reason == "" {
		return unsaid("the key is replaced")
	}
	if err := forked(places); err != nil { // before anything is begun that only a rotation ends
		return err
	}
	next, err := instancekey.Next(in.Dir.Path)
	if err != nil {
		return err
	}
	a.reach(faultRotateBegun)
	for i, p := range places {
		act := p.room.Draft(a.newAct(worldref.Rotate, reason, worldref.KeyLine(old.PublicKey()), worldref.KeyLine(next.SSHSigner().PublicKey()), marks[i]))
		if err := act.Prove(old); err != nil {
			return err
		}
		if _, err := p.room.Append(ctx, act, in.Writer(next.SSHSigner())); err != nil {
			return err
		}
		a.reach(faultRotateActed)
	}
	return a.handOver(ctx, in, next, reason)
}

// forked is an error where the acts of a place go two ways, so that none can be added.
func forked(places []*actPlace) error {
	for _, p := range places {
		if f := p.room.Forked(); f != nil {
			return f
		}
	}
	return nil
}

// handOver gives ledgers and state directory to the next key.
func (a *app) handOver(ctx context.Context, in *installation.Installation, next *instancekey.Key, reason string) error {
	names, err := in.Store.Worlds(ctx)
	if err != nil {
		return err
	}
	for _, w := range names {
		if err := in.Store.Rotate(ctx, w, next.Public, installation.NewClock().Now().WallMs, a.LocalActor(), reason); err != nil {
			return err
		}
		a.reach(faultRotateLedger)
	}
	if err := in.ForgetOlder(); err != nil { // what the old key has signed besides counts no more
		return err
	}
	was := in.Key.PublicOpenSSH()
	if err := instancekey.Replace(in.Dir.Path); err != nil {
		return err
	}
	a.reach(faultRotateDone)
	a.print("replaced: %s\nnew key:  %s\nList the new key where the old one is listed: in runners of contracts, and in trusted_runners of other installations.\nKeep key and key.pub with your back-ups.\n", was, next.PublicOpenSSH())
	return nil
}

func (a *app) keyRevoke() *cobra.Command {
	var f worldFlags
	var none, unseen bool
	cmd := &cobra.Command{
		Use:   "revoke KEY --state-dir DIR --reason TEXT",
		Short: "Say that a key counts no more, whoever lists it",
		Long: `Revoke says in each repository of the state directory that KEY, a public key or the
file of one, counts no more than for the commits that this installation saw at the
HEAD of tasks: with --none not for these either, with --unseen also for what it has at
HEAD of tasks that this installation hasn't looked at. Tasks with another commit of
KEY wait for repair. It counts for every installation that lists this one's key. It
can't be taken back: a new key is.

Look at the list first: without --reason it only shows. This installation's own key
is rotated first. No process may use the state directory: stop the server first.`,
		Example: "  writ key revoke stolen.pub --state-dir /var/lib/writ/state --config writ.yaml --none --reason 'laptop stolen'",
		Args:    cobra.ExactArgs(1),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.world, "world", "", "one repository, by its name or its identity (default: all)")
	cmd.Flags().BoolVar(&none, "none", false, "nothing that the key has signed counts")
	cmd.Flags().BoolVar(&unseen, "unseen", false, "what it has at HEAD counts too where this installation never looked: the key was not stolen")
	cmd.RunE = a.acting(&f, false, func(ctx context.Context, in *installation.Installation, args []string) error {
		keys, _, err := a.vouched(verifyFlags{keys: args})
		if err != nil {
			return err
		}
		if len(keys) != 1 {
			return problem.Usage("Give one key; there are %d.", len(keys))
		}
		return a.revokeKey(ctx, in, revocation{keys[0], f.world, f.reason, none, unseen})
	})
	return cmd
}

// revocation is what the command line asks for.
type revocation struct {
	key           ssh.PublicKey
	world, reason string
	none, unseen  bool
}

func (a *app) revokeKey(ctx context.Context, in *installation.Installation, r revocation) error {
	gone := git.Fingerprint(r.key)
	if gone == in.Key.Fingerprint() {
		return problem.Usage("This is the installation's own key. Replace it first: writ key rotate; then revoke the old one.")
	}
	if r.none && r.unseen {
		return problem.Usage("--none and --unseen say the opposite of each other.")
	}
	worlds, err := in.WorldsOf(ctx, r.world, nil)
	if err != nil {
		return err
	}
	places, end, err := a.eachWorld(ctx, in, worlds)
	if err != nil {
		return err
	}
	defer end()
	marks := make([][]worldref.Mark, len(places))
	if r.none {
		for _, p := range places {
			a.print("%s: %s counts for nothing\n", p.display, gone)
		}
	} else if marks, err = a.counting(ctx, in, places, r.key, r.unseen); err != nil {
		return err
	}
	if r.reason == "" {
		return unsaid("the key counts no more")
	}
	if err := forked(places); err != nil { // before it counts in some of them, and not in others
		return err
	}
	for i, p := range places {
		act := a.newAct(worldref.Revoke, r.reason, worldref.KeyLine(r.key), "", marks[i])
		if _, err := p.room.Append(ctx, act, in.Writer(in.Key.SSHSigner())); err != nil {
			return err
		}
		a.reach(faultRevokeActed)
	}
	if lists := slices.ContainsFunc(in.Cfg.TrustedRunners, func(line string) bool { return strings.HasPrefix(line, worldref.KeyLine(r.key)) }); lists {
		a.print("It is still in trusted_runners of the configuration: take it out.\n")
	}
	a.print("revoked: %s\n", gone)
	return nil
}

// counting tells, of each place, for which commits a key counts that counts no
// further, and which refs are not as they were seen.
func (a *app) counting(ctx context.Context, in *installation.Installation, places []*actPlace, key ssh.PublicKey, unseen bool) ([][]worldref.Mark, error) {
	signer := git.Fingerprint(key)
	all := make([][]worldref.Mark, len(places))
	for i, p := range places {
		stands, err := a.stands(ctx, in, p, p.world, key)
		if err != nil {
			return nil, err
		}
		until := func(st supervisor.Stand) git.OID { return st.Until(signer, unseen) }
		all[i] = p.marks(stands, until)
		a.print("%s: %s counts for %s, as this installation saw them\n", p.display, signer, tasks(all[i], p.prefix))
		for _, st := range stands {
			switch {
			case st.Code != "" && (st.Signer == signer || until(st) != ""):
				a.tellMoved(p, st, until(st))
			case st.Legitimate() && st.Signer == signer && !st.Known && !unseen:
				a.print("  %s: this installation hasn't looked at it since; it doesn't count. If it is to count: --unseen\n", st.Ref)
			}
		}
	}
	return all, nil
}
