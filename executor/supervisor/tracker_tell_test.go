package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// drive drives the task once and gives the place away.
func (f *forged) drive() Status {
	f.t.Helper()
	st, err := f.task.Drive(f.t.Context(), DriveOptions{Actor: "writ", Yield: true})
	must(f.t, err)
	return st
}

// withBranch tells the fake forge of the change branch before it is asked for it.
func (f *forged) withBranch() {
	f.scene.Bot.Before(forgetest.On(forgetest.OpenChange), forgetest.Always, func(forgetest.Call) {
		f.scene.SetBranch(f.scene.Repo, f.scene.Robot.User, "writ/change/1", gittest.RefOID(f.bare, changeRef))
	})
}

// newTold is an approved issue over a forge that knows the change branch.
func newTold(t *testing.T, change func(*forged)) *forged {
	t.Helper()
	f := newForged(t, func(f *forged) {
		f.withBranch()
		if change != nil {
			change(f)
		}
	})
	f.label(f.scene.Owner)
	return f
}

func (f *forged) forgeIssue() forge.Issue {
	f.t.Helper()
	i, err := f.scene.Owner.Issue(f.t.Context(), f.scene.Repo, 1)
	must(f.t, err)
	return i
}

// status are writ's comments with a marker of this kind.
func (f *forged) marked(kind string) (out []forge.Comment) {
	f.t.Helper()
	list, err := f.scene.Owner.Comments(f.t.Context(), f.scene.Repo, 1)
	must(f.t, err)
	for _, k := range list {
		if k.Author.ID == f.scene.Robot.ID && strings.HasPrefix(k.Body, "<!-- writ:"+kind+":local/test/repo:1 run=") {
			out = append(out, k)
		}
	}
	return out
}

// shows fails unless the issue shows a state: one status comment that says it,
// its label and no other of writ's, open or closed.
func (f *forged) shows(says, label string, open bool) {
	f.t.Helper()
	i := f.forgeIssue()
	var ours []string
	for _, l := range i.Labels {
		if strings.HasPrefix(l, "writ:") {
			ours = append(ours, l)
		}
	}
	if strings.Join(ours, " ") != label || (i.State == forge.Open) != open || !slices.Contains(i.Labels, "writ") {
		f.t.Errorf("labels %v, %s; want %q, open %v", i.Labels, i.State, label, open)
	}
	list := f.marked("task")
	if len(list) != 1 || !strings.Contains(list[0].Body, says) {
		f.t.Errorf("%d status comments, want one that says %q: %+v", len(list), says, list)
	}
}

// acts are the closings and reopenings of an account.
func (f *forged) acts(by *forgetest.Account, kind forge.EventKind) (n int) {
	f.t.Helper()
	list, err := f.scene.Owner.History(f.t.Context(), f.scene.Repo, 1)
	must(f.t, err)
	for _, e := range list {
		if e.Kind == kind && e.Actor.ID == by.ID {
			n++
		}
	}
	return n
}

// effects are how often a kind of effect came to an outcome.
func (f *forged) effects(a kernel.Action, s kernel.OutcomeStatus) (n int) {
	f.t.Helper()
	for _, r := range f.records() {
		if r.Kind == kernel.KindOutcome && strings.Contains(string(r.Body), fmt.Sprintf(`"effect":%q`, a)) && strings.Contains(string(r.Body), fmt.Sprintf(`"status":%q`, s)) {
			n++
		}
	}
	return n
}

// showsInstruction expects the exact instruction in the status comment, folded
// and as code.
func (f *forged) showsInstruction(told string) {
	f.t.Helper()
	want := "<details>\n<summary>The exact instruction</summary>\n\n```text\n" + told + "```\n\n</details>\n"
	if body := f.marked("task")[0].Body; told == "" || strings.Count(body, want) != 1 {
		f.t.Errorf("the instruction isn't there once:\n%s", body)
	}
}

// TestI15_TheInstructionIsCode: nothing in it ends the block, and what is too
// long for a comment is in the evidence.
func TestI15_TheInstructionIsCode(t *testing.T) {
	t.Parallel()
	if got := instructionText("> ```\n> ````\n", 1000); !strings.Contains(got, "`````text\n> ```\n> ````\n`````\n") {
		t.Errorf("%s", got)
	}
	for _, told := range []string{"", strings.Repeat("x\n", 500)} {
		if got := instructionText(told, 500); !strings.Contains(got, "evidence, in `dispatch.json`") || len(got) > 200 {
			t.Errorf("%q: %s", told, got)
		}
	}
}

