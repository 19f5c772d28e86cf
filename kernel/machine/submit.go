package machine

import (
	"bytes"
	"errors"
	"slices"

	"github.com/writbot/writ/kernel/canon"
)

// Submit handles one request from IDLE back to IDLE, or to HALTED, and says in
// the receipt what became of it. It waits while another request has the turn,
// but not while an effect call is out: then, and in BOOTING and HALTED, it
// returns a [*StateError] and nothing was changed ([ErrBusy], [ErrHalted]).
//
// A DENY, a HALT decision and an ordinary error of the effect are outcomes; the
// error is nil. It is not nil if the machine was halted under the request, by a
// [*PanicError], a [*FatalError], an [*AuditError] or a command ([ErrHalted]).
func (m *Machine) Submit(req Request) (Receipt, error) {
	if s := m.State(); s == Executing || s == Booting || s == Halted {
		return Receipt{}, &StateError{From: s, To: Validating}
	}
	var r Receipt
	err := m.inTurn(func() (err error) {
		if s := m.State(); !Allowed(s, Validating) {
			return &StateError{From: s, To: Validating}
		}
		r, err = m.handle(req)
		return err
	})
	return r, err
}

func (m *Machine) handle(req Request) (Receipt, error) {
	m.tick(req.Now)
	req.Params = bytes.Clone(req.Params)
	t := m.trail()
	t.request, t.actor, t.params = &req, req.Actor, digest(req.Params)
	err := t.judge()
	if err == nil && t.State() == Executing {
		err = t.execute()
	}
	return t.receipt(err), err
}

// judge is the pure part: validation, arbitration, and their entries in one
// Append.
func (t *trail) judge() error {
	t.to(Validating)
	t.faults = t.request.malformed()
	if len(t.faults) == 0 {
		if err := t.validate(); err != nil {
			return t.stop(err)
		}
	}
	if o := t.pending(); o != nil {
		return t.cutOff(o)
	}
	if len(t.faults) > 0 {
		t.decision, t.summary = Deny, "denied: the request is not valid"
		return t.finish()
	}
	t.to(Arbitrating)
	if err := t.arbitrate(); err != nil {
		return t.stop(err)
	}
	if o := t.pending(); o != nil {
		return t.cutOff(o)
	}
	switch {
	case t.decision == Halt:
		return t.halt(HaltDurable)
	case t.tool != nil:
		t.to(Executing)
		return t.commit()
	}
	return t.finish()
}

// finish leads through AUDITING to IDLE.
func (t *trail) finish() error {
	t.to(Auditing)
	t.to(Idle)
	return t.commit()
}

// stop halts because of an error of the machine or its handler.
func (t *trail) stop(err error) error {
	t.fault = faultOf(err, CodeFatal, t.at.String())
	return joined(err, t.halt(HaltProcess))
}

// cutOff halts by a command that came under the request.
func (t *trail) cutOff(o *order) error {
	return joined(&StateError{From: Halted, To: Auditing}, t.obey(o))
}

func (t *trail) validate() error {
	if err := protect("Validate", func() { t.faults = slices.Clone(t.handler.Validate(*t.request)) }); err != nil {
		return err
	}
	return t.unmodified("Validate")
}

func (t *trail) arbitrate() error {
	var v Verdict
	if err := protect("Arbitrate", func() { v = t.handler.Arbitrate(*t.request) }); err != nil {
		return err
	}
	if err := t.unmodified("Arbitrate"); err != nil {
		return err
	}
	if err := v.check(); err != nil {
		return &FatalError{CodeVerdictMalformed, err}
	}
	t.decision, t.faults, t.summary = v.Decision, slices.Clone(v.Faults), v.Summary
	if v.Tool != nil {
		t.tool = &ToolCall{Name: v.Tool.Name, Key: v.Tool.Key, Params: bytes.Clone(v.Tool.Params)}
	}
	return nil
}

// unmodified: the handler has the request by value, but its parameters by
// reference.
func (t *trail) unmodified(where string) error {
	if t.params == nil || canon.Sum(t.request.Params) == *t.params {
		return nil
	}
	return &FatalError{CodeRequestModified, errors.New(where + " changed the request's parameters")}
}

// execute runs the effect. The machine is in EXECUTING.
func (t *trail) execute() error {
	if o := t.pending(); o != nil {
		return t.cutOff(o)
	}
	var result Result
	var failed error
	caught := protect("Execute", func() { result, failed = t.handler.Execute(*t.tool) })
	if caught != nil {
		return t.stop(caught)
	}
	t.result = &result
	if result.Summary != "" {
		t.summary = result.Summary
	}
	if fatal := (*FatalError)(nil); errors.As(failed, &fatal) {
		return t.stop(failed)
	}
	if failed != nil {
		t.failed = failed
		t.fault = faultOf(failed, CodeEffectFailed, t.tool.Name)
	}
	if o := t.pending(); o != nil {
		return t.cutOff(o)
	}
	return t.finish()
}

// receipt says what became of the request.
func (t *trail) receipt(err error) Receipt {
	s := t.Snapshot()
	r := Receipt{
		RequestID: t.request.ID, Status: Accepted, Decision: t.decision, From: Idle, To: s.State,
		Time: s.Time, Faults: t.faults, Err: joined(t.failed, err), Entry: s.Last,
	}
	if t.result != nil {
		r.Result = *t.result
	}
	switch {
	case r.Err != nil:
		r.Status = Failed
	case r.Decision == Deny:
		r.Status = Rejected
	}
	return r
}
