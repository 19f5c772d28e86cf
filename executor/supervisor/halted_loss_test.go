package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

// killed has another process take over the state directory, be the task halted or not.
func (f *forged) killed() {
	f.t.Helper()
	f.close()
	o, err := f.place.open(context.Background())
	if err != nil && !errors.Is(err, machine.ErrHalted) {
		f.t.Fatal(err)
	}
	f.opened = o
	f.t.Cleanup(o.close)
}

// resumes takes a halt back, and drives on.
func (f *forged) resumes() {
	f.t.Helper()
	must(f.t, f.sup.Resume(f.t.Context(), 1, "local:0:ana", "go on"))
	f.withBranch()
	for range 5 {
		if f.task == nil {
			task, err := f.sup.Open(f.t.Context(), 1, nil)
			must(f.t, err)
			f.task = task
		}
		f.clock.advance(120_000)
		_, _ = f.task.Drive(f.t.Context(), DriveOptions{Actor: "writ", Yield: true}) // it may be unsettled
	}
}

// newLost is an approved issue of which the server acknowledged a push and lost it.
func newLost(t *testing.T, at kernel.Action, change func(*forged)) (*forged, *forgetter) {
	server := &forgetter{at: at}
	f := newTold(t, func(f *forged) {
		server.bare, f.place.fault = f.bare, server.fault
		f.place.wrap = func(r Repo) Repo { server.Repo = r; return server }
		if change != nil {
			change(f)
		}
	})
	return f, server
}

// lookUnsettled is a look that doesn't show the push.
func (f *forged) lookUnsettled() {
	f.t.Helper()
	if _, err := f.task.Tick(f.t.Context(), kernel.RequestTick, "writ"); !errors.Is(err, ErrUnsettled) {
		f.t.Errorf("the look ends with %v", err)
	}
}

// refuses has the server refuse the change branch, and returns what mends that.
func (f *forged) refuses() (mend func()) {
	gittest.Hook(f.t, f.bare, "pre-receive", "while read old new ref; do test $ref = "+changeRef+" && { echo 'policy 9' >&2; exit 1; }; done; exit 0")
	return func() { gittest.Hook(f.t, f.bare, "pre-receive", "exit 0") }
}

// TestP10_LostResultIsResumed: a task is halted while a result that the server acknowledged
// is lost, before anybody noticed or after, and whether or not the process lives. Nothing is
// pushed of a halted task; once the halt is taken back, the very same result is, and no
// builder runs again.
func TestP10_LostResultIsResumed(t *testing.T) {
	t.Parallel()
	halt := func(f *forged) { must(f.t, f.sup.Halt(f.t.Context(), 1, "local:0:ana", "wait")) }
	told := func(f *forged) {
		for range 2 {
			_, _ = f.task.Drive(f.t.Context(), DriveOptions{Actor: "writ", Yield: true}) // the second finds the kernel at its end
		}
	}
	for name, act := range map[string]func(*forged){
		"before it is noticed": func(f *forged) { halt(f); told(f) },
		"no look between":      halt,
		"noticed":              func(f *forged) { f.lookUnsettled(); halt(f); told(f) },
		"by who drives": func(f *forged) {
			must(f.t, (&drive{task: f.task}).halt(f.t.Context(), Act{Actor: "local:0:ana", Reason: "wait"}))
			told(f)
		},
		"killed":             func(f *forged) { halt(f); f.killed() },
		"told and killed":    func(f *forged) { f.lookUnsettled(); halt(f); told(f); f.killed() },
		"killed before":      func(f *forged) { f.killed(); halt(f); told(f) },
		"given up meanwhile": func(f *forged) { f.task.Close(); halt(f); f.task = nil },
		"halted twice":       func(f *forged) { halt(f); told(f); f.resumesOnly(); halt(f); told(f) },
		"refused by a rule": func(f *forged) {
			mend := f.refuses()
			f.lookUnsettled()
			f.drive()
			halt(f)
			told(f)
			mend()
		},
		"edited while halted": func(f *forged) { halt(f); f.edit(issueBody + "\nAnd goodbye."); told(f) },
	} {
		t.Run(name, func(t *testing.T) {
			f, server := newLost(t, kernel.ActionResult, nil)
			f.reach(kernel.ActionResult)
			act(f)
			if f.ref(changeRef) != "" || f.ref(stateRef) == string(server.pushed) {
				t.Error("something is pushed of a halted task")
			}
			f.resumes()
			if f.ref(stateRef) != string(server.pushed) || f.started() != 1 {
				t.Errorf("HEAD is %s, after %d builders", f.trailer("aynig-state"), f.started())
			}
			delivered(t, f.bare)
			f.shows("task 1 completed", kernel.LabelCompleted, false)
			f.verify(stateRef)
		})
	}
}

