package supervisor

import (
	"context"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

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
	late, work, err := w.sealLate(&c.observation, objs, c.inputs, c.unpushed)
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

const (
	// lagSoon is how long a claim waits at most [outageFar] after one whose lease couldn't
	// be kept, and lagFar the wait after that: each costs the server two pushes.
	lagSoon = time.Hour
	lagFar  = 10 * time.Minute
)

// lagged counts leases in a row that ended because the server showed too late what was
// pushed for them: a replica that lags by more than a renewal takes. Nothing is counted
// against the task, and the next claim waits ever longer, as any try at a server that
// can't.
type lagged struct {
	n            int
	began, until int64 // Clock.BootMs
}

// gaveUp forgets a run that ended without a result.
func (w *worker) gaveUp(r *run) {
	if r != nil && r.hidden {
		l, now := &w.lagged, w.s.now().BootMs
		if l.n++; l.n == 1 {
			l.began = now
		}
		wait := outageWait(l.n)
		if now-l.began > lagSoon.Milliseconds() {
			wait = lagFar
		}
		l.until = now + w.s.cfg.LeaseSeconds*1000 + wait.Milliseconds() // nobody can claim before the lease ends
		w.say("the server shows too late what was pushed for a lease to be renewed in time: the next claim waits %s", wait)
	}
	w.setRun(nil)
}
