package world_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/world"
)

// audit is an entry of a task's kernel.
func audit(seq int64) machine.Entry {
	return machine.Entry{Kind: "audit", V: 1, Kernel: kernel.MachineOf(worldID, 1), Epoch: 2, Seq: seq, Prev: digest("a"), StateFrom: "AUDITING", StateTo: "IDLE"}
}

// WK1: what who drives a task asks the records for is folded here, too, and nowhere else:
// the same by the facade, from the records alone, and from what was saved.
func TestWK1_NothingIsFoldedBeside(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	j.to(atPushed)
	merged := j.facts("completed", "")
	merged.Issue = &kernel.IssueFacts{Change: &kernel.ChangeFacts{Number: 7, Head: "change", Merged: "merge"}}
	drafts := j.decided(merged, kernel.ActionNone, kernel.TaskCompleted)
	b.round(append(drafts, j.draft(kernel.KindAudit, audit(3)), j.draft(kernel.KindAudit, audit(4)))...)
	const pushed = "commit"
	claims := b.job(2, "r2").claims()
	for i, d := range claims {
		if intent, is := d.Body.(kernel.Intent); is {
			intent.New, intent.Seq = pushed, 5
			claims[i].Body = intent
		}
	}
	b.round(claims...)
	again, err := world.Open(b.records)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := b.k.Save()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := world.Restore(saved)
	if err != nil {
		t.Fatal(err)
	}
	none := open(t, config()).k
	if none.Delivered() || none.LastEntry(1, 2) != nil || none.ClaimedOn(1) != (kernel.Approval{}) {
		t.Error("a new world knows of work")
	}
	for name, k := range map[string]*world.Kernel{"facade": b.k, "records": again, "saved": restored} {
		if e := k.LastEntry(1, 2); e == nil || e.Seq != 4 || k.LastEntry(1, 1) != nil || k.LastEntry(2, 2) != nil {
			t.Errorf("%s: the last entry is %+v", name, e)
		}
		if a := k.ClaimedOn(1); a.Actor != "u1" || a.Digest != j.pack().Approval.Digest {
			t.Errorf("%s: claimed on %+v", name, a)
		}
		for _, oid := range []string{"change", "merge", "else"} {
			if task, ok := k.TaskOfCommit(oid); ok != (oid != "else") || ok && task != 1 {
				t.Errorf("%s: commit %s is of %d", name, oid, task)
			}
		}
		if task, ok := k.TaskOfChange(7); !ok || task != 1 || !k.Delivered() {
			t.Errorf("%s: change 7 is of %d", name, task)
		}
		own := kernel.HeadFacts{OID: "of no intent", Trust: kernel.TrustOwn, Binding: kernel.BindHere, Seq: 99}
		if !k.Disowns(2, own, kernel.TaskView{SeenSeq: 98}) || k.Disowns(2, own, kernel.TaskView{SeenSeq: 99}) {
			t.Errorf("%s: what the ledger has no intent of", name)
		}
		if own.OID = pushed; k.Disowns(2, own, kernel.TaskView{SeenSeq: 98}) || !k.Disowns(1, own, kernel.TaskView{SeenSeq: 98}) {
			t.Errorf("%s: %q was pushed", name, pushed)
		}
	}
}

// An adoption excuses a task once, until a HEAD of its key was taken in.
func TestDisowns_Adopted(t *testing.T) {
	b := open(t, config())
	own := kernel.HeadFacts{OID: strings.Repeat("9", 40), Trust: kernel.TrustOwn, Binding: kernel.BindHere, Seq: 9}
	r := b.k.Begin(b.now)
	if err := r.Observe(kernel.Draft{Kind: kernel.KindAdoption, Body: kernel.Adoption{Kind: "adoption", Actor: "ada", Reason: "x", History: 2, Abandoned: []string{}}}); err != nil {
		t.Fatal(err)
	}
	if !b.k.Disowns(1, own, kernel.TaskView{}) {
		t.Error("nothing is adopted yet")
	}
	b.settle(r)
	again, err := world.Open(b.records)
	if err != nil {
		t.Fatal(err)
	}
	if b.k.Disowns(1, own, kernel.TaskView{}) || again.Disowns(1, own, kernel.TaskView{}) {
		t.Error("a person went on with the older ledger")
	}
}

// A call that fails changes nothing of what the round has brought before.
func TestObserve_AllOrNone(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	r := b.k.Begin(b.now)
	facts := j.facts("open", "")
	if err := r.Observe(j.decided(facts, kernel.ActionNone, kernel.TaskOpen)...); err != nil {
		t.Fatal(err)
	}
	halting := j.decided(facts, kernel.ActionNone, kernel.TaskOpen, func(d *kernel.Decision) { d.Verdict = kernel.Halt })[1]
	before, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	wants(t, r.Observe(j.act(kernel.ActHalt, 0), halting, j.draft("gossip", map[string]string{})), world.ErrOrder)
	after, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "state", before, after)
}

// A round copies what it changes, and nothing of the tasks that it leaves alone.
func TestRound_SharesTheWorld(t *testing.T) {
	const tasks, most = 20_000, 64 << 10 // their places alone are 160,000 bytes
	k, err := world.New(config())
	if err != nil {
		t.Fatal(err)
	}
	s, err := k.Save()
	if err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= tasks; n++ {
		s.State.Tasks = append(s.State.Tasks, world.Task{Number: n, State: kernel.TaskWaiting})
	}
	if s.State.StateHash, err = s.State.Hash(); err != nil {
		t.Fatal(err)
	}
	s.Head, s.Records = kernel.Head{Seq: 0, Hash: digest("a")}, 1
	if k, err = world.Restore(s); err != nil {
		t.Fatal(err)
	}
	b := &book{t: t, k: k, now: start, seed: 7}
	j := b.job(3, "r1")
	drafts := j.decided(j.facts("waiting", ""), kernel.ActionNone, kernel.TaskWaiting)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := k.Begin(start)
	err = r.Observe(drafts...)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err != nil || took > most {
		t.Errorf("a look at one of %d tasks allocates %d bytes (%v)", tasks, took, err)
	}
}
