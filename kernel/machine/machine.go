package machine

import (
	"slices"
	"sync"

	"github.com/writbot/writ/kernel/canon"
)

// Config makes a machine.
type Config struct {
	// Kernel and Epoch (0 or more) identify the chain of entries.
	Kernel string
	Epoch  int64
	// Now is the wall clock in Unix milliseconds.
	Now int64
	// LastEntry is the last acknowledged entry of this kernel and epoch, nil
	// if there is none. The chain, the clock, and a request that was left
	// unfinished go on from it.
	LastEntry *Entry
}

// position is a place in the chain: an entry's number and hash.
type position struct {
	seq  int64
	hash canon.Digest
}

// Machine is one kernel's state machine. Its methods may be called from
// anywhere; each is one step, and none waits for another's request.
type Machine struct {
	kernel  string
	epoch   int64
	genesis canon.Digest

	mu      sync.Mutex // held for one step
	state   State
	now     int64
	changes int64
	chain   position // the last acknowledged entry
	// out are the entries that were handed out since, the last one at end.
	out    []Entry
	sealed []canon.Sealed // the same
	end    position
	// unfinished is the last entry of a process that ended under a request.
	unfinished *Entry
	// order is a halt command that waits for the next step of a request.
	order *order
	op    operation
}

// Ready is what the caller of a machine does next: entries, a call or a receipt. With none,
// the state says what is to be done: to validate, or to decide.
type Ready struct {
	// Entries are to be made durable, all or none, and then [Machine.Recorded] told.
	Entries []Entry
	// Sealed are the same with the bytes that the chain is made of.
	Sealed []canon.Sealed
	// Call is the one effect to be run. What came of it goes to [Machine.Executed].
	Call *ToolCall
	// Receipt says how it ended: the machine is IDLE, or HALTED.
	Receipt *Receipt
}

// Snapshot is a copy of what a machine knows about itself.
type Snapshot struct {
	Kernel string
	Epoch  int64
	State  State
	// Time is the virtual clock's, in Unix milliseconds.
	Time int64
	// Seq and Last are the number and hash of the last acknowledged entry, 0
	// and Genesis if there is none.
	Seq     int64
	Last    canon.Digest
	Genesis canon.Digest
	// Changes counts this machine's changes of state.
	Changes int64
}

