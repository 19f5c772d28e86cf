package main

import (
	"context"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/worlds"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/forge/git"
)

func (a *app) keyCommand() *cobra.Command {
	var w whereFlags
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Print this installation's public key, for runners and trusted_runners",
		Args:  cobra.NoArgs,
	}
	w.add(cmd)
	cmd.AddCommand(a.keyRotate(), a.keyRevoke())
	cmd.RunE = a.do(func(context.Context, []string) error {
		state := w.State
		if w.Repo != "" || state == "" {
			at, err := a.Find(w.Where)
			if err != nil {
				return err
			}
			state = at.State
		} else if err := installation.PathFlag("state-dir", state); err != nil {
			return err
		}
		dir, err := installation.OpenDir(state, false)
		if err != nil {
			return err
		}
		key, err := instancekey.Load(dir.Path)
		if err != nil {
			return err
		}
		a.print("%s writ@%s\n", key.PublicOpenSSH(), installation.HostName())
		return nil
	})
	return cmd
}

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
	cmd.RunE = a.acting(&f, true, func(ctx context.Context, by *worlds.Acting, _ []string) error {
		return a.rotateKey(ctx, by, f.reason, without)
	})
	return cmd
}

func (a *app) rotateKey(ctx context.Context, by *worlds.Acting, reason string, without []string) error {
	at, err := by.WorldsOf(ctx, "", without)
	if err != nil {
		return err
	}
	places, end, err := by.Places(ctx, at, a.tellElsewhere)
	if err != nil {
		return err
	}
	defer end()
	counts, err := a.counting(ctx, by, places, by.Key.SSHSigner().PublicKey(), true)
	if err != nil {
		return err
	}
	if reason == "" {
		return unsaid("the key is replaced")
	}
	was := by.Key.PublicOpenSSH()
	next, err := by.Rotate(ctx, counts, reason)
	if err != nil {
		return err
	}
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
	cmd.RunE = a.acting(&f, false, func(ctx context.Context, by *worlds.Acting, args []string) error {
		_, keys, err := a.vouched(verifyFlags{keys: args})
		if err != nil {
			return err
		}
		if len(keys) != 1 {
			return problem.Usage("Give one key; there are %d.", len(keys))
		}
		return a.revokeKey(ctx, by, revocation{keys[0], f.world, f.reason, none, unseen})
	})
	return cmd
}

// revocation is what the command line asks for.
type revocation struct {
	key           ssh.PublicKey
	world, reason string
	none, unseen  bool
}

func (a *app) revokeKey(ctx context.Context, by *worlds.Acting, r revocation) error {
	gone := git.Fingerprint(r.key)
	if gone == by.Key.Fingerprint() {
		return problem.Usage("This is the installation's own key. Replace it first: writ key rotate; then revoke the old one.")
	}
	if r.none && r.unseen {
		return problem.Usage("--none and --unseen say the opposite of each other.")
	}
	at, err := by.WorldsOf(ctx, r.world, nil)
	if err != nil {
		return err
	}
	places, end, err := by.Places(ctx, at, a.tellElsewhere)
	if err != nil {
		return err
	}
	defer end()
	var counts []worlds.Count
	if r.none {
		for _, p := range places {
			counts = append(counts, worlds.Count{Place: p})
			a.print("%s: %s counts for nothing\n", p.Display, gone)
		}
	} else if counts, err = a.counting(ctx, by, places, r.key, r.unseen); err != nil {
		return err
	}
	if r.reason == "" {
		return unsaid("the key counts no more")
	}
	listed, err := by.Revoke(ctx, counts, r.key, r.reason)
	if err != nil {
		return err
	}
	if listed {
		a.print("It is still in trusted_runners of the configuration: take it out.\n")
	}
	a.print("revoked: %s\n", gone)
	return nil
}

// counting tells, of each place, for which commits a key counts that counts no
// further, and which refs are not as they were seen.
func (a *app) counting(ctx context.Context, by *worlds.Acting, places []*worlds.Place, key ssh.PublicKey, unseen bool) (all []worlds.Count, err error) {
	for _, p := range places {
		c, err := by.Count(ctx, p, key, unseen)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
		a.print("%s: %s counts for %s, as this installation saw them\n", p.Display, git.Fingerprint(key), tasks(c.Marks, p.Prefix))
		for _, st := range c.Remarks {
			if st.Code != "" {
				a.tellMoved(p, st)
				continue
			}
			a.print("  %s: this installation hasn't looked at it since; it doesn't count. If it is to count: --unseen\n", st.Ref)
		}
	}
	return all, nil
}
