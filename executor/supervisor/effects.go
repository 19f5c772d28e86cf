package supervisor

import (
	"context"
	"strconv"
	"strings"

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
}

// prepare composes the effect of a decision.
func (t *Task) prepare(c *cycle) (*effect, error) {
	if c.decision.Action.OnForge() {
		return t.prepareIssue(c), nil
	}
	switch c.decision.Action {
	case kernel.ActionClaim:
		return t.prepareClaim(c)
	case kernel.ActionTakeOver, kernel.ActionRelease:
		return t.prepareStalled(c)
	case kernel.ActionHeartbeat:
		return t.prepareHeartbeat(c)
	case kernel.ActionDispatch:
		return t.prepareDispatch(c)
	case kernel.ActionChecks:
		return t.prepareChecks(c)
	case kernel.ActionJudge:
		return nil, t.judge(c)
	case kernel.ActionResult:
		return t.prepareResult(c)
	case kernel.ActionWait:
		return t.prepareWait(c)
	case kernel.ActionAbandon:
		return t.prepareAbandon(c)
	}
	return nil, nil
}

// pushed wraps a push as an effect. Its key is the new commit: no two effects
// share one, for every state commit bears a run id or a parent of its own.
func (t *Task) pushed(c *cycle, run string, p *push, drafts ...kernel.Draft) *effect {
	p.action = c.decision.Action
	p.key = string(p.action) + ":" + string(p.to())
	digest := canon.Sum(p.pack.Data)
	return &effect{
		drafts: drafts, run: run,
		intent: kernel.Intent{
			Kind: string(kernel.KindIntent), Key: p.key, Effect: p.action, Digest: digest,
			Ref: p.cmds[0].Ref, Old: plain(p.from()), New: string(p.to()),
		},
		do: func(ctx context.Context) kernel.Outcome { return t.do(ctx, p) },
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
func (t *Task) person(seconds int64) git.Person {
	return git.Person{Name: t.s.cfg.Name, Email: t.s.cfg.Email, Seconds: seconds, TZ: "+0000", OK: true}
}

// stateCommit adds a signed commit of the state ref.
func (t *Task) stateCommit(o *git.Objects, tree git.OID, parent git.OID, message []byte, seconds int64) (git.OID, error) {
	spec := git.CommitSpec{Tree: tree, Author: t.person(seconds), Committer: t.person(seconds), Message: message}
	if !parent.IsZero() {
		spec.Parents = []git.OID{parent}
	}
	return o.Commit(spec, t.s.deps.Signer)
}

// nextDate is the committer date of the commit that follows HEAD: now, and
// never earlier than what it follows (REQUIREMENTS A28).
func (c *cycle) nextDate() int64 {
	return lease.NextCommitterSeconds(c.event.CommitterSeconds, c.clock.WallMs)
}

// trailers are Writ's own, in the order of DESIGN §4; empty ones are left out.
type trailers struct {
	base, approval, governance, dispatch, plan, ledger, waiting, change, run, act string
	attempt, interruptions, notBefore                                             int64
	codes                                                                         []kernel.Code
}

func (w trailers) list() []lease.Trailer {
	var out []lease.Trailer
	add := func(key, value string) {
		if value != "" {
			out = append(out, lease.Trailer{Key: key, Value: value})
		}
	}
	add(kernel.TrailerBase, w.base)
	if w.attempt > 0 {
		add(kernel.TrailerAttempt, strconv.FormatInt(w.attempt, 10))
	}
	add(kernel.TrailerInterruptions, strconv.FormatInt(w.interruptions, 10))
	if w.notBefore > 0 {
		add(kernel.TrailerNotBefore, strconv.FormatInt((w.notBefore+999)/1000, 10))
	}
	add(kernel.TrailerApproval, w.approval)
	add(kernel.TrailerGovernance, w.governance)
	add(kernel.TrailerPlan, w.plan)
	add(kernel.TrailerDispatch, w.dispatch)
	add(kernel.TrailerLedgerHead, w.ledger)
	add(kernel.TrailerRun, w.run)
	add(kernel.TrailerAct, w.act)
	add(kernel.TrailerWaitingFor, w.waiting)
	add(kernel.TrailerChange, w.change)
	words := make([]string, len(w.codes))
	for i, c := range w.codes {
		words[i] = string(c)
	}
	add(kernel.TrailerCodes, strings.Join(words, " "))
	return out
}

// runTrailers are those of the live run.
func (t *Task) runTrailers(r *run) trailers {
	return trailers{
		base: r.pack.Pins.BaseCommit, attempt: r.attempt, approval: string(r.pack.Approval.Digest),
		governance: string(r.pack.Pins.Governance), dispatch: string(r.dispatchHash), plan: string(r.plan.hash),
		ledger: string(t.s.deps.Ledger.Chain().Head.Hash), act: r.act,
	}
}

// prepareStalled breaks a dead lease, or gives our own back.
func (t *Task) prepareStalled(c *cycle) (*effect, error) {
	w := trailers{
		attempt: c.facts.Head.Attempt, approval: string(c.facts.Head.Approval),
		interruptions: c.decision.Interruptions, notBefore: c.decision.NotBefore, codes: c.decision.Codes,
		act: c.facts.Head.Act, ledger: string(t.s.deps.Ledger.Chain().Head.Hash),
	}
	extra := append([]lease.Trailer{{Key: "writ-origin-state", Value: originOf(c.event)}}, w.list()...)
	msg, err := lease.Stalled(c.event, lease.Break{Extra: extra})
	if err != nil {
		return nil, err
	}
	objs := git.NewObjects()
	head := git.OID(c.facts.Head.OID)
	oid, err := t.stateCommit(objs, c.head.Tree, head, msg, c.nextDate())
	if err != nil {
		return nil, err
	}
	run := c.facts.Head.RunID
	own := t.run
	e := t.pushed(c, run, &push{
		cmds: []git.Command{{Ref: t.StateRef(), Old: head, New: oid}}, pack: objs.Pack(),
		won: func() { t.setRun(nil) },
	})
	if own == nil {
		return e, nil
	}
	return t.killFirst(e), nil
}

// killFirst makes an effect end our processes before it tells the world that
// nobody works on the task.
func (t *Task) killFirst(e *effect) *effect {
	push := e.do
	e.do = func(ctx context.Context) kernel.Outcome {
		t.kill()
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
func (t *Task) prepareHeartbeat(c *cycle) (*effect, error) {
	r := t.run
	msg, err := lease.Renew(r.event, lease.Renewal{RunID: r.id})
	if err != nil {
		return nil, err
	}
	date := lease.NextCommitterSeconds(r.date, c.clock.WallMs)
	objs := git.NewObjects()
	oid, err := t.stateCommit(objs, r.tree, r.head, msg, date)
	if err != nil {
		return nil, err
	}
	renewed := c.clock
	return t.pushed(c, r.id, &push{
		cmds: []git.Command{{Ref: t.StateRef(), Old: r.head, New: oid}}, pack: objs.Pack(),
		won: func() { t.renewed(r, oid, date, msg, renewed) },
	}), nil
}

// renewed notes a lease commit that stands. The clock is the one that was read
// before the commit was made: others count from there at the earliest.
func (t *Task) renewed(r *run, oid git.OID, date int64, msg []byte, at lease.Clock) {
	ev, err := lease.ReadEvent(lease.Head{OID: string(oid), Message: msg, CommitterSeconds: date, CommitterOK: true})
	if err != nil {
		t.log().Error("own lease can't be read back", "error", err)
		return
	}
	t.guard.Lock()
	defer t.guard.Unlock()
	r.event, r.head, r.date = ev, oid, date
	r.tenure = lease.Fence(at, t.s.cfg.LeaseSeconds, t.s.cfg.MarginSeconds)
}

// prepareAbandon ends our processes and forgets the run; nothing is pushed, for
// HEAD isn't ours any more.
func (t *Task) prepareAbandon(_ *cycle) (*effect, error) {
	r := t.run
	return &effect{
		intent: kernel.Intent{Kind: string(kernel.KindIntent), Key: "abandon:" + r.id, Effect: kernel.ActionAbandon},
		do: func(context.Context) kernel.Outcome {
			t.kill()
			t.setRun(nil)
			return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: "abandon:" + r.id, Effect: kernel.ActionAbandon, Status: kernel.OutcomeDone}
		},
	}, nil
}
