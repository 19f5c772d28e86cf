package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
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
	cmd.RunE = a.acting(&f, true, func(ctx context.Context, in *installation.Installation, args []string) error {
		return a.repairWorld(ctx, in, args[0], f.reason)
	})
	return cmd
}

func (a *app) repairWorld(ctx context.Context, in *installation.Installation, name, reason string) error {
	worlds, err := in.WorldsOf(ctx, name, nil)
	if err != nil {
		return err
	}
	places, end, err := a.eachWorld(ctx, in, worlds)
	if err != nil {
		return err
	}
	defer end()
	if len(places) == 0 {
		return problem.Coded(kernel.CodeWorldElsewhere, "The repository of %s is another world now.", name)
	}
	p := places[0]
	sup, err := a.reader(in, p, p.world, supervisor.NoHistory())
	if err != nil {
		return err
	}
	standing, err := sup.Standing(ctx, p.refs) // the room is told whom the contract lists
	if err != nil {
		return err
	}
	if p.room.Fault() == nil {
		lacking, ok := errors.AsType[*worldref.Error](sup.LackingAct(ctx, standing))
		if !ok {
			a.print("nothing is to be repaired: %s follows what was seen there\n", p.room.Ref())
			return nil
		}
		a.print("lost: %s\n", lacking.Detail)
		return a.putBackWorld(ctx, in, p, reason, "what is there now counts, without that act")
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
	for _, j := range standing.Acts {
		if last = j.OID; !there[j.OID] {
			a.print("lost: %s\n", j)
		}
	}
	if p.room.Forked() == nil {
		return a.putBackWorld(ctx, in, p, reason, "what was seen is put back over what is there now, of which nothing counts")
	}
	if reason == "" {
		return unsaid("what is there now counts")
	}
	act := a.newAct(worldref.Repair, reason, "", "", []worldref.Mark{{Ref: p.room.Ref(), Head: last}})
	if _, err := p.room.Settle(ctx, act, in.Writer(in.Key.SSHSigner())); err != nil {
		return err
	}
	a.reach(faultRepairActed)
	a.print("repaired: %s of %s goes on from what is there\n", p.room.Ref(), p.display)
	return nil
}

// putBackWorld writes a repair on top of what was seen, over what stands in its place and
// counts for nobody who is listed; of the world's acts none is lost by that.
func (a *app) putBackWorld(ctx context.Context, in *installation.Installation, p *actPlace, reason, why string) error {
	if reason == "" {
		return unsaid(why)
	}
	at := string(p.tip())
	if at == "" {
		at = string(git.ZeroOID)
	}
	act := a.newAct(worldref.Repair, reason, "", "", []worldref.Mark{{Ref: p.room.Ref(), Head: at}})
	if _, err := p.room.Append(ctx, act, in.Writer(in.Key.SSHSigner())); err != nil {
		return err
	}
	a.reach(faultRepairActed)
	a.print("repaired: %s of %s has what was seen there\n", p.room.Ref(), p.display)
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
	keys, refs, err := a.vouched(f)
	if err != nil {
		return err
	}
	cfg, err := a.Load(f.config)
	if err != nil {
		return err
	}
	id, err := a.identified(ctx, cfg, repo, false)
	if err != nil {
		return err
	}
	defer id.close()
	r, err := a.repoOf(ctx, where{cfg: cfg, place: id.Place}, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	acts, err := readActs(ctx, r, refs)
	if err != nil {
		return err
	}
	switch {
	case f.world != "":
		id.World, id.vouched = f.world, true
	case !id.vouched:
		id.World = spokenOf(acts, worldref.Lists(keys), id.World)
	}
	s := worldref.Fold(id.World, acts, worldref.Lists(keys))
	if a.json {
		data, err := json.Marshal(struct {
			Kind  string `json:"kind"` // "world_acts"
			World string `json:"world_id"`
			// Vouched: the repository says that it is this world, or the caller does.
			Vouched bool              `json:"world_vouched"`
			Acts    []worldref.Judged `json:"acts"`
		}{"world_acts", id.World, id.vouched, s.Acts})
		if err != nil {
			return err
		}
		a.printJSON(data)
		return nil
	}
	a.print("%s", actsPlain(id.World, id.vouched, s.Acts))
	return nil
}

// spokenOf is the world that a repository's acts are of, where it doesn't say which it is:
// that of the last one by a key that is listed, or, without such, of the last.
func spokenOf(acts []worldref.Entry, listed func(string) bool, unknown string) string {
	last := ""
	for _, e := range slices.Backward(acts) {
		switch {
		case e.Fault != "" || e.Signer == "":
		case listed(e.Signer):
			return e.Act.World
		case last == "":
			last = e.Act.World
		}
	}
	return cmp.Or(last, unknown)
}

// readActs reads the acts of a repository.
func readActs(ctx context.Context, r *git.Repo, refs string) ([]worldref.Entry, error) {
	ref := worldref.Ref(installation.RefPrefix(refs))
	there, err := r.Refs(ctx, ref)
	if err != nil {
		return nil, err
	}
	return worldref.Read(ctx, r, there.OID(ref))
}

func actsPlain(world string, vouched bool, acts []worldref.Judged) string {
	var b strings.Builder
	fmt.Fprintf(&b, "acts of %s: %d", world, len(acts))
	if !vouched && len(acts) > 0 {
		b.WriteString("; they name it, and nobody vouched that this repository is it")
	}
	b.WriteByte('\n')
	for _, j := range acts {
		fmt.Fprintf(&b, "%s\n", j)
	}
	return b.String()
}