// resumesOnly takes a halt back, and looks at nothing.
func (f *forged) resumesOnly() {
	f.t.Helper()
	must(f.t, f.sup.Resume(f.t.Context(), 1, "local:0:ana", "go on"))
}

// TestP10_HaltedLossIsTakenBack: what a person does to a halted task whose result is lost
// counts as it does without a halt: a stop, or the approval taken back on the issue, leaves
// the result unpushed, and so does a resume of a task that isn't halted.
func TestP10_HaltedLossIsTakenBack(t *testing.T) {
	t.Parallel()
	acts := map[string]func(*forged){
		"stopped": func(f *forged) { f.task.recordStop(f.t.Context(), Act{Actor: "local:0:ana"}) },
		"stopped and looked": func(f *forged) {
			f.task.recordStop(f.t.Context(), Act{Actor: "local:0:ana"})
			_, _ = f.task.Tick(f.t.Context(), kernel.RequestTick, "writ")
		},
		"stopped and killed": func(f *forged) {
			f.task.recordStop(f.t.Context(), Act{Actor: "local:0:ana"})
			f.killed()
		},
		"resumed anew": func(f *forged) { f.resumesOnly() },
	}
	for name, c := range withdrawals {
		acts[name] = c.act
	}
	for name, act := range acts {
		t.Run(name, func(t *testing.T) {
			f, server := newLost(t, kernel.ActionResult, nil)
			f.reach(kernel.ActionResult)
			f.lookUnsettled()
			must(t, f.sup.Halt(t.Context(), 1, "local:0:ana", "wait"))
			act(f)
			f.resumes()
			if log := gittest.Git(t, f.bare, "log", "--format=%H", stateRef); strings.Contains(log, string(server.pushed)) {
				t.Error("the result is pushed")
			}
			if _, withdrawn := withdrawals[name]; withdrawn && (f.ref(changeRef) != "" || f.started() != 1 || f.forgeIssue().State == forge.Closed && name != "close") {
				t.Errorf("it is worked on, by %d builders", f.started())
			}
		})
	}
}

// TestP10_LostEndIsStopped: a stop takes back nothing that is merged: the end of a task that
// the server acknowledged and lost is made again, by this process or the next.
func TestP10_LostEndIsStopped(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint(restarted), func(t *testing.T) {
			f, server := newLost(t, kernel.ActionComplete, func(f *forged) { f.place.terms = mergeTerms })
			f.drive()
			f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
			for range 5 {
				if server.pushed == "" {
					f.clock.advance(120_000)
					_, _ = f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}) // it loses the push
				}
			}
			if restarted {
				f.open()
			}
			for range 3 {
				f.clock.advance(2000)
				_, _ = f.task.Tick(t.Context(), kernel.RequestStop, "alice") // the first doesn't show it
			}
			if server.pushed == "" || f.ref(stateRef) != string(server.pushed) {
				t.Errorf("HEAD is %s, not the end that was lost", f.trailer("aynig-state"))
			}
		})
	}
}

