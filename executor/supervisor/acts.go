package supervisor

import (
	"context"
	"strconv"
	"time"

	"github.com/writbot/writ/kernel"
)

// Halt halts the task's kernel durably: recorded first, then no request of this
// epoch is taken any more, and nothing of the task runs. Only
// [Supervisor.Resume] opens another epoch. A lease that the task holds is not given
// back, it ends by itself: that is the part of who drives it.
func (t *Task) Halt(ctx context.Context, actor, reason string) error {
	t.kill() // first: a request may hang in the network
	if err := t.recordHalt(ctx, actor, reason); err != nil {
		return err
	}
	return t.haltKernel(actor, reason)
}

func (t *Task) recordHalt(ctx context.Context, actor, reason string) error {
	t.turn.Lock()
	defer t.turn.Unlock()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.s.act(ctx, t.number, kernel.OperatorAct{Act: kernel.ActHalt, Actor: actor, Reason: reason})
}

func (t *Task) haltKernel(actor, reason string) error {
	t.turn.Lock()
	defer t.turn.Unlock()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.machine.Halt(actor, reason, t.s.now().WallMs)
}

// halt halts the task that is driven: what runs dies, its lease is given back, so
// that nobody has to wait for it and nobody is told that the task is worked on, the
// halt is recorded, and the issue shows it, for afterwards nobody speaks for the
// task. Neither git nor the forge keeps it from being halted.
func (d *drive) halt(ctx context.Context, a Act) error {
	t := d.task
	t.kill()
	ctx = context.WithoutCancel(ctx)
	if t.run != nil || t.pending != nil {
		if err := d.handOver(ctx, kernel.RequestHalt, a.Actor); err != nil {
			t.say("the lease could not be given back, and ends by itself: %v", err)
		}
	}
	if err := t.recordHalt(ctx, a.Actor, a.Reason); err != nil {
		return err
	}
	t.haltedBy = a.Actor
	d.tellOf(ctx, a.Actor, tellMost)
	return t.haltKernel(a.Actor, a.Reason)
}

// handTime bounds the push by which a halted task is handed over.
const handTime = 10 * time.Second

func (d *drive) handOver(ctx context.Context, req kernel.Request, actor string) error {
	ctx, cancel := context.WithTimeout(ctx, handTime)
	defer cancel()
	_, err := d.task.Tick(ctx, req, actor)
	return err
}

// Halt records a durable halt of a task, whether or not it is driven; what runs
// of it here is killed first.
func (s *Supervisor) Halt(ctx context.Context, number int64, actor, reason string) error {
	for {
		var t *Task
		s.locked(func() { t = s.open[number] })
		if t != nil {
			return t.Halt(ctx, actor, reason)
		}
		if done, err := s.haltUnopened(ctx, number, actor, reason); done {
			return err
		}
	}
}

// haltUnopened halts a task that isn't open, and is not done where it was opened
// meanwhile: its kernel has to hear of it.
func (s *Supervisor) haltUnopened(ctx context.Context, number int64, actor, reason string) (done bool, err error) {
	turn := s.turn(number)
	turn.Lock()
	defer turn.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[number] != nil {
		return false, nil
	}
	return true, s.act(ctx, number, kernel.OperatorAct{Act: kernel.ActHalt, Actor: actor, Reason: reason})
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
