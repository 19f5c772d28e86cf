package supervisor

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/kernel"
)

// sets has somebody close the issue, or put it back open.
func (f *forged) sets(by *forgetest.Account, to forge.State) {
	f.t.Helper()
	f.clock.advance(1000)
	must(f.t, by.SetState(f.t.Context(), f.scene.Repo, 1, to))
}

// taking is an act that takes the approval back, and what seems to give it again without
// anybody who may approve.
type taking struct {
	act, undo func(*forged)
	code      kernel.Code
}

var takings = map[string]taking{
	"close": {
		func(f *forged) { f.sets(f.scene.Owner, forge.Closed) }, func(f *forged) { f.sets(f.scene.Triage, forge.Open) }, kernel.CodeSuperseded,
	},
	"unlabel": {
		func(f *forged) { f.unlabel(f.scene.Triage) }, func(f *forged) { f.label(f.scene.Triage) }, kernel.CodeSuperseded,
	},
	"stop of one who may not any more": {
		func(f *forged) {
			f.scene.Grant(f.scene.Repo, f.scene.Triage.ID, forge.Write)
			f.comment(f.scene.Triage, "/writ stop")
		},
		func(f *forged) { f.scene.Grant(f.scene.Repo, f.scene.Triage.ID, forge.Triage) }, kernel.CodeTaskStopped,
	},
	"stop that is deleted": {
		func(f *forged) { f.comment(f.scene.Owner, "/writ stop") },
		func(f *forged) {
			list, err := f.scene.Owner.Comments(f.t.Context(), f.scene.Repo, 1)
			must(f.t, err)
			for _, k := range list {
				if k.Author.ID == f.scene.Owner.ID {
					must(f.t, f.scene.Owner.DeleteComment(f.t.Context(), f.scene.Repo, k.ID))
				}
			}
		}, kernel.CodeTaskStopped,
	},
}

// untouched are ways in which a task may stand while nobody's run is live.
var untouched = map[string]func(*forged){
	"given back": func(f *forged) {
		f.reach(kernel.ActionDispatch)
		f.ask(kernel.RequestShutdown)
		f.open()
	},
	"with a dead lease": func(f *forged) { f.reach(kernel.ActionDispatch); f.open() },
	"with sealed work":  func(f *forged) { f.reach(kernel.ActionSeal); f.open() },
	"between attempts": func(f *forged) {
		f.exec.build = failing
		f.reach(kernel.ActionResult)
		f.exec.build = writes(map[string]string{"out.txt": "hello\n"})
	},
	"waiting for a rule": func(f *forged) { f.toRule(); f.open() },
	"waiting, approved anew while nobody looked": func(f *forged) {
		f.reach(kernel.ActionDispatch)
		f.comment(f.scene.Owner, "/writ stop")
		f.reach(kernel.ActionWait)
		f.comment(f.scene.Owner, "/writ run")
	},
}

// TestP10_TakenBackForEverybody: however the task stands when a person takes the approval
// back, whoever looks first writes that to git, and counts nothing. Nothing then goes on by
// the old approval when the issue is put back open, or the act can't be seen any more:
// neither here, nor in an installation that never saw the act. A new approval begins anew.
func TestP10_TakenBackForEverybody(t *testing.T) {
	t.Parallel()
	for stands, begin := range untouched {
		for name, c := range takings {
			t.Run(stands+", "+name, func(t *testing.T) {
				t.Parallel()
				f := newTold(t, func(f *forged) { f.place.terms = termsWithCheck })
				other := f.another()
				begin(f)
				before, counted := f.started(), f.trailer("writ-interruptions")
				c.act(f)
				st := f.reach(kernel.ActionWait)
				f.wants(st, kernel.StandActing, c.code)
				if f.trailer("aynig-state") != "waiting" || f.trailer("writ-waiting-for") != "approval" || f.trailer("writ-interruptions") != counted {
					t.Errorf("HEAD is %s for %s, %s interruptions before, %s now", f.trailer("aynig-state"), f.trailer("writ-waiting-for"), counted, f.trailer("writ-interruptions"))
				}
				c.undo(f)
				f.waits(other, before)
				f.sound()
				f.comment(f.scene.Owner, "/writ run")
				f.reach(kernel.ActionDispatch)
			})
		}
	}
}

// waits expects that neither this installation, in its next process, nor another one goes
// on with the task.
func (f *forged) waits(other *bench, builders int) {
	f.t.Helper()
	head := f.ref(stateRef)
	for range 3 {
		f.open()
		f.clock.advance(3_600_000)
		for who, st := range map[string]Status{"here": f.tick(), "there": other.tick()} {
			if st.Decision.Action != kernel.ActionNone {
				f.t.Errorf("%s it %s", who, st.Decision.Action)
			}
		}
	}
	if f.ref(stateRef) != head || f.started() != builders || len(other.exec.builds) > 0 {
		f.t.Errorf("HEAD moved from %s to %s, %d builders here, %d there", head, f.ref(stateRef), f.started()-builders, len(other.exec.builds))
	}
}

// sound expects that whoever verifies HEAD finds nothing wrong with it.
func (f *forged) sound() {
	f.t.Helper()
	r, err := replay.VerifyTask(f.t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key}, World: f.place.cfg.World})
	if err != nil || !strings.Contains(r.Plain(), "nothing is wrong") {
		f.t.Errorf("%v\n%s", err, r.Plain())
	}
}

