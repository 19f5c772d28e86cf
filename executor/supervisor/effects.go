package supervisor

import (
	"context"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// effect is a prepared effect: its intent, the records that must come before
// it, and what to do. Preparing composes bytes and touches nothing outside.
type effect struct {
	intent kernel.Intent
	drafts []kernel.Draft
	run    string // of a claim: the run that it begins
	do     func(context.Context) kernel.Outcome
	push   *push // that it consists of, nil for none
}

// prepare composes the effect of a decision.
func (t *Task) prepare(ctx context.Context, c *cycle) (*effect, error) {
	if c.decision.Action.OnForge() {
		return t.prepareIssue(c), nil
	}
	switch c.decision.Action {
	case kernel.ActionClaim:
		return t.worker.prepareClaim(c)
	case kernel.ActionTakeOver, kernel.ActionRelease:
		return t.worker.prepareStalled(c)
	case kernel.ActionHeartbeat:
		return t.worker.prepareHeartbeat(c)
	case kernel.ActionDispatch:
		return t.worker.prepareDispatch(&c.observation)
	case kernel.ActionSeal:
		return t.worker.prepareSeal(c)
	case kernel.ActionChecks:
		return t.worker.prepareChecks(&c.observation)
	case kernel.ActionJudge:
		return nil, t.worker.judge(ctx, c)
	case kernel.ActionResult:
		return t.worker.prepareResult(ctx, c)
	case kernel.ActionWait:
		return t.worker.prepareWait(ctx, c)
	case kernel.ActionAbandon:
		return t.worker.prepareAbandon(&c.observation)
	case kernel.ActionComplete:
		return t.worker.prepareComplete(c)
	case kernel.ActionRestore:
		return t.worker.prepareRestore(c)
	case kernel.ActionRedeliver:
		return t.worker.prepareRedeliver(c)
	}
	return nil, nil
}

// pushed wraps a push as an effect. Its key is the new commit: no two effects
// share one, for every state commit bears a run id or a parent of its own.
func (w *worker) pushed(c *cycle, run string, p *push, drafts ...kernel.Draft) *effect {
	p.action = c.decision.Action
	p.key = string(p.action) + ":" + string(p.to())
	if c.facts.Repairs() {
		p.repair = resumedAt(c.facts.Head.OID)
	}
	p.of = string(p.action) + ":" + c.facts.Head.Run() + ":" + string(c.facts.Approved)
	digest := canon.Sum(p.pack.Data)
	return &effect{
		drafts: drafts, run: run, push: p,
		intent: kernel.Intent{
			Kind: string(kernel.KindIntent), Key: p.key, Effect: p.action, Digest: digest,
			Ref: p.cmds[0].Ref, Old: plain(p.from()), New: string(p.to()), Seq: p.seq,
		},
		do: func(ctx context.Context) kernel.Outcome { return w.do(ctx, c.request, p) },
	}
}

// plain writes the zero id as "".
func plain(oid git.OID) string {
	if oid.IsZero() {
		return ""
	}
	return string(oid)
}

// person is the author and committer of state commits.
func (w *worker) person(seconds int64) git.Person {
	return git.Person{Name: w.s.cfg.Name, Email: w.s.cfg.Email, Seconds: seconds, TZ: "+0000", OK: true}
}

// nextDate is the committer date of the commit that follows HEAD: now, and
// never earlier than what it follows (REQUIREMENTS A28).
func (c *observation) nextDate() int64 {
	return lease.NextCommitterSeconds(c.event.CommitterSeconds, c.clock.WallMs)
}

// runTrailers are those of the live run.
func (w *worker) runTrailers(r *run) trailers {
	return trailers{
		base: r.pack.Pins.BaseCommit, attempt: r.attempt, approval: string(r.pack.Approval.Digest),
		governance: string(r.pack.Pins.Governance), dispatch: string(r.dispatchHash), plan: string(r.plan.hash),
		ledger: string(w.s.deps.Ledger.Chain().Head.Hash), act: r.act, resumes: r.resumes, refreshes: r.refreshes, fixes: r.fixes, fix: string(r.fix), refreshAct: r.refreshAct, refreshInterruptions: r.refreshInterruptions,
	}
}

// prepareStalled breaks a dead lease, or gives our own back.
func (w *worker) prepareStalled(c *cycle) (*effect, error) {
	tr := trailers{
		attempt: c.facts.Head.Attempt, approval: string(c.facts.Head.Approval),
		interruptions: c.decision.Interruptions, notBefore: c.decision.NotBefore, codes: c.decision.Codes,
		act: c.facts.Head.Act, ledger: string(w.s.deps.Ledger.Chain().Head.Hash),
	}
	objs := git.NewObjects()
	head := git.OID(c.facts.Head.OID)
	tree, err := c.stateTree(objs)
	if err != nil {
		return nil, err
	}
	parent, seq := head, c.facts.NextSeq()
	late, work, err := w.sealLate(&c.observation, objs)
	if err != nil {
		return nil, err
	}
	if late.oid != "" {
		parent, tree, seq = late.oid, work, seq+1
	}
	made, err := w.stateCommit(&c.observation, objs, stateCommit{
		tree: tree, parent: parent, date: c.nextDate(), seq: seq, trailers: &tr,
		message: func(all []lease.Trailer) ([]byte, error) {
			extra := append([]lease.Trailer{{Key: "writ-origin-state", Value: originOf(c.event)}}, all...)
			return lease.Stalled(c.event, lease.Break{Extra: extra})
		},
	})
	if err != nil {
		return nil, err
	}
	run := c.facts.Head.RunID
	own := w.run
	e := w.pushed(c, run, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: head, New: made.oid}}, pack: objs.Pack(), seq: made.seq, bare: late.oid == "",
		unshelves: late.oid != "",
		won:       func() { w.gaveUp(own) },
		failed:    func() { w.bare = false },
	})
	if own == nil {
		return e, nil
	}
	return w.killFirst(e), nil
}

