package kernel_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// someOf draws a part of a list.
func someOf(t *rapid.T, name string, list []string) []string {
	var out []string
	for _, x := range list {
		if rapid.Bool().Draw(t, name+" "+x) {
			out = append(out, x)
		}
	}
	return out
}

// anyIssue draws what a forge may show.
func anyIssue(t *rapid.T) *kernel.IssueFacts {
	yes := func(name string) bool { return rapid.Bool().Draw(t, name) }
	is := &kernel.IssueFacts{
		Gone: rapid.IntRange(0, 9).Draw(t, "gone") == 0, Open: yes("open"), Reopened: yes("reopened"), Alert: yes("alert"),
		Labels: someOf(t, "label", kernel.StateLabels()), Touched: someOf(t, "touched", kernel.StateLabels()),
		Want: rapid.SampledFrom(approvals).Draw(t, "want"), Alerts: rapid.Int64Range(0, 1).Draw(t, "alerts"),
		HeadAt: rapid.SampledFrom([]int64{0, now - 100_000, now}).Draw(t, "head at"), PutBack: rapid.Int64Range(0, 4).Draw(t, "put back"),
	}
	if !is.Open {
		is.ClosedBy = rapid.SampledFrom([]string{kernel.ClosedBySelf, kernel.ClosedByPerson, kernel.ClosedByBot}).Draw(t, "closed by")
	}
	for i := range rapid.Int64Range(0, 2).Draw(t, "comments") {
		is.Comments = append(is.Comments, kernel.CommentFacts{ID: i + 1, Run: ourRun, Digest: rapid.SampledFrom(approvals).Draw(t, "comment")})
	}
	for i := range rapid.Int64Range(0, 2).Draw(t, "commands") {
		is.Commands = append(is.Commands, kernel.CommandFacts{Comment: 20 + i, Reaction: "eyes", Want: rapid.SampledFrom(approvals).Draw(t, "words"), Told: yes("told")})
	}
	if yes("twins") {
		is.Doubles = []int64{30, 31}
	}
	if yes("check?") {
		is.Check = &kernel.CheckFacts{OID: "c", Digest: digest("a")}
	}
	if yes("change?") {
		is.Change = &kernel.ChangeFacts{Number: rapid.Int64Range(0, 1).Draw(t, "change"), Open: yes("change open"), Own: yes("own"), Run: rapid.SampledFrom([]string{"", ourRun, theirs}).Draw(t, "change run"),
			Old: yes("old change"), Merged: rapid.SampledFrom([]string{"", "m"}).Draw(t, "merged"), Reverted: rapid.SampledFrom([]string{"", "r"}).Draw(t, "reverted")}
	}
	return is
}

// TestE2_IssueProperties: whatever HEAD and forge say, an issue is closed only for
// a trusted result of its own at HEAD that the status comment tells of; a person's
// closing, reopening and labels stay; a run that isn't at HEAD says nothing; and
// each effect, once it is shown, is not due again.
func TestE2_IssueProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts(t)
		f.Request, f.Issue = kernel.RequestTell, anyIssue(t)
		if rapid.Bool().Draw(t, "nearly closed") {
			f.Run, f.Head.State, f.Issue.Want = nil, "completed", digest("a")
			f.Issue.Comments = []kernel.CommentFacts{{ID: 1, Digest: digest("a")}}
			f.Issue.Gone, f.Issue.Open, f.Issue.Change, f.Issue.Labels, f.Issue.HeadAt = false, true, nil, nil, 0
			f.Issue.Touched = kernel.StateLabels()
		}
		if rapid.Bool().Draw(t, "nearly completed") {
			f.Run, f.Head.State, f.Head.WaitingFor, f.Issue.HeadAt, f.Issue.Gone = nil, "waiting", kernel.WaitMerge, 0, false
			f.Issue.Change = &kernel.ChangeFacts{Number: rapid.Int64Range(0, 1).Draw(t, "its change"), Merged: rapid.SampledFrom([]string{"", "m"}).Draw(t, "its merge"), Old: rapid.Bool().Draw(t, "an old one")}
			f.View, f.Undone, f.SameIssue = kernel.TaskView{Task: f.Task, Halted: rapid.Bool().Draw(t, "halted")}, false, rapid.IntRange(0, 9).Draw(t, "another issue") > 0
			f.Head.OID, f.Head.Reapproved, f.Issue.Others, f.Policy = head1, false, false, nil
		}
		d, err := kernel.Decide(f)
		if err != nil {
			t.Fatal(err)
		}
		is, h := f.Issue, f.Head
		if d.Action == kernel.ActionComplete {
			c := is.Change
			if f.Run != nil || h.State != "waiting" || h.WaitingFor != kernel.WaitMerge || !f.HeadCounts() || !f.SameIssue || f.View.Halted ||
				is.Gone || c == nil || c.Number == 0 || c.Old || c.Merged == "" || d.State != kernel.TaskCompleted || d.WaitingFor != "" || d.Issue != nil {
				t.Fatalf("completed on %+v and %+v", h, is)
			}
			return
		}
		if d.Verdict != kernel.Allow || d.Action != kernel.ActionNone && !d.Action.OnForge() || (d.Action == kernel.ActionNone) != (d.Issue == nil) {
			t.Fatalf("%s %s %+v", d.Verdict, d.Action, d.Issue)
		}
		if d.Action == kernel.ActionNone {
			return
		}
		if is.Gone || f.Run != nil && h.OID != f.Run.LeaseOID {
			t.Fatalf("%s, and it isn't ours to move", d.Action)
		}
		switch d.Action {
		case kernel.ActionClose:
			told := len(is.Comments) == 1 && is.Comments[0].Digest == is.Want && is.Want != ""
			if h.State != "completed" || !f.HeadCounts() || !f.SameIssue || !is.Open || is.Reopened || !told || f.Run != nil ||
				is.Change.Undone() || h.WaitingFor == kernel.WaitMerge {
				t.Fatalf("closed on %+v and %+v", h, is)
			}
		case kernel.ActionReopen:
			if is.Open || is.ClosedBy == kernel.ClosedByPerson || h.State == "completed" && f.HeadCounts() && !is.Change.Undone() {
				t.Fatalf("put back open on %+v and %+v", h, is)
			}
		case kernel.ActionLabel, kernel.ActionUnlabel:
			if slices.Contains(is.Touched, d.Issue.Label) || slices.Contains(is.Labels, d.Issue.Label) != (d.Action == kernel.ActionUnlabel) {
				t.Fatalf("%s %s on %+v", d.Action, d.Issue.Label, is)
			}
		}
		after := f
		if d.Action == kernel.ActionCheck {
			after.View.Checked = is.Check.OID + " " + string(is.Check.Digest)
		}
		after.Issue = shownAfter(*is, d)
		again, err := kernel.Decide(after)
		if err != nil {
			t.Fatal(err)
		}
		if again.Action == d.Action && *again.Issue == *d.Issue {
			t.Fatalf("%s %+v is due again once it is shown", d.Action, d.Issue)
		}
	})
}

