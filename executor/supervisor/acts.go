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
	t.kill() // first: a push may hang and hold the lock
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	now := t.s.now().WallMs
	if err := t.s.act(ctx, t.number, kernel.OperatorAct{Act: kernel.ActHalt, Actor: actor, Reason: reason}); err != nil {
		return err
	}
	return t.machine.Halt(actor, reason, now)
}

// Halt records a durable halt of a task that no process drives.
func (s *Supervisor) Halt(ctx context.Context, number int64, actor, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.act(ctx, number, kernel.OperatorAct{Act: kernel.ActHalt, Actor: actor, Reason: reason})
}

// Resume records that a person moves on: a new epoch of the task's kernel
// begins, and what stands at HEAD now (a blocked task, somebody else's commit)
// no longer keeps the task from being claimed.
func (s *Supervisor) Resume(ctx context.Context, number int64, actor, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := s.cfg.RefPrefix + strconv.FormatInt(number, 10)
	refs, err := s.deps.Repo.Refs(ctx, ref)
	if err != nil {
		return err
	}
	return s.act(ctx, number, kernel.OperatorAct{
		Act: kernel.ActResume, Actor: actor, Reason: reason,
		Epoch: s.world.TaskView(number).Epoch + 1, Head: plain(refs.OID(ref)),
	})
}

func (s *Supervisor) act(ctx context.Context, number int64, a kernel.OperatorAct) error {
	a.Kind = string(kernel.KindOperatorAct)
	return s.write(ctx, s.now().WallMs, []kernel.Draft{{Kind: kernel.KindOperatorAct, Task: number, Body: a}}, true)
}