// stateTree is the tree of the task's state, empty where there is none. That of an unlisted writer's lease is
// none: what lies there would reach a builder under our signature.
func (c *observation) stateTree(objs *git.Objects) (git.OID, error) {
	switch {
	case c.facts.Head.OID == "", c.facts.Head.Foreign():
	case !c.facts.Head.UnlistedLock():
		return c.head.Tree, nil
	case c.below.Tree != "":
		return c.below.Tree, nil
	}
	return objs.Tree(nil)
}

// killFirst makes an effect end our processes before it tells the world that
// nobody works on the task.
func (w *worker) killFirst(e *effect) *effect {
	push := e.do
	e.do = func(ctx context.Context) kernel.Outcome {
		w.kill()
		return push(ctx)
	}
	return e
}

func originOf(ev lease.Event) string {
	if ev.OriginState != "" {
		return ev.OriginState
	}
	return string(kernel.TaskOpen)
}

// prepareHeartbeat renews the lease: one commit, same tree, same run id.
func (w *worker) prepareHeartbeat(c *cycle) (*effect, error) {
	r := w.run
	date := lease.NextCommitterSeconds(r.date, c.clock.WallMs)
	objs := git.NewObjects()
	made, err := w.stateCommit(&c.observation, objs, stateCommit{
		tree: r.tree, parent: r.head, date: date, seq: c.facts.NextSeq(),
		message: func(stamp []lease.Trailer) ([]byte, error) {
			return lease.Renew(r.event, lease.Renewal{RunID: r.id, Replace: stamp})
		},
	})
	if err != nil {
		return nil, err
	}
	renewed, before := c.clock, r.tenure
	return w.pushed(c, r.id, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: r.head, New: made.oid}}, pack: objs.Pack(), seq: made.seq, bare: true, before: &before,
		won: func() { w.renewed(r, made.oid, date, made.message, renewed) },
	}), nil
}

// renewed notes a lease commit that stands. The clock is the one that was read
// before the commit was made: others count from there at the earliest.
func (w *worker) renewed(r *run, oid git.OID, date int64, msg []byte, at lease.Clock) {
	ev, err := lease.ReadEvent(lease.Head{OID: string(oid), Message: msg, CommitterSeconds: date, CommitterOK: true})
	if err != nil {
		w.log().Error("own lease can't be read back", "error", err)
		return
	}
	w.guard.Lock()
	defer w.guard.Unlock()
	r.event, r.head, r.date = ev, oid, date
	r.tenure = lease.Fence(at, w.s.cfg.LeaseSeconds, w.s.cfg.MarginSeconds)
}

// prepareAbandon ends our processes and forgets the run; nothing is pushed, for
// HEAD isn't ours any more.
func (w *worker) prepareAbandon(c *observation) (*effect, error) {
	r := w.run
	return &effect{
		intent: kernel.Intent{Kind: string(kernel.KindIntent), Key: "abandon:" + r.id, Effect: kernel.ActionAbandon},
		do: func(context.Context) kernel.Outcome {
			w.kill()
			if _, unable := w.s.outage.of(w.number); r.hidden || (unable || w.wasLate(r)) && c.facts.Head.OID == string(r.head) {
				w.lapsed = r.head
			}
			w.gaveUp(r)
			return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: "abandon:" + r.id, Effect: kernel.ActionAbandon, Status: kernel.OutcomeDone}
		},
	}, nil
}
