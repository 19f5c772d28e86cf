package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// faultRepairActed is the fault point of a repair, for crash tests.
const faultRepairActed supervisor.Point = "world.repair.acted"

func (a *app) worldRepair() *cobra.Command {
	var f worldFlags
	cmd := &cobra.Command{
		Use:   "repair WORLD --state-dir DIR --reason TEXT",
		Short: "Go on with what a world's acts are now, although others were seen",
		Long: `Repair is the way on from world.fork: the ref of a world's acts contradicts what this
installation saw there. It shows which acts are lost, and, if you give a reason, says
in the repository that you looked. What is lost counts no more here: if a key was
revoked or replaced by it, say that again.`,
		Example: "  writ world repair github.com/acme/shop --state-dir /var/lib/writ/state --config writ.yaml --reason 'the forge was restored'",
		Args:    cobra.ExactArgs(1),
	}
	f.add(cmd)
	// An interrupted rotation may wait for this.
	cmd.RunE = a.acting(&f, true, func(ctx context.Context, in *installation, args []string) error {
		return a.repairWorld(ctx, in, args[0], f.reason)
	})
	return cmd
}

func (a *app) repairWorld(ctx context.Context, in *installation, name, reason string) error {
	worlds, err := in.worldsOf(ctx, name, nil)
	if err != nil {
		return err
	}
	places, end, err := a.eachWorld(ctx, in, worlds)
	if err != nil {
		return err
	}
	defer end()
	if len(places) == 0 {
		return coded(kernel.CodeWorldElsewhere, "The repository of %s is another world now.", name)
	}
	p := places[0]
	if p.room.Forked() == nil {
		a.print("nothing is to be repaired: %s follows what was seen there\n", p.room.Ref())
		return nil
	}
	listed, err := in.listed()
	if err != nil {
		return err
	}
	now, err := worldref.Read(ctx, p.repo, p.tip())
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, e := range now {
		there[e.OID] = true
	}
	var last string
	for _, j := range p.room.Standing(listed...).Acts {
		if last = j.OID; !there[j.OID] {
			a.print("lost: %s\n", j)
		}
	}
	if reason == "" {
		return unsaid("what is there now counts")
	}
	act := a.newAct(worldref.Repair, reason, "", "", []worldref.Mark{{Ref: p.room.Ref(), Head: last}})
	if _, err := p.room.Settle(ctx, act, in.writer(in.key.SSHSigner())); err != nil {
		return err
	}
	a.reach(faultRepairActed)
	a.print("repaired: %s of %s goes on from what is there\n", p.room.Ref(), p.display)
	return nil
}

func (a *app) worldLog() *cobra.Command {
	var config, state string
	var keys []string
	cmd := &cobra.Command{
		Use:   "log REPO",
		Short: "Show what was said in a repository of worlds and keys, and what of it counts",
		Long: `Log shows the acts of a repository's world: rebindings, rotations and revocations of
keys, repairs; and which of them count for somebody who lists the keys that you give.`,
		Example: "  writ world log ~/src/project --key runner.pub",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&config, "config", "", "configuration, whose trusted_runners count as --key")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "public key that you list: a file, or the text itself; may be repeated")
	cmd.Flags().StringVar(&state, "state-dir", "", "state directory whose key counts as --key")
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if state != "" {
			dir, err := openState(state, false)
			if err != nil {
				return err
			}
			keys = append(keys, dir.file("key.pub"))
		}
		return a.logWorld(ctx, args[0], verifyFlags{config: config, keys: keys})
	})
	return cmd
}

func (a *app) logWorld(ctx context.Context, repo string, f verifyFlags) error {
	keys, refs, err := a.vouched(f)
	if err != nil {
		return err
	}
	cfg, err := a.load(f.config)
	if err != nil {
		return err
	}
	id, err := a.identified(ctx, cfg, repo, false)
	if err != nil {
		return err
	}
	defer id.close()
	r, err := a.repoOf(ctx, where{cfg: cfg, place: id.place}, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	acts, err := readActs(ctx, r, refs)
	if err != nil {
		return err
	}
	s := worldref.Fold(id.world, acts, worldref.Lists(keys))
	if a.json {
		data, err := json.Marshal(struct {
			Kind  string            `json:"kind"` // "world_acts"
			World string            `json:"world_id"`
			Acts  []worldref.Judged `json:"acts"`
		}{"world_acts", id.world, s.Acts})
		if err != nil {
			return err
		}
		a.printJSON(data)
		return nil
	}
	a.print("%s", actsPlain(id.world, s.Acts))
	return nil
}

// readActs reads the acts of a repository.
func readActs(ctx context.Context, r *git.Repo, refs string) ([]worldref.Entry, error) {
	ref := worldref.Ref(refPrefix(refs))
	there, err := r.Refs(ctx, ref)
	if err != nil {
		return nil, err
	}
	return worldref.Read(ctx, r, there.OID(ref))
}

func actsPlain(world string, acts []worldref.Judged) string {
	var b strings.Builder
	fmt.Fprintf(&b, "acts of %s: %d\n", world, len(acts))
	for _, j := range acts {
		fmt.Fprintf(&b, "%s\n", j)
	}
	return b.String()
}
