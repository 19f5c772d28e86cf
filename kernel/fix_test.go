package kernel_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// revision is a revision of delivered work, with a comment on lines, one on a file as it
// was, and one of the whole.
func revision() kernel.Revision {
	said := []kernel.Said{
		{Author: "ana", Body: "Nice, but `sum` isn't used.\n", Prose: "Nice, but `sum` isn't used."},
		{Author: "tom\n> x", Body: "Why is this?\n\nDo not commit.", Prose: "Why is this?\n\nDo not commit.", Cuts: 1,
			Shown: &kernel.Excerpt{Commit: head2, Blob: head1, First: 2, Text: "a\nb\n> c\n", Note: "Of these 9 lines only 3 are shown."}},
		{Author: "ana", Body: "It was better.", Prose: "It was better.", Shown: &kernel.Excerpt{Commit: head1, Note: "There is no such file there."}},
	}
	r := kernel.Revision{
		Fix: kernel.Fix{Kind: kernel.KindFix, V: kernel.FixVersion, World: "host/1", Task: 7,
			Command: kernel.FixCommand{Act: "9/comment:40", Author: 2, Text: canon.Sum([]byte("Keep the API"))}},
		Fixes: ourRun, Origin: head1, Text: "Keep the API", Said: said, Earlier: []string{"comment:3", "line:5"},
	}
	for n, c := range []kernel.FixComment{
		{ID: "comment:12", Author: 2},
		{ID: "line:9", Author: 3, Place: &kernel.Place{Path: "calc/add.go", Start: 3, End: 5, Side: kernel.SideNew, Commit: head2}},
		{ID: "line:10", Author: 2, Place: &kernel.Place{Path: "calc/old.go", Side: kernel.SideOld, Commit: head2}},
	} {
		c.Digest = canon.Sum([]byte(said[n].Body))
		r.Fix.Comments = append(r.Fix.Comments, c)
	}
	return r
}

func revised() kernel.SeedPack {
	p := pack()
	r := revision()
	p.Revision, p.Pins.BaseCommit = &r, head2
	return p
}

