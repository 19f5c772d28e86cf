package supervisor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/kernel"
)

// answeredLabel fails unless the issue itself has these reactions, asked for so often.
func (f *forged) answeredLabel(times int, want ...forge.Reaction) {
	f.t.Helper()
	if got := f.scene.IssueReactions(f.scene.Repo, 1); !slices.Equal(got, want) {
		f.t.Errorf("the issue has the reactions %v, want %v", got, want)
	}
	if n := len(f.scene.Bot.Calls(forgetest.On(forgetest.ReactToIssue))); n != times {
		f.t.Errorf("a reaction was asked for %d times, want %d", n, times)
	}
}

// TestI4_TheLabelIsAnswered: an approving label is answered by one reaction, before the
// first word, and never again.
func TestI4_TheLabelIsAnswered(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.scene.Bot.Before(forgetest.On(forgetest.AddComment), forgetest.Always, func(forgetest.Call) {
		if got := f.scene.IssueReactions(f.scene.Repo, 1); len(got) != 1 {
			t.Errorf("a comment comes before the reactions %v", got)
		}
	})
	f.wants(f.drive(), kernel.StandFinal)
	f.answeredLabel(1, forge.ReactionSeen)
	f.open()
	f.later()
	f.answeredLabel(1, forge.ReactionSeen)
	f.verify(stateRef)
}

// TestI4_NoReactionToWhatDoesntCount: what is no approval is answered by nobody, and one
// that is a command by the reaction to the command.
func TestI4_NoReactionToWhatDoesntCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*forged)
		act    func(*forged)
	}{
		"nobody who may":    {nil, func(f *forged) { f.label(f.scene.Triage) }},
		"a broken contract": {func(f *forged) { f.place.terms = "version: 9\n" }, func(f *forged) { f.label(f.scene.Owner) }},
		"writ observes":     {func(f *forged) { f.place.terms = "version: 1\nmode: observe\n" }, func(f *forged) { f.label(f.scene.Owner) }},
		"a command":         {nil, func(f *forged) { f.says(f.scene.Owner, "/writ run") }},
		"taken back": {nil, func(f *forged) {
			f.label(f.scene.Owner)
			f.clock.advance(1000)
			must(f.t, f.scene.Owner.RemoveLabel(f.t.Context(), f.scene.Repo, 1, "writ"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForged(t, func(f *forged) {
				f.withBranch()
				if c.change != nil {
					c.change(f)
				}
			})
			c.act(f)
			f.drive()
			f.later()
			f.answeredLabel(0)
		})
	}
}

// TestI4_ReactionRefused: a forge that takes no reaction, or doesn't answer, is asked once,
// and the task goes its way.
func TestI4_ReactionRefused(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]forgetest.Fault{
		"refused": {Reason: forge.Forbidden}, "no answer": {Reason: forge.Unavailable}, "done, and no answer": {Reason: forge.Unavailable, Applied: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTold(t, nil)
			f.scene.Bot.Fail(forgetest.On(forgetest.ReactToIssue), forgetest.Always, fault)
			st := f.drive()
			f.wants(st, kernel.StandFinal)
			if st.Ended() != (name == "refused") {
				t.Errorf("it has ended: %v, and looks again at %d", st.Ended(), st.Wake)
			}
			f.shows("task 1 completed", kernel.LabelCompleted, false)
			if n := len(f.scene.Bot.Calls(forgetest.On(forgetest.ReactToIssue))); n != 1 {
				t.Errorf("it was asked for %d times", n)
			}
			f.verify(stateRef)
		})
	}
}

// TestX8_WhyItWaits: a task without room for its claim is answered at once, says why it
// waits once that lasts, and once only; with room it goes its way.
func TestX8_WhyItWaits(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	room, why := false, "All build slots of the server are in use."
	drive := func() Status {
		t.Helper()
		st, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Admit: func([]string) bool { return room }, Why: func() string { return why }})
		must(t, err)
		return st
	}
	st := drive()
	f.wants(st, kernel.StandDue)
	f.answeredLabel(1, forge.ReactionSeen)
	now := f.clock.Now().WallMs
	if n := len(f.marked("task")); n != 0 || st.Wake <= now || st.Wake > now+queuedAfter {
		t.Errorf("at once %d comments, and the next look %s later", n, time.Duration(st.Wake-now)*time.Millisecond)
	}
	before := f.sup.deps.Ledger.Chain().Head
	if again := drive(); f.sup.deps.Ledger.Chain().Head != before || again.Wake != st.Wake {
		t.Errorf("a look at a task that waits, and has nothing to say, is recorded, or changes when it has: %d, %d", st.Wake, again.Wake)
	}
	f.clock.advance(queuedAfter)
	drive()
	said := f.said()
	if n := f.marked("task"); len(n) != 1 || !strings.Contains(n[0].Body, "**Writ: task 1 is approved, and waits for its turn.**\n\n"+why+" It starts by itself.\n") {
		t.Errorf("it says %v", n)
	}
	why = "A person has paused the server."
	f.clock.advance(queuedAfter)
	if st := drive(); f.said() != said || st.Wake != 0 {
		t.Errorf("it says more, or is to be looked at again at %d: %s", st.Wake, f.said())
	}
	f.answeredLabel(1, forge.ReactionSeen)
	room = true
	f.wants(drive(), kernel.StandFinal)
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	f.verify(stateRef)
}

