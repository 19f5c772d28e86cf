package supervisor

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// toRule drives until the result waits for a rule at HEAD, and the issue says so.
func (f *forged) toRule() {
	f.t.Helper()
	gittest.Hook(f.t, f.bare, "pre-receive", noBranches)
	f.task.worker.admission.admit = nil
	for range 40 {
		if st := f.tick(); st.Decision.WaitingFor == kernel.WaitRule && st.Decision.Standing == kernel.StandDue {
			f.tellAll()
			return
		}
		f.exec.finish()
	}
	f.t.Fatal("no rule is met")
}

// tellAll moves the issue as far as it can be moved.
func (f *forged) tellAll() {
	f.t.Helper()
	for range tellMost {
		if st := f.ask(kernel.RequestTell); st.Decision.Action == kernel.ActionNone {
			return
		}
	}
	f.t.Fatal("there is always something to tell")
}

// TestG6_TheIssueSaysTheRule: with the server's words and the remedy, in the one comment,
// which isn't edited again and again.
func TestG6_TheIssueSaysTheRule(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.toRule()
	list := f.marked("task")
	if len(list) != 1 || !strings.Contains(list[0].Body, "policy 7: bots may not make branches") || !strings.Contains(list[0].Body, "/writ retry") {
		t.Fatalf("it says %+v", list)
	}
	for range 3 {
		f.until(kernel.StandDue)
		f.clock.advance(ruleAgain.Milliseconds())
		f.tick()
		f.until(kernel.StandDue)
		f.tellAll()
	}
	if again := f.marked("task"); len(again) != 1 || again[0].Body != list[0].Body {
		t.Errorf("it then says %+v", again)
	}
}

// TestG6_PeopleAndTheRule: what people say on the issue while work waits for a rule. The
// same text again has the work pushed at once; a remark, or another text, begins anew; a
// stop ends it.
func TestG6_PeopleAndTheRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says   string
		builds int
		state  string
	}{
		{"/writ retry", 1, "completed"},
		{"/writ retry use the parser", 2, "completed"},
		{"/writ stop", 1, "waiting"},
	} {
		t.Run(c.says, func(t *testing.T) {
			f := newTold(t, nil)
			f.toRule()
			run := f.trailer(kernel.TrailerRun)
			gittest.Hook(t, f.bare, "pre-receive", "exit 0")
			f.comment(f.scene.Owner, c.says)
			for range 30 {
				if st := f.tick(); st.Decision.Standing == kernel.StandFinal || st.Decision.Standing == kernel.StandWaiting {
					break
				}
				f.exec.finish()
			}
			if f.started() != c.builds || f.trailer("aynig-state") != c.state || f.trailer("writ-attempt") != "1" {
				t.Errorf("%d builds, HEAD is %s, attempt %s", f.started(), f.trailer("aynig-state"), f.trailer("writ-attempt"))
			}
			if same := f.trailer(kernel.TrailerRun) == run; same != (c.builds == 1) {
				t.Errorf("HEAD is of the run that waited: %v", same)
			}
			if c.state == "completed" {
				f.verify(stateRef)
			}
		})
	}
}

// TestG6_RetriedWhileTheRuleStands: a retry is one try, and is answered; it doesn't make
// a loop.
func TestG6_RetriedWhileTheRuleStands(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.toRule()
	f.comment(f.scene.Owner, "/writ retry")
	acts := 0
	for range 20 {
		if st := f.tick(); st.Decision.Action != kernel.ActionNone {
			acts++
		}
	}
	if acts == 0 || acts > 4 || f.started() != 1 {
		t.Errorf("%d acts, %d builds", acts, f.started())
	}
}

// another is a second installation at the same issue; the two list each other's keys.
func (f *forged) another() *bench {
	f.t.Helper()
	other := newBench(f.t, f.bare, func(b *bench) {
		b.clock, b.issue = f.clock, nil
		b.place.clock, b.place.issue, b.place.forge, b.place.terms = f.clock, nil, f.place.forge, f.place.terms
		b.place.cfg.Trusted, b.place.wrap = []ssh.PublicKey{f.key}, f.otherWrap
	})
	f.trusts(other)
	f.task.worker.admission.admit = nil
	return other
}