// TestE2_TheWholeIssue: what people see from the claim to the end, and the
// evidence of a run verifies with what was told in the middle of it.
func TestE2_TheWholeIssue(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	f.reach(kernel.ActionDispatch)
	for range 8 {
		st, err := f.task.Tick(t.Context(), kernel.RequestTell, "writ")
		must(t, err)
		if st.Decision.Action == kernel.ActionNone {
			break
		}
	}
	f.shows("is being worked on", kernel.LabelClaimed, true)
	told := f.task.worker.run.dispatch.Instruction
	f.showsInstruction(told)
	f.exec.finish()
	if st := f.drive(); st.Decision.State != kernel.TaskCompleted || st.Wake != 0 {
		t.Errorf("%s, wake %d", st.Decision.State, st.Wake)
	}
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	f.showsInstruction(told)
	f.verify(stateRef)
	change, err := f.scene.Owner.FindChange(t.Context(), f.scene.Repo, "writ/change/1", "")
	must(t, err)
	if change.Title != "writ: Say hello (#1)" || change.Base != "main" || !strings.Contains(f.marked("task")[0].Body, change.URL) {
		t.Errorf("the change is %+v", change)
	}
	before := len(f.scene.Bot.Calls(forgetest.Writes()))
	f.open()
	f.drive()
	if n := len(f.scene.Bot.Calls(forgetest.Writes())); n != before {
		t.Errorf("%d writes more for an issue that shows everything", n-before)
	}
	if n := f.acts(f.scene.Robot, forge.EventClosed); n != 1 {
		t.Errorf("closed %d times", n)
	}
}

// TestF5_AppliedAndLost: every write is done and its answer lost, one after the
// other, and the process may die as well: still one comment, one close, one
// change.
func TestF5_AppliedAndLost(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint(restart), func(t *testing.T) {
			f := newTold(t, nil)
			f.scene.Bot.Fail(forgetest.Writes(), 6, forgetest.Fault{Reason: forge.Unavailable, Applied: true})
			for range 12 {
				if f.drive().Wake == 0 {
					break
				}
				f.clock.advance(60_000)
				if restart {
					f.open()
				}
			}
			f.shows("task 1 completed", kernel.LabelCompleted, false)
			for op, want := range map[forgetest.Op]int{forgetest.AddComment: 1, forgetest.OpenChange: 1, forgetest.SetState: 1} {
				if n := len(f.scene.Bot.Calls(forgetest.On(op))); n != want {
					t.Errorf("%s was sent %d times", op, n)
				}
			}
			if f.effects(kernel.ActionComment, kernel.OutcomeUnknown) != 1 || f.effects(kernel.ActionComment, kernel.OutcomeDone) != 1 {
				t.Error("the lost answer, and what was found then, are not both recorded")
			}
		})
	}
}

// TestF5_Duplicates: two replicas that told at once leave one comment, and every
// instance keeps the same one.
func TestF5_Duplicates(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.drive()
	kept := f.marked("task")[0]
	for range 3 {
		_, err := f.scene.Robot.AddComment(t.Context(), f.scene.Repo, 1, "<!-- writ:task:local/test/repo:1 run=old -->\nan older run\n")
		must(t, err)
	}
	must(t, f.scene.Robot.EditComment(t.Context(), f.scene.Repo, kept.ID, "<!-- writ:task:local/test/repo:1 run=old -->\nby a stale owner\n"))
	_, err := f.scene.Reader.AddComment(t.Context(), f.scene.Repo, 1, "<!-- writ:task:local/test/repo:1 run=x -->\nnot ours\n")
	must(t, err)
	f.clock.advance(tellerTime.Milliseconds()) // of that run git never had anything: see lag.go
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	if now := f.marked("task")[0]; now.ID != kept.ID || now.Body != kept.Body {
		t.Errorf("kept is %d, was %d", now.ID, kept.ID)
	}
	all, err := f.scene.Owner.Comments(t.Context(), f.scene.Repo, 1)
	must(t, err)
	if len(all) != 2 {
		t.Errorf("%d comments, want ours and the one of somebody who imitates it", len(all))
	}
}

