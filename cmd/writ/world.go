package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/worlds"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/worldref"
)

func (a *app) worldCommand() *cobra.Command {
	cmd := group("world", "Say that a repository goes on as another, and show what was said of keys")
	cmd.AddCommand(a.worldRebind(), a.worldRepair(), a.worldRestore(), a.worldLog())
	return cmd
}

// tellMoved names a ref that isn't as it was seen, why, and what becomes of it.
func (a *app) tellMoved(p *worlds.Place, st worlds.Remark) {
	a.print("  %s: %s: %s\n", st.Ref, st.Code, st.Why)
	switch until := st.Until; {
	case until != "" && st.Head != "":
		a.print("    what was seen last counts, and what is there now doesn't; put it back: git push --force %s %s:%s\n", p.URL, until, st.Ref)
	case until != "":
		a.print("    what was seen last counts; put it back: git push %s %s:%s\n", p.URL, until, st.Ref)
	default:
		a.print("    it doesn't count\n")
	}
}

// worldFlags are those of the commands that write an act.
type worldFlags struct {
	state, config, reason, world string
}

func (f *worldFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.state, "state-dir", "", "state directory of the installation that signs")
	cmd.Flags().StringVar(&f.config, "config", "", "configuration, for the forge's token and trusted_runners")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why; it is recorded with your name. Without it nothing is changed")
}

// check reads the flags.
func (f *worldFlags) check(a *app) (cfg config.Config, err error) {
	if f.state == "" {
		return cfg, problem.Usage("--state-dir is missing: give that of the installation.")
	}
	for flag, path := range map[string]string{"state-dir": f.state, "config": f.config} {
		if err := installation.PathFlag(flag, path); err != nil {
			return cfg, err
		}
	}
	if f.reason, err = installation.ShortReason(f.reason); err != nil {
		return cfg, err
	}
	return a.Load(f.config)
}

// acting runs a command that writes acts, over the installation that signs them.
func (a *app) acting(f *worldFlags, rotating bool, do func(ctx context.Context, by *worlds.Acting, args []string) error) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, args []string) error {
		cfg, err := f.check(a)
		if err != nil {
			return err
		}
		by, err := worlds.Open(ctx, a.Process, cfg, f.state, rotating)
		if err != nil {
			return err
		}
		defer by.Close()
		return do(ctx, by, args)
	})
}

// unsaid is the end of a command that was to show only.
func unsaid(why string) error {
	return problem.Usage("--reason is missing: nothing was changed. Say why %s.", why)
}

// tasks are the numbers in state refs, for people.
func tasks(marks []worldref.Mark, prefix string) string {
	var numbers []string
	for _, m := range marks {
		if n, ok := strings.CutPrefix(m.Ref, prefix); ok {
			numbers = append(numbers, n)
		}
	}
	slices.SortFunc(numbers, func(x, y string) int {
		a, _ := strconv.ParseInt(x, 10, 64)
		b, _ := strconv.ParseInt(y, 10, 64)
		return int(a - b)
	})
	if len(numbers) == 0 {
		return "no task"
	}
	const most = 20
	if len(numbers) > most {
		numbers = append(numbers[:most], fmt.Sprintf("and %d more", len(numbers)-most))
	}
	return "tasks " + strings.Join(numbers, ", ")
}

// tellElsewhere names a repository that is left out, for its path holds another world.
func (a *app) tellElsewhere(called, path, now string) {
	a.print("%s: %s is another world now, %s\n", called, path, now)
}

func (a *app) worldRebind() *cobra.Command {
	var f worldFlags
	var repo string
	var taken []int64
	cmd := &cobra.Command{
		Use:   "rebind OLD NEW --state-dir DIR --reason TEXT",
		Short: "Say that the world OLD goes on as NEW, after a migration",
		Long: `Rebind is the way on where a repository has another identity than before: moved to
another forge, imported, made again. It says, in the repository that is NEW, which
state commits of OLD count there: the very commit on each task's ref, and nothing
newer. OLD's own ledger stays as it is.

The text of each task's issue at NEW is held against what was approved; a task whose
issue isn't the same is left out and told, unless --task names it. Without --reason
it only shows. No process may use the state directory: stop the server first.
Whatever interrupts it, the same command finishes it.`,
		Example: "  writ world rebind 'git.example#7' 'github.com#1296269' --repo https://github.com/acme/shop.git \\\n    --state-dir /var/lib/writ/state --config writ.yaml --reason 'moved to GitHub'",
		Args:    cobra.ExactArgs(2),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&repo, "repo", "", "path or URL of the repository that is NEW (default: where it was last)")
	cmd.Flags().Int64SliceVar(&taken, "task", nil, "task that goes on although its issue has another text; may be repeated")
	cmd.RunE = a.acting(&f, false, func(ctx context.Context, by *worlds.Acting, args []string) error {
		use := by.Dir.LastUse()
		return a.rebind(ctx, by, use.Meant(args[0]), use.Meant(args[1]), repo, taken, f.reason)
	})
	return cmd
}

