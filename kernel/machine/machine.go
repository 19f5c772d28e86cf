package machine

import (
	"fmt"
	"sync"

	"github.com/writbot/writ/kernel/canon"
)

// Config makes a machine.
type Config struct {
	// Kernel and Epoch (0 or more) identify the chain of entries.
	Kernel string
	Epoch  int64
	// Now is the wall clock in Unix milliseconds.
	Now     int64
	Auditor Auditor
	Handler Handler
	// LastEntry is the last acknowledged entry of this kernel and epoch, nil
	// if there is none. The chain, the clock, and a request that was left
	// unfinished go on from it.
	LastEntry *Entry
	// Cancel, if set, is called by Halt while an effect call is out, so that
	// whoever runs it can make it return. It may come shortly before the call
	// begins or after it has ended, and must not wait for it.
	Cancel func()
}

// position is a place in the chain: the last entry's number and hash.
type position struct {
	seq  int64
	hash canon.Digest
}

// Machine is one kernel's state machine. Its methods may be called from
// anywhere; see the package comment for what must not be called from inside.
type Machine struct {
	kernel  string
	epoch   int64
	genesis canon.Digest
	auditor Auditor
	handler Handler
	cancel  func()

	turn  sync.Mutex  // held by whoever may change the state: one at a time
	codec canon.Codec // used under the turn

	// mu guards what follows against readers, for moments only. Whoever writes
	// holds the turn too, but for order.
	mu      sync.Mutex
	state   State
	now     int64
	chain   position
	changes int64
	// unfinished is the last entry of a process that ended under a request.
	unfinished *Entry
	// order is a halt command that waits for its turn.
	order *order
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
	if c.Kernel == "" || c.Epoch < 0 || c.Auditor == nil || c.Handler == nil {
		return nil, &ConfigError{"a machine needs a kernel id, an epoch, an auditor and a handler"}
	}
	genesis, err := Genesis(c.Kernel, c.Epoch)
	if err != nil {
		return nil, &ConfigError{"kernel id or epoch can't be hashed: " + err.Error()}
	}
	m := &Machine{
		kernel: c.Kernel, epoch: c.Epoch, genesis: genesis, auditor: c.Auditor, handler: c.Handler,
		cancel: c.Cancel, chain: position{0, genesis}, now: max(c.Now, 0),
	}
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
	m.mu.Lock()
	defer m.mu.Unlock()
	if !Allowed(m.state, to) {
		return &StateError{From: m.state, To: to}
	}
	m.state = to
	m.changes++
	return nil
}

// tick moves the virtual clock to now, if that is later.
func (m *Machine) tick(now int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = max(m.now, now)
}

// inTurn runs f when it is this caller's turn. Whatever f runs into ends here:
// a panic of the machine's own, or the end of its goroutine (testing's FailNow
// in a handler does that), halts the machine rather than leave it where it is.
func (m *Machine) inTurn(f func() error) (err error) {
	m.turn.Lock()
	defer m.turn.Unlock()
	finished := false
	defer func() {
		if !finished {
			err = m.abandon(recover())
		}
	}()
	err = f()
	finished = true
	return err
}

// abandon halts a machine whose holder is gone.
func (m *Machine) abandon(value any) error {
	if value == nil {
		value = "the goroutine was ended under the machine"
	}
	err := &PanicError{Where: "machine", Value: fmt.Sprint(value)}
	if m.State() == Halted {
		return err
	}
	t := m.trail()
	t.fault = faultOf(err, CodePanic, t.at.String())
	return joined(err, t.halt(HaltProcess))
}

// Boot loads the configuration and leads from BOOTING to IDLE, or to HALTED
// with a [*BootError] if load fails or panics. Load is given what is needed by
// its closure and should be short. First, if the process before ended under a
// request, that is closed with [CodeCrashed].
func (m *Machine) Boot(load func() error) error {
	return m.inTurn(func() error {
		if s := m.State(); s != Booting {
			return &StateError{From: s, To: Idle}
		}
		return m.boot(load)
	})
}

func (m *Machine) boot(load func() error) error {
	var failed error
	if caught := protect("Boot", func() { failed = load() }); caught != nil {
		failed = caught
	}
	t := m.trail()
	if failed != nil {
		t.fault = faultOf(failed, CodeBootFailed, "boot")
		return joined(&BootError{failed}, t.halt(HaltProcess))
	}
	if err := t.commit(); err != nil {
		return err
	}
	return m.enter(Idle)
}
