package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/world"
)

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
