package kernel_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

func stamp() kernel.Stamp {
	return kernel.Stamp{Seq: 7, World: "forge.example#42", Ref: "refs/writ/task/7", Task: 7, Issue: kernel.IssueName(2031, 1_763_856_000)}
}

// TestStamp_ReadsBack: what is written is read as it was meant, or isn't written.
func TestStamp_ReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.Stamp{
			Seq: rapid.Int64().Draw(t, "seq"), World: rapid.String().Draw(t, "world"), Ref: "refs/" + rapid.String().Draw(t, "ref"),
			Task: rapid.Int64().Draw(t, "task"),
		}
		if rapid.Bool().Draw(t, "on a forge") {
			s.Issue = rapid.OneOf(rapid.Just(kernel.IssueName(rapid.Int64().Draw(t, "id"), rapid.Int64().Draw(t, "created"))), rapid.String()).Draw(t, "issue")
		}
		again, err := kernel.ReadStamp(s.Trailers())
		if ok := s.Check() == nil; ok != (err == nil && again == s) {
			t.Fatalf("%+v may be written: %v; it reads back as %+v, %v", s, ok, again, err)
		}
	})
}

// TestL18_StampHasOneForm: a stamp that can be read in two ways binds nothing.
func TestL18_StampHasOneForm(t *testing.T) {
	change := func(key, value string) []lease.Trailer {
		out := stamp().Trailers()
		for i := range out {
			if out[i].Key == key {
				out[i].Value = value
			}
		}
		return out
	}
	bad := map[string][]lease.Trailer{"none": nil}
	for _, key := range []string{kernel.TrailerFormat, kernel.TrailerSeq, kernel.TrailerWorld, kernel.TrailerRef, kernel.TrailerTask, kernel.TrailerIssue} {
		bad[key+" empty"] = change(key, "")
		bad[key+" of two words"] = change(key, "a b")
		bad[key+" twice"] = append(stamp().Trailers(), lease.Trailer{Key: key, Value: "1"})
		bad[key+" in another case"] = append(stamp().Trailers(), lease.Trailer{Key: strings.ToUpper(key), Value: "1"})
	}
	for _, key := range []string{kernel.TrailerFormat, kernel.TrailerSeq, kernel.TrailerTask} {
		for _, value := range []string{"0", "-1", "+1", "01", "1.0", "1e3", "9223372036854775808", "9007199254740993", "one"} {
			bad[key+" "+value] = change(key, value)
		}
	}
	bad["a later format"] = change(kernel.TrailerFormat, "2")
	bad["no full ref"] = change(kernel.TrailerRef, "writ/task/7")
	bad["an issue without a time"] = change(kernel.TrailerIssue, "2031")
	bad["an issue in another form"] = change(kernel.TrailerIssue, "02031 1763856000")
	for name, trailers := range bad {
		if s, err := kernel.ReadStamp(trailers); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if s, err := kernel.ReadStamp(stamp().Trailers()); err != nil || s != stamp() {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestL18_Binding: every part of the place must agree, and the number is none.
func TestL18_Binding(t *testing.T) {
	here := stamp()
	for name, change := range map[string]func(*kernel.Stamp){
		"world":                           func(s *kernel.Stamp) { s.World = "forge.example#43" },
		"ref":                             func(s *kernel.Stamp) { s.Ref = "refs/heads/writ/task/7" },
		"task":                            func(s *kernel.Stamp) { s.Task = 8 },
		"issue":                           func(s *kernel.Stamp) { s.Issue = kernel.IssueName(2032, 1_763_856_000) },
		"the same number given out again": func(s *kernel.Stamp) { s.Issue = kernel.IssueName(2031, 1_763_856_001) },
		"no issue":                        func(s *kernel.Stamp) { s.Issue = "" },
	} {
		there := here
		change(&there)
		if there.Binding(here) != kernel.BindElsewhere || here.Binding(there) != kernel.BindElsewhere {
			t.Errorf("%s: bound here", name)
		}
	}
	if here.At(9).Binding(here) != kernel.BindHere {
		t.Error("the number is no part of the place")
	}
}

// seen are the facts of a task of which a commit was seen before.
func seen(state string, seq int64) kernel.Facts {
	return with(at(state), func(f *kernel.Facts) { f.View.Seen, f.View.SeenSeq = head2, seq })
}

// TestL18_Decide_Foreign: a commit of another task is a parent where nothing is known
// of this one, and otherwise waits for a person. Nothing it says counts.
func TestL18_Decide_Foreign(t *testing.T) {
	foreign := func(f *kernel.Facts) {
		f.Head = kernel.HeadFacts{OID: head1, Trust: kernel.TrustOwn, Signer: "SHA256:own", Binding: kernel.BindElsewhere, Named: "task 1 of elsewhere"}
	}
	for _, tt := range []struct {
		name   string
		facts  kernel.Facts
		action kernel.Action
		code   kernel.Code
	}{
		{"young: a parent only", with(fresh(), foreign), kernel.ActionClaim, ""},
		{"young, and nobody may approve", with(with(fresh(), foreign), func(f *kernel.Facts) { f.Policy = breaks(kernel.CodeAuthority) }), kernel.ActionNone, kernel.CodeAuthority},
		{"young, and stopped", with(with(fresh(), foreign), func(f *kernel.Facts) { f.Request = kernel.RequestStop }), kernel.ActionNone, kernel.CodeTaskStopped},
		{"the issue tells of a run", with(with(fresh(), foreign), func(f *kernel.Facts) { f.Told = true }), kernel.ActionNone, kernel.CodeStateForeign},
		{"the task was seen", with(seen("", 4), foreign), kernel.ActionNone, kernel.CodeStateForeign},
		{"the task was seen, and HEAD names another text", with(with(seen("", 4), foreign), func(f *kernel.Facts) { f.Head.Approval = digest("e") }), kernel.ActionNone, kernel.CodeStateForeign},
		{"a person looked", with(seen("", 4), func(f *kernel.Facts) { foreign(f); f.View.ResumedHead = head1 }), kernel.ActionClaim, ""},
	} {
		d := decide(t, tt.facts)
		if d.Action != tt.action || tt.code != "" && !contains(d.Codes, tt.code) || tt.code == kernel.CodeStateForeign && d.WaitingFor != kernel.WaitRepair {
			t.Errorf("%s: %s %s %v", tt.name, d.Standing, d.Action, d.Codes)
		}
		if d.Action == kernel.ActionClaim && (d.Attempt != 1 || d.Interruptions != 0) {
			t.Errorf("%s: attempt %d", tt.name, d.Attempt)
		}
	}
	later := with(seen("", 4), func(f *kernel.Facts) { foreign(f); f.Head.State, f.Head.Seq = "completed", 5 })
	if d := decide(t, later); later.Head.Trusted() || later.HeadCounts() || d.Action != kernel.ActionNone || !contains(d.Codes, kernel.CodeStateForeign) {
		t.Errorf("it says that it is completed, with a later number: %s %v, trusted: %v", d.Action, d.Codes, later.Head.Trusted())
	}
	run := with(running(kernel.PhaseChecked), foreign)
	if d := decide(t, run); d.Action != kernel.ActionAbandon || !contains(d.Codes, kernel.CodeStateForeign) {
		t.Errorf("our own lease is another issue's now: %s %v", d.Action, d.Codes)
	}
}

func contains(list []kernel.Code, c kernel.Code) bool {
	for _, x := range list {
		if x == c {
			return true
		}
	}
	return false
}

// TestL19_Decide_History: a lower number, an equal one, a split at the next one, and
// no ref at all wait for a person, whatever HEAD says; a later one is followed.
func TestL19_Decide_History(t *testing.T) {
	set := func(seq, head int64, parent string) kernel.Facts {
		return with(seen("open", seq), func(f *kernel.Facts) { f.Head.Seq, f.Head.Parent = head, parent })
	}
	for _, tt := range []struct {
		name  string
		facts kernel.Facts
		ok    bool
	}{
		{"the commit seen last", with(at("open"), func(f *kernel.Facts) { f.View.Seen, f.View.SeenSeq = head1, 5 }), true},
		{"an earlier one", set(6, 5, ""), false},
		{"the first one", set(6, 1, ""), false},
		{"another of the same number", set(5, 5, ""), false},
		{"the next one, put on it", set(4, 5, head2), true},
		{"the next one, put on another", set(4, 5, head1), false},
		{"the next one, put on nothing", set(4, 5, ""), false},
		{"a later one", set(3, 5, ""), true},
		{"after a repair", set(3, 1_000_003, ""), true},
		{"no ref", with(fresh(), func(f *kernel.Facts) { f.View.Seen, f.View.SeenSeq = head2, 6 }), false},
		{"no ref, and the issue tells of a run", with(fresh(), func(f *kernel.Facts) { f.Told = true }), false},
		{"no ref, approved anew", with(fresh(), func(f *kernel.Facts) { f.View.Seen, f.View.SeenSeq, f.Head.Reapproved = head2, 6, true }), false},
		{"no ref, a person looked", with(fresh(), func(f *kernel.Facts) {
			f.View.Seen, f.View.SeenSeq, f.View.ResumedHead = head2, 6, kernel.AbsentHead
		}), true},
		{"no ref, and nothing known", fresh(), true},
		{"first seen, whatever its number", at("open"), true},
		{"the issue tells of a run, and HEAD is there", with(at("open"), func(f *kernel.Facts) { f.Told = true }), true},
	} {
		d := decide(t, tt.facts)
		waits := d.WaitingFor == kernel.WaitRepair && contains(d.Codes, kernel.CodeStateRollback) && d.Action == kernel.ActionNone
		if waits == tt.ok || tt.ok && d.Action != kernel.ActionClaim {
			t.Errorf("%s: %s %s %v", tt.name, d.Standing, d.Action, d.Codes)
		}
	}
}

// TestL19_NoWordOfAnEarlierState: what HEAD said once is neither shown nor acted on
// after the ref was set back to it: no label, no closing.
func TestL19_NoWordOfAnEarlierState(t *testing.T) {
	f := with(seen("completed", 9), func(f *kernel.Facts) {
		f.Request, f.SameIssue, f.Asked = kernel.RequestTell, true, true
		f.Issue = &kernel.IssueFacts{Open: true, Want: digest("c"), Comments: []kernel.CommentFacts{{ID: 1, Digest: digest("c")}}}
	})
	if d := decide(t, f); d.Action != kernel.ActionNone {
		t.Errorf("it does %s", d.Action)
	}
	f.View.SeenSeq = 3
	if d := decide(t, f); d.Action != kernel.ActionLabel {
		t.Errorf("where it counts it does %s", d.Action)
	}
}

// TestL19_RepairIsTheLaterHistory: what is pushed after a person looked has a number
// beyond both histories, and only then.
func TestL19_RepairIsTheLaterHistory(t *testing.T) {
	for _, tt := range []struct {
		name  string
		facts kernel.Facts
		want  int64
	}{
		{"first", fresh(), 1},
		{"next", with(at("open"), func(f *kernel.Facts) { f.View.Seen, f.View.SeenSeq = head1, 5 }), 6},
		{"set back", with(seen("open", 9), func(f *kernel.Facts) { f.View.ResumedHead = head1 }), 9 + kernel.RepairSeqStep},
		{"another history, later by number", with(seen("open", 4), func(f *kernel.Facts) { f.View.ResumedHead = head1 }), 5 + kernel.RepairSeqStep},
		{"behind what the issue tells of", with(seen("open", 4), func(f *kernel.Facts) { f.Head.Told, f.View.ResumedHead = 9, head1 }), 9 + kernel.RepairSeqStep},
		{"no ref", with(fresh(), func(f *kernel.Facts) { f.View.Seen, f.View.SeenSeq, f.View.ResumedHead = head2, 9, kernel.AbsentHead }), 9 + kernel.RepairSeqStep},
		{"a block that a person took off", with(at("blocked"), func(f *kernel.Facts) { f.View.Seen, f.View.SeenSeq, f.View.ResumedHead = head1, 5, head1 }), 6},
		{"an unlisted writer's number counts for nothing", with(seen("open", 4), func(f *kernel.Facts) {
			f.Head.Trust, f.Head.Seq, f.View.ResumedHead = kernel.TrustUnlisted, kernel.MaxStateSeq, head1
		}), 4 + kernel.RepairSeqStep},
	} {
		if got := tt.facts.NextSeq(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
