package supervisor

import (
	"fmt"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// RollbackError says that the ledger is older than what its key has signed: a state
// directory was put back from a copy, or two copies of it are in use. Nothing is
// recorded any more, for the key would sign two histories.
type RollbackError struct {
	Ref, Head string
	Seq       int64
}

func (e *RollbackError) Error() string {
	return fmt.Sprintf("%s: %s is at %s, commit %d of the task, which this installation's key signed and its ledger doesn't hold: the state directory is older than that, or another copy of it is in use",
		kernel.CodeLedgerRollback, e.Ref, e.Head, e.Seq)
}

// FailureCode is the code of the failure table.
func (e *RollbackError) FailureCode() kernel.Code { return kernel.CodeLedgerRollback }

// own refuses to go on where HEAD shows that the ledger is older than its key. What was
// made in a world that goes on as this one is in that one's ledger, and the rebinding
// names the very commit.
func (o *observer) own(c *observation, h kernel.HeadFacts, v kernel.TaskView) (err error) {
	if world, _ := lease.Parse(c.head.Message).Get(kernel.TrailerWorld); world != o.s.cfg.World {
		return nil
	}
	o.s.locked(func() {
		if o.s.world.Disowns(o.number, h, v) {
			err = &RollbackError{Ref: o.StateRef(), Head: h.OID, Seq: h.Seq}
		}
	})
	return err
}
