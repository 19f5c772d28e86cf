package machine

// order is a halt command.
type order struct {
	actor, reason string
	now           int64
}

// Halt leads from any state but HALTED to HALTED, for good: the entry is a durable halt by
// actor. Now is the wall clock in Unix milliseconds.
//
// In BOOTING and IDLE its entries are handed out here. While a request is under way, that
// is cut off at its next step, whose caller gets them, and this Ready is empty: whoever
// halts may make an effect that is out return. In HALTED, and while another halt is under
// way, it is a [*StateError].
func (m *Machine) Halt(actor, reason string, now int64) (Ready, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == Halted || m.order != nil {
		return Ready{}, &StateError{From: m.state, To: Halted}
	}
	m.order = &order{actor, reason, now}
	if m.due() || m.state != Booting && m.state != Idle {
		return Ready{}, nil
	}
	m.op = operation{}
	if err := m.obey(); err != nil {
		m.lost(err)
	}
	return m.ready(), nil
}

// obey halts durably by a person's order.
func (m *Machine) obey() error {
	o, op := m.order, &m.op
	m.now = max(m.now, o.now)
	op.actor = o.actor
	detail := o.reason
	if op.fault != nil {
		detail += "; before that, " + op.fault.Code + ": " + op.fault.Detail
	}
	op.fault = &Fault{Code: CodeHalted, Subject: m.state.String(), Detail: detail}
	if op.request != nil {
		op.err = &StateError{From: Halted, To: Auditing}
	}
	return m.halt(HaltDurable)
}

// stop halts because of an error after which nothing can go on.
func (m *Machine) stop(err error) error {
	m.op.err = err
	m.op.fault = faultOf(err, CodeFatal, m.state.String())
	return m.halt(HaltProcess)
}

// halt hands out the entry into HALTED. While BOOTING, the request that the process
// before left unfinished comes first.
func (m *Machine) halt(cause HaltCause) error {
	if err := m.closeCrashed(); err != nil {
		return err
	}
	return m.hand(Halted, &cause)
}
