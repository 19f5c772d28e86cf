package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/worlds"
	"github.com/writbot/writ/compliance/worldref"
)

func (a *app) worldRepair() *cobra.Command {
	var f worldFlags
	cmd := &cobra.Command{
		Use:   "repair WORLD --state-dir DIR --reason TEXT",
		Short: "Settle what a world's acts are, where others were seen",
		Long: `Repair is the way on from world.fork: the ref of a world's acts contradicts what this
installation saw there. It shows which acts are lost, and, if you give a reason, says
in the repository that you looked. What is lost counts no more here: if a key was
revoked or replaced by it, say that again.

Where the ref only lacks what was seen (world.rollback), or somebody who doesn't count
wrote in its place, what was seen is put back instead, as a server does by itself. Where
state commits name an act that nobody has any more, it says that you go on without it.`,
		Example: "  writ world repair github.com/acme/shop --state-dir /var/lib/writ/state --config writ.yaml --reason 'the forge was restored'",
		Args:    cobra.ExactArgs(1),
	}
	f.add(cmd)
	// An interrupted rotation may wait for this.
	cmd.RunE = a.acting(&f, true, func(ctx context.Context, by *worlds.Acting, args []string) error {
		return a.repairWorld(ctx, by, args[0], f.reason)
	})
	return cmd
}

func (a *app) repairWorld(ctx context.Context, by *worlds.Acting, name, reason string) error {
	r, end, err := by.Repair(ctx, name, a.tellElsewhere)
	if err != nil {
		return err
	}
	defer end()
	for _, lost := range r.Lost {
		a.print("lost: %s\n", lost)
	}
	var why, done string
	switch r.Way {
	case worlds.Nothing:
		a.print("nothing is to be repaired: %s follows what was seen there\n", r.Room.Ref())
		return nil
	case worlds.GoOn:
		why, done = "what is there now counts, without that act", "has what was seen there"
	case worlds.PutBack:
		why, done = "what was seen is put back over what is there now, of which nothing counts", "has what was seen there"
	case worlds.SettleFork:
		why, done = "what is there now counts", "goes on from what is there"
	}
	if reason == "" {
		return unsaid(why)
	}
	if err := r.Write(ctx, reason); err != nil {
		return err
	}
	a.print("repaired: %s of %s %s\n", r.Room.Ref(), r.Display, done)
	return nil
}

func (a *app) worldLog() *cobra.Command {
	var config, state, world string
	var keys []string
	cmd := &cobra.Command{
		Use:   "log REPO",
		Short: "Show what was said in a repository of worlds and keys, and what of it counts",
		Long: `Log shows the acts of a repository's world: rebindings, rotations and revocations of
keys, repairs; and which of them count for somebody who lists the keys that you give.

Which world a clone is, it doesn't say: without --world it is the one that the last act
by a key which you list was made in, and nobody vouches for that.`,
		Example: "  writ world log ~/src/project --key runner.pub",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&config, "config", "", "configuration, whose trusted_runners count as --key")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "public key that you list: a file, or the text itself; may be repeated")
	cmd.Flags().StringVar(&state, "state-dir", "", "state directory whose key counts as --key")
	cmd.Flags().StringVar(&world, "world", "", "identity of the world that the repository is")
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if state != "" {
			dir, err := installation.OpenDir(state, false)
			if err != nil {
				return err
			}
			keys = append(keys, dir.File("key.pub"))
		}
		return a.logWorld(ctx, args[0], verifyFlags{config: config, keys: keys, world: world})
	})
	return cmd
}

func (a *app) logWorld(ctx context.Context, repo string, f verifyFlags) error {
	cfg, keys, err := a.vouched(f)
	if err != nil {
		return err
	}
	l, err := worlds.ReadLog(ctx, a.Process, cfg, repo, f.world, keys)
	if err != nil {
		return err
	}
	if a.json {
		data, err := json.Marshal(struct {
			Kind  string `json:"kind"` // "world_acts"
			World string `json:"world_id"`
			// Vouched: the repository says that it is this world, or the caller does.
			Vouched bool              `json:"world_vouched"`
			Acts    []worldref.Judged `json:"acts"`
		}{"world_acts", l.World, l.Vouched, l.Acts})
		if err != nil {
			return err
		}
		a.printJSON(data)
		return nil
	}
	a.print("%s", actsPlain(l))
	return nil
}

func actsPlain(l worlds.Log) string {
	var b strings.Builder
	fmt.Fprintf(&b, "acts of %s: %d", l.World, len(l.Acts))
	if !l.Vouched && len(l.Acts) > 0 {
		b.WriteString("; they name it, and nobody vouched that this repository is it")
	}
	b.WriteByte('\n')
	for _, j := range l.Acts {
		fmt.Fprintf(&b, "%s\n", j)
	}
	return b.String()
}
