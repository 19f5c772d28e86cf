package supervisor

import (
	"context"
	"strconv"

	"github.com/writbot/writ/kernel"
)

// Halt halts the task's kernel durably: recorded first, then no request of this
// epoch is taken any more, and nothing of the task runs. Only
// [Supervisor.Resume] opens another epoch. The lease is not given back; it ends
// by itself.
func (t *Task) Halt(ctx context.Context, actor, reason string) error {
	t.kill() // first: a request may hang in the network
	t.turn.Lock()
	defer t.turn.Unlock()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	now := t.s.now().WallMs
	if err := t.s.act(ctx, t.number, kernel.OperatorAct{Act: kernel.ActHalt, Actor: actor, Reason: reason}); err != nil {
		return err
	}
	return t.machine.Halt(actor, reason, now)
}

// Halt records a durable halt of a task, whether or not it is driven; what runs
// of it here is killed first.
func (s *Supervisor) Halt(ctx context.Context, number int64, actor, reason string) error {
	var t *Task
	s.locked(func() { t = s.open[number] })
	if t != nil {
		return t.Halt(ctx, actor, reason)
	}
	turn := s.turn(number)
	turn.Lock()
	defer turn.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.act(ctx, number, kernel.OperatorAct{Act: kernel.ActHalt, Actor: actor, Reason: reason})
}

// Resume records that a person moves on: a new epoch of the task's kernel
// begins, and what stands at HEAD now (a blocked task, somebody else's commit)
// no longer keeps the task from being claimed. A task that is open here goes on
// in the new epoch.
func (s *Supervisor) Resume(ctx context.Context, number int64, actor, reason string) error {
	turn := s.turn(number)
	turn.Lock()
	defer turn.Unlock()
	ref := s.cfg.RefPrefix + strconv.FormatInt(number, 10)
	refs, err := s.deps.Repo.Refs(ctx, ref)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resume(ctx, number, kernel.OperatorAct{Actor: actor, Reason: reason, Head: plain(refs.OID(ref))})
}

// resume opens the next epoch. The task's turn and the world are held.
func (s *Supervisor) resume(ctx context.Context, number int64, a kernel.OperatorAct) error {
	a.Act, a.Epoch = kernel.ActResume, s.world.TaskView(number).Epoch+1
	if err := s.act(ctx, number, a); err != nil {
		return err
	}
	if t := s.open[number]; t != nil {
		return t.boot(ctx)
	}
	return nil
}

func (s *Supervisor) act(ctx context.Context, number int64, a kernel.OperatorAct) error {
	a.Kind = string(kernel.KindOperatorAct)
	return s.write(ctx, s.now().WallMs, []kernel.Draft{{Kind: kernel.KindOperatorAct, Task: number, Body: a}}, true)
}
