package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/pushed"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/webhook/inbox"
)

// Fault points of a restore, for crash tests: before anything is changed, when the act
// stands in the repository, and for each task when it is recorded and when it is back.
const (
	faultRestoreBefore   supervisor.Point = "world.restore.before"
	faultRestoreActed    supervisor.Point = "world.restore.acted"
	faultRestoreRecorded supervisor.Point = "world.restore.recorded"
	faultRestoreBack     supervisor.Point = "world.restore.back"
)

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
	cmd.RunE = a.acting(&f, false, func(ctx context.Context, in *installation.Installation, args []string) error {
		return a.restoreWorld(ctx, in, args[0], f.reason)
	})
	return cmd
}

// restoring is a world whose tasks are put back.
type restoring struct {
	*actPlace
	*installation.Governed
	sup    *supervisor.Supervisor
	issues issueText
	pushes *pushed.Pushes
	counts worldref.Standing
}

// lostTask is a task of which the repository has something else than was seen.
type lostTask struct {
	supervisor.Stand
	left string // why it is left as it is; "" where it can be put back
	cmds []git.Command
}

func (a *app) restoreWorld(ctx context.Context, in *installation.Installation, name, reason string) error {
	worlds, err := in.WorldsOf(ctx, name, nil)
	if err != nil {
		return err
	}
	world := in.Dir.LastUse().Meant(name)
	at, err := a.identified(ctx, in.Cfg, worlds[world], false)
	if err != nil {
		return err
	}
	defer at.close()
	if at.World != world {
		p := problem.Coded(kernel.CodeWorldElsewhere, "The repository at %s is the world %s, not %s.", at.URL, at.World, world)
		if !at.vouched {
			p.Remedy = "Give --config, with the forge that has the repository: it says which one it is, and has the issues that the tasks are held against."
		}
		return p
	}
	r, end, err := a.openRestoring(ctx, in, world, at)
	if err != nil {
		return err
	}
	defer end()
	lost, err := r.lost(ctx)
	if err != nil {
		return err
	}
	back := slices.DeleteFunc(slices.Clone(lost), func(t lostTask) bool { return t.left != "" })
	a.showLost(r, lost, back)
	switch {
	case len(back) == 0:
		a.print("nothing is to be put back\n")
		return nil
	case reason == "":
		return unsaid("the state of these tasks is put back")
	}
	return a.putBack(ctx, r, back, reason)
}