// TestP10_TakenBackBeforeAnything: where nothing was claimed, the forge's history tells
// everybody of labels and closings, and no ref is made for them. A stop makes one, for the
// history may forget it.
func TestP10_TakenBackBeforeAnything(t *testing.T) {
	t.Parallel()
	for name, c := range takings {
		for _, seen := range []bool{true, false} {
			if !seen && c.code == kernel.CodeTaskStopped {
				continue // what nobody has seen, nobody knows
			}
			t.Run(name, func(t *testing.T) {
				f := newTold(t, nil)
				other := f.another()
				c.act(f)
				if seen {
					f.tick()
				}
				if made := f.ref(stateRef) != ""; made != (c.code == kernel.CodeTaskStopped) {
					t.Errorf("a state ref: %t", made)
				}
				c.undo(f)
				f.waits(other, 0)
				if f.ref(stateRef) != "" {
					f.sound()
				}
				f.comment(f.scene.Owner, "/writ run")
				f.until(kernel.StandFinal)
				f.verify(stateRef)
			})
		}
	}
}

// TestP10_StoppedAndNeverApproved: a stop of what nobody approved makes no ref.
func TestP10_StoppedAndNeverApproved(t *testing.T) {
	t.Parallel()
	f := newForged(t, nil)
	f.comment(f.scene.Owner, "/writ stop")
	f.wants(f.tick(), kernel.StandRefused, kernel.CodeTaskStopped)
	if f.ref(stateRef) != "" {
		t.Error("a state ref was made")
	}
}

// TestP10_ClaimOnItsWay: the process that claimed the task died before it had an answer,
// and the approval is taken back before anything of the claim arrives. It comes too late.
func TestP10_ClaimOnItsWay(t *testing.T) {
	t.Parallel()
	for name, c := range takings {
		t.Run(name, func(t *testing.T) {
			f, u := newUnsent(t, kernel.ActionClaim, nil)
			u.away = true
			_, err := f.task.Tick(t.Context(), kernel.RequestTick, "writ")
			must(t, err)
			if u.first == nil {
				t.Fatal("nothing was claimed")
			}
			c.act(f)
			f.open()
			u.away = false
			f.wants(f.tick(), kernel.StandActing, c.code)
			u.Repo.CompareAndSwap(t.Context(), u.first, u.pack)
			if f.trailer("aynig-state") != "waiting" || f.started() != 0 {
				t.Errorf("HEAD is %s, %d builders", f.trailer("aynig-state"), f.started())
			}
			f.wants(f.tick(), kernel.StandWaiting)
		})
	}
}

// TestP10_EndsStand: who closes an issue whose task ended, or stops it, takes nothing back:
// its end stays to be read.
func TestP10_EndsStand(t *testing.T) {
	t.Parallel()
	for name, c := range takings {
		for state, build := range map[string]func(executor.BuildJob) (executor.BuildOutcome, error){"blocked": failing, "completed": writes(map[string]string{"out.txt": "hello\n"})} {
			t.Run(state+", "+name, func(t *testing.T) {
				f := newTold(t, func(f *forged) { f.exec.build = build })
				f.until(kernel.StandFinal)
				head := f.ref(stateRef)
				c.act(f)
				f.wants(f.tick(), kernel.StandFinal)
				c.undo(f)
				f.wants(f.tick(), kernel.StandFinal)
				if f.ref(stateRef) != head || f.trailer("aynig-state") != state {
					t.Errorf("HEAD is %s", f.trailer("aynig-state"))
				}
			})
		}
	}
}

// TestP10_ReopenedIsTold: who puts an issue back open that was closed before anything was
// claimed is told that it needs another approval; of an issue that is closed nothing is
// said.
func TestP10_ReopenedIsTold(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.sets(f.scene.Owner, forge.Closed)
	f.wants(f.drive(), kernel.StandRefused, kernel.CodeSuperseded)
	if n := len(f.marked("task")); n != 0 {
		t.Errorf("%d status comments on an issue that was closed before anything was done", n)
	}
	f.sets(f.scene.Triage, forge.Open)
	f.wants(f.later(), kernel.StandRefused, kernel.CodeSuperseded)
	f.shows("task.superseded_by_human", "", true)
}

// TestP10_HaltsCountNothing: halts and resumes, as many as the budget has interruptions and
// more, leave the task as it was.
func TestP10_HaltsCountNothing(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	for range 12 {
		f.reach(kernel.ActionDispatch)
		d := &drive{task: f.task, o: DriveOptions{Actor: "writ"}, came: make(chan struct{}, 1)}
		must(t, d.halt(t.Context(), Act{Kind: kernel.ActHalt, Actor: "local:0:ana", Reason: "a look"}))
		if f.trailer("aynig-state") != kernel.HeadStalled || f.trailer("writ-interruptions") != "0" {
			t.Fatalf("HEAD is %s after %s interruptions", f.trailer("aynig-state"), f.trailer("writ-interruptions"))
		}
		must(t, f.sup.Resume(t.Context(), 1, "local:0:ana", "go on"))
	}
}

// TestP10_ResumeBehindAHalt: a resume that comes while the halt before it waits for the
// look under way is carried out right after it.
func TestP10_ResumeBehindAHalt(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	f.reach(kernel.ActionDispatch)
	d := &drive{task: f.task, o: DriveOptions{Actor: "writ"}, came: make(chan struct{}, 1)}
	answers := make(chan error, 3)
	for _, kind := range []string{kernel.ActStop, kernel.ActHalt, kernel.ActResume} {
		d.take(Act{Kind: kind, Actor: "local:0:ana", Reason: "a look", Done: answers})
	}
	d.obeyAll(t.Context())
	must(t, errors.Join(<-answers, <-answers, <-answers))
	if v := f.sup.View(1); v.Halted || v.Epoch != 1 || v.Stop != "" || len(f.task.wishes) > 0 || f.task.worker.isStopping() {
		t.Errorf("halted %t in epoch %d, stopped by %q", v.Halted, v.Epoch, v.Stop)
	}
	f.reach(kernel.ActionDispatch)
}
