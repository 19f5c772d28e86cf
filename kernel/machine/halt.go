package machine

import "errors"

// order is a halt command.
type order struct {
	actor, reason string
	now           int64
	taken         bool // a request has carried it out
	err           error
}

// Halt leads from any state but HALTED to HALTED, for good: the entry is a
// durable halt by actor. While an effect call is out it calls Cancel and waits
// for the call to return; a request under way is cut off at its next step. Now
// is the wall clock in Unix milliseconds.
//
// It returns nil once the machine is HALTED by this command and the entry is
// acknowledged, an [*AuditError] if there is no entry, and a [*StateError] that
// is [ErrHalted] if something else halted the machine before.
func (m *Machine) Halt(actor, reason string, now int64) error {
	o := &order{actor: actor, reason: reason, now: now}
	at := m.post(o)
	if at == Halted {
		return &StateError{From: Halted, To: Halted}
	}
	var failed error
	if at == Executing && m.cancel != nil {
		failed = protect("Cancel", m.cancel)
	}
	err := m.inTurn(func() error {
		m.withdraw(o)
		switch {
		case o.taken:
			return o.err
		case m.State() == Halted:
			return &StateError{From: Halted, To: Halted}
		}
		return m.trail().obey(o)
	})
	return joined(err, failed)
}

// post leaves the order where a running request finds it, and says in which
// state the machine is. A second order waits for its turn like a request.
func (m *Machine) post(o *order) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.order == nil && m.state != Halted {
		m.order = o
	}
	return m.state
}

func (m *Machine) withdraw(o *order) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.order == o {
		m.order = nil
	}
}

// pending is the order that waits, or nil.
func (m *Machine) pending() *order {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.order
}

// obey halts durably by a person's order.
func (t *trail) obey(o *order) error {
	o.taken = true
	t.tick(o.now)
	t.actor = o.actor
	detail := o.reason
	if t.fault != nil {
		detail += "; before that, " + t.fault.Code + ": " + t.fault.Detail
	}
	t.fault = &Fault{Code: CodeHalted, Subject: t.at.String(), Detail: detail}
	o.err = t.halt(HaltDurable)
	return o.err
}

// joined is both errors, or the one there is.
func joined(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return errors.Join(a, b)
}
