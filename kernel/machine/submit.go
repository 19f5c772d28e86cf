package machine

import (
	"bytes"
	"errors"
	"slices"

	"github.com/writbot/writ/kernel/canon"
)

// operation is what is known of the request under way, or of a boot or halt.
type operation struct {
	request  *Request
	actor    string
	params   *canon.Digest
	decision Decision
	tool     *ToolCall
	result   *Result
	faults   []Fault
	fault    *Fault
	summary  string
	failed   error    // of the effect, ordinary
	err      error    // what halted the machine
	ended    *Receipt // of the request that ended before the halt under way
}

// Submit takes a request, from IDLE to VALIDATING, and checks what each request must
// have: one that has faults goes on to AUDITING. In any other state, and while a halt is
// under way, it returns a [*StateError] and nothing was changed ([ErrBusy], [ErrHalted]).
func (m *Machine) Submit(req Request) (Ready, error) {
	return m.step(Validating, []State{Idle}, func() error {
		m.now = max(m.now, req.Now)
		req.Params = bytes.Clone(req.Params)
		m.op = operation{request: &req, actor: req.Actor, params: digest(req.Params)}
		if err := m.through(Validating); err != nil {
			return err
		}
		return m.denyFor(req.malformed())
	})
}

// Validated says what is wrong with the request that was validated: nothing leads to
// ARBITRATING, anything to AUDITING with DENY. A request other than the submitted one is
// fatal, with [CodeRequestModified].
func (m *Machine) Validated(req Request, faults []Fault) (Ready, error) {
	return m.step(Arbitrating, []State{Validating}, func() error {
		switch {
		case !req.is(*m.op.request):
			return m.stop(modified("validation"))
		case m.order != nil:
			return m.obey()
		case len(faults) > 0:
			return m.denyFor(faults)
		}
		return m.through(Arbitrating)
	})
}

// denyFor leads to AUDITING if there are faults.
func (m *Machine) denyFor(faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	m.op.faults = slices.Clone(faults)
	m.op.decision, m.op.summary = Deny, "denied: the request is not valid"
	return m.finish()
}

// Decided gives the verdict on the request that was decided on: ALLOW with an effect leads
// to EXECUTING, ALLOW without one and DENY to AUDITING, HALT to HALTED for good. A verdict
// that is malformed and a request other than the submitted one are fatal.
func (m *Machine) Decided(req Request, v Verdict) (Ready, error) {
	return m.step(Executing, []State{Arbitrating}, func() error {
		if !req.is(*m.op.request) {
			return m.stop(modified("arbitration"))
		}
		if err := v.check(); err != nil {
			return m.stop(&FatalError{CodeVerdictMalformed, err})
		}
		m.op.decision, m.op.faults, m.op.summary = v.Decision, slices.Clone(v.Faults), v.Summary
		if v.Tool != nil {
			m.op.tool = &ToolCall{Name: v.Tool.Name, Key: v.Tool.Key, Params: bytes.Clone(v.Tool.Params)}
		}
		switch {
		case m.order != nil:
			return m.obey()
		case v.Decision == Halt:
			return m.halt(HaltDurable)
		case v.Tool != nil:
			return m.hand(Executing, nil)
		}
		return m.finish()
	})
}

// modified: nobody may change a request while it is judged.
func modified(by string) error {
	return &FatalError{CodeRequestModified, errors.New(by + " was of another request than the submitted one")}
}

// Executed says what came of the effect, which leads to AUDITING. A [*PanicError] and an
// error that is [Fatal] lead to HALTED. An error's text is recorded, so it holds no secret;
// if it has a method Fault() Fault, that is what is recorded.
func (m *Machine) Executed(result Result, failed error) (Ready, error) {
	return m.step(Auditing, []State{Executing}, func() error {
		if caught := (*PanicError)(nil); errors.As(failed, &caught) {
			return m.stop(failed)
		}
		m.op.result = &result
		if result.Summary != "" {
			m.op.summary = result.Summary
		}
		if fatal := (*FatalError)(nil); errors.As(failed, &fatal) {
			return m.stop(failed)
		}
		if failed != nil {
			m.op.failed, m.op.fault = failed, faultOf(failed, CodeEffectFailed, m.op.tool.Name)
		}
		if m.order != nil {
			return m.obey()
		}
		return m.finish()
	})
}

// finish leads to AUDITING, and hands out the entry that closes the request.
func (m *Machine) finish() error {
	if err := m.through(Auditing); err != nil {
		return err
	}
	return m.hand(Idle, nil)
}

// receipt says how the operation ended.
func (m *Machine) receipt() *Receipt {
	op := &m.op
	if op.ended != nil {
		r := *op.ended
		r.To, r.Time, r.Entry, r.Err = m.state, m.now, m.chain.hash, joined(r.Err, op.err)
		return &r
	}
	r := &Receipt{
		Status: Accepted, Decision: op.decision, To: m.state,
		Time: m.now, Faults: op.faults, Err: joined(op.failed, op.err), Entry: m.chain.hash,
	}
	if op.request != nil {
		r.RequestID, r.From = op.request.ID, Idle
	}
	if op.result != nil {
		r.Result = *op.result
	}
	switch {
	case r.Err != nil:
		r.Status = Failed
	case r.Decision == Deny:
		r.Status = Rejected
	}
	return r
}
