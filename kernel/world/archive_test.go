package world_test

import (
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/world"
)

// A completed task is put away, vouched for by the chain, still known, and
// comes back when it is looked at.
func TestArchive(t *testing.T) {
	b := open(t, config())
	b.job(1, "r1").to(atPushed)
	first, _ := b.k.Task(1)
	b.job(2, "r2").to(atPushed)
	second, known := b.k.Task(2)
	if !known || second.AcceptedRun != "r2" || !b.k.Dispatched("r2") {
		t.Errorf("task 2: %+v", second)
	}
	s := snapshot(t, b.k)
	if len(s.Tasks) > 0 || s.Archive.Count != 2 {
		t.Fatalf("tasks %v, archive %+v", s.Tasks, s.Archive)
	}
	link := func(prev canon.Digest, task world.Task) canon.Digest {
		h, err := canon.Hash(world.Archived{Kind: world.KindArchived, Prev: prev, Task: task})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if want := link(link("", first), second); s.Archive.Hash != want {
		t.Errorf("archive %s, by hand %s", s.Archive.Hash, want)
	}
	same(t, "numbers", []int64{1, 2}, b.k.Tasks())

	j := b.job(1, "r3")
	j.title = "Another text, approved anew"
	j.to(atClaimed)
	same(t, "numbers", []int64{1, 2}, b.k.Tasks())
	if s = snapshot(t, b.k); len(s.Tasks) != 1 || s.Tasks[0].Number != 1 || s.Tasks[0].AcceptedRun != "" {
		t.Errorf("tasks %+v", s.Tasks)
	}
	if receipt, err := b.k.Receipt(); err != nil || receipt.RoundMetrics[world.MetricTasks] != 2 {
		t.Errorf("receipt %+v, %v", receipt, err)
	}
	if _, known := b.k.Task(9); known {
		t.Error("task 9 is known")
	}
	if _, err := world.Open(b.records); err != nil {
		t.Error(err)
	}
}

// E1 holds for an archived task, too.
func TestE1_ArchivedTask(t *testing.T) {
	b := open(t, config())
	b.job(1, "r1").to(atPushed)
	j := b.job(1, "r2").to(atBuilt)
	wants(t, b.try(j.judged(kernel.TaskCompleted)...), world.ErrSecondAcceptance)
}
