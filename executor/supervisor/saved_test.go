package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/world"
)

// replayed folds records as a process does whose predecessor saved what it had folded
// after about two thirds of them, and holds that against a fold of them all.
func replayed(records iter.Seq2[kernel.Record, error]) (*History, error) {
	var all []kernel.Record
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	whole, saved := NoHistory(), []byte(nil)
	next := 0
	for i, r := range all {
		if err := whole.take(r); err != nil {
			return nil, err
		}
		if i > 2*len(all)/3 && saved != nil {
			continue
		}
		if s, err := whole.save(); err == nil {
			if saved, err = s.Encode(); err != nil {
				return nil, err
			}
			next = i + 1
		}
	}
	if saved == nil {
		return whole, nil
	}
	s, err := DecodeSaved(saved)
	if err != nil {
		return nil, err
	}
	h, err := Resume(s, func(yield func(kernel.Record, error) bool) {
		for _, r := range all[next:] {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return h, sameHistory(h, whole)
}

// sameHistory compares what two processes would save.
func sameHistory(a, b *History) error {
	one, errOne := a.save()
	two, errTwo := b.save()
	if errOne != nil || errTwo != nil {
		if (errOne == nil) != (errTwo == nil) {
			return errors.Join(errors.New("one of two folds is inside a round"), errOne, errTwo)
		}
		return nil
	}
	first, errOne := one.Encode()
	second, errTwo := two.Encode()
	if err := errors.Join(errOne, errTwo); err != nil {
		return err
	}
	if !bytes.Equal(first, second) {
		return errors.New("two folds of the same records differ:\n" + string(first) + "\n" + string(second))
	}
	return nil
}

// savedSample is a history of so many tasks that are done, each with what real ones have.
func savedSample(t testing.TB, tasks int64, adopted bool) *History {
	t.Helper()
	genesis, err := kernel.Genesis{
		Kind: string(kernel.KindGenesis), World: "w", Kernel: kernel.Version(), Builders: []string{"default"}, MaxPaths: 100, MaxDepth: 9,
	}.Seeded()
	if err != nil {
		t.Fatal(err)
	}
	k, err := world.New(world.ConfigOf(genesis, "SHA256:instance"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := k.Save()
	if err != nil {
		t.Fatal(err)
	}
	oid, sum := strings.Repeat("ab", 20), canon.Sum(nil)
	for n := int64(1); n <= tasks; n++ {
		s.Archived = append(s.Archived, &world.Task{
			Number: n, Builder: "default", Approval: sum, State: kernel.TaskCompleted, Head: oid, Attempts: 1,
			AcceptedRun: "01234567-89ab-cdef-0123-456789abcdef", Act: "label:7:2026-01-01T00:00:00Z", Seen: oid, SeenSeq: 5, Shown: oid,
			Run:     world.Run{ID: "01234567-89ab-cdef-0123-456789abcdef", Dispatched: true, Started: true, Result: sum, Diff: sum, Checks: sum, Judged: true, Accepted: true, Over: true},
			Pins:    kernel.Pins{BaseCommit: oid, Governance: sum},
			Answers: []world.Answer{{Agent: "default", Key: "01234567-89ab-cdef-0123-456789abcdef"}},
		})
	}
	for n := int64(1); n <= tasks; n++ {
		s.Beside.Audit = append(s.Beside.Audit, world.SavedEntry{Task: n, Entry: machine.Entry{
			Kind: "audit", V: 1, Kernel: "w/" + strconv.FormatInt(n, 10), Epoch: 1, Seq: 90, Prev: sum, StateFrom: "AUDITING", StateTo: "IDLE",
			ParamsHash: &sum, EvidenceHash: &sum, ResultHash: &sum,
		}})
		s.Beside.Changes = append(s.Beside.Changes, world.SavedChange{Number: n, Task: n})
		s.Beside.Commits = append(s.Beside.Commits, world.SavedCommit{OID: fmt.Sprintf("%s%05d", oid, n), Task: n})
		s.Beside.Approved = append(s.Beside.Approved, world.SavedApproval{Task: n, Approval: kernel.Approval{Digest: sum, Actor: "7", Evidence: "signed_payload", Time: 1}})
		s.Beside.Pushed = append(s.Beside.Pushed, world.SavedPushes{Task: n, IDs: []string{oid, oid, oid, oid, oid}})
	}
	if adopted {
		s.Beside.Adopted = &[]int64{2}
	}
	h := &History{}
	if h.World, err = world.Restore(s); err != nil {
		t.Fatal(err)
	}
	return h
}

// nothing follows.
func nothing(func(kernel.Record, error) bool) {}

// TestSave_AdoptionAndPushes: what is folded beside the world comes back, too: an older
// ledger that was adopted, the pushes, approvals and names, and where each audit stands.
func TestSave_AdoptionAndPushes(t *testing.T) {
	h := savedSample(t, 3, true)
	s, err := h.save()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := DecodeSaved(doc)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Resume(read, nothing)
	if err != nil {
		t.Fatal(err)
	}
	if err := sameHistory(h, back); err != nil {
		t.Error(err)
	}
	k := back.World
	own := kernel.HeadFacts{Trust: kernel.TrustOwn, Binding: kernel.BindHere, OID: strings.Repeat("cd", 20), Seq: 9}
	if k.Disowns(1, own, kernel.TaskView{}) || !k.Disowns(2, own, kernel.TaskView{}) {
		t.Error("what was met since the adoption is not what was saved")
	}
	own.OID = strings.Repeat("ab", 20)
	if k.Disowns(2, own, kernel.TaskView{}) {
		t.Error("the pushes are not those that were saved")
	}
	commit, _ := k.TaskOfCommit(own.OID + "00002")
	change, _ := k.TaskOfChange(2)
	if e := k.LastEntry(3, 1); e == nil || e.Seq != 90 || commit != 2 || change != 2 || k.ClaimedOn(3).Actor != "7" || !k.Delivered() {
		t.Errorf("entry %+v, commit of %d, change of %d", e, commit, change)
	}
	if k.LastEntry(3, 0) != nil {
		t.Error("an entry is of another epoch")
	}
	for _, other := range []Saved{{Kind: read.Kind, V: read.V + 1, Kernel: read.Kernel, World: read.World}, {Kind: read.Kind, V: read.V, Kernel: "0.0.1", World: read.World}} {
		if _, err := Resume(other, nothing); err == nil {
			t.Errorf("version %d of kernel %s is gone on from", other.V, other.Kernel)
		}
	}
}

// TestWK1_AHistoryIsAWorld: nothing outside kernel/world folds records into state: what a
// process takes from a ledger, and what it saves of it, is the world.
func TestWK1_AHistoryIsAWorld(t *testing.T) {
	for of, want := range map[reflect.Type][]string{
		reflect.TypeFor[History](): {"World"}, reflect.TypeFor[Saved](): {"Kind", "V", "Kernel", "World"},
	} {
		var fields []string
		for i := range of.NumField() {
			fields = append(fields, of.Field(i).Name)
		}
		if !slices.Equal(fields, want) {
			t.Errorf("%v has %v", of, fields)
		}
	}
}

// BenchmarkResume10000 is what a start costs that goes on from 10,000 tasks, and what one
// saving of them does.
func BenchmarkResume10000(b *testing.B) {
	h := savedSample(b, 10_000, false)
	var saving, locked time.Duration
	var size int
	for b.Loop() {
		b.StopTimer()
		begin := time.Now()
		s, err := h.save()
		if err != nil {
			b.Fatal(err)
		}
		locked += time.Since(begin)
		doc, err := s.Encode()
		if err != nil {
			b.Fatal(err)
		}
		saving += time.Since(begin)
		size = len(doc)
		b.StartTimer()
		read, err := DecodeSaved(doc)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Resume(read, nothing); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size)/(1<<20), "MiB")
	b.ReportMetric(float64(saving.Milliseconds())/float64(b.N), "ms-saving")
	b.ReportMetric(float64(locked.Milliseconds())/float64(b.N), "ms-locked")
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms-resume")
}