// New makes a machine in BOOTING. It fails with a [*ConfigError] if something
// is missing or LastEntry is of another chain, and with a [*StateError] that is
// [ErrHalted] if this epoch ended in a durable halt.
func New(c Config) (*Machine, error) {
	if c.Kernel == "" || c.Epoch < 0 {
		return nil, &ConfigError{"a machine needs a kernel id and an epoch"}
	}
	genesis, err := Genesis(c.Kernel, c.Epoch)
	if err != nil {
		return nil, &ConfigError{"kernel id or epoch can't be hashed: " + err.Error()}
	}
	start := position{0, genesis}
	m := &Machine{kernel: c.Kernel, epoch: c.Epoch, genesis: genesis, chain: start, end: start, now: max(c.Now, 0)}
	if c.LastEntry != nil {
		if err := m.resume(*c.LastEntry); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// resume continues the chain after the last entry of the machine before.
func (m *Machine) resume(last Entry) error {
	if err := last.Check(); err != nil || last.Kernel != m.kernel || last.Epoch != m.epoch {
		return &ConfigError{"the last entry is not one of this kernel and epoch"}
	}
	hash, err := last.Digest()
	if err != nil {
		return &ConfigError{"the last entry can't be hashed: " + err.Error()}
	}
	m.chain, m.now = position{last.Seq, hash}, max(m.now, last.Time)
	m.end = m.chain
	switch _, at, _ := last.transition(); {
	case at == Halted && *last.Halt == HaltDurable:
		return &StateError{From: Halted, To: Booting}
	case at != Halted && at != Idle:
		m.unfinished = &last
	}
	return nil
}

// State is the current state. It never waits for a request.
func (m *Machine) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Snapshot is a consistent copy. It never waits for a request.
func (m *Machine) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Snapshot{
		Kernel: m.kernel, Epoch: m.epoch, State: m.state, Time: m.now,
		Seq: m.chain.seq, Last: m.chain.hash, Genesis: m.genesis, Changes: m.changes,
	}
}

// enter is the transition function, the only way to another state. It refuses
// what the matrix doesn't have, with a [*StateError].
func (m *Machine) enter(to State) error {
	if !Allowed(m.state, to) {
		return &StateError{From: m.state, To: to}
	}
	m.state = to
	m.changes++
	return nil
}

// through hands out the entry of a change and then makes it: of the changes whose
// entries share an append with one that comes later.
func (m *Machine) through(to State) error {
	if err := m.hand(to, nil); err != nil {
		return err
	}
	return m.enter(to)
}

// due reports whether the last entry that was handed out tells of a change that waits
// for it to be acknowledged. While BOOTING it may be of the machine before.
func (m *Machine) due() bool {
	return len(m.out) > 0 && m.out[len(m.out)-1].StateTo != m.state.String()
}

// step is one call of a method, in the states in which it is due: on to the state that
// it leads to. If an entry can't be made, the machine is HALTED without one.
func (m *Machine) step(to State, in []State, f func() error) (Ready, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(in, m.state) || m.due() {
		return Ready{}, &StateError{From: m.state, To: to}
	}
	if err := f(); err != nil {
		m.lost(err)
	}
	return m.ready(), nil
}

// ready is what the caller does next.
func (m *Machine) ready() Ready {
	switch {
	case m.due():
		return Ready{Entries: slices.Clone(m.out), Sealed: slices.Clone(m.sealed)}
	case m.state == Executing:
		return Ready{Call: m.op.tool}
	case m.state == Idle || m.state == Halted:
		return Ready{Receipt: m.receipt()}
	}
	return Ready{}
}

// Booted says that what the kernel needs is loaded, or with an error that it isn't: it
// leads from BOOTING to IDLE, or to HALTED with a [*BootError]. First, if the process
// before ended under a request, that is closed with [CodeCrashed].
func (m *Machine) Booted(failed error) (Ready, error) {
	return m.step(Idle, []State{Booting}, func() error {
		m.op = operation{}
		if failed != nil {
			m.op.err = &BootError{failed}
			m.op.fault = faultOf(failed, CodeBootFailed, "boot")
			return m.halt(HaltProcess)
		}
		if err := m.closeCrashed(); err != nil || m.due() {
			return err
		}
		return m.enter(Idle)
	})
}

// Recorded says that the entries of the last [Ready] are durable, or with an error that
// they aren't: then the machine is HALTED all the same, with an [*AuditError]. The append
// is tried once.
func (m *Machine) Recorded(failed error) (Ready, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.due() {
		return Ready{}, &StateError{From: m.state, To: m.state}
	}
	if failed == nil {
		failed = m.acknowledged()
	}
	if failed != nil {
		m.lost(failed)
	}
	return m.ready(), nil
}

// acknowledged makes the change that the last entry tells of.
func (m *Machine) acknowledged() error {
	from, to, err := m.out[len(m.out)-1].transition()
	if err != nil {
		return err
	}
	if m.state == Booting && from != Booting {
		to = Idle // the entries are of the machine before
	}
	m.chain, m.out, m.sealed, m.unfinished = m.end, nil, nil, nil
	if err := m.enter(to); err != nil {
		return err
	}
	if to == Idle {
		m.op = operation{ended: m.receipt()}
	}
	if to != Halted && m.order != nil {
		return m.obey()
	}
	return nil
}

// lost halts without an entry.
func (m *Machine) lost(err error) {
	m.op.err = joined(m.op.err, &AuditError{State: m.state, Err: err})
	m.out, m.sealed, m.end = nil, nil, m.chain
	_ = m.enter(Halted) // from every state but HALTED, in which nothing is handed out
}

// Failed says that something happened after which the machine must not go on: a panic, an
// error that was marked by [Fatal]. It leads from any state but HALTED to HALTED. While
// entries are out, it is they that failed.
func (m *Machine) Failed(err error) (Ready, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.state == Halted:
		return Ready{}, &StateError{From: Halted, To: Halted}
	case m.due():
		m.lost(err)
		return m.ready(), nil
	}
	if m.state == Idle {
		m.op = operation{}
	}
	if lost := m.stop(err); lost != nil {
		m.lost(lost)
	}
	return m.ready(), nil
}
