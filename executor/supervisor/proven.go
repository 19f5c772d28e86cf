package supervisor

import (
	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// proven are the approvals that tasks were last claimed on, by task, whose evidence
// the ledger holds. A claim on one without evidence (a text that was given at the
// keyboard) ends what was known before.
type proven map[int64]kernel.Approval

// take takes in a record of the ledger.
func (p proven) take(r kernel.Record) error {
	if r.Kind != kernel.KindSeedPack {
		return nil
	}
	var pack kernel.SeedPack
	if err := canon.UnmarshalCanonical(r.Body, &pack); err != nil {
		return err
	}
	p.note(pack)
	return nil
}

func (p proven) note(pack kernel.SeedPack) {
	if approval.Proven(pack.Approval) {
		p[pack.Task] = pack.Approval
	} else {
		delete(p, pack.Task)
	}
}