func (a *app) openRestoring(ctx context.Context, in *installation.Installation, world string, at identity) (r *restoring, end func(), err error) {
	r = &restoring{issues: at.issues, pushes: pushed.Of(in.DB, world)}
	if r.actPlace, err = a.openActs(ctx, in, world, at.URL); err != nil {
		return nil, nil, err
	}
	end = func() { installation.CloseRepo(r.actPlace.repo) }
	r.refs, err = r.actPlace.repo.Refs(ctx, r.prefix, r.room.Ref(), supervisor.DefaultChangePrefix)
	if err == nil {
		err = a.supervised(ctx, in, r)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return r, end, nil
}

func (a *app) supervised(ctx context.Context, in *installation.Installation, r *restoring) (err error) {
	if f := r.room.Forked(); f != nil {
		return f
	}
	listed, err := in.Listed()
	if err != nil {
		return err
	}
	r.counts = r.room.Standing(listed...)
	if r.Governed, err = in.Govern(ctx, r.actPlace.world, r.actPlace.display, r.actPlace.repo); err != nil {
		return err
	}
	r.sup, err = a.Supervise(ctx, r.Governed, nil, wire.Supervision{})
	return err
}

// lost are the tasks whose ref isn't where it was seen last, nor legitimately further.
func (r *restoring) lost(ctx context.Context) (list []lostTask, err error) {
	stands, err := r.sup.Stands(ctx, r.refs)
	if err != nil {
		return nil, err
	}
	for _, st := range stands {
		if st.Seen == "" || st.Code == "" {
			continue
		}
		t := lostTask{Stand: st}
		if _, t.left, err = r.judge(ctx, &t); err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// judge says why a task is left as it is, or how it is put back: with which pack, which
// may be large, so that nobody keeps those of many tasks.
func (r *restoring) judge(ctx context.Context, t *lostTask) (pack git.Pack, why string, err error) {
	way, gap, err := r.pushes.SinceInside(ctx, t.Task, string(t.Head), string(t.Seen), func(p pushed.Push) bool { return brought(p, t.Head) })
	switch {
	case err != nil:
		return pack, "", err
	case len(way) == 0 && gap == string(t.Seen):
		return pack, "this store hasn't the commit that was seen last: another installation pushed it, or it was more than 14 days ago", nil
	case len(way) == 0 && gap != "":
		return pack, "what this store has of it begins after " + gap + ", which the repository doesn't have at that ref", nil
	case len(way) == 0:
		return pack, "what is there isn't an earlier commit of it: " + t.Why, nil
	}
	objs := git.NewObjects()
	for _, p := range way {
		if err := objs.AgainPack(p.Pack); err != nil {
			return pack, "what this store has of it is damaged: " + problem.Explain(err).Text, nil
		}
	}
	head, err := objs.Added(t.Seen)
	if err != nil {
		return pack, "what this store has of it is damaged: " + problem.Explain(err).Text, nil
	}
	signer, err := head.Verify(nil)
	if err != nil && git.CodeOf(err) != git.CodeUntrusted || !r.counts.Signs(signer, t.Ref, string(t.Seen)) {
		return pack, "the key that signed the commit that was seen last doesn't count any more", nil
	}
	if r.issues != nil {
		if why, err = r.issues.same(ctx, t.Task, head); err != nil || why != "" {
			return pack, why, err
		}
	}
	return objs.Pack(), r.commands(t, way), nil
}

// brought reports whether a push brought a commit below the last of its state ref: a claim
// brings the event and the lease on it.
func brought(p pushed.Push, oid git.OID) bool {
	objs := git.NewObjects()
	if objs.AgainPack(p.Pack) != nil {
		return false
	}
	c, err := objs.Added(git.OID(p.Moves[0].New))
	for err == nil && len(c.Parents) > 0 && c.Parents[0] != oid {
		c, err = objs.Added(c.Parents[0])
	}
	return err == nil && len(c.Parents) > 0
}

// commands are the moves that the pushes made together, from where the refs are now.
// One that is there already isn't made again.
func (r *restoring) commands(t *lostTask, way []pushed.Push) (left string) {
	t.cmds = []git.Command{{Ref: t.Ref, Old: t.Head, New: t.Seen}}
	var ref string
	var stations []string // where the change branch was before, and at last
	for _, p := range way {
		for _, m := range p.Moves[1:] {
			if ref = m.Ref; len(stations) == 0 {
				stations = append(stations, m.Old)
			}
			stations = append(stations, m.New)
		}
	}
	if len(stations) == 0 {
		return ""
	}
	last, now := stations[len(stations)-1], installation.PlainOID(r.refs.OID(ref))
	switch {
	case now == last:
	case now == "" || slices.Contains(stations, now):
		t.cmds = append(t.cmds, git.Command{Ref: ref, Old: r.refs.OID(ref), New: git.OID(last)})
	default:
		return fmt.Sprintf("%s has %s, which isn't writ's, where the result was; look at it, and rename or delete it", ref, now)
	}
	return ""
}

// same is why an issue isn't the one that a state commit was made for, "" if it is: the
// forge that was restored gives numbers out again, and what was approved is a text.
func (read issueText) same(ctx context.Context, n int64, c git.Commit) (why string, err error) {
	issue, err := read(ctx, n)
	switch {
	case forge.IsReason(err, forge.NotFound):
		return "there is no such issue any more", nil
	case err != nil:
		return "", err
	}
	var created int64
	if !issue.CreatedAt.IsZero() {
		created = issue.CreatedAt.Unix()
	}
	trailers := lease.Parse(c.Message)
	if made, _ := trailers.Get(kernel.TrailerIssue); made != kernel.IssueName(issue.ID, created) {
		return "the issue of that number is another one now", nil
	}
	approved, _ := trailers.Get(kernel.TrailerApproval)
	if now, err := kernel.ApprovalDigest(issue.Title, issue.Body); err != nil || approved != "" && string(now) != approved {
		return "the issue has another text than was approved", nil //nolint:nilerr // a text that can't be hashed is another text
	}
	return "", nil
}

// showLost says which tasks are put back, and which aren't and why.
func (a *app) showLost(r *restoring, lost, back []lostTask) {
	are := "are"
	if len(lost) == 1 {
		are = "is"
	}
	a.print("%s: %s %s behind what was seen, %d of them can be put back\n", r.actPlace.display, report.Counted(len(lost), "task"), are, len(back))
	for _, t := range lost {
		now := cmp.Or(string(t.Head), "nothing")
		if t.left != "" {
			a.print("  left: task %d: %s\n    the ref has %s; seen last was %s\n", t.Task, t.left, now, t.Seen)
			continue
		}
		a.print("  back: task %d: from %s to %s\n", t.Task, now, t.Seen)
	}
	if len(back) < len(lost) {
		a.print("A task that is left waits for repair: put the commit back from a clone, or move on with `writ task resume N`.\n")
	}
}

// putBack writes the act, and then puts back one task after the other.
func (a *app) putBack(ctx context.Context, r *restoring, back []lostTask, reason string) error {
	a.reach(faultRestoreBefore)
	var marks []worldref.Mark
	for _, t := range back {
		marks = append(marks, worldref.Mark{Ref: t.Ref, Head: string(t.Seen)})
	}
	act := a.newAct(worldref.Repair, reason, "", "", marks)
	if _, err := r.room.Append(ctx, act, r.Writer(r.Key.SSHSigner())); err != nil {
		return err
	}
	a.reach(faultRestoreActed)
	var failed []string
	for _, t := range back {
		pack, left, err := r.judge(ctx, &t)
		if err != nil {
			return err
		}
		if left != "" { // the issue was edited meanwhile
			a.print("not back: task %d: %s\n", t.Task, left)
			failed = append(failed, strconv.FormatInt(t.Task, 10))
			continue
		}
		if err := r.sup.PutBack(ctx, t.Task, act.Actor, reason); err != nil {
			return err
		}
		a.reach(faultRestoreRecorded)
		// Marked before it is back: the server looks at it also if this process dies.
		if err := inbox.New(r.DB).Mark(ctx, []inbox.Key{{World: r.Governed.World, Task: t.Task}}, time.Now().UnixMilli()); err != nil {
			return err
		}
		if out := r.actPlace.repo.CompareAndSwap(ctx, t.cmds, pack); out.Status != git.Won {
			a.print("not back: task %d: %s: %s\n", t.Task, out.Status, outcomeWords(out))
			failed = append(failed, strconv.FormatInt(t.Task, 10))
			continue
		}
		a.print("back: task %d\n", t.Task)
		a.reach(faultRestoreBack)
	}
	r.Checkpoint(ctx)
	if len(failed) > 0 {
		p := problem.Coded(kernel.CodePushRefused, "%d of %s could not be put back: %s.", len(failed), report.Counted(len(back), "task"), strings.Join(failed, ", "))
		p.Remedy = "Look at what the server said. A result needs the base commit that it was made on: if the forge lost that too, push it back first. Then run the same again."
		return p
	}
	return nil
}

func outcomeWords(out git.Outcome) string {
	if out.Reason == "" && out.Err != nil {
		return problem.Explain(out.Err).Text
	}
	return out.Reason
}
