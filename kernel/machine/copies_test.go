package machine_test

import (
	"testing"

	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
)

// A supervisor keeps the last entry of each task for as long as it lives. Entries
// that share their parts would point into the request that made them, and keep
// all of it.
func TestM1_EntriesHoldCopies(t *testing.T) {
	decisions, evidence := map[*machine.Decision]int64{}, map[*canon.Digest]int64{}
	for _, e := range someEntries(t).entries {
		if first, ok := decisions[e.Decision]; ok && e.Decision != nil {
			t.Errorf("entries %d and %d share their decision", first, e.Seq)
		}
		if first, ok := evidence[e.EvidenceHash]; ok && e.EvidenceHash != nil {
			t.Errorf("entries %d and %d share their evidence", first, e.Seq)
		}
		decisions[e.Decision], evidence[e.EvidenceHash] = e.Seq, e.Seq
	}
	if len(decisions) < 3 || len(evidence) < 3 {
		t.Errorf("%d decisions and %d pieces of evidence: too few to tell", len(decisions), len(evidence))
	}
}