// TestF4_NoAnswers: a forge that gives none leaves git as it is; the issue is
// moved when it is back, and nothing is counted.
func TestF4_NoAnswers(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.reach(kernel.ActionResult)
	head := f.ref(stateRef)
	f.scene.Bot.Fail(forgetest.Writes(), forgetest.Always, forgetest.Fault{Reason: forge.Limited, RetryAfter: 5 * time.Minute})
	st := f.drive()
	if st.Decision.Standing != kernel.StandFinal || st.Wake != f.clock.Now().WallMs+300_000 {
		t.Errorf("%s, wake in %d ms", st.Decision.Standing, st.Wake-f.clock.Now().WallMs)
	}
	if f.ref(stateRef) != head || f.forgeIssue().State != forge.Open {
		t.Error("something moved")
	}
	f.scene.Bot.Clear()
	f.withBranch()
	f.clock.advance(300_000)
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
}

// TestF6_Refused: what the forge refuses for good is not asked again while HEAD
// stands, and keeps nothing else from being shown. Without the change that carries
// the work the issue isn't closed, and says why; one that a person opens will do.
func TestF6_Refused(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.scene.Bot.Fail(forgetest.On(forgetest.AddLabel, forgetest.OpenChange), forgetest.Always, forgetest.Fault{Reason: forge.Forbidden})
	f.drive()
	f.drive()
	f.shows("The forge refused to open the change", "", true)
	if n := len(f.scene.Bot.Calls(forgetest.On(forgetest.AddLabel, forgetest.OpenChange))); n != 2 {
		t.Errorf("the forge was asked %d times for what it refuses", n)
	}
	_, err := f.scene.Owner.OpenChange(t.Context(), f.scene.Repo, forge.Change{Title: "By hand", Head: f.task.tracker.changeBranch(), Base: "main"})
	must(t, err)
	f.later()
	f.shows("task 1 completed", "", false)
}

// TestF7_ReopenedByAPerson: after writ's closing the last word is a person's.
func TestF7_ReopenedByAPerson(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.drive()
	must(t, f.scene.Owner.SetState(t.Context(), f.scene.Repo, 1, forge.Open))
	must(t, f.scene.Owner.RemoveLabel(t.Context(), f.scene.Repo, 1, kernel.LabelCompleted))
	must(t, f.scene.Owner.AddLabel(t.Context(), f.scene.Repo, 1, kernel.LabelBlocked))
	for range 3 {
		f.clock.advance(3_600_000)
		f.drive()
	}
	f.shows("task 1 completed", kernel.LabelBlocked, true)
	if n := f.acts(f.scene.Robot, forge.EventClosed); n != 1 {
		t.Errorf("closed %d times", n)
	}
	if d := body[kernel.Decision](f.bench, kernel.KindDecision); !slices.Contains(d.Codes, kernel.CodeSuperseded) {
		t.Errorf("recorded are %v", d.Codes)
	}
}

// TestF7_ReopenedBeforeTheResult: a person who puts a false closing right has not
// spoken about a result that comes later.
func TestF7_ReopenedBeforeTheResult(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.build = failing })
	f.drive()
	must(t, f.scene.Robot.SetState(t.Context(), f.scene.Repo, 1, forge.Closed))
	must(t, f.scene.Owner.SetState(t.Context(), f.scene.Repo, 1, forge.Open))
	f.exec.build = writes(map[string]string{"out.txt": "hello\n"})
	f.clock.advance(3_600_000)
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
}

// TestF7_ClosedByAPersonMidRun: it stays closed, and that is shown.
func TestF7_ClosedByAPersonMidRun(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	f.reach(kernel.ActionDispatch)
	f.clock.advance(1000)
	must(t, f.scene.Owner.SetState(t.Context(), f.scene.Repo, 1, forge.Closed))
	f.wants(f.drive(), kernel.StandWaiting)
	f.shows(string(kernel.CodeSuperseded), "", false)
	if n := f.acts(f.scene.Robot, forge.EventReopened); n != 0 {
		t.Errorf("reopened %d times", n)
	}
}

