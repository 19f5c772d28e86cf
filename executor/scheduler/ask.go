package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/writbot/writ/kernel"
)

// Ask asks an act of a task. A stop or a halt of a task that is driven first kills
// what it runs, on a goroutine of its own, and hands the act over; then the act
// is stored, and the task is due. It returns when both are done, or when ctx
// ends: the kill goes on then.
//
// An error is the store's, and the act may not survive a restart, or that of ctx.
// What was to be killed is killed all the same. Where the drive has left no
// function with [Job.OnKill] there is no kill to wait for.
func (s *Scheduler) Ask(ctx context.Context, k Key, kind, actor, reason string) error {
	o := &order{
		act:    Act{ID: s.o.NewID(), Kind: kind, Actor: actor, Reason: reason},
		done:   make(chan error, 1),
		stored: make(chan struct{}),
		fresh:  true,
	}
	killed := s.reach(k, o)
	err := within(ctx, func(ctx context.Context) error { return s.notes.Add(ctx, k, o.act) })
	close(o.stored)
	if err == nil {
		err = within(ctx, func(ctx context.Context) error { return s.schedule.Mark(ctx, k, time.Now().UnixMilli()) })
	}
	stored := err == nil
	s.putFirst(k)
	select {
	case <-killed:
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	s.log.Info("a person's act", "world", k.World, "task", k.Task, "act", kind, "actor", actor, "stored", stored)
	return err
}

// reach hands the act to the drive of the task and begins the kill it asks for. The
// channel is closed when nothing is left to wait for.
func (s *Scheduler) reach(k Key, o *order) <-chan struct{} {
	killed := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.running[k]
	if j == nil || j.over {
		close(killed)
		return killed
	}
	j.hand(o)
	if o.act.Kind != kernel.ActStop && o.act.Kind != kernel.ActHalt {
		close(killed)
		return killed
	}
	go func() {
		defer close(killed)
		j.kill()
	}()
	return killed
}

// maxUrgent bounds the list of tasks that go first; a task beyond it is due all
// the same.
const maxUrgent = 1024

// putFirst has a task with an act started before the others that are due.
func (s *Scheduler) putFirst(k Key) {
	s.mu.Lock()
	if len(s.urgent) < maxUrgent {
		s.urgent = append(s.urgent, k)
	}
	s.mu.Unlock()
	s.Nudge()
}