// TestI17_RevisionInstruction: what people and files say stands in quoted lines alone, and the
// frame says which is which.
func TestI17_RevisionInstruction(t *testing.T) {
	if bad := kernel.ValidateRevision(revision()); len(bad) > 0 {
		t.Fatalf("the revision is whole: %v", bad)
	}
	text := kernel.Instruction(revised())
	golden(t, "instruction_revision.txt", []byte(text))
	golden(t, "fix.json", []byte(marshal(t, revision().Fix)))
	evil := revised()
	const word = "EVIL"
	for n := range evil.Revision.Said {
		s, c := &evil.Revision.Said[n], &evil.Revision.Fix.Comments[n]
		s.Author, s.Prose = "x\r\n"+word, "x\u2028"+word+"\v"+word+"\n\n"+word
		if s.Shown != nil {
			s.Shown.Text = "x\f" + word + "\r" + word + "\n"
			c.Place.Path = "x\n" + word
		}
	}
	evil.Revision.Text = "x\u0085" + word
	for _, line := range strings.FieldsFunc(kernel.Instruction(evil), func(r rune) bool { return strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", r) }) {
		if strings.Contains(line, word) && !strings.HasPrefix(line, "> ") && !strings.HasPrefix(line, "Comment ") {
			t.Errorf("it stands in the frame: %q", line)
		}
	}
	alone := revised()
	alone.Revision.Fix.Comments, alone.Revision.Said = []kernel.FixComment{}, []kernel.Said{}
	if text := kernel.Instruction(alone); !strings.Contains(text, "> Keep the API") || strings.Contains(text, "Comment 1") {
		t.Errorf("a text alone:\n%s", text)
	}
}

// TestI17_FixDigest: each part of the list shows in its digest, and a list that isn't whole,
// in its one order, has none.
func TestI17_FixDigest(t *testing.T) {
	sum := func(f kernel.Fix) canon.Digest {
		d, err := kernel.FixDigest(f)
		must(t, err)
		return d
	}
	seen := map[canon.Digest]string{sum(revision().Fix): "nothing"}
	for name, change := range map[string]func(*kernel.Fix){
		"world":     func(f *kernel.Fix) { f.World += "2" },
		"task":      func(f *kernel.Fix) { f.Task++ },
		"command":   func(f *kernel.Fix) { f.Command.Act = "9/comment:41" },
		"commander": func(f *kernel.Fix) { f.Command.Author++ },
		"text":      func(f *kernel.Fix) { f.Command.Text = "" },
		"author":    func(f *kernel.Fix) { f.Comments[0].Author++ },
		"bytes":     func(f *kernel.Fix) { f.Comments[0].Digest = digest("d") },
		"kind":      func(f *kernel.Fix) { f.Comments[2].ID = "review:10" },
		"lines":     func(f *kernel.Fix) { f.Comments[1].Place.End++ },
		"side":      func(f *kernel.Fix) { f.Comments[1].Place.Side = kernel.SideOld },
		"path":      func(f *kernel.Fix) { f.Comments[1].Place.Path = "calc/sub.go" },
		"commit":    func(f *kernel.Fix) { f.Comments[1].Place.Commit = head1 },
		"place":     func(f *kernel.Fix) { f.Comments[1].Place = nil },
		"fewer":     func(f *kernel.Fix) { f.Comments = f.Comments[:2] },
	} {
		f := revision().Fix
		change(&f)
		d := sum(f)
		if same, ok := seen[d]; ok {
			t.Errorf("changing the %s gives the digest of changing %s", name, same)
		}
		seen[d] = name
	}
	for name, spoil := range map[string]func(*kernel.Fix){
		"another kind":         func(f *kernel.Fix) { f.Kind = "issue" },
		"another version":      func(f *kernel.Fix) { f.V++ },
		"no task":              func(f *kernel.Fix) { f.Task = 0 },
		"no command":           func(f *kernel.Fix) { f.Command.Act = "" },
		"nobody":               func(f *kernel.Fix) { f.Command.Author = 0 },
		"no digest":            func(f *kernel.Fix) { f.Command.Text = "sha1:aa" },
		"out of order":         func(f *kernel.Fix) { slices.Reverse(f.Comments) },
		"by letters":           func(f *kernel.Fix) { f.Comments[1].ID, f.Comments[2].ID = "line:10", "line:9" },
		"one twice":            func(f *kernel.Fix) { f.Comments[2].ID = f.Comments[1].ID },
		"no kind of comment":   func(f *kernel.Fix) { f.Comments[2].ID = "issue:10" },
		"another form":         func(f *kernel.Fix) { f.Comments[2].ID = "line:010" },
		"a comment of nobody":  func(f *kernel.Fix) { f.Comments[0].Author = 0 },
		"no bytes":             func(f *kernel.Fix) { f.Comments[0].Digest = "" },
		"no list":              func(f *kernel.Fix) { f.Comments = nil },
		"nothing at all":       func(f *kernel.Fix) { f.Comments, f.Command.Text = []kernel.FixComment{}, "" },
		"above the repository": func(f *kernel.Fix) { f.Comments[1].Place.Path = "../x" },
		"an absolute path":     func(f *kernel.Fix) { f.Comments[1].Place.Path = "/x" },
		"a detour":             func(f *kernel.Fix) { f.Comments[1].Place.Path = "a/../x" },
		"a line feed":          func(f *kernel.Fix) { f.Comments[1].Place.Path = "a\nb" },
		"a line below one":     func(f *kernel.Fix) { f.Comments[1].Place.Start = -1 },
		"half a range":         func(f *kernel.Fix) { f.Comments[1].Place.Start = 0 },
		"a range backwards":    func(f *kernel.Fix) { f.Comments[1].Place.End = 2 },
		"no side":              func(f *kernel.Fix) { f.Comments[1].Place.Side = "LEFT" },
		"no commit":            func(f *kernel.Fix) { f.Comments[1].Place.Commit = "main" },
		"too many": func(f *kernel.Fix) {
			f.Comments = nil
			for n := range kernel.MaxFixComments + 1 {
				f.Comments = append(f.Comments, kernel.FixComment{ID: kernel.CommentID("line", int64(n+1)), Author: 1, Digest: digest("d")})
			}
		},
	} {
		f := revision().Fix
		spoil(&f)
		if d, err := kernel.FixDigest(f); err == nil {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestI17_RevisionFaults: what the builder is told is exactly what was approved.
func TestI17_RevisionFaults(t *testing.T) {
	for name, spoil := range map[string]func(*kernel.Revision){
		"another's bytes":         func(r *kernel.Revision) { r.Said[0].Body += " And more." },
		"another text":            func(r *kernel.Revision) { r.Text = "Break the API" },
		"a text of nobody":        func(r *kernel.Revision) { r.Fix.Command.Text = "" },
		"a comment is missing":    func(r *kernel.Revision) { r.Said = r.Said[:2] },
		"one too many":            func(r *kernel.Revision) { r.Said = append(r.Said, r.Said[0]) },
		"in another order":        func(r *kernel.Revision) { slices.Reverse(r.Said) },
		"nothing is told":         func(r *kernel.Revision) { r.Said[0].Prose = " \n" },
		"a place that isn't his":  func(r *kernel.Revision) { r.Said[0].Shown = r.Said[1].Shown },
		"a place that is missing": func(r *kernel.Revision) { r.Said[1].Shown = nil },
		"told before":             func(r *kernel.Revision) { r.Earlier = []string{"comment:3", "line:9"} },
		"earlier out of order":    func(r *kernel.Revision) { slices.Reverse(r.Earlier) },
		"no result":               func(r *kernel.Revision) { r.Fixes = "" },
		"no base":                 func(r *kernel.Revision) { r.Origin = "" },
		"the list is none":        func(r *kernel.Revision) { r.Fix.V++ },
		"too many bytes": func(r *kernel.Revision) {
			r.Said[0].Body = strings.Repeat("x", kernel.MaxFixBytes)
			r.Fix.Comments[0].Digest = canon.Sum([]byte(r.Said[0].Body))
		},
	} {
		r := revision()
		spoil(&r)
		if len(kernel.ValidateRevision(r)) == 0 {
			t.Errorf("%s: it has no fault", name)
		}
	}
	r := revision()
	if got, want := r.Covered(), []string{"comment:3", "comment:12", "line:5", "line:9", "line:10"}; !slices.Equal(got, want) {
		t.Errorf("covered are %v, want %v", got, want)
	}
	if got := (*kernel.Revision)(nil).Covered(); got == nil || len(got) > 0 {
		t.Errorf("the first revision covers %v", got)
	}
}

// reviewed is delivered work that somebody asks for a revision of.
func reviewed(state, waitsFor string) kernel.Facts {
	return with(delivered(state, waitsFor), func(f *kernel.Facts) {
		f.Refresh = nil
		f.Fix = &kernel.FixFacts{Run: ourRun, Head: head2, Digest: digest("f"), Act: "6/comment:2", Actor: "2:ana", Faults: []kernel.Violation{}, Left: breaks(kernel.CodeReviewLeftOut)}
	})
}

// TestE1_FixIsAskedLikeAClaim: a revision begins only where anything could be claimed,
// over a completed task, too, and counts nothing against the delivered work. Otherwise that
// stays as it is.
func TestE1_FixIsAskedLikeAClaim(t *testing.T) {
	poor := func(f *kernel.Facts) {
		f.Budget = &kernel.BudgetFacts{Attempt: kernel.Spend{Tokens: 5}, Pots: []kernel.Pot{{Scope: kernel.ScopeTask, Limit: kernel.Spend{Tokens: 4}}}}
	}
	if d := decide(t, with(reviewed("completed", ""), poor)); d.Wake <= now {
		t.Errorf("a budget that is spent is looked at again at %d", d.Wake)
	}
	for _, c := range [][2]string{{"completed", ""}, {"waiting", kernel.WaitMerge}} {
		f := reviewed(c[0], c[1])
		d := decide(t, f)
		if d.Action != kernel.ActionClaim || d.Fixes != ourRun || d.Fix != digest("f") || d.Resumes+d.Refreshes != "" || d.Attempt != 2 || d.Interruptions != 1 {
			t.Errorf("%s: %s, revision over %q with %s, attempt %d", c[0], d.Action, d.Fixes, d.Fix, d.Attempt)
		}
		standing := decide(t, with(f, func(f *kernel.Facts) { f.Fix = nil }))
		no := keptBack(func(f *kernel.Facts) string { return f.Fix.Act })
		no["the head moved"] = func(f *kernel.Facts) { f.Fix.Faults = breaks(kernel.CodeBranchTaken) }
		no["there is no list"] = func(f *kernel.Facts) { f.Fix.Digest = "" }
		no["the budget is spent"] = poor
		for name, change := range no {
			if d := decide(t, with(reviewed(c[0], c[1]), change)); d.Action != kernel.ActionNone || d.Standing != standing.Standing {
				t.Errorf("%s, %s: %s, stands %s", c[0], name, d.Action, d.Standing)
			}
		}
	}
	late := with(reviewed("completed", ""), func(f *kernel.Facts) {
		f.Head.RefreshAct, f.Head.RefreshOwed, f.Head.NotBefore, f.Head.RefreshInterruptions = f.Fix.Act, true, now+5, 2
	})
	if d := decide(t, late); d.Wake != now+5 {
		t.Errorf("it is looked at again at %d", d.Wake)
	}
	if d := decide(t, with(late, func(f *kernel.Facts) { f.Now += 5 })); d.Fixes == "" || d.RefreshInterruptions != 2 {
		t.Errorf("once it is due: %s after %d", d.Action, d.RefreshInterruptions)
	}
	if d := decide(t, with(reviewed("completed", ""), func(f *kernel.Facts) { f.Environment = breaks(kernel.CodeSandboxUnavailable) })); d.Wake <= now {
		t.Errorf("what the host lacks is waited for until %d", d.Wake)
	}
}

// cutOff is delivered work whose revision was cut off after its builder had ended; the act
// that asked for it is to be done again.
func cutOff(state, waitsFor string) kernel.Facts {
	return with(reviewed(state, waitsFor), func(f *kernel.Facts) {
		f.Head.RefreshAct, f.Head.RefreshOwed, f.Head.RefreshInterruptions = f.Fix.Act, true, 1
		f.Sealed = &kernel.SealedFacts{Run: theirs, Attempt: 2, Approval: f.Approved, Governance: f.Governance, Base: f.Fix.Head, Fix: f.Fix.Digest}
	})
}

// TestK11_CutOffRevisionGoesOn: a revision goes on with what one had sealed that was cut
// off, for the very same act and list, on the delivered commit, and reserves nothing for a
// builder. Otherwise it starts one.
func TestK11_CutOffRevisionGoesOn(t *testing.T) {
	poor := &kernel.BudgetFacts{Attempt: kernel.Spend{Tokens: 5}, Pots: []kernel.Pot{{Scope: kernel.ScopeTask, Limit: kernel.Spend{Tokens: 4}}}}
	for _, c := range [][2]string{{"completed", ""}, {"waiting", kernel.WaitMerge}} {
		f := with(cutOff(c[0], c[1]), func(f *kernel.Facts) { f.Budget = poor })
		d := decide(t, f)
		if d.Action != kernel.ActionClaim || d.Fixes != ourRun || d.Fix != digest("f") || d.Resumes != theirs || d.Refreshes != "" || d.RefreshInterruptions != 1 || f.Pays() || f.Resumable() {
			t.Fatalf("%s: %s, revision over %q with %s, goes on with %q after %d", c[0], d.Action, d.Fixes, d.Fix, d.Resumes, d.RefreshInterruptions)
		}
		for name, change := range map[string]func(*kernel.Facts){
			"nothing is sealed":      func(f *kernel.Facts) { f.Sealed = nil },
			"a fault was found":      func(f *kernel.Facts) { f.Sealed.Faults = breaks(kernel.CodeEvidenceInvalid) },
			"of another approval":    func(f *kernel.Facts) { f.Sealed.Approval = digest("e") },
			"under another contract": func(f *kernel.Facts) { f.Sealed.Governance = digest("e") },
			"of another attempt":     func(f *kernel.Facts) { f.Sealed.Attempt = 1 },
			"of no run":              func(f *kernel.Facts) { f.Sealed.Run = "" },
			"for another list":       func(f *kernel.Facts) { f.Sealed.Fix = digest("e") },
			"for none":               func(f *kernel.Facts) { f.Sealed.Fix = "" },
			"on another commit":      func(f *kernel.Facts) { f.Sealed.Base = head1 },
			"asked for anew":         func(f *kernel.Facts) { f.Fix.Act = "7/comment:3" },
			"the act is spent":       func(f *kernel.Facts) { f.Head.RefreshOwed, f.Head.RefreshAct = false, "" },
		} {
			f := cutOff(c[0], c[1])
			change(&f)
			if d := decide(t, f); d.Action != kernel.ActionClaim || d.Fixes != ourRun || d.Resumes != "" || !f.Pays() {
				t.Errorf("%s, %s: %s, fixes %q, goes on with %q, pays %t", c[0], name, d.Action, d.Fixes, d.Resumes, f.Pays())
			}
		}
	}
	refresh := with(cutOff("completed", ""), func(f *kernel.Facts) {
		f.Refresh = delivered("completed", "").Refresh
	})
	if d := decide(t, refresh); d.Refreshes == "" || d.Fixes != "" || d.Resumes != refresh.Refresh.Resumes {
		t.Errorf("an older refresh comes first: refreshes %q, fixes %q, goes on with %q", d.Refreshes, d.Fixes, d.Resumes)
	}
	if stalled := with(interrupted(), func(f *kernel.Facts) { f.Sealed.Fix = digest("f") }); stalled.Resumable() {
		t.Error("the first delivery goes on with a revision's work")
	}
}

// TestP1_HeldRevisionIsAccepted: a revision that waits for its guarded paths goes on once they
// are accepted, and with nothing but the work that was shown for that. It isn't looked at
// again by itself, and isn't built anew for who doesn't ask anew.
func TestP1_HeldRevisionIsAccepted(t *testing.T) {
	waits := func() kernel.Facts {
		return with(cutOff("waiting", kernel.WaitMerge), func(f *kernel.Facts) {
			f.Head.RefreshWaits, f.Head.RefreshInterruptions, f.Paths = kernel.WaitPaths, 0, guardedBy("", "")
		})
	}
	if f := waits(); !f.ReplacementHeld() || f.FixLapsed() || decide(t, f).Action != kernel.ActionNone || decide(t, f).Wake != 0 {
		t.Errorf("it isn't accepted: %s, looked at again at %d", decide(t, f).Action, decide(t, f).Wake)
	}
	if d := decide(t, with(waits(), func(f *kernel.Facts) { f.Paths = guardedBy("admin", "a") })); d.Action != kernel.ActionClaim || d.Fixes != ourRun || d.Resumes != theirs {
		t.Errorf("it is accepted: %s, fixes %q, goes on with %q", d.Action, d.Fixes, d.Resumes)
	}
	for name, change := range map[string]func(*kernel.Facts){
		"its work is lost":         func(f *kernel.Facts) { f.Sealed, f.Paths = nil, nil },
		"its work is faulty":       func(f *kernel.Facts) { f.Sealed.Faults, f.Paths = breaks(kernel.CodeEvidenceInvalid), nil },
		"it is for another list":   func(f *kernel.Facts) { f.Fix.Digest = digest("9") },
		"nobody has shown it":      func(f *kernel.Facts) { f.Paths = nil },
		"the wait was turned down": func(f *kernel.Facts) { f.Policy = breaks(kernel.CodeTaskStopped) },
	} {
		f := waits()
		f.Paths = guardedBy("admin", "a")
		change(&f)
		if d := decide(t, f); d.Action != kernel.ActionNone || d.Wake != 0 || f.ReplacementHeld() {
			t.Errorf("%s: %s, looked at again at %d", name, d.Action, d.Wake)
		}
	}
	anew := with(waits(), func(f *kernel.Facts) { f.Fix.Act, f.Paths = "7/comment:3", nil })
	if d := decide(t, anew); d.Action != kernel.ActionClaim || d.Resumes != "" || anew.FixLapsed() {
		t.Errorf("asked for anew: %s, goes on with %q", d.Action, d.Resumes)
	}
	refresh := with(delivered("waiting", kernel.WaitMerge), func(f *kernel.Facts) {
		f.Refresh.Auto, f.Paths = &kernel.AutoRefresh{Nth: 1, Most: 3, Due: now - 1}, guardedBy("", "")
	})
	if !refresh.ReplacementHeld() || decide(t, refresh).Wake != 0 {
		t.Errorf("a refresh is held: %t, looked at again at %d", refresh.ReplacementHeld(), decide(t, refresh).Wake)
	}
}

// TestE1_OlderActFirst: of two acts over delivered work the older one is done first.
func TestE1_OlderActFirst(t *testing.T) {
	both := func(fix string) kernel.Decision {
		return decide(t, with(reviewed("completed", ""), func(f *kernel.Facts) {
			f.Refresh, f.Fix.Act = delivered("completed", "").Refresh, fix
		}))
	}
	for act, refreshes := range map[string]bool{"4/comment:9": false, "6/comment:9": true} {
		f := with(reviewed("completed", ""), func(f *kernel.Facts) { f.Refresh, f.Fix.Act = delivered("completed", "").Refresh, act })
		if f.Refreshable() != refreshes {
			t.Errorf("a revision that was asked for by %s: refreshable is %t", act, !refreshes)
		}
	}
	if d := both("4/comment:9"); d.Fixes == "" || d.Refreshes != "" {
		t.Errorf("the revision was asked for first: fixes %q, refreshes %q", d.Fixes, d.Refreshes)
	}
	if d := both("6/comment:9"); d.Fixes != "" || d.Refreshes == "" {
		t.Errorf("the refresh was asked for first: fixes %q, refreshes %q", d.Fixes, d.Refreshes)
	}
	auto := decide(t, with(reviewed("completed", ""), func(f *kernel.Facts) {
		f.Refresh = delivered("completed", "").Refresh
		f.Refresh.Auto = &kernel.AutoRefresh{Nth: 1, Most: 3}
	}))
	if auto.Fixes == "" || auto.Refreshes != "" {
		t.Errorf("the contract asked for a refresh before: fixes %q, refreshes %q", auto.Fixes, auto.Refreshes)
	}
}

// TestE1_PersonBeforeTheContract: what the contract asks for by itself comes after what a
// person asks for, and keeps nobody waiting until it is due.
func TestE1_PersonBeforeTheContract(t *testing.T) {
	d := decide(t, with(reviewed("waiting", kernel.WaitMerge), func(f *kernel.Facts) {
		f.Refresh, f.Fix.Act = delivered("waiting", kernel.WaitMerge).Refresh, "6/comment:9"
		f.Refresh.Auto = &kernel.AutoRefresh{Nth: 1, Most: 5, Due: now + 1}
	}))
	if d.Fixes == "" || d.Refreshes != "" {
		t.Errorf("fixes %q, refreshes %q", d.Fixes, d.Refreshes)
	}
}

// TestE1_FixPutsTheResultBack: whatever else than its own result a revision comes to,
// the delivered one stands again; what cut it off is counted for the act alone.
func TestE1_FixPutsTheResultBack(t *testing.T) {
	fixing := func(f *kernel.Facts) {
		f.Head.Fixes, f.Head.OriginState = ourRun, "waiting"
		if f.Run != nil {
			f.Run.Fixes = theirs
		}
	}
	for name, c := range map[string]struct {
		f     kernel.Facts
		again bool
		cut   int64
	}{
		"its builder fails":   {with(running(kernel.PhaseBuilt), func(f *kernel.Facts) { f.Run.Build = breaks(kernel.CodeNoOutput) }), false, 0},
		"it leaves the scope": {with(running(kernel.PhaseBuilt), func(f *kernel.Facts) { f.Run.Scope = breaks(kernel.CodeScopeOutside) }), false, 0},
		"its checks fail":     {with(running(kernel.PhaseChecked), func(f *kernel.Facts) { f.Run.CheckFails = breaks(kernel.CodeCheckFailed) }), false, 0},
		"somebody stops it":   {with(running(kernel.PhaseBuilding), func(f *kernel.Facts) { f.Request = kernel.RequestStop }), false, 0},
		"the process ends":    {with(running(kernel.PhaseBuilding), func(f *kernel.Facts) { f.Request = kernel.RequestShutdown }), true, 1},
		"the process is dead": {with(at(kernel.HeadWorking), func(f *kernel.Facts) { f.Head.LeaseExpired, f.Head.Attempt = true, 1 }), true, 1},
	} {
		before := c.f.Head.Interruptions
		d := decide(t, with(c.f, fixing))
		if d.Action == kernel.ActionJudge { // a verdict that is pushed next
			d = decide(t, with(with(c.f, fixing), func(f *kernel.Facts) {
				f.Run.Phase, f.Run.Judgement = kernel.PhaseJudged, &kernel.Judgement{State: d.State, WaitingFor: d.WaitingFor}
			}))
		}
		if d.Action != kernel.ActionRestore || d.State != kernel.TaskWaiting || d.WaitingFor != kernel.WaitMerge || d.Interruptions != before || d.AsksAgain != c.again || d.RefreshInterruptions != c.cut {
			t.Errorf("%s: %s to %s for %q, %d interruptions, asks again %t after %d", name, d.Action, d.State, d.WaitingFor, d.Interruptions, d.AsksAgain, d.RefreshInterruptions)
		}
	}
	if d := decide(t, with(running(kernel.PhaseChecked), fixing)); d.Action != kernel.ActionJudge || d.State != kernel.TaskCompleted {
		t.Errorf("its checks pass: %s, %s", d.Action, d.State)
	}
}
