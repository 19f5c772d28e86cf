package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/plan"
)

// worldBodies are the types of the records that stand in a ledger, and in no task's
// evidence or seldom: they are held by the fold of the whole ledger.
var worldBodies = map[kernel.Kind]any{
	kernel.KindGenesis: kernel.Genesis{}, kernel.KindRefusal: kernel.Refusal{}, kernel.KindOperatorAct: kernel.OperatorAct{},
	kernel.KindPlanProposal: plan.Proposal{}, kernel.KindAdoption: kernel.Adoption{}, kernel.KindKeyRotation: kernel.KeyRotation{},
	kernel.KindAudit: machine.Entry{},
}

// worldUnread are the fields of which nothing else in a ledger tells, with the reason.
var worldUnread = map[string]string{
	"genesis.repository_id":         "Writ leaves it empty, and no rule reads it.",
	"refusal.required[].required":   "A remedy is in the words of the program that wrote it.",
	"operator_act(put_back).reason": word, "operator_act(resume).reason": word, "operator_act(stop).reason": word,
}

const word = "A person's own word, which nothing but this record tells."

// TestR1_EachFieldOfTheWorldIsNoticed: as [TestR1_EachFieldIsNoticed], for the records
// that a verification of the whole ledger holds.
func TestR1_EachFieldOfTheWorldIsNoticed(t *testing.T) {
	missed, kinds, n := map[string]string{}, map[kernel.Kind]bool{}, 0
	for _, records := range [][]kernel.Record{governed(t), adopted(t, "notes"), adopted(t, "heads"), adopted(t, "unsigned"), rotated(t), paused(t)} {
		if why := noticed(t, records, -1, nil); why != "" {
			t.Fatalf("the records are not sound: %s", why)
		}
		for _, r := range records {
			typ := reflect.TypeOf(worldBodies[r.Kind])
			if typ == nil || r.Kind == kernel.KindGenesis && len(records) < 10 || r.Kind == kernel.KindAudit && r.Task != 0 {
				continue
			}
			kinds[r.Kind] = true
			try := func(path string, edit func(*kernel.Record)) {
				n++
				if noticed(t, records, r.Seq, edit) == "" {
					missed[path] += fmt.Sprint(" ", r.Seq)
				}
			}
			var body any
			if err := json.Unmarshal(r.Body, &body); err != nil {
				t.Fatal(err)
			}
			name := worldLabel(r)
			for _, l := range lies(typ, body, name) {
				try(l.path, func(r *kernel.Record) { r.Body = compact(l.body) })
			}
			for field, edit := range map[string]func(*kernel.Record){
				"v": func(r *kernel.Record) { r.V++ }, "kind": func(r *kernel.Record) { r.Kind = kernel.KindReport },
				"world_id": func(r *kernel.Record) { r.World += "x" }, "instance": func(r *kernel.Record) { r.Instance += "x" },
				"seq": func(r *kernel.Record) { r.Seq++ }, "prev": func(r *kernel.Record) { r.Prev = canon.Sum([]byte("x")) },
				"time": func(r *kernel.Record) { r.Time += 1 << 40 }, "task": func(r *kernel.Record) { r.Task++ },
				"run_id": func(r *kernel.Record) { r.Run += "x" },
			} {
				try(name+" record."+field, edit)
			}
		}
	}
	for kind := range worldBodies {
		if !kinds[kind] {
			t.Errorf("no %s was tried", kind)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(missed)) {
		if worldUnread[path] == "" {
			t.Errorf("nobody notices that %s is changed, in records%s", path, missed[path])
		}
	}
	for path, why := range worldUnread {
		if missed[path] == "" {
			t.Errorf("%s is noticed; it is listed as one that can't be: %s", path, why)
		}
	}
	t.Logf("%d lies", n)
}

// worldLabel tells the records of a kind apart that are bound by different things.
func worldLabel(r kernel.Record) string {
	var b struct {
		Act       string   `json:"act"`
		Abandoned []string `json:"abandoned"`
		Heads     []string `json:"heads"`
	}
	_ = json.Unmarshal(r.Body, &b)
	switch {
	case r.Kind == kernel.KindOperatorAct:
		return fmt.Sprintf("%s(%s)", r.Kind, b.Act)
	case r.Kind == kernel.KindAdoption && len(b.Abandoned) > 0:
		return "adoption(notes)"
	case r.Kind == kernel.KindAdoption && len(b.Heads) > 0:
		return "adoption(heads)"
	case r.Kind == kernel.KindAdoption:
		return "adoption(unsigned)"
	}
	return string(r.Kind)
}

// noticed is what `writ verify` says of a ledger whose record of that sequence is changed,
// and all of it chained anew; "" if nothing.
func noticed(t *testing.T, records []kernel.Record, seq int64, edit func(*kernel.Record)) string {
	t.Helper()
	chain := kernel.Chain{World: records[0].World, Instance: records[0].Instance, Head: kernel.NoHead()}
	var lines [][]byte
	var forged []kernel.Record
	for _, r := range records {
		made, next, err := chain.Seal(r.Time, []kernel.Draft{{Kind: r.Kind, Task: r.Task, Run: r.Run, Body: r.Body}})
		if err != nil {
			t.Fatal(err)
		}
		one := made[0].Record()
		if r.Seq == seq {
			edit(&one)
		}
		raw, err := canon.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		chain = next
		chain.Head.Hash = canon.Sum(raw)
		lines, forged = append(lines, raw), append(forged, one)
	}
	if rep := ledger.VerifyLines(slices.Values(lines), ledger.Expect{World: records[0].World, Instance: records[0].Instance, Head: &chain.Head}); !rep.OK {
		return rep.Reason
	}
	fault, err := VerifyWorld(func(yield func(kernel.Record, error) bool) {
		for _, r := range forged {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if fault != nil {
		return fault.Detail
	}
	return ""
}

func allRecords(t *testing.T, l *ledger.Ledger) []kernel.Record {
	t.Helper()
	var out []kernel.Record
	for r, err := range l.Records(t.Context(), 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// governed are the records of a world with a run, a refusal, a proposal and each act.
func governed(t *testing.T) []kernel.Record {
	t.Helper()
	s := newStage(t, testWorld, 1)
	a := s.play(1, true, nil)
	facts := a.facts(nil)
	facts.Kind, facts.World, facts.Task, facts.Now = string(kernel.KindObservation), s.name, testTask, s.now
	facts.View, facts.Request, facts.Actor = s.world.TaskView(testTask), kernel.RequestTick, "alice"
	facts.Head = kernel.HeadFacts{}
	facts.Policy = []kernel.Violation{{Code: kernel.CodeAuthority, Subject: "bob", Detail: "bob may not."}}
	d, err := kernel.Decide(facts)
	s.must(err)
	if d.Verdict != kernel.Deny {
		t.Fatalf("the decision is %+v", d)
	}
	s.write([]kernel.Draft{
		s.draft(kernel.KindObservation, "", facts), s.draft(kernel.KindDecision, "", d),
		s.draft(kernel.KindRefusal, "", kernel.NewRefusal(s.name, testTask, d, []canon.Digest{d.Facts})),
	})
	proposed := a.plan
	proposed.Source = "planner"
	s.write([]kernel.Draft{
		s.draft(kernel.KindSeedPack, a.id, a.seed), s.draft(kernel.KindInterpretation, a.id, plan.Derive(a.seed)),
		s.draft(kernel.KindSpec, a.id, a.spec), s.draft(kernel.KindPlanProposal, a.id, plan.Propose(proposed)),
	})
	act := func(act kernel.OperatorAct) {
		act.Kind, act.Actor, act.Reason = string(kernel.KindOperatorAct), "alice", "it looks odd"
		act.Key, act.Round = act.Act, s.world.Begin(s.now).Number()
		s.write([]kernel.Draft{s.draft(kernel.KindOperatorAct, "", act)})
	}
	seen := s.world.TaskView(testTask).Seen
	act(kernel.OperatorAct{Act: kernel.ActPutBack, Head: seen})
	act(kernel.OperatorAct{Act: kernel.ActStop})
	act(kernel.OperatorAct{Act: kernel.ActHalt})
	act(kernel.OperatorAct{Act: kernel.ActResume, Epoch: s.world.TaskView(testTask).Epoch + 1, Head: strings.Repeat("6", 40), ActID: fmt.Sprint(s.now, "/1")})
	return allRecords(t, s.ledger)
}

func begun(t *testing.T, name string) (*ledger.Store, *ledger.Ledger) {
	t.Helper()
	store, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), ledger.FileName), testKey(t, 1), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	l, err := store.World(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(t.Context(), kernel.Genesis{Contract: canon.Sum(nil), Kernel: kernel.Version(), Builders: []string{"default"}, MaxPaths: 1, MaxDepth: 1}, startMs); err != nil {
		t.Fatal(err)
	}
	return store, l
}

// later is a record after the one that is tried, so that a time can go back.
func later(t *testing.T, l *ledger.Ledger) []kernel.Record {
	t.Helper()
	if _, err := l.Write(t.Context(), startMs+9, kernel.Draft{Kind: kernel.KindReport, Task: 1, Body: map[string]any{"kind": "report"}}); err != nil {
		t.Fatal(err)
	}
	return allRecords(t, l)
}

// adopted are the records of a ledger that went on from an older store.
func adopted(t *testing.T, how string) []kernel.Record {
	t.Helper()
	_, l := begun(t, testWorld)
	var err error
	switch how {
	case "heads":
		_, err = l.AdoptHeads(t.Context(), startMs+1, "alice", "the disk died", []string{strings.Repeat("6", 40)})
	case "unsigned":
		_, err = l.AdoptUnsigned(t.Context(), startMs+1, "alice", "the disk died")
	default:
		_, other := begun(t, testWorld)
		later(t, other)
		note, err2 := other.Checkpoint(t.Context())
		if err2 != nil {
			t.Fatal(err2)
		}
		_, err = l.Adopt(t.Context(), startMs+1, "alice", "the disk died", kernel.Genesis{}, bytes.Clone(note))
	}
	if err != nil {
		t.Fatal(err)
	}
	return later(t, l)
}

// TestR1_AnAdoptionIsARequest: the entries of the world's kernel follow an adoption, all
// of them, and no others stand anywhere.
func TestR1_AnAdoptionIsARequest(t *testing.T) {
	good := adopted(t, "heads")
	for name, list := range map[string][]kernel.Record{
		"cut off":            good[:4],
		"not at all":         good[:2],
		"not before a task":  slices.Delete(slices.Clone(good), 2, 6),
		"without its act":    slices.Delete(slices.Clone(good), 1, 2),
		"one entry is twice": slices.Insert(slices.Clone(good), 6, good[5]),
	} {
		if why := noticed(t, list, -1, nil); !strings.Contains(why, "request") {
			t.Errorf("%s: %q", name, why)
		}
	}
	if why := noticed(t, good, -1, nil); why != "" {
		t.Error(why)
	}
}

// TestR1_AnAdoptionSaysWhatAloneShowsIt: also where the entries of the world's kernel are of
// the adoption as it is recorded.
func TestR1_AnAdoptionSaysWhatAloneShowsIt(t *testing.T) {
	good := adopted(t, "heads")
	for name, c := range map[string]struct {
		lie  func(*kernel.Record, *kernel.Adoption)
		fine bool
	}{
		"a commit":             {func(*kernel.Record, *kernel.Adoption) {}, true},
		"a commit and no mark": {func(_ *kernel.Record, a *kernel.Adoption) { a.Unsigned = true }, false},
		"what is no commit":    {func(_ *kernel.Record, a *kernel.Adoption) { a.Heads = []string{"main"} }, false},
		"a run":                {func(r *kernel.Record, _ *kernel.Adoption) { r.Run = "x" }, false},
	} {
		list := slices.Clone(good)
		said, err := decoded[kernel.Adoption](list[1].Body)
		if err == nil {
			c.lie(&list[1], said)
			list[1].Body, err = canon.Marshal(said)
		}
		var made asked
		if err == nil {
			err = made.begin(list[1])
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range made.due {
			list[2+i].Body = e.Bytes()
		}
		if why := noticed(t, list, -1, nil); (why == "") != c.fine || !c.fine && !strings.Contains(why, "what alone shows") {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// rotated are the records of a ledger whose key was replaced.
func rotated(t *testing.T) []kernel.Record {
	t.Helper()
	store, l := begun(t, testWorld)
	if err := store.Rotate(t.Context(), testWorld, testKey(t, 2).Public, startMs+1, "alice", "it was stolen"); err != nil {
		t.Fatal(err)
	}
	return allRecords(t, l)
}

// paused are the records of a world that was paused, and of an act on a task whose kernel is
// at its end: requests to the kernel of the world, one after the other.
func paused(t *testing.T) []kernel.Record {
	t.Helper()
	s := newStage(t, testWorld, 1)
	act := func(task int64, a kernel.OperatorAct) {
		a.Kind, a.Actor, a.Reason = string(kernel.KindOperatorAct), "alice", "the disk is full"
		a.Key, a.Round = a.Act, s.world.Begin(s.now).Number()
		s.write(worldRequest(t, s, task, a))
	}
	act(0, kernel.OperatorAct{Act: kernel.ActPause, Pause: kernel.PauseAll, Since: 7})
	act(0, kernel.OperatorAct{Act: kernel.ActUnpause, Pause: kernel.PauseAll, Since: 7})
	act(testTask, kernel.OperatorAct{Act: kernel.ActHalt})
	return allRecords(t, s.ledger)
}

// worldRequest are an act and the entries of the world's kernel, which takes it.
func worldRequest(t *testing.T, s *stage, task int64, a kernel.OperatorAct) []kernel.Draft {
	t.Helper()
	body, err := canon.Seal(a)
	s.must(err)
	m, err := machine.New(machine.Config{Kernel: kernel.MachineOf(s.name, 0), Epoch: 1, Now: s.now, LastEntry: s.world.LastEntry(0, 1)})
	s.must(err)
	_, err = m.Booted(nil)
	s.must(err)
	req := machine.Request{ID: a.Act + ":" + string(body.Hash()), Actor: a.Actor, Intent: a.Act, Evidence: body.Hash(), Now: s.now}
	_, err = m.Submit(req)
	s.must(err)
	_, err = m.Validated(req, nil)
	s.must(err)
	next, err := m.Decided(req, machine.Verdict{Decision: machine.Allow, Summary: a.Act})
	s.must(err)
	drafts := []kernel.Draft{{Kind: kernel.KindOperatorAct, Task: task, Body: body}}
	for _, e := range next.Sealed {
		drafts = append(drafts, kernel.Draft{Kind: kernel.KindAudit, Body: e})
	}
	return drafts
}

// TestR1_PausesAndRotationsAreRequests: the entries of a kernel follow a pause, all of them,
// and those of a rotation and of an act on a task either all or, from an earlier commit, none.
func TestR1_PausesAndRotationsAreRequests(t *testing.T) {
	pause, turned := paused(t), rotated(t)
	act := slices.IndexFunc(pause, func(r kernel.Record) bool { return r.Kind == kernel.KindOperatorAct && r.Task == testTask })
	for name, c := range map[string]struct {
		list []kernel.Record
		says string
	}{
		"as it is":                        {pause, ""},
		"a pause without its entries":     {without(pause[:7], 2, 4), "request"},
		"a pause with one entry":          {without(pause, 3, 3), "request"},
		"an act with one entry":           {without(pause, act+2, 3), "request"},
		"an act of an earlier commit":     {without(pause, act+1, 4), ""},
		"entries without an act":          {without(turned, 1, 1), "request"},
		"a rotation of an earlier commit": {without(turned, 2, 4), ""},
		"a rotation with one entry":       {without(turned, 3, 3), "request"},
	} {
		if why := noticed(t, c.list, -1, nil); c.says == "" && why != "" || c.says != "" && !strings.Contains(why, c.says) {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// without is a list without n records from at on.
func without(list []kernel.Record, at, n int) []kernel.Record {
	return slices.Delete(slices.Clone(list), at, at+n)
}

// TestR1_WordsInEvidence: an act or a proposal among the records of a run says nothing
// that such a record doesn't.
func TestR1_WordsInEvidence(t *testing.T) {
	good := kernel.OperatorAct{Kind: "operator_act", Act: kernel.ActHalt, Actor: "alice", Reason: "it looks odd", Key: "k", Round: 1}
	nameless := good
	nameless.Actor = ""
	for name, c := range map[string]struct {
		kind kernel.Kind
		body any
		fine bool
	}{
		"act":                {kernel.KindOperatorAct, good, true},
		"act of nobody":      {kernel.KindOperatorAct, nameless, false},
		"proposal of a plan": {kernel.KindPlanProposal, plan.Propose(plan.Plan{Source: "planner"}), false}, // it is of no run
	} {
		x := completed(t)
		x.forge(func(list []kernel.Record) []kernel.Record {
			body, err := canon.Marshal(c.body)
			if err != nil {
				t.Fatal(err)
			}
			at := nth(list, kernel.KindDispatch, 0)
			return slices.Insert(list, at, kernel.Record{Time: list[at].Time, Kind: c.kind, Task: testTask, Body: body})
		})
		if rep := x.verify(); rep.OK != c.fine {
			t.Errorf("%s:\n%s", name, rep.Plain())
		}
	}
}
