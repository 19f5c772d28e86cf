package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/world"
)

// haltKernel ends the kernel of a task that is halted, once its issue is told: in this
// epoch nothing more is written of it and no command answered, here or in another process.
func (t *Task) haltKernel(ctx context.Context) error {
	a, err := t.haltAct(ctx)
	if err != nil {
		return err
	}
	t.turn.Lock()
	defer t.turn.Unlock()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if !t.view().Halted {
		return nil // resumed while its issue was told: another kernel's epoch
	}
	next, err := t.machine.Halt(a.Actor, a.Reason, t.s.now().WallMs)
	return t.finish(ctx, next, err)
}

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

// halt halts the task that is driven: what runs dies, its lease is given back, so
// that nobody has to wait for it and nobody is told that the task is worked on, and the
// halt is recorded. Neither git nor the forge keeps it from being halted. The looks that
// follow tell the issue, and give back what could not be given back, until when the
// kernel isn't at its end.
func (d *drive) halt(ctx context.Context, a Act) error {
	t := d.task
	t.worker.kill()
	ctx = context.WithoutCancel(ctx)
	if t.worker.run != nil || t.worker.pending != nil {
		if _, err := d.handOver(ctx, kernel.RequestHalt, a.Actor); err != nil {
			t.say("the lease could not be given back yet: %v", err)
		}
	}
	if err := t.s.haltBy(ctx, t.number, a); err != nil {
		return err
	}
	t.worker.setRun(nil) // nothing of it runs, though its lease may stand until it is given back
	return t.recordKilled(ctx)
}

// handBack gives back the lease that a halted task still has, of a process that died or of
// a push that failed, so that nothing that is still under way of it can win any more. While
// the server can't, it is tried again by the looks that follow, in this process or the next.
// A lease that a rule keeps there ends by itself.
func (d *drive) handBack(ctx context.Context) {
	t, now := d.task, d.task.s.now().WallMs
	if d.handed || t.worker.run != nil || !t.halted() {
		d.handAt = 0
		return
	}
	if now < d.handAt {
		return
	}
	a, err := t.haltAct(ctx)
	st := Status{}
	if err == nil {
		st, err = d.handOver(ctx, kernel.RequestHalt, a.Actor)
	}
	if d.handed = err == nil && (st.Outcome == nil || st.Outcome.Status == kernel.OutcomeDone || st.Outcome.Status == kernel.OutcomeRefused); d.handed {
		d.handAt = 0
		return
	}
	d.handAt = now + outageFar.Milliseconds()
	if err == nil {
		err = errors.New(st.Outcome.Detail)
	}
	t.say("the lease of the halted task could not be given back yet: %v", err)
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

// act has a person's act handled as the request that it is, by the kernel of its task. A
// resume is the first request of the epoch that it opens. A kernel at its end takes no request
// any more: what else a person does to such a task is a request to the kernel of the world, as
// is what concerns no task. The task's turn and the world are held.
func (s *Supervisor) act(ctx context.Context, number int64, a kernel.OperatorAct) error {
	a.Kind, a.Round = string(kernel.KindOperatorAct), s.world.Begin(s.now().WallMs).Number()
	if s.world.Acted(number, a) {
		return nil // it has its first answer, and no effect
	}
	a.Key = cmp.Or(a.Key, s.deps.NewRunID())
	if a.Act == kernel.ActHalt {
		s.outage.leave(number) // it doesn't wait for the server any more
	}
	body, err := canon.Seal(a)
	if err != nil {
		return err
	}
	said := kernel.Draft{Kind: kernel.KindOperatorAct, Task: number, Body: body}
	now := max(s.now().WallMs, s.deps.Ledger.Chain().Time)
	m, of, err := s.kernelFor(ctx, number, a, now)
	if err != nil {
		return err
	}
	digest := body.Hash()
	req := machine.Request{ID: a.Act + ":" + string(digest), Actor: a.Actor, Intent: a.Act, Evidence: digest, Now: now}
	own := []kernel.Draft{said}
	next, err := m.Submit(req)
	if err == nil && next.Entries == nil {
		faults := s.actFaults(now, said, digest)
		if of == theWorld && len(faults) > 0 {
			return refusedAct(a.Act, number, faults) // of what concerns all, only what counts is recorded
		}
		next, err = m.Validated(req, faults)
	}
	if err == nil && next.Entries == nil {
		next, err = m.Decided(req, machine.Verdict{Decision: machine.Allow, Summary: a.Act})
	} else {
		own = nil // it is denied
	}
	next, err = recorded(m, next, err, func(out machine.Ready) error {
		drafts := slices.Concat(own, audited(of, "", out))
		own = nil
		return s.write(ctx, now, drafts, true)
	})
	switch {
	case err != nil:
		return err
	case next.Receipt.Status == machine.Rejected:
		return refusedAct(a.Act, number, next.Receipt.Faults)
	}
	return next.Receipt.Err
}

func refusedAct(act string, number int64, faults []machine.Fault) error {
	return fmt.Errorf("supervisor: %s of task %d was refused: %s", act, number, faults[0].Detail)
}

// actFaults says why the world would not take an act: it is tried on a round that is
// dropped.
func (s *Supervisor) actFaults(now int64, said kernel.Draft, digest canon.Digest) []machine.Fault {
	fault := func(code kernel.Code, detail string) []machine.Fault {
		return []machine.Fault{{Code: string(code), Subject: string(said.Kind), Detail: detail}}
	}
	r := s.world.Begin(now)
	var broken *world.Error
	if err := r.Observe(said); errors.As(err, &broken) {
		return fault(broken.Code, err.Error())
	}
	acts := r.Actions()
	results, err := r.AcceptActions(acts)
	if errors.As(err, &broken) {
		return fault(broken.Code, err.Error())
	}
	for i, a := range acts {
		if a.Code == digest && results[i].Error != nil {
			return fault(*results[i].Error, results[i].Error.Info().Meaning)
		}
	}
	return nil
}

// theWorld is the number that the kernel of the world has, where a task has its own.
const theWorld = 0

// kernelFor is the kernel that handles an act, and whose it is: that of the task that is
// open, one that is booted for it, or that of the world.
func (s *Supervisor) kernelFor(ctx context.Context, number int64, a kernel.OperatorAct, now int64) (m *machine.Machine, of int64, err error) {
	if a.Global() {
		m, err = s.worldKernel(now)
		return m, theWorld, err
	}
	epoch := s.world.TaskView(number).Epoch
	if t := s.open[number]; t != nil && a.Act != kernel.ActResume && t.machine.State() == machine.Idle {
		return t.machine, number, nil
	}
	if a.Act == kernel.ActResume {
		epoch = a.Epoch
	}
	m, err = s.boot(ctx, number, epoch, func(*machine.Machine) {})
	if errors.Is(err, machine.ErrHalted) {
		m, err = s.worldKernel(now)
		return m, theWorld, err
	}
	return m, number, err
}

// worldKernel boots the kernel of the world. Each of its requests is one append, so that none
// is ever left in the middle.
func (s *Supervisor) worldKernel(now int64) (*machine.Machine, error) {
	epoch := s.world.Epoch()
	m, err := machine.New(machine.Config{
		Kernel: kernel.MachineOf(s.cfg.World, theWorld), Epoch: epoch, Now: now, LastEntry: s.world.LastEntry(theWorld, epoch),
	})
	if err != nil {
		return nil, err
	}
	_, err = m.Booted(nil)
	return m, err
}
