package worlds

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
	FaultRestoreBefore   supervisor.Point = "world.restore.before"
	FaultRestoreActed    supervisor.Point = "world.restore.acted"
	FaultRestoreRecorded supervisor.Point = "world.restore.recorded"
	FaultRestoreBack     supervisor.Point = "world.restore.back"
)

// Restoring is a world whose tasks are put back.
type Restoring struct {
	*Place
	Lost   []LostTask
	acting *Acting
	gov    *installation.Governed
	sup    *supervisor.Supervisor
	at     Identity
	pushes *pushed.Pushes
	counts worldref.Standing
}

// LostTask is a task of which the repository has something else than was seen.
type LostTask struct {
	supervisor.Stand
	Left string // why it is left as it is; "" where it can be put back
	cmds []git.Command
}

// Restoring reads what the repository of a world has lost of its tasks, and which of them
// can be put back. Close it.
func (s *Acting) Restoring(ctx context.Context, name string) (*Restoring, error) {
	worlds, err := s.WorldsOf(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	world := s.Dir.LastUse().Meant(name)
	r := &Restoring{acting: s, pushes: pushed.Of(s.DB, world)}
	if r.at, err = Identify(ctx, s.proc, s.Cfg, worlds[world], false); err != nil {
		return nil, err
	}
	if err := r.open(ctx, world); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close gives the repository back, and the forge that said which it is.
func (r *Restoring) Close() {
	if r.Place != nil {
		installation.CloseRepo(r.Repo)
	}
	r.at.Close()
}

func (r *Restoring) open(ctx context.Context, world string) (err error) {
	if r.at.World != world {
		p := problem.Coded(kernel.CodeWorldElsewhere, "The repository at %s is the world %s, not %s.", r.at.URL, r.at.World, world)
		if !r.at.Vouched {
			p.Remedy = "Give --config, with the forge that has the repository: it says which one it is, and has the issues that the tasks are held against."
		}
		return p
	}
	if r.Place, err = r.acting.Place(ctx, world, r.at.URL); err != nil {
		return err
	}
	if r.refs, err = r.Repo.Refs(ctx, r.Prefix, r.Room.Ref(), supervisor.DefaultChangePrefix); err != nil {
		return err
	}
	if err := r.supervised(ctx); err != nil {
		return err
	}
	return r.look(ctx)
}

func (r *Restoring) supervised(ctx context.Context) (err error) {
	if f := r.Room.Forked(); f != nil {
		return f
	}
	listed, err := r.acting.Listed()
	if err != nil {
		return err
	}
	r.counts = r.Room.Standing(listed...)
	if r.gov, err = r.acting.Govern(ctx, r.World, r.Display, r.Repo); err != nil {
		return err
	}
	r.sup, err = r.acting.proc.Supervise(ctx, r.gov, nil, wire.Supervision{})
	return err
}

// look finds the tasks whose ref isn't where it was seen last, nor legitimately further.
func (r *Restoring) look(ctx context.Context) error {
	stands, err := r.sup.Stands(ctx, r.refs)
	if err != nil {
		return err
	}
	for _, st := range stands {
		if st.Seen == "" || st.Code == "" {
			continue
		}
		t := LostTask{Stand: st}
		if _, t.Left, err = r.judge(ctx, &t); err != nil {
			return err
		}
		r.Lost = append(r.Lost, t)
	}
	return nil
}

// judge says why a task is left as it is, or how it is put back: with which pack, which
// may be large, so that nobody keeps those of many tasks.
func (r *Restoring) judge(ctx context.Context, t *LostTask) (pack git.Pack, why string, err error) {
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
	if r.at.issues != nil {
		if why, err = r.at.issues.same(ctx, t.Task, head); err != nil || why != "" {
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

// commands are the moves that the pushes made together, from where the refs are now.
// One that is there already isn't made again.
func (r *Restoring) commands(t *LostTask, way []pushed.Push) (left string) {
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

// PutBack writes the act, and then puts back one task after the other. It tells of each
// whether it is back, or why not.
func (r *Restoring) PutBack(ctx context.Context, back []LostTask, reason string, tell func(task int64, why string)) error {
	proc := r.acting.proc
	proc.Reach(FaultRestoreBefore)
	var marks []worldref.Mark
	for _, t := range back {
		marks = append(marks, worldref.Mark{Ref: t.Ref, Head: string(t.Seen)})
	}
	act := r.acting.act(worldref.Repair, reason, "", "", marks)
	if _, err := r.Room.Append(ctx, act, r.acting.Writer(r.acting.Key.SSHSigner())); err != nil {
		return err
	}
	proc.Reach(FaultRestoreActed)
	var failed []string
	for _, t := range back {
		why, err := r.putBack(ctx, t, act.Actor, reason)
		if err != nil {
			return err
		}
		if tell(t.Task, why); why != "" {
			failed = append(failed, strconv.FormatInt(t.Task, 10))
			continue
		}
		proc.Reach(FaultRestoreBack)
	}
	r.gov.Checkpoint(ctx)
	if len(failed) > 0 {
		p := problem.Coded(kernel.CodePushRefused, "%d of %s could not be put back: %s.", len(failed), report.Counted(len(back), "task"), strings.Join(failed, ", "))
		p.Remedy = "Look at what the server said. A result needs the base commit that it was made on: if the forge lost that too, push it back first. Then run the same again."
		return p
	}
	return nil
}

// putBack puts one task back, or says why it isn't.
func (r *Restoring) putBack(ctx context.Context, t LostTask, actor, reason string) (why string, err error) {
	pack, left, err := r.judge(ctx, &t)
	if err != nil || left != "" { // the issue was edited meanwhile
		return left, err
	}
	if err := r.sup.PutBack(ctx, t.Task, actor, reason); err != nil {
		return "", err
	}
	r.acting.proc.Reach(FaultRestoreRecorded)
	// Marked before it is back: the server looks at it also if this process dies.
	if err := inbox.New(r.acting.DB).Mark(ctx, []inbox.Key{{World: r.World, Task: t.Task}}, time.Now().UnixMilli()); err != nil {
		return "", err
	}
	out := r.Repo.CompareAndSwap(ctx, t.cmds, pack)
	if out.Status == git.Won {
		return "", nil
	}
	words := out.Reason
	if words == "" && out.Err != nil {
		words = problem.Explain(out.Err).Text
	}
	return fmt.Sprintf("%s: %s", out.Status, words), nil
}