// TestG6_RetryIsForWhoHasTheWork: the same text again at work that waits for a rule is for
// the installation that has the work, be it the process that made it or the next one over
// the same store. Another one leaves it as it does without the word, with the rule mended
// or not, and begins only with what the task was not before: a remark, or another text.
func TestG6_RetryIsForWhoHasTheWork(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		f := newTold(t, nil)
		other := f.another()
		f.toRule()
		for _, mended := range []bool{false, true} {
			if mended {
				gittest.Hook(t, f.bare, "pre-receive", "exit 0")
			}
			f.comment(f.scene.Owner, "/writ retry")
			for range 3 {
				if st := other.tick(); st.Decision.Standing != kernel.StandDue || st.Decision.WaitingFor != kernel.WaitRule || len(other.exec.builds) > 0 {
					t.Fatalf("mended %t: another finds it %s and does %s", mended, st.Decision.Standing, st.Decision.Action)
				}
			}
			if restarted {
				f.open()
				f.task.worker.admission.admit = nil
			}
			from := f.clock.Now().WallMs
			if !mended {
				f.toRule()
				continue
			}
			f.until(kernel.StandFinal)
			if waited := f.clock.Now().WallMs - from; waited >= ruleSoon.Milliseconds() {
				t.Errorf("it is pushed after %d ms", waited)
			}
		}
		if f.started() != 1 || f.trailer("aynig-state") != "completed" || f.trailer("writ-interruptions") != "0" {
			t.Errorf("restarted %t: %d builds, HEAD is %s, %s interruptions", restarted, f.started(), f.trailer("aynig-state"), f.trailer("writ-interruptions"))
		}
	}
}

// TestG6_AnotherBeginsAnew: what a person says to it is a new task, which anybody builds.
func TestG6_AnotherBeginsAnew(t *testing.T) {
	t.Parallel()
	for _, says := range []string{"/writ retry use the parser", "/writ retry"} {
		f := newTold(t, nil)
		other := f.another()
		if f.toRule(); says == "/writ retry" {
			f.edit(issueBody + "\nUse the parser.\n")
		}
		f.comment(f.scene.Owner, says)
		if st := other.tick(); st.Decision.Action != kernel.ActionClaim || st.Decision.Interruptions != 0 {
			t.Errorf("%s: another does %s %s, %d interruptions", says, st.Decision.Standing, st.Decision.Action, st.Decision.Interruptions)
		}
	}
}

// TestG6_RetryWithoutTheWork: where nobody delivers what is kept, a retry costs an
// interruption as any other end of a run does: another installation builds anew when the
// wait was left, and the one that had the work and lost it at once. Those that are spent
// block the task.
func TestG6_RetryWithoutTheWork(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		f := newTold(t, nil)
		other := f.another()
		f.toRule()
		if f.comment(f.scene.Owner, "/writ retry"); own {
			must(t, f.sup.deps.Shelf.Drop(t.Context(), 1))
			f.open()
			other = f.bench
		} else {
			f.close()
			f.clock.advance(time.Hour.Milliseconds() + 2000)
		}
		other.task.worker.admission.admit = nil
		if st := other.tick(); st.Decision.Action != kernel.ActionClaim || st.Decision.Resumes != "" || st.Decision.Interruptions != 1 {
			t.Errorf("own %t: %s %s, resumes %q, %d interruptions", own, st.Decision.Standing, st.Decision.Action, st.Decision.Resumes, st.Decision.Interruptions)
		}
	}
}

// TestG6_EvidenceNamesTheRetry: a retry at work that waits for a rule is what the result
// rests on, and the evidence bears that out.
func TestG6_EvidenceNamesTheRetry(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.toRule()
	claimed := f.trailer(kernel.TrailerAct)
	f.comment(f.scene.Owner, "/writ retry")
	gittest.Hook(t, f.bare, "pre-receive", "exit 0")
	f.until(kernel.StandFinal)
	if now := f.trailer(kernel.TrailerAct); !kernel.NewerAct(now, claimed) || f.started() != 1 {
		t.Errorf("claimed on %q, the result rests on %q; %d builders", claimed, now, f.started())
	}
	f.verify(stateRef)
}