// shownAfter is the issue once an effect is shown.
func shownAfter(is kernel.IssueFacts, d kernel.Decision) *kernel.IssueFacts {
	is.Comments = slices.Clone(is.Comments)
	switch d.Action {
	case kernel.ActionClose:
		is.Open, is.ClosedBy = false, kernel.ClosedBySelf
	case kernel.ActionReopen:
		is.Open, is.ClosedBy = true, ""
	case kernel.ActionComment:
		is.Comments = []kernel.CommentFacts{{ID: 9, Digest: is.Want}}
	case kernel.ActionRevise:
		is.Comments[0].Digest = is.Want
	case kernel.ActionUncomment:
		is.Comments = slices.DeleteFunc(is.Comments, func(k kernel.CommentFacts) bool { return k.ID == d.Issue.Target })
		is.Doubles = slices.DeleteFunc(slices.Clone(is.Doubles), func(id int64) bool { return id == d.Issue.Target })
	case kernel.ActionAnswer:
		is.Commands = slices.Clone(is.Commands)
		at := slices.IndexFunc(is.Commands, func(c kernel.CommandFacts) bool { return c.Comment == d.Issue.Target })
		is.Commands[at].Told = true
	case kernel.ActionReact:
		is.Commands = slices.DeleteFunc(slices.Clone(is.Commands), func(c kernel.CommandFacts) bool { return c.Comment == d.Issue.Target })
	case kernel.ActionAlert:
		is.Alerts++
	case kernel.ActionLabel:
		is.Labels = append(slices.Clone(is.Labels), d.Issue.Label)
	case kernel.ActionUnlabel:
		is.Labels = slices.DeleteFunc(slices.Clone(is.Labels), func(l string) bool { return l == d.Issue.Label })
	case kernel.ActionChange, kernel.ActionAmend:
		is.Change = &kernel.ChangeFacts{Number: 1, Open: true}
	}
	return &is
}

// TestE2_IssueOfUntrusted: a completed HEAD whose report the status comment shows closes its
// issue, and none that doesn't count does.
func TestE2_IssueOfUntrusted(t *testing.T) {
	done := at("completed")
	done.Request, done.SameIssue = kernel.RequestTell, true
	done.Issue = &kernel.IssueFacts{Open: true, Want: digest("a"), Comments: []kernel.CommentFacts{{ID: 1, Run: ourRun, Digest: digest("a")}}, Touched: kernel.StateLabels()}
	for name, change := range map[string]func(*kernel.Facts){
		"":                         func(*kernel.Facts) {},
		"signed by nobody we know": func(f *kernel.Facts) { f.Head.Trust = kernel.TrustUnlisted },
		"another task's":           func(f *kernel.Facts) { f.Head.Binding, f.Head.Named = kernel.BindElsewhere, "task 1 of elsewhere" },
		"set back":                 func(f *kernel.Facts) { f.View.Seen, f.View.SeenSeq = head2, f.Head.Seq+1 },
		"another issue":            func(f *kernel.Facts) { f.SameIssue = false },
	} {
		if d := decide(t, with(done, change)); (d.Action == kernel.ActionClose) != (name == "") {
			t.Errorf("%s: %s %+v", name, d.Action, d.Issue)
		}
	}
}

