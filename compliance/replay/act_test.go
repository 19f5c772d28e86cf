package replay

import (
	"testing"

	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
)

// TestP6_ActIsRecorded: an entry that allows a person's act needs the record of that act;
// one that denies it has none, for it changed nothing.
func TestP6_ActIsRecorded(t *testing.T) {
	act, other := canon.Sum([]byte("act")), canon.Sum([]byte("other"))
	entry := func(of canon.Digest, d machine.Decision) machine.Entry {
		return machine.Entry{
			Kind: "audit", V: 1, Kernel: "k", Seq: 1, Prev: act, StateFrom: "ARBITRATING", StateTo: "AUDITING",
			Decision: &d, EvidenceHash: &of, Faults: []machine.Fault{},
		}
	}
	for _, c := range []struct {
		entry machine.Entry
		fits  bool
	}{
		{entry(act, machine.Allow), true}, {entry(other, machine.Allow), false}, {entry(other, machine.Deny), true},
	} {
		a := &auditor{act: act}
		if why := a.misfit(c.entry); (why == "") != c.fits {
			t.Errorf("%s of %s: %q", *c.entry.Decision, *c.entry.EvidenceHash, why)
		}
	}
}