// TestF7_ClosedByABot: a bot that the contract doesn't name doesn't end a run; its
// closing is put back, once.
func TestF7_ClosedByABot(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	stale := f.scene.AddUser("stale[bot]", forge.Bot)
	f.scene.Grant(f.scene.Repo, stale.ID, forge.Write)
	f.reach(kernel.ActionDispatch)
	for n := 1; n < 3; n++ {
		f.clock.advance(1000)
		must(t, stale.SetState(t.Context(), f.scene.Repo, 1, forge.Closed))
		for range 8 {
			st, err := f.task.Tick(t.Context(), kernel.RequestTell, "writ")
			must(t, err)
			if st.Decision.Action == kernel.ActionNone {
				break
			}
		}
		if got := f.acts(f.scene.Robot, forge.EventReopened); got != n {
			t.Errorf("reopened %d times for %d closings", got, n)
		}
	}
	f.exec.finish()
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
}

// TestL9_FalseClose: a close that slipped out of a stale owner's pause is put
// back, because HEAD doesn't bear it out.
func TestL9_FalseClose(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.build = failing })
	f.drive()
	must(t, f.scene.Robot.SetState(t.Context(), f.scene.Repo, 1, forge.Closed))
	f.drive()
	f.shows("retry_pending", kernel.LabelRetryPending, true)
}

// TestE2_HeadIsReadBeforeTheClose: if HEAD moves between the decision and the
// close, nothing is closed.
func TestE2_HeadIsReadBeforeTheClose(t *testing.T) {
	t.Parallel()
	moved := false
	f := newTold(t, func(f *forged) {
		f.place.wrap = func(r Repo) Repo {
			return read{r, func() {
				if !moved && slices.Contains(f.forgeIssue().Labels, kernel.LabelCompleted) { // the close is next
					moved = true
					gittest.Commit(t, f.bare, stateRef, f.ref(stateRef), map[string]string{"x": "y"})
				}
			}}
		}
	})
	f.drive()
	if n := f.acts(f.scene.Robot, forge.EventClosed); !moved || n != 0 {
		t.Errorf("HEAD moved: %v, closed %d times", moved, n)
	}
}

// read does something each time before refs are read.
type read struct {
	Repo
	before func()
}

func (r read) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	r.before()
	return r.Repo.Refs(ctx, names...)
}

// TestE2_HeadMovesDuringAnEffect: HEAD moves while the forge carries an effect out, whichever
// of a pass it is, and the issue tells of the new HEAD once the pass is over.
func TestE2_HeadMovesDuringAnEffect(t *testing.T) {
	t.Parallel()
	drives := func(f *forged) { f.drive() }
	for _, when := range []struct {
		name string
		tell func(*forged)
		last forgetest.Op
	}{
		{"in the middle", drives, forgetest.AddComment},
		{"at the end", drives, forgetest.AddLabel},
		{"at the end, told while it waits", func(f *forged) { (&drive{task: f.task}).tellOf(f.t.Context(), "writ", tellMost) }, forgetest.AddLabel},
	} {
		t.Run(when.name, func(t *testing.T) {
			t.Parallel()
			f := newTold(t, func(f *forged) { f.exec.build = failing })
			f.tickTo(func(Status) bool { return f.trailer("aynig-state") == "retry_pending" }, "failed once")
			f.scene.Bot.After(forgetest.On(when.last), 1, f.strays)
			when.tell(f)
			f.shows("waits for somebody to look at its state", "", true)
			if when.last == forgetest.AddComment && f.effects(kernel.ActionLabel, kernel.OutcomeDone) > 0 {
				t.Error("the label of what HEAD said before was set")
			}
		})
	}
}

// strays puts a commit at HEAD that is no state.
func (f *forged) strays(forgetest.Call) {
	gittest.Commit(f.t, f.bare, stateRef, f.ref(stateRef), map[string]string{"x": "y"})
}

// TestE2_HeadMovesWhileTheIssueIsRead: HEAD moves after it was read, while the forge takes its
// time, and nothing is to be done by what was read. The pass ends by HEAD as it is.
func TestE2_HeadMovesWhileTheIssueIsRead(t *testing.T) {
	t.Parallel()
	for _, attempts := range []string{"1", "2"} { // it is blocked, or tried again later
		f := newTold(t, func(f *forged) {
			f.exec.build = failing
			f.place.terms = "version: 1\nbudgets: {attempts: " + attempts + "}\n"
		})
		f.drive()
		f.scene.Bot.After(forgetest.On(forgetest.Issue), 1, func(c forgetest.Call) {
			f.clock.advance(3000)
			f.strays(c)
		})
		f.drive()
		f.shows("waits for somebody to look at its state", "", true)
	}
}