// TestE2_CompletedByTheMerge: HEAD that waits for the merge of its change is completed by that
// merge, and by none of another change.
func TestE2_CompletedByTheMerge(t *testing.T) {
	for name, change := range map[string]func(*kernel.Facts){
		"":                 func(*kernel.Facts) {},
		"no change":        func(f *kernel.Facts) { f.Issue.Change = nil },
		"not there yet":    func(f *kernel.Facts) { f.Issue.Change.Number = 0 },
		"an older one":     func(f *kernel.Facts) { f.Issue.Change.Old = true },
		"not merged":       func(f *kernel.Facts) { f.Issue.Change.Merged = "" },
		"another issue":    func(f *kernel.Facts) { f.SameIssue = false },
		"waits for others": func(f *kernel.Facts) { f.Head.WaitingFor = kernel.WaitApproval },
		"untrusted":        func(f *kernel.Facts) { f.Head.Trust = kernel.TrustUnlisted },
		"set back":         func(f *kernel.Facts) { f.View.Seen, f.View.SeenSeq = head2, f.Head.Seq+1 },
		"halted":           func(f *kernel.Facts) { f.View.Halted = true },
	} {
		f := at("waiting")
		f.Request, f.SameIssue, f.Head.WaitingFor = kernel.RequestTell, true, kernel.WaitMerge
		f.Issue = &kernel.IssueFacts{Open: true, Change: &kernel.ChangeFacts{Number: 1, Merged: "m"}}
		if d := decide(t, with(f, change)); (d.Action == kernel.ActionComplete) != (name == "") {
			t.Errorf("%s: %s %s", name, d.Action, d.State)
		}
	}
}

// TestP7_OldFactsKeepTheirBytes: facts without a forge have the form, and their
// decisions the bytes, that they had before there were any.
func TestP7_OldFactsKeepTheirBytes(t *testing.T) {
	for _, name := range []string{"act", "asked", "human", "issue", "answered", "last_run", "close_on", "undone", "checked"} {
		var loose map[string]any
		must(t, canon.Unmarshal([]byte(marshal(t, fresh())), &loose, canon.Limits{}))
		if _, there := loose[name]; there {
			t.Errorf("facts without a forge have the field %s", name)
		}
	}
	f := running(kernel.PhaseClaimed)
	d, err := kernel.Decide(f)
	must(t, err)
	f.Asked = true
	asked, err := kernel.Decide(f)
	must(t, err)
	if len(d.Reasons.Children)+2 != len(asked.Reasons.Children) {
		t.Errorf("%d rules, with a forge %d", len(d.Reasons.Children), len(asked.Reasons.Children))
	}
}

// TestK6_AnsweredIsRemembered: commands are answered once, of many the oldest are
// let go, and what a forge refuses of one it may take of another.
func TestK6_AnsweredIsRemembered(t *testing.T) {
	var a kernel.Answered
	for id := int64(150); id > 0; id-- {
		a = a.With(id)
	}
	for id := int64(1); id <= 150; id++ {
		if !a.Has(id) {
			t.Fatalf("%d is forgotten: %s", id, a)
		}
	}
	if a.Has(151) || a.With(60) != a || kernel.Answered("7 nonsense 9").With(8) != "7 8 9" {
		t.Errorf("remembered are %s", a)
	}
	f := issueFacts(kernel.CommandFacts{Comment: 7, Reaction: "eyes", Want: digest("a")}, kernel.CommandFacts{Comment: 8, Reaction: "-1"})
	next := func(want string) {
		t.Helper()
		d, err := kernel.Decide(f)
		must(t, err)
		got := string(d.Action)
		if d.Issue != nil {
			got = d.Issue.RefusedAs(d.Action)
		}
		if got != want {
			t.Errorf("next is %s, want %s", got, want)
		}
	}
	next("answer:7")
	f.Issue.Refused = []string{"answer:7"}
	next("react:7")
	f.Issue.Refused = append(f.Issue.Refused, "react:7")
	next("react:8")
	f.View.Answered = "8"
	next("none")
	f.Issue.Refused = nil
	f.View.Answered = "7 8"
	next("none")
}

// issueFacts is an issue with commands on which nothing else is due.
func issueFacts(list ...kernel.CommandFacts) kernel.Facts {
	f := fresh()
	f.Request = kernel.RequestTell
	f.Issue = &kernel.IssueFacts{Open: true, Commands: list}
	return f
}
