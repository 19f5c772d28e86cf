package machine

// Reach leads along the matrix to a state in which no caller finds the machine
// otherwise, with the entries it takes.
func (m *Machine) Reach(path ...State) error {
	return m.inTurn(func() error {
		t := m.trail()
		for _, s := range path {
			t.to(s)
		}
		return t.commit()
	})
}

// Enter is the transition function alone.
func (m *Machine) Enter(to State) error { return m.enter(to) }

// Stop is a fatal error in the current state.
func (m *Machine) Stop(err error) error {
	return m.inTurn(func() error { return m.trail().stop(err) })
}

// Record has one incomplete entry recorded.
func (m *Machine) Record(to State, spoil func(*Entry)) error {
	return m.inTurn(func() error {
		t := m.trail()
		t.to(to)
		spoil(&t.entries[0])
		return t.commit()
	})
}

// Ordered reports whether a halt command waits for its turn.
func (m *Machine) Ordered() bool { return m.pending() != nil }
