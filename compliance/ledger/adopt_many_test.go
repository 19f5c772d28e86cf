package ledger

import "testing"

// TestR2_MoreThanOneRecordNames: however many checkpoints are abandoned, one append
// declares them, in as many records as that takes.
func TestR2_MoreThanOneRecordNames(t *testing.T) {
	const (
		have = 6
		had  = have + maxAbandoned + 5
	)
	l, signed := restored(t, have, had)
	a := adopt(t, l, signed...)
	if a.Seq != have+1+adoptionEntries || a.History != 3 || len(a.Abandoned) != had-have || len(l.Adopted()) != 2 {
		t.Errorf("record %d begins history %d, %d checkpoints are abandoned in %d records", a.Seq, a.History, len(a.Abandoned), len(l.Adopted()))
	}
	fill(t, l, have+20)
	if r := against(t, l, signed[have], signed[had-1], checkpointOf(t, l)); !r.OK || len(r.Declared) != 2 || r.History != 3 {
		t.Errorf("after: %v %s, %d declared, history %d", r.OK, r.Code, len(r.Declared), r.History)
	}
}
