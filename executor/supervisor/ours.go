package supervisor

import (
	"fmt"
	"slices"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// keptPushes is how many of a task's last pushes are known by their ids. One whose
// answer was lost is settled before the next, so that the last one would do.
const keptPushes = 8

// ours are the state commits that this instance's ledger says it pushed, or tried to.
// One of its own key that isn't among them was made by another copy of the state
// directory, or before an older one was put back (case R10).
type ours struct {
	tried   map[int64][]string // ids, by task, the last ones
	adopted bool               // a person said to go on with an older ledger
	met     map[int64]bool     // tasks of which an own HEAD was taken in since
}

func newOurs() *ours { return &ours{tried: map[int64][]string{}, met: map[int64]bool{}} }

// take takes in a record of the ledger.
func (o *ours) take(r kernel.Record) error {
	switch r.Kind {
	case kernel.KindIntent:
		var i kernel.Intent
		if err := canon.UnmarshalCanonical(r.Body, &i); err != nil {
			return err
		}
		o.intend(r.Task, i)
	case kernel.KindAdoption:
		o.adopted = true
		clear(o.met)
	case kernel.KindObservation:
		var f kernel.Facts
		if !o.adopted || o.met[r.Task] {
			return nil // nothing that it says is needed
		}
		if err := canon.UnmarshalCanonical(r.Body, &f); err != nil {
			return err
		}
		o.see(f)
	}
	return nil
}

func (o *ours) intend(task int64, i kernel.Intent) {
	if i.Seq == 0 {
		return
	}
	list := append(slices.Clip(o.tried[task]), i.New)
	o.tried[task] = list[max(0, len(list)-keptPushes):]
}

func (o *ours) see(f kernel.Facts) {
	if f.Head.Trust == kernel.TrustOwn && f.HeadCounts() {
		o.met[f.Task] = true
	}
}

// disowns reports whether HEAD is a commit of our key that the ledger should know and
// doesn't. Binding is judged before: a commit that was copied here from another task
// proves nothing about the ledger. Nor does an earlier one, to which the ref was set
// back.
func (o *ours) disowns(task int64, h kernel.HeadFacts, v kernel.TaskView) bool {
	return h.Trust == kernel.TrustOwn && h.Trusted() && h.Seq > v.SeenSeq && !slices.Contains(o.tried[task], h.OID) &&
		(!o.adopted || o.met[task])
}

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
func (t *Task) own(c *cycle, h kernel.HeadFacts, v kernel.TaskView) (err error) {
	if world, _ := lease.Parse(c.head.Message).Get(kernel.TrailerWorld); world != t.s.cfg.World {
		return nil
	}
	t.s.locked(func() {
		if t.s.ours.disowns(t.number, h, v) {
			err = &RollbackError{Ref: t.StateRef(), Head: h.OID, Seq: h.Seq}
		}
	})
	return err
}
