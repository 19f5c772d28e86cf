package supervisor

import (
	"errors"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

// errNoLedger is why the entry of a kernel that didn't boot is in no ledger.
var errNoLedger = errors.New("supervisor: a ledger that could not be loaded takes no entry")

// BootWorld boots the kernel of a world: load is what it needs, its ledger above all. Where
// that fails it is HALTED. The entry of that change can't be appended, for what isn't
// verified must not be signed, nor be gone on with; it is handed to the caller, who writes it
// where his log goes. Failed is what load returned.
func BootWorld(world string, now int64, load func() error) (halted *machine.Entry, failed error) {
	m, err := machine.New(machine.Config{Kernel: kernel.MachineOf(world, theWorld), Epoch: 1, Now: now})
	if err != nil {
		return nil, err
	}
	failed = machine.Caught("Boot", load)
	cause := failed
	if code, is := codeOf(failed); is {
		cause = &machine.FatalError{Code: string(code), Err: failed}
	}
	next, err := m.Booted(cause)
	for err == nil && next.Entries != nil {
		halted = &next.Entries[len(next.Entries)-1]
		next, err = m.Recorded(errNoLedger)
	}
	return halted, failed
}