// TestP10_LostResultUnderItsContract: who approves a result that was lost, the contract says
// that it was dispatched under, also while the one on the base is broken, or the base isn't
// there. The result is made again, unless the approval was taken back by that contract.
func TestP10_LostResultUnderItsContract(t *testing.T) {
	t.Parallel()
	const terms = "version: 1\ntrigger: {label: go}\n"
	for name, away := range map[string]func(*forged){
		"broken contract": func(f *forged) {
			gittest.Commit(f.t, f.bare, "refs/heads/main", f.ref("refs/heads/main"), map[string]string{".writ/contract.yaml": "nonsense: ["})
		},
		"no base": func(f *forged) { f.losesBase() },
	} {
		for _, withdrawn := range []bool{false, true} {
			for _, restarted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s withdrawn=%v restarted=%v", name, withdrawn, restarted), func(t *testing.T) {
					server := &forgetter{at: kernel.ActionResult}
					f := newForged(t, func(f *forged) {
						server.bare, f.place.fault = f.bare, server.fault
						f.place.wrap = func(r Repo) Repo { server.Repo = r; return server }
						gittest.Commit(t, f.bare, "refs/heads/main", f.ref("refs/heads/main"), map[string]string{".writ/contract.yaml": terms})
					})
					f.withBranch()
					must(t, f.scene.Bot.EnsureLabels(t.Context(), f.scene.Repo, []forge.Label{{Name: "go", Color: "cccccc"}}))
					must(t, f.scene.Owner.AddLabel(t.Context(), f.scene.Repo, 1, "go"))
					f.clock.advance(1000)
					f.reach(kernel.ActionResult)
					away(f)
					if withdrawn {
						must(t, f.scene.Owner.RemoveLabel(t.Context(), f.scene.Repo, 1, "go"))
					}
					if restarted {
						f.open()
					}
					for range 4 {
						f.clock.advance(60_000)
						_, _ = f.task.Tick(t.Context(), kernel.RequestTick, "writ") // the base can't be read
					}
					if made := f.ref(stateRef) == string(server.pushed); made == withdrawn || made != (f.ref(changeRef) != "") {
						t.Errorf("made again: %v, the change branch is %q", made, f.ref(changeRef))
					}
				})
			}
		}
	}
}

// TestG6_AccountWhileABranchIsInTheWay: the work of a run waits for a branch, and the server
// refuses the wait, be it the first or a later one, for what the account may not do. The work
// is kept, nothing is pushed until the rule may be mended, and it is delivered by one builder.
func TestG6_AccountWhileABranchIsInTheWay(t *testing.T) {
	t.Parallel()
	for _, later := range []bool{false, true} {
		t.Run(fmt.Sprintf("later=%v", later), func(t *testing.T) {
			r := newRivals(t)
			branch := changeRef + "/x"
			r.a.reach(kernel.ActionJudge)
			r.git("update-ref", branch, "main")
			if later {
				want(t, r.a.tick(), kernel.ActionWait, kernel.OutcomeDone, kernel.CodeBranchTaken)
				r.a.clock.advance(ruleAgain.Milliseconds())
			}
			r.srv.Set(gittest.OnPush(gittest.Status(403, "Permission to o/r.git denied to writ-bot.")))
			want(t, r.a.tick(), kernel.ActionWait, kernel.OutcomeRefused, kernel.CodeBranchTaken)
			r.pushes()
			for range 3 {
				st := r.a.tick()
				if words, _ := st.Rule(); st.Decision.Standing != kernel.StandDue || !strings.Contains(words, "denied to writ-bot") {
					t.Fatalf("it stands %s: %v", st.Decision.Standing, st.Decision.Violations)
				}
			}
			if r.pushes() != 0 || !r.a.task.worker.judged() {
				t.Error("it is pushed at each look, or the work is dropped")
			}
			r.srv.Set(nil)
			r.a.clock.advance(ruleSoon.Milliseconds())
			want(t, r.a.tick(), kernel.ActionWait, kernel.OutcomeDone, kernel.CodeBranchTaken)
			r.git("update-ref", "-d", branch)
			want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeDone)
			delivered(t, r.bare)
			r.a.verify(stateRef)
			if n := len(r.a.exec.builds); n != 1 {
				t.Errorf("%d builders ran", n)
			}
		})
	}
}

// TestP5_LostPushIsTheSameFromTheStore: what a rule says of a push that was acknowledged and
// lost is judged alike by the process that made it and by the next one: one without any
// contents can be against no rule about contents, and is an outage.
func TestP5_LostPushIsTheSameFromTheStore(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		f, server := newLost(t, kernel.ActionRelease, nil)
		f.exec.hold = true
		f.reach(kernel.ActionDispatch)
		if st := f.ask(kernel.RequestShutdown); st.Decision.Action != kernel.ActionRelease || server.pushed == "" {
			t.Fatalf("it does %s", st.Decision.Action)
		}
		gittest.Hook(t, f.bare, "pre-receive", "echo 'policy 9' >&2; exit 1")
		if restarted {
			f.killed()
		}
		for range 4 {
			f.lookUnsettled()
		}
		gittest.Hook(t, f.bare, "pre-receive", "exit 0")
		if _, err := f.task.Tick(t.Context(), kernel.RequestLook, "writ"); err != nil {
			t.Error(err)
		}
		if f.ref(stateRef) != string(server.pushed) {
			t.Errorf("restarted=%t: HEAD is %s", restarted, f.trailer("aynig-state"))
		}
	}
}
