package supervisor

import (
	"context"
	"errors"
	"fmt"

	"github.com/writbot/writ/compliance/pushed"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// push makes a push. What it brings is kept before, and a repair is said before, so that
// whoever is killed after it was won has both.
func (w *worker) push(ctx context.Context, p *push) git.Outcome {
	if err := w.sayRepair(ctx, p); err != nil {
		return git.Outcome{Status: git.Unable, Err: err}
	}
	w.keepPush(ctx, p)
	return w.s.deps.Repo.CompareAndSwap(ctx, p.cmds, p.pack)
}

// keepPush keeps what a push brings, for the day that the forge loses it. What can't be
// kept isn't: the push is what counts.
func (w *worker) keepPush(ctx context.Context, p *push) {
	if w.s.deps.Pushes == nil || p.action == kernel.ActionRedeliver {
		return
	}
	one := pushed.Push{Pack: p.pack.Data}
	for _, c := range p.cmds {
		one.Moves = append(one.Moves, pushed.Move{Ref: c.Ref, Old: plain(c.Old), New: plain(c.New)})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shelfTime)
	defer cancel()
	if err := w.s.deps.Pushes.Keep(ctx, w.number, w.s.now().WallMs, one); err != nil {
		w.log().Warn("a push is not kept in the store; it can't be put back from there", "error", err)
	}
}

// forgetPush forgets a push that the server didn't take. One that was lost may have gone
// through all the same, where the request was sent twice on its way. What stays by
// mistake is on no way to a commit that was seen, and ages.
func (w *worker) forgetPush(p *push, answer git.Status) {
	if w.s.deps.Pushes == nil || answer != git.Refused && answer != git.Unable {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shelfTime)
	defer cancel()
	if err := w.s.deps.Pushes.Forget(ctx, w.number, string(p.to())); err != nil {
		w.log().Warn("a push that came to nothing stays in the store", "error", err)
	}
}

// sayRepair records on the ref of the world's acts that a person moved on from a state
// that was set back, removed or somebody else's: the number of the commit that follows
// settles it for every listed installation, and the act says to all of them who looked
// at what. Where that ref refuses, the repair goes on: the ledger has the person's act.
// The error is that the server doesn't answer, as it wouldn't to the push.
func (w *worker) sayRepair(ctx context.Context, p *push) error {
	if p.repair == "" || w.s.deps.Acts == nil {
		return nil
	}
	said, err := w.resumption(ctx)
	if err != nil {
		return err
	}
	now := w.s.now().WallMs
	_, err = w.s.deps.Acts.Append(ctx, worldref.Act{
		Act: worldref.Repair, Actor: said.Actor, Time: now,
		// The epoch tells this repair from an earlier one of the same, for another reason
		// is another act.
		Reason: fmt.Sprintf("task %d, resume %d: %s", w.number, said.Epoch, said.Reason),
		Refs:   []worldref.Mark{{Ref: p.cmds[0].Ref, Head: p.repair}},
	}, worldref.Writer{Signer: w.s.deps.Signer, Name: w.s.cfg.Name, Email: w.s.cfg.Email})
	if err == nil && w.s.deps.Fault != nil {
		w.s.deps.Fault(RepairSaid)
	}
	var refused *worldref.Error
	if errors.As(err, &refused) && refused.Code != kernel.CodeForgeUnreachable {
		w.log().Warn("a repair is not recorded on the ref of the world's acts", "ref", w.s.deps.Acts.Ref(), "code", string(refused.Code), "error", refused.Detail)
		return nil
	}
	return err
}

// resumption is the last act by which a person moved on.
func (w *worker) resumption(ctx context.Context) (last kernel.OperatorAct, err error) {
	err = w.s.eachAct(ctx, w.number, func(a kernel.OperatorAct) {
		if a.Act == kernel.ActResume {
			last = a
		}
	}, func() {})
	return last, err
}

// eachAct goes through what persons did to a task, and through the looks at it between.
func (s *Supervisor) eachAct(ctx context.Context, number int64, act func(kernel.OperatorAct), look func()) error {
	for r, err := range s.deps.Ledger.RecordsOfTask(ctx, number) {
		if err != nil {
			return err
		}
		switch r.Kind {
		case kernel.KindObservation:
			look()
		case kernel.KindOperatorAct:
			var a kernel.OperatorAct
			if err := canon.UnmarshalCanonical(r.Body, &a); err != nil {
				return err
			}
			act(a)
		}
	}
	return nil
}

// PutBack records that a person puts the commit that was seen last back onto the task's
// ref, after the forge lost it. Said again before anybody looked, it is the same act.
func (s *Supervisor) PutBack(ctx context.Context, number int64, actor, reason string) error {
	turn := s.turn(number)
	turn.Lock()
	defer turn.Unlock()
	head, said := s.View(number).Seen, false
	err := s.eachAct(ctx, number, func(a kernel.OperatorAct) { said = a.Act == kernel.ActPutBack && a.Head == head }, func() { said = false })
	if err != nil || said {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.act(ctx, number, kernel.OperatorAct{Act: kernel.ActPutBack, Actor: actor, Reason: reason, Head: head})
}
