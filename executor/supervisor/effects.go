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