func (a *app) rebind(ctx context.Context, by *worlds.Acting, old, next, repo string, taken []int64, reason string) error {
	r, err := by.Rebinding(ctx, old, next, repo, taken)
	if err != nil {
		return err
	}
	defer r.Close()
	a.tellRebinding(r)
	if reason == "" {
		return unsaid(old + " goes on as " + next)
	}
	if err := r.Write(ctx, reason); err != nil {
		return err
	}
	a.print("rebound: %s goes on as %s (%s)\n", old, next, r.Display)
	return nil
}

// tellRebinding says which tasks go on, and which don't and why.
func (a *app) tellRebinding(r *worlds.Rebinding) {
	a.print("%s: of %s go on: %s\n", r.Display, r.Old, tasks(r.Marks, r.Prefix))
	if r.Own > 0 {
		a.print("  state of %s itself is kept: %s\n", r.World, report.Counted(r.Own, "task"))
	}
	for _, st := range r.Remarks {
		if st.Code != "" {
			a.tellMoved(r.Place, st)
		}
		if st.Left != "" {
			a.print("  left out: %s: %s\n", st.Ref, st.Left)
		}
	}
}

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

func (a *app) worldRestore() *cobra.Command {
	var f worldFlags
	cmd := &cobra.Command{
		Use:   "restore WORLD --state-dir DIR --reason TEXT",
		Short: "Put tasks' state back after a forge was restored or failed over",
		Long: `Restore is the way on where a forge lost what was pushed to it last: it was restored
from a back-up, or failed over to a copy that lagged. All tasks that moved since then
wait with state.rollback. It puts the commit that this installation saw last back onto
each task's ref, with the change branch that came with it, where

  - the store still has all that was pushed since (14 days, 64 MiB of each task),
  - what the ref has now is an earlier commit of the same task, or nothing, and
  - the issue is the same one, made at the same time, with the text that was approved.

Every other task is named with the reason, and is left as it is. Nothing is forced over
anybody's commit. WORLD is the repository, by its name or its identity. Without --reason
it only shows. No process may use the state directory: stop the server first. Whatever
interrupts it, the same command finishes it. If several installations share the
repository, run it for each.`,
		Example: "  writ world restore github.com/acme/shop --state-dir /var/lib/writ/state --config writ.yaml\n" +
			"  writ world restore github.com/acme/shop --state-dir /var/lib/writ/state --config writ.yaml --reason 'the forge was restored from Monday'",
		Args: cobra.ExactArgs(1),
	}
	f.add(cmd)
	cmd.RunE = a.acting(&f, false, func(ctx context.Context, by *worlds.Acting, args []string) error {
		return a.restoreWorld(ctx, by, args[0], f.reason)
	})
	return cmd
}

func (a *app) restoreWorld(ctx context.Context, by *worlds.Acting, name, reason string) error {
	r, err := by.Restoring(ctx, name)
	if err != nil {
		return err
	}
	defer r.Close()
	back := slices.DeleteFunc(slices.Clone(r.Lost), func(t worlds.LostTask) bool { return t.Left != "" })
	a.showLost(r, back)
	switch {
	case len(back) == 0:
		a.print("nothing is to be put back\n")
		return nil
	case reason == "":
		return unsaid("the state of these tasks is put back")
	}
	return r.PutBack(ctx, back, reason, func(task int64, why string) {
		if why != "" {
			a.print("not back: task %d: %s\n", task, why)
			return
		}
		a.print("back: task %d\n", task)
	})
}

// showLost says which tasks are put back, and which aren't and why.
func (a *app) showLost(r *worlds.Restoring, back []worlds.LostTask) {
	are := "are"
	if len(r.Lost) == 1 {
		are = "is"
	}
	a.print("%s: %s %s behind what was seen, %d of them can be put back\n", r.Display, report.Counted(len(r.Lost), "task"), are, len(back))
	for _, t := range r.Lost {
		now := cmp.Or(string(t.Head), "nothing")
		if t.Left != "" {
			a.print("  left: task %d: %s\n    the ref has %s; seen last was %s\n", t.Task, t.Left, now, t.Seen)
			continue
		}
		a.print("  back: task %d: from %s to %s\n", t.Task, now, t.Seen)
	}
	if len(back) < len(r.Lost) {
		a.print("A task that is left waits for repair: put the commit back from a clone, or move on with `writ task resume N`.\n")
	}
}