// crowdedDrive is a drive of a server whose slots are all in use while full says so.
func (f *forged) crowdedDrive(full *bool, why *string) Status {
	f.t.Helper()
	st, err := f.task.Drive(f.t.Context(), DriveOptions{Actor: "writ", Yield: true, Admit: func([]string) bool { return !*full }, Why: func() string { return *why }})
	must(f.t, err)
	return st
}

// TestX8_WhyItWaitsAgain: a task that has a status comment says why it waits as well, once
// for each act: that comment speaks of an end which a person has moved on from.
func TestX8_WhyItWaitsAgain(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.place.terms = "version: 1\nbudgets: {attempts: 1}\n" })
	full, why := false, "All build slots of the server are in use."
	drive := func() Status { return f.crowdedDrive(&full, &why) }
	build := f.exec.build
	f.exec.build = failing
	drive()
	f.shows("task 1 is blocked", kernel.LabelBlocked, true)
	full = true
	for range 2 {
		f.says(f.scene.Owner, "/writ retry")
		f.clock.advance(1000)
		drive()
		if said := f.said(); strings.Contains(said, "waits for its turn") {
			t.Errorf("at once it says %s", said)
		}
		f.clock.advance(queuedAfter)
		drive()
		said := f.said()
		if n := f.marked("task"); len(n) != 1 || !strings.Contains(n[0].Body, "**Writ: task 1 is approved, and waits for its turn.**\n\n"+why+" It starts by itself.\n") {
			t.Errorf("it says %v", n)
		}
		before := f.sup.deps.Ledger.Chain().Head
		why = "A person has paused the server."
		f.clock.advance(queuedAfter)
		if st := drive(); f.said() != said || st.Wake != 0 || f.sup.deps.Ledger.Chain().Head != before {
			t.Errorf("it says more, or is to be looked at again at %d: %s", st.Wake, f.said())
		}
		f.says(f.scene.Owner, "/writ stop")
		f.clock.advance(120_000)
		drive()
		f.shows("stopped", "", true)
	}
	f.says(f.scene.Owner, "/writ retry")
	f.exec.build, full = build, false
	f.clock.advance(120_000)
	f.wants(drive(), kernel.StandFinal)
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	f.verify(stateRef)
}

// TestX8_WhyARevisionWaits: so does delivered work of which somebody asks for more, whether
// its issue is open or closed.
func TestX8_WhyARevisionWaits(t *testing.T) {
	t.Parallel()
	t.Run("open", func(t *testing.T) {
		revisionWaits(t, "close_on: merged\n", "is verified, and waits for the merge of its change", "", true)
	})
	t.Run("closed", func(t *testing.T) { revisionWaits(t, "", "task 1 completed", kernel.LabelCompleted, false) })
}

func revisionWaits(t *testing.T, terms, ends, label string, open bool) {
	t.Helper()
	f, _ := newReviewed(t, checkedTerms+terms)
	full, why := true, "All build slots of the server are in use."
	was, run := f.ref(changeRef), f.trailer("writ-run-id")
	f.says(f.scene.Owner, "/writ fix")
	f.clock.advance(queuedAfter)
	if st := f.crowdedDrive(&full, &why); st.Ended() {
		t.Error("a task whose revision waits for room has ended")
	}
	body := f.marked("task")[0].Body
	if !strings.Contains(body, "is verified, and what was asked of its change waits for its turn ([") || !strings.Contains(body, why+" That starts by itself") {
		t.Errorf("it says %s", body)
	}
	why = "A person has paused the server."
	f.clock.advance(120_000)
	f.crowdedDrive(&full, &why)
	if now := f.marked("task"); len(now) != 1 || now[0].Body != body {
		t.Errorf("it says %v", now)
	}
	full = false
	f.clock.advance(120_000)
	f.crowdedDrive(&full, &why)
	f.showBranch()
	f.later()
	f.revisedOn(was, run, "hello, world\n")
	f.shows(ends, label, open)
	if st := f.crowdedDrive(&full, &why); st.Ended() == open {
		t.Errorf("it has ended: %v, and looks again at %d", st.Ended(), st.Wake)
	}
}

// TestX8_TriedAgainInSilence: a further attempt for the same act waits for room without a
// word: the report says already that the task is tried again, and why.
func TestX8_TriedAgainInSilence(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	full, why := false, "All build slots of the server are in use."
	f.exec.build = failing
	f.crowdedDrive(&full, &why)
	f.shows("failed, and will be tried again", kernel.LabelRetryPending, true)
	full = true
	said := f.said()
	f.clock.advance(3_600_000)
	if f.crowdedDrive(&full, &why); f.said() != said {
		t.Errorf("it says %s", f.said())
	}
}
