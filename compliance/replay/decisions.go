package replay

import (
	"bytes"
	"fmt"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/world"
)

// checkDecisions takes each decision again from the observation before it, the
// only thing that it may rest on, and compares the bytes (promise P7).
func (v *verifier) checkDecisions(f *findings) string {
	var seen, last *record // the newest observation and decision
	n := 0
	said := lastOf{}
	for _, r := range v.records {
		switch r.Kind {
		case kernel.KindSpec:
			said[ofTask{r.Kind, r.Task}] = r.Record
		case kernel.KindOperatorAct, kernel.KindPlanProposal:
			if err := said.checkWords(r.Record); err != nil {
				f.record(r.Seq, "It can't be so: %v.", err)
			}
		case kernel.KindObservation:
			seen = &r
		case kernel.KindDecision:
			n++
			last = &r
			v.checkDecision(f, seen, r)
		case kernel.KindRefusal:
			v.checkRefusal(f, seen, last, r)
		}
	}
	if n == 0 {
		f.file(FileRecords, "There is no decision.")
	}
	return fmt.Sprintf("%s, taken again from the facts: the same byte for byte.", report.Counted(n, "decision"))
}

func (v *verifier) checkDecision(f *findings, seen *record, r record) {
	if v.seed != nil && v.seed.Pins.Kernel != kernel.Version() {
		f.add(kernel.CodeReplayVersion, FileRecords, r.Seq, "It was taken by kernel %q; this program replays %s.", v.seed.Pins.Kernel, kernel.Version())
		return
	}
	if seen == nil {
		f.record(r.Seq, "The decision rests on no observation.")
		return
	}
	facts := v.factsOf(f, *seen)
	if facts == nil {
		return
	}
	again, err := kernel.Decide(*facts)
	if err != nil {
		f.record(r.Seq, "The decision can't be taken again: %v.", err)
		return
	}
	want, err := canon.Marshal(again)
	if err != nil || !bytes.Equal(want, r.Body) {
		f.record(r.Seq, "The decision does not follow from its facts (record %d): taken again, it is %s, %s.", seen.Seq, again.Verdict, again.Action)
	}
}

// factsOf reads an observation of this task.
func (v *verifier) factsOf(f *findings, r record) *kernel.Facts {
	facts := read[kernel.Facts](f, r)
	if facts == nil {
		return nil
	}
	if facts.body.Kind != string(kernel.KindObservation) || facts.body.Task != v.head.Task || facts.body.World != r.World {
		f.record(r.Seq, "The observation is not of this task.")
		return nil
	}
	if run := facts.body.Run; run != nil && run.Phase == kernel.PhaseJudged && run.Judgement == nil {
		f.record(r.Seq, "The run is said to be judged, and the judgement is missing.")
		return nil // the kernel's rules can't be asked about what can't be
	}
	return &facts.body
}

// checkRefusal composes the refusal again. It is of the decision just taken.
func (v *verifier) checkRefusal(f *findings, seen, last *record, r record) {
	if seen == nil || last == nil {
		f.record(r.Seq, "The refusal is of no decision.")
		return
	}
	d := read[kernel.Decision](f, *last)
	if d == nil {
		return
	}
	want := kernel.NewRefusal(r.World, r.Task, d.body, []canon.Digest{canon.Sum(seen.Body)})
	if data, err := canon.Marshal(want); err != nil || !bytes.Equal(data, r.Body) {
		f.record(r.Seq, "The refusal is not that of the decision before it.")
	}
}

// checkReceipts: rounds are counted up, and a round begins with the state that
// the one before left.
func (v *verifier) checkReceipts(f *findings) string {
	var last *world.RoundReceipt
	list := v.of(kernel.KindReceipt)
	for _, r := range list {
		b := read[world.RoundReceipt](f, r)
		if b == nil {
			continue
		}
		now := b.body
		switch {
		case now.V != world.Version:
			f.add(kernel.CodeReplayVersion, FileRecords, r.Seq, "The receipt has version %d; this program knows %d.", now.V, world.Version)
		case now.WorldID != r.World || now.Instance != r.Instance:
			f.record(r.Seq, "The receipt is of another world or instance.")
		case now.Timestamp > r.Time:
			f.record(r.Seq, "The receipt is dated after its record.")
		case last != nil && now.RoundID <= last.RoundID:
			f.record(r.Seq, "Its round %d is not after round %d.", now.RoundID, last.RoundID)
		case last != nil && now.RoundID == last.RoundID+1 && now.SnapshotHashBefore != last.SnapshotHashAfter:
			f.record(r.Seq, "Its round does not begin with the state that round %d left.", last.RoundID)
		}
		last = &now
	}
	if len(list) == 0 {
		f.file(FileRecords, "There is no receipt of a settled round.")
	}
	return fmt.Sprintf("%s, each after the one before.", report.Counted(len(list), "receipt"))
}
