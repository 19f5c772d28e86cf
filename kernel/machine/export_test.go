package machine

// Enter is the transition function alone.
func (m *Machine) Enter(to State) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.enter(to)
}

// Record has one incomplete entry handed out.
func (m *Machine) Record(spoil func(*Entry)) (Ready, error) {
	return m.step(Validating, []State{Idle}, func() error {
		e := Entry{
			Kind: entryKind, V: entryVersion, Kernel: m.kernel, Epoch: m.epoch, Time: m.now,
			StateFrom: m.state.String(), StateTo: Validating.String(),
		}
		spoil(&e)
		return m.chained(e)
	})
}