// TestK8_BlockedAlertsOnce: those whom the contract names are told once, whatever
// is restarted or looked at again.
func TestK8_BlockedAlertsOnce(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) {
		f.exec.build = failing
		f.place.terms = "version: 1\nbudgets: {attempts: 1}\nnotify: [ana, \"@acme/leads\"]\n"
	})
	f.scene.Bot.Fail(forgetest.On(forgetest.AddComment), 2, forgetest.Fault{Reason: forge.Unavailable, Applied: true})
	for range 4 {
		f.drive()
		f.clock.advance(60_000)
		f.open()
	}
	f.shows("task 1 is blocked", kernel.LabelBlocked, true)
	if list := f.marked("alert"); len(list) != 1 || !strings.Contains(list[0].Body, "@ana, @acme/leads") {
		t.Errorf("alerts: %+v", list)
	}
}

// TestI3_AnswersWithTheDigest: what waits for an approval says so on the issue;
// what nobody asked for by right is not answered at all.
func TestI3_AnswersWithTheDigest(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) { f.place.forge.Client, f.place.forge.EditHistory = mute{f.scene.Bot}, false })
	f.comment(f.scene.Reader, "/writ run")
	f.wants(f.drive(), kernel.StandRefused, kernel.CodeAuthority)
	if list := f.marked("task"); len(list) != 0 {
		t.Errorf("a stranger was answered: %+v", list)
	}
	f.label(f.scene.Owner)
	f.drive()
	f.drive()
	f.shows("/writ approve "+string(digestText("Say hello", issueBody)), "", true)
}

// TestI8_ObserveCommentsOnce: a contract that says observe has one comment made
// and nothing else.
func TestI8_ObserveCommentsOnce(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.place.terms = "version: 1\nmode: observe\n" })
	f.drive()
	f.clock.advance(60_000)
	f.drive()
	f.shows(string(kernel.CodeObserveOnly), "", true)
	if n := len(f.scene.Bot.Calls(forgetest.Writes())); n != 1+1 { // and the label's making
		t.Errorf("%d writes", n)
	}
}

// TestF1_CommentFits: whatever a report holds, the comment stays within what a
// forge takes.
func TestF1_CommentFits(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) {
		long := map[string]string{}
		for i := range 90 {
			long[fmt.Sprintf("d%02d%s/x", i, strings.Repeat("/"+strings.Repeat("語", 60), 6))] = "x"
		}
		f.exec.build = writes(long)
	})
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	if k := f.marked("task")[0]; len(k.Body) > maxComment {
		t.Errorf("a comment of %d bytes", len(k.Body))
	}
}

// asChange is a forge on which every number is a change's.
type asChange struct{ *forgetest.Faults }

func (a asChange) Issue(ctx context.Context, r forge.Repo, number int64) (forge.Issue, error) {
	i, err := a.Faults.Issue(ctx, r, number)
	i.IsChange = true
	return i, err
}

// TestI17_AChangeIsNoTask: a change whose number somebody named as a task's is told nothing, and
// what is said on it isn't answered as if it were an issue.
func TestI17_AChangeIsNoTask(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) { f.place.forge.Client = asChange{f.scene.Bot} })
	must(t, f.scene.Owner.EditIssue(t.Context(), f.scene.Repo, 1, "By hand", "No block for writ."))
	f.label(f.scene.Owner)
	for _, text := range []string{"/writ fix", "/writ explain"} {
		_, err := f.scene.Owner.AddComment(t.Context(), f.scene.Repo, 1, text)
		must(t, err)
	}
	f.drive()
	said := forgetest.On(forgetest.AddComment, forgetest.React, forgetest.ReactToIssue, forgetest.AddLabel, forgetest.SetState)
	if sent := f.scene.Bot.Calls(said); len(sent) > 0 || f.started() != 0 {
		t.Errorf("%d builders, and the forge was asked for %v", f.started(), sent)
	}
}

// TestI4_BulletWithoutASubject: what speaks of nothing in particular has no empty span.
func TestI4_BulletWithoutASubject(t *testing.T) {
	for want, v := range map[string]kernel.Violation{
		"- `review.nothing_asked`: Nothing counts.\n":     {Code: kernel.CodeReviewNothing, Detail: "Nothing counts."},
		"- `scope.outside` `a.b.go`: It isn't allowed.\n": {Code: kernel.CodeScopeOutside, Subject: "a`b.go", Detail: "It isn't allowed."},
	} {
		if got := bullet(v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
