package world_test

import (
	"bytes"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/world"
)

// stored is what of a kernel goes to the disk and comes back.
func stored(t *testing.T, s world.Saved) (back world.Saved) {
	t.Helper()
	b, err := canon.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := canon.UnmarshalCanonical(b, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

// A kernel that was saved anywhere between two rounds goes on as one that folded every
// record, to the same bytes. Inside a round there is nothing to save.
func TestSave_GoesOnTheSame(t *testing.T) {
	b := open(t, config())
	b.job(1, "r1").to(atPushed)
	b.job(2, "r2").to(atBuilt)
	b.job(1, "r3").to(atClaimed)
	whole, err := world.OpenGenesis(b.records[0])
	if err != nil {
		t.Fatal(err)
	}
	saved, inside := 0, 0
	for i, r := range b.records {
		if i > 0 {
			if err := whole.Apply(r); err != nil {
				t.Fatal(err)
			}
		}
		s, err := whole.Save()
		if err != nil {
			wants(t, err, world.ErrOrder)
			inside++
			continue
		}
		saved++
		k, err := world.Restore(stored(t, s))
		if err != nil {
			t.Fatal(i, err)
		}
		for _, next := range b.records[i+1:] {
			if err := k.Apply(next); err != nil {
				t.Fatalf("saved at %d, record %d: %v", i, next.Seq, err)
			}
		}
		if got, want := ended(t, k), ended(t, b.k); !bytes.Equal(got, want) {
			t.Fatalf("saved at %d it ends as\n%s\nwant\n%s", i, got, want)
		}
	}
	if saved < 5 || inside < 5 {
		t.Errorf("%d places between rounds, %d inside", saved, inside)
	}
}

// ended is all that a kernel knows after its last round.
func ended(t *testing.T, k *world.Kernel) []byte {
	t.Helper()
	s, err := k.Save()
	if err != nil {
		t.Fatal(err)
	}
	b, err := canon.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What contradicts itself isn't gone on from.
func TestSave_RefusesWhatItDidNotSave(t *testing.T) {
	b := open(t, config())
	b.job(1, "r1").to(atPushed)
	b.job(2, "r2").to(atClaimed)
	s, err := b.k.Save()
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*world.Saved){
		"another state":   func(s *world.Saved) { s.State.Tasks[0].Attempts++ },
		"another hash":    func(s *world.Saved) { s.State.StateHash = canon.Sum(nil) },
		"another world":   func(s *world.Saved) { s.Genesis.World = "elsewhere" },
		"another genesis": func(s *world.Saved) { s.Genesis.MaxDepth++ },
		"another kind":    func(s *world.Saved) { s.Kind = string(kernel.KindReceipt) },
		"another version": func(s *world.Saved) { s.V++ },
		"no world":        func(s *world.Saved) { s.Genesis = kernel.Genesis{} },
		"tasks out of order": func(s *world.Saved) {
			a := *s.Archived[0]
			a.Number = 9
			s.Archived = []*world.Task{&a, s.Archived[0]}
		},
		"a task not there": func(s *world.Saved) { s.Archived[0] = nil },
	} {
		changed := stored(t, s)
		change(&changed)
		if _, err := world.Restore(changed); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	if _, err := world.Restore(stored(t, s)); err != nil {
		t.Error(err)
	}
}
