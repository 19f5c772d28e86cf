package supervisor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// newPushed is a completed task to whose change a reviewer pushed, and what is at the
// branch then.
func newPushed(t *testing.T) (f *forged, head string) {
	t.Helper()
	f = newTold(t, func(f *forged) { f.place.terms = mergeTerms + "checks: [{name: test, run: [\"true\"]}]\n" })
	f.drive()
	f.reviewer(map[string]string{"out.txt": "hello, better\n"})
	return f, f.ref(changeRef)
}

// TestF7_ReviewTakesASlot: the checks of what was pushed wait for room, as a builder
// does, and are started once there is.
func TestF7_ReviewTakesASlot(t *testing.T) {
	t.Parallel()
	f, head := newPushed(t)
	ran, asked, room := 0, 0, false
	f.exec.check = func(job executor.CheckJob) executor.CheckOutcome { ran++; return passed(job) }
	drive := func() Status {
		f.clock.advance(120_000)
		st, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Admit: func(scope []string) bool {
			asked++
			return room && scope == nil
		}})
		must(t, err)
		return st
	}
	if st := drive(); ran != 0 || asked != 1 || st.Wake == 0 {
		t.Errorf("without room: %d checks, asked %d times, wake %d", ran, asked, st.Wake)
	}
	room = true
	if drive(); ran != 1 || asked != 2 {
		t.Errorf("with room: %d checks, asked %d times", ran, asked)
	}
	if got := f.scene.Checks(f.scene.Repo, head); len(got) != 1 || got[0].State != forge.CheckPassed {
		t.Errorf("checks %+v", got)
	}
}

// TestF7_ReviewIsStopped: a person's stop ends the review of a pushed commit, for that
// commit for good, and its check says so.
func TestF7_ReviewIsStopped(t *testing.T) {
	t.Parallel()
	for name, byComment := range map[string]bool{"by the operator": false, "by a comment": true} {
		t.Run(name, func(t *testing.T) {
			f, head := newPushed(t)
			acts, nudges, answer := make(chan Act, 8), make(chan struct{}, 8), make(chan error, 8)
			ran := 0
			f.exec.held = func() {
				if ran++; byComment {
					f.comment(f.scene.Owner, "/writ stop")
					nudges <- struct{}{}
				} else {
					acts <- Act{Kind: kernel.ActStop, Actor: "local:0:ana", Done: answer}
				}
			}
			f.clock.advance(120_000)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // nothing else ends a review that goes on
			defer cancel()
			_, err := f.task.Drive(ctx, DriveOptions{Actor: "writ", Yield: true, Acts: acts, Nudges: nudges})
			must(t, err)
			if !byComment {
				must(t, <-answer)
			}
			by := map[bool]string{false: "local:0:ana", true: f.scene.Owner.Login}[byComment]
			got := f.scene.Checks(f.scene.Repo, head)
			if len(got) != 1 || got[0].State != forge.CheckFailed || !strings.Contains(got[0].Summary, "were stopped") ||
				!strings.Contains(got[0].Detail, string(kernel.CodeTaskStopped)) || !strings.Contains(got[0].Detail, by) {
				t.Errorf("checks %+v", got)
			}
			if !f.exec.cut[0].killed {
				t.Error("its checks go on")
			}
			for range 2 {
				f.later()
				f.open()
			}
			if ran != 1 || f.trailer("aynig-state") != "waiting" {
				t.Errorf("%d checks, the task is %s", ran, f.trailer("aynig-state"))
			}
			f.exec.held = nil
			f.reviewer(map[string]string{"out.txt": "hello, best\n"})
			f.later()
			if got := f.scene.Checks(f.scene.Repo, f.ref(changeRef)); len(got) != 1 || got[0].State != forge.CheckPassed {
				t.Errorf("checks of the next push: %+v", got)
			}
			f.verify(stateRef)
		})
	}
}

// TestF6_ReviewThatCannotStart is recorded under what kept it from starting, and
// tried again.
func TestF6_ReviewThatCannotStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want kernel.Code
	}{
		"no sandbox":      {&executor.Error{Code: kernel.CodeSandboxUnavailable, Detail: "no namespaces"}, kernel.CodeSandboxUnavailable},
		"git is away":     {&git.Error{Code: git.CodeUnreachable, Msg: "no network"}, kernel.CodeForgeUnreachable},
		"a commit's gone": {&git.Error{Code: git.CodeObjectMissing, Msg: "no commit"}, kernel.CodeEnvRepository},
		"anything else":   {errors.New("strange"), kernel.CodeMachineEffect},
	} {
		t.Run(name, func(t *testing.T) {
			f, head := newPushed(t)
			f.exec.broken = c.err
			if st := f.later(); st.Wake == 0 {
				t.Error("it isn't tried again")
			}
			if o := body[kernel.Outcome](f.bench, kernel.KindOutcome); o.Effect != kernel.ActionReview || o.Code != c.want || o.Status != kernel.OutcomeFailed {
				t.Errorf("recorded is %+v, want %s", o, c.want)
			}
			f.exec.broken = nil
			f.later()
			if got := f.scene.Checks(f.scene.Repo, head); len(got) != 1 || got[0].State != forge.CheckPassed {
				t.Errorf("checks %+v", got)
			}
		})
	}
}

// TestF7_NoReviewBeforeTheActThatCutItOff: a look that comes between the end of a review and
// the person's words that ended it begins no other one.
func TestF7_NoReviewBeforeTheActThatCutItOff(t *testing.T) {
	t.Parallel()
	f, head := newPushed(t)
	ran := 0
	f.exec.held = func() { ran++ }
	f.task.worker.cut = git.OID(head)
	f.task.worker.setStopping(true)
	f.ask(kernel.RequestTell)
	if r := f.task.tracker.reviewOf(head); ran != 0 || r == nil || r.Ended {
		t.Errorf("%d reviews were begun: %+v", ran, r)
	}
	f.task.tracker.stopReview("local:0:ana")
	f.task.worker.setStopping(false)
	if r := f.task.tracker.reviewOf(head); r == nil || !r.Ended || len(r.Violations) != 1 {
		t.Errorf("the review stands as %+v", r)
	}
}
