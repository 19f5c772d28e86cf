package supervisor

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/writbot/writ/kernel"
)

// haltAct is the act by which a person halted the task last.
func (sj *subject) haltAct(ctx context.Context) (last kernel.OperatorAct, err error) {
	err = sj.s.eachAct(ctx, sj.number, func(a kernel.OperatorAct) {
		if a.Act == kernel.ActHalt {
			last = a
		}
	}, func() {})
	return last, err
}

// halted reports whether a person halted the task in this epoch.
func (sj *subject) halted() (is bool) {
	sj.s.locked(func() { is = sj.view().Halted })
	return is
}

// handTime bounds the push by which a halted task is handed over.
const handTime = 10 * time.Second

func (d *drive) handOver(ctx context.Context, req kernel.Request, actor string) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, handTime)
	defer cancel()
	return d.task.Tick(ctx, req, actor)
}

// Halt records a durable halt of a task, whether or not it is driven; what runs
// of it here is killed first. Only [Supervisor.Resume] opens another epoch. Whoever
// looks at the task next finds it halted, and tells the issue.
func (s *Supervisor) Halt(ctx context.Context, number int64, actor, reason string) error {
	return s.haltBy(ctx, number, Act{Actor: actor, Reason: reason})
}

func (s *Supervisor) haltBy(ctx context.Context, number int64, a Act) error {
	kill := func() {
		var t *Task
		if s.locked(func() { t = s.open[number] }); t != nil {
			t.worker.kill()
		}
	}
	kill() // first: a request may hang in the network
	defer kill()
	turn := s.turn(number)
	turn.Lock()
	defer turn.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.act(ctx, number, kernel.OperatorAct{Act: kernel.ActHalt, Actor: a.Actor, Reason: a.Reason, Key: a.Key})
}

// Resume records that a person moves on: a new epoch of the task's kernel
// begins, and what stands at HEAD now (a blocked task, somebody else's commit)
// no longer keeps the task from being claimed. A task that is open here goes on
// in the new epoch.
func (s *Supervisor) Resume(ctx context.Context, number int64, actor, reason string) error {
	return s.resumeBy(ctx, number, Act{Actor: actor, Reason: reason})
}

func (s *Supervisor) resumeBy(ctx context.Context, number int64, a Act) error {
	turn := s.turn(number)
	turn.Lock()
	defer turn.Unlock()
	ref := s.cfg.RefPrefix + strconv.FormatInt(number, 10)
	refs, err := s.deps.Repo.Refs(ctx, append(append([]string{ref}, s.actsRef()...), s.baseRefs()...)...)
	if err != nil {
		return err
	}
	at := resumedAt(plain(refs.OID(ref)))
	if h, _, err := s.HeadOf(ctx, refs, s.View(number)); err == nil && h.HeldByStranger() {
		at = "" // it is for the task as it stands, and not for what comes when the lease has ended
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resume(ctx, number, kernel.OperatorAct{Actor: a.Actor, Reason: a.Reason, Key: a.Key, Head: at})
}

// resume opens the next epoch. Who takes a halt back has the last push go on that the
// server acknowledged, unless a stop came before; who moves on from HEAD without a halt
// leaves it. The task's turn and the world are held.
func (s *Supervisor) resume(ctx context.Context, number int64, a kernel.OperatorAct) error {
	if a.Key = cmp.Or(a.Key, a.ActID); s.world.Acted(number, a) {
		return nil
	}
	v := s.world.TaskView(number)
	if a.Act, a.Epoch = kernel.ActResume, v.Epoch+1; v.Halted && v.Stop == "" {
		a.Unshown = v.Unshown
	}
	if err := s.act(ctx, number, a); err != nil {
		return err
	}
	if p := s.parked[number]; p != nil && a.Unshown == "" {
		p.unseen = nil
	}
	if t := s.open[number]; t != nil {
		if a.Unshown == "" {
			t.worker.unseen = nil
		}
		return t.boot(ctx)
	}
	return nil
}
