package supervisor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

// unsent is a server to which the first push of an action doesn't come, and that gives no
// answer to it.
type unsent struct {
	Repo
	at        kernel.Action
	due       bool
	meanwhile func() // while it hangs
	away      bool   // no other try comes to it either
	late      bool   // the first comes to it right before what is pushed instead
	first     []git.Command
	pack      git.Pack
	again     int // tries after the first, and results that aren't that one
}

func (u *unsent) fault(at Point) {
	u.due = u.due || u.first == nil && at == PointOf(u.at, StageRecorded)
}

func (u *unsent) hangs(cmds []git.Command, pack git.Pack) bool {
	switch {
	case u.due:
		u.due, u.first, u.pack = false, cmds, pack
		u.meanwhile()
		return true
	case u.first == nil:
		return false
	case cmds[0].New == u.first[0].New, len(cmds) > 1:
		u.again++
		return u.away
	case u.late:
		u.late = false
		u.Repo.CompareAndSwap(context.Background(), u.first, u.pack)
	}
	return false
}

func (u *unsent) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	if u.hangs(cmds, pack) {
		return git.Outcome{Status: git.Unknown, Err: &git.Error{Code: git.CodeUnreachable, Msg: "no answer"}}
	}
	return u.Repo.CompareAndSwap(ctx, cmds, pack)
}

func (u *unsent) Reassert(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	if u.hangs(cmds, pack) {
		return git.Outcome{Status: git.Unknown, Err: &git.Error{Code: git.CodeUnreachable, Msg: "no answer"}}
	}
	return u.Repo.Reassert(ctx, cmds, pack)
}

// newUnsent is an approved issue, a push of which doesn't come to the server.
func newUnsent(t *testing.T, at kernel.Action, change func(*forged)) (*forged, *unsent) {
	u := &unsent{at: at, meanwhile: func() {}}
	f := newTold(t, func(f *forged) {
		f.place.fault = u.fault
		f.place.wrap = func(r Repo) Repo { u.Repo = r; return u }
		if change != nil {
			change(f)
		}
	})
	return f, u
}

// withdrawals are what a person may do on the issue that takes the approval back.
var withdrawals = map[string]struct {
	act  func(*forged)
	code kernel.Code
}{
	"stop":    {func(f *forged) { f.comment(f.scene.Owner, "/writ stop") }, kernel.CodeTaskStopped},
	"unlabel": {func(f *forged) { f.unlabel(f.scene.Triage) }, kernel.CodeSuperseded},
	"close": {func(f *forged) {
		f.clock.advance(1000)
		must(f.t, f.scene.Owner.SetState(f.t.Context(), f.scene.Repo, 1, forge.Closed))
	}, kernel.CodeSuperseded},
}

// TestP10_UnansweredResultIsTakenBack: a result whose push the server left without an
// answer isn't pushed again once a person has taken the approval back, be it while the push
// hangs or later, and where the issue can't be read nothing is pushed meanwhile. The wait
// for a person is pushed onto the same commit.
func TestP10_UnansweredResultIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, c := range withdrawals {
		for _, when := range []string{"while it hangs", "later", "while the forge is away"} {
			t.Run(name+" "+when, func(t *testing.T) {
				f, u := newUnsent(t, kernel.ActionResult, nil)
				switch when {
				case "while it hangs":
					u.meanwhile = func() { c.act(f) }
				case "later":
					u.away = true
				default:
					u.meanwhile = func() {
						f.scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Unavailable})
					}
				}
				f.reach(kernel.ActionResult)
				if !f.onItsWay() || f.task.worker.pending == nil {
					t.Error("nobody knows that a result is on its way")
				}
				if when != "while it hangs" {
					for range 3 {
						if _, err := f.task.Tick(t.Context(), kernel.RequestTick, "writ"); !errors.Is(err, ErrUnsettled) {
							t.Errorf("the look ends with %v", err)
						}
					}
					c.act(f)
				}
				tries := u.again
				if away := when == "later"; (tries > 0) != away {
					t.Errorf("pushed again %d times", tries)
				}
				f.scene.Bot.Clear()
				f.withBranch()
				u.away = false
				f.wants(f.reach(kernel.ActionWait), kernel.StandActing, c.code)
				f.wants(f.later(), kernel.StandWaiting)
				f.stopped(c.code)
				if u.again != tries || f.onItsWay() {
					t.Errorf("it was pushed again %d times", u.again-tries)
				}
				f.open()
				f.later()
				f.stopped(c.code)
			})
		}
	}
}

// TestP10_UnansweredResultOfConsent: where nobody took the approval back, the very same
// objects are pushed again. An edit takes back nothing that is judged.
func TestP10_UnansweredResultOfConsent(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(*forged){
		"nothing":           func(*forged) {},
		"edit":              func(f *forged) { f.edit(issueBody + "\nAnd goodbye.") },
		"a stranger's stop": func(f *forged) { f.comment(f.scene.Reader, "/writ stop") },
	} {
		t.Run(name, func(t *testing.T) {
			f, u := newUnsent(t, kernel.ActionResult, nil)
			u.away, u.meanwhile = true, func() { act(f) }
			f.reach(kernel.ActionResult)
			u.away = false
			f.wants(f.later(), kernel.StandFinal)
			if f.ref(stateRef) != string(u.first[0].New) || f.ref(changeRef) != string(u.first[1].New) {
				t.Errorf("HEAD is %s, not %s", f.ref(stateRef), u.first[0].New)
			}
			f.shows("task 1 completed", kernel.LabelCompleted, false)
		})
	}
}

// TestP10_UnansweredResultAndANewApproval: a result whose push has no answer isn't pushed
// again either where its approval was taken back and another one given before anybody
// looked. The work is done again, for that one.
func TestP10_UnansweredResultAndANewApproval(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(*forged){
		"stop":    func(f *forged) { f.comment(f.scene.Owner, "/writ stop") },
		"close":   func(f *forged) { f.sets(f.scene.Owner, forge.Closed); f.sets(f.scene.Triage, forge.Open) },
		"unlabel": func(f *forged) { f.unlabel(f.scene.Triage) },
	} {
		t.Run(name, func(t *testing.T) {
			f, u := newUnsent(t, kernel.ActionResult, nil)
			u.away, u.meanwhile = true, func() {
				back(f)
				f.comment(f.scene.Owner, "/writ run")
			}
			f.reach(kernel.ActionResult)
			u.away = false
			f.wants(f.later(), kernel.StandFinal)
			if f.ref(stateRef) == string(u.first[0].New) || f.started() != 2 || f.trailer("aynig-state") != "completed" {
				t.Errorf("HEAD is %s, %s, after %d builders", f.ref(stateRef), f.trailer("aynig-state"), f.started())
			}
		})
	}
}

// asks hands an act to the drive, and waits until what runs is to end.
func (f *forged) asks(acts chan<- Act, kind string) {
	acts <- Act{Kind: kind, Actor: "local:0:ana", Reason: "enough"}
	for !f.task.worker.isStopping() {
		runtime.Gosched()
	}
}

// TestP10_UnansweredResultIsStoppedHere: so it is where the operator stops or halts the
// task, while the push hangs or after it.
func TestP10_UnansweredResultIsStoppedHere(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{kernel.ActStop, kernel.ActHalt} {
		for _, hangs := range []bool{true, false} {
			t.Run(kind+map[bool]string{true: " while it hangs", false: " later"}[hangs], func(t *testing.T) {
				f, u := newUnsent(t, kernel.ActionResult, nil)
				acts := make(chan Act)
				if u.away = !hangs; hangs {
					u.meanwhile = func() { f.asks(acts, kind) }
				}
				st, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Acts: acts})
				must(t, err)
				tries := u.again
				if act := (Act{Actor: "local:0:ana", Reason: "enough"}); !hangs && kind == kernel.ActStop {
					f.task.recordStop(t.Context(), act)
				} else if !hangs {
					must(t, (&drive{task: f.task}).halt(t.Context(), act))
				}
				u.away = false
				for range 2 {
					if st.Decision.Standing != kernel.StandHalted {
						st = f.later()
					}
				}
				if f.ref(changeRef) != "" || u.again != tries || (tries > 0) == hangs {
					t.Errorf("pushed again %d times, and then %d; the change branch is %q", tries, u.again-tries, f.ref(changeRef))
				}
				if kind == kernel.ActStop {
					f.wants(st, kernel.StandWaiting)
					f.stopped(kernel.CodeTaskStopped)
					f.shows("Stopped by local:0:ana.", "", true)
					return
				}
				if !f.sup.View(1).Halted || f.trailer("aynig-state") != kernel.HeadStalled {
					t.Errorf("halted %v, HEAD is %s", f.sup.View(1).Halted, f.trailer("aynig-state"))
				}
				f.shows("Halted by `local:0:ana`.", "", true)
				must(t, f.sup.Resume(t.Context(), 1, "local:0:ana", "go on"))
				f.later()
				f.shows("task 1 completed", kernel.LabelCompleted, false)
			})
		}
	}
}

// TestP10_ResultThatCameFirst: where the server takes the unanswered result before what is
// pushed instead, the result is what counts, and whoever stopped the task is told so.
func TestP10_ResultThatCameFirst(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"comment", kernel.ActStop, kernel.ActHalt} {
		for _, terms := range []string{"", mergeTerms} {
			t.Run(by+" "+terms, func(t *testing.T) {
				f, u := newUnsent(t, kernel.ActionResult, func(f *forged) { f.place.terms = terms })
				acts, comment := make(chan Act), int64(0)
				u.late, u.meanwhile = true, func() {
					if by == "comment" {
						comment = f.says(f.scene.Owner, "/writ stop")
					} else {
						f.asks(acts, by)
					}
				}
				_, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Acts: acts})
				must(t, err)
				for range 3 {
					if !f.task.kernelEnded() {
						f.later()
					}
				}
				if u.late || u.again > 0 || f.ref(stateRef) != string(u.first[0].New) || f.ref(changeRef) != string(u.first[1].New) {
					t.Errorf("pushed again %d times, HEAD is %s", u.again, f.trailer("aynig-state"))
				}
				if stop := f.sup.View(1).Stop; stop != "" {
					t.Errorf("the stop of %s is still to be carried out", stop)
				}
				if by == kernel.ActHalt {
					if body := f.marked("task")[0].Body; !strings.Contains(body, "Halted by `local:0:ana`.") {
						t.Errorf("the issue says %s", body)
					}
					return
				}
				if terms == "" {
					f.shows("task 1 completed", kernel.LabelCompleted, false)
				}
				if by == "comment" {
					f.reacted(comment, forge.ReactionConfused)
					if got := f.answeredWith(comment); !strings.Contains(got, "the result came first") {
						t.Errorf("answered %q", got)
					}
				}
			})
		}
	}
}

// TestP10_HaltedWhileItIsDown: a task is halted while its process is dead. The next one
// gives the dead one's lease back before the issue is told, so that a result that is
// still under way loses. Where that comes first, the issue shows it, and the halt.
func TestP10_HaltedWhileItIsDown(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		f, u := newUnsent(t, kernel.ActionResult, nil)
		u.away = true
		f.reach(kernel.ActionResult)
		must(t, f.sup.Halt(t.Context(), 1, "local:0:ana", "enough"))
		f.open()
		u.away, u.late = false, late
		f.wants(f.drive(), kernel.StandHalted, kernel.CodeTaskHalted)
		if late {
			f.verify(stateRef)
			f.shows("Halted by `local:0:ana`.", kernel.LabelCompleted, false)
			if f.ref(stateRef) != string(u.first[0].New) {
				t.Errorf("the result came first, and HEAD is %s", f.trailer("aynig-state"))
			}
			continue
		}
		f.shows("Halted by `local:0:ana`.", "", true)
		if f.trailer("aynig-state") != kernel.HeadStalled || f.trailer("writ-interruptions") != "0" {
			t.Errorf("HEAD is %s, after %s interruptions", f.trailer("aynig-state"), f.trailer("writ-interruptions"))
		}
		if out := u.Repo.CompareAndSwap(t.Context(), u.first, u.pack); out.Status != git.Lost || f.ref(changeRef) != "" {
			t.Errorf("the result of the dead process is %s", out.Status)
		}
		must(t, f.sup.Resume(t.Context(), 1, "local:0:ana", "go on"))
		f.later()
		f.shows("task 1 completed", kernel.LabelCompleted, false)
	}
}

// TestE8_HaltedLeaseIsKeptAt: where the server can't take back the lease of a dead process,
// whose task was halted meanwhile, the issue is told of the halt, and the lease is tried again
// until the server can, in this process or the next. Nothing is counted for that.
func TestE8_HaltedLeaseIsKeptAt(t *testing.T) {
	t.Parallel()
	for name, lives := range map[string]bool{"halted while it is down": false, "halted while it runs": true} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", restarts ", restarts), func(t *testing.T) {
				f, u := newUnsent(t, kernel.ActionResult, nil)
				u.away = true
				f.reach(kernel.ActionResult)
				gittest.Hook(t, f.bare, "pre-receive", `echo "fatal: write error: No space left on device" >&2; exit 1`)
				if lives {
					must(t, (&drive{task: f.task}).halt(t.Context(), Act{Actor: "local:0:ana", Reason: "enough"}))
				} else {
					must(t, f.sup.Halt(t.Context(), 1, "local:0:ana", "enough"))
					f.open()
				}
				for range 3 {
					st := f.drive()
					f.wants(st, kernel.StandHalted, kernel.CodeTaskHalted)
					f.shows("Halted by `local:0:ana`.", "", true)
					if wait := st.Wake - f.clock.Now().WallMs; f.trailer("aynig-state") != kernel.HeadWorking || wait <= 0 || wait > outageFar.Milliseconds() {
						t.Fatalf("HEAD is %s, and it is tried again in %d ms", f.trailer("aynig-state"), wait)
					}
					if o, lasts := f.sup.Outage(); lasts {
						t.Errorf("a halted task is said to wait for the server: %s", o.Words)
					}
					if f.clock.advance(outageFar.Milliseconds()); restarts {
						f.open()
					}
				}
				gittest.Hook(t, f.bare, "pre-receive", "exit 0")
				f.wants(f.drive(), kernel.StandHalted, kernel.CodeTaskHalted)
				if f.trailer("aynig-state") != kernel.HeadStalled || f.trailer("writ-interruptions") != "0" || !f.task.kernelEnded() {
					t.Errorf("HEAD is %s, after %s interruptions", f.trailer("aynig-state"), f.trailer("writ-interruptions"))
				}
				if out := u.Repo.CompareAndSwap(t.Context(), u.first, u.pack); out.Status != git.Lost || f.ref(changeRef) != "" {
					t.Errorf("the result of the dead process is %s", out.Status)
				}
			})
		}
	}
}

// TestE8_ResumedMeanwhile: a task that was resumed before its lease could be given back isn't
// looked at for that any more.
func TestE8_ResumedMeanwhile(t *testing.T) {
	t.Parallel()
	f, _ := newUnsent(t, kernel.ActionResult, nil)
	f.reach(kernel.ActionResult)
	d := &drive{task: f.task, handAt: 1}
	if d.handBack(t.Context()); d.handAt != 0 {
		t.Errorf("it is looked at again at %d", d.handAt)
	}
}

// TestP10_LostResultIsTakenBack: a result that the server acknowledged and lost isn't made
// again against a person's word either, by this process or the next, whether or not a rule
// refused it meanwhile.
func TestP10_LostResultIsTakenBack(t *testing.T) {
	t.Parallel()
	acts := map[string]func(*forged){
		"halt":          func(f *forged) { must(f.t, f.sup.Halt(f.t.Context(), 1, "local:0:ana", "enough")) },
		"operator stop": func(f *forged) { f.task.recordStop(f.t.Context(), Act{Actor: "local:0:ana"}) },
	}
	for name, c := range withdrawals {
		acts[name] = c.act
	}
	for name, act := range acts {
		for _, how := range []string{"", "restarted", "refused", "the forge is away"} {
			t.Run(name+" "+how, func(t *testing.T) {
				server := &forgetter{at: kernel.ActionResult}
				f := newTold(t, func(f *forged) {
					server.bare, f.place.fault = f.bare, server.fault
					f.place.wrap = func(r Repo) Repo { server.Repo = r; return server }
				})
				f.reach(kernel.ActionResult)
				look := func() {
					t.Helper()
					if _, err := f.task.Tick(t.Context(), kernel.RequestTick, "writ"); err == nil || f.ref(changeRef) != "" {
						t.Errorf("looked with %v, the change branch is %q", err, f.ref(changeRef))
					}
					if !f.onItsWay() {
						t.Error("nobody knows that a result is on its way")
					}
				}
				switch how {
				case "restarted":
					f.open()
				case "refused":
					gittest.Hook(t, f.bare, "pre-receive", "while read old new ref; do test $ref = "+changeRef+" && { echo 'policy 9' >&2; exit 1; }; done; exit 0")
					look()
					f.drive()
				case "the forge is away":
					f.scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Unavailable})
					look()
					look()
				}
				act(f)
				f.scene.Bot.Clear()
				f.withBranch()
				gittest.Hook(t, f.bare, "pre-receive", "exit 0")
				for range 5 {
					f.clock.advance(5000)
					_, _ = f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}) // it may be unsettled
				}
				if f.ref(changeRef) != "" || f.trailer("aynig-state") == "completed" || f.started() != 1 {
					t.Errorf("%d builders, HEAD is %s", f.started(), f.trailer("aynig-state"))
				}
				if name != "halt" && f.onItsWay() {
					t.Error("what was taken back is said to be on its way")
				}
				if name == "halt" {
					f.shows("Halted by `local:0:ana`.", "", true)
				}
			})
		}
	}
}

// TestP10_StopDuringTheLook: an operator's act that comes while a look finds the result lost
// is carried out, by the first such look and by those that would push it again, and the server
// isn't blamed for it.
func TestP10_StopDuringTheLook(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{kernel.ActStop, kernel.ActHalt} {
		for _, looks := range []int{1, 2} {
			t.Run(fmt.Sprint(kind, " in look ", looks), func(t *testing.T) {
				server := &forgetter{at: kernel.ActionResult}
				f := newTold(t, func(f *forged) {
					server.bare, f.place.fault = f.bare, server.fault
					f.place.wrap = func(r Repo) Repo { server.Repo = r; return server }
				})
				f.reach(kernel.ActionResult)
				acts, answers := make(chan Act), make(chan error, 1)
				server.looked = func() {
					if looks--; looks == 0 {
						acts <- Act{Kind: kind, Actor: "local:0:ana", Reason: "enough", Done: answers}
						for !f.task.worker.isStopping() {
							runtime.Gosched()
						}
					}
				}
				for len(answers) == 0 && looks > -10 {
					_, _ = f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Acts: acts}) // it may be unsettled
					if o, lasts := f.sup.Outage(); lasts && strings.Contains(o.Words, errActFirst.Error()) {
						t.Errorf("the server is said to be unable: %s", o.Words)
					}
					if f.clock.advance(5000); f.sup.outage.rest(f.clock.Now()) > 0 {
						t.Error("the repository is left alone by all its tasks")
					}
				}
				if kind == kernel.ActStop {
					f.later()
					if f.trailer("aynig-state") != string(kernel.TaskWaiting) {
						t.Errorf("HEAD is %s", f.trailer("aynig-state"))
					}
					f.shows("Stopped by local:0:ana.", "", true)
				} else if !f.sup.View(1).Halted {
					t.Error("it isn't halted")
				}
				if f.ref(changeRef) != "" || f.started() != 1 {
					t.Errorf("%d builders, HEAD is %s", f.started(), f.trailer("aynig-state"))
				}
			})
		}
	}
}

// TestP10_UnansweredEndIsHalted: nor is the end of a task whose change is merged pushed
// again once it is halted. A stop, which takes back nothing that is merged, leaves it.
func TestP10_UnansweredEndIsHalted(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{kernel.ActStop, kernel.ActHalt} {
		t.Run(kind, func(t *testing.T) {
			f, u := newUnsent(t, kernel.ActionComplete, func(f *forged) { f.place.terms = mergeTerms })
			f.wants(f.drive(), kernel.StandWaiting)
			f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
			acts := make(chan Act)
			u.meanwhile = func() { f.asks(acts, kind) }
			f.clock.advance(120_000)
			for range 3 {
				_, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Acts: acts})
				if err != nil && !errors.Is(err, ErrUnsettled) && !errors.Is(err, machine.ErrHalted) {
					t.Error(err)
				}
				f.clock.advance(120_000)
			}
			if done := f.ref(stateRef) == string(u.first[0].New); done != (kind == kernel.ActStop) {
				t.Errorf("HEAD is %s, after %d more tries", f.trailer("aynig-state"), u.again)
			}
		})
	}
}

// TestP10_UnansweredResultIsBegunAnew: work that waits for a rule, and whose next push the
// server left without an answer, isn't pushed again once a person has had the task begun
// anew; who only asks for the same again has it pushed.
func TestP10_UnansweredResultIsBegunAnew(t *testing.T) {
	t.Parallel()
	for says, builds := range map[string]int{"/writ retry": 1, "/writ retry use the parser": 2} {
		t.Run(says, func(t *testing.T) {
			f, u := newUnsent(t, "", nil)
			f.toRule()
			gittest.Hook(t, f.bare, "pre-receive", "exit 0")
			u.at, u.meanwhile = kernel.ActionResult, func() { f.comment(f.scene.Owner, says) }
			f.clock.advance(ruleAgain.Milliseconds())
			for range 6 {
				f.later()
			}
			if first := f.ref(stateRef) == string(u.first[0].New); f.started() != builds || first != (builds == 1) || f.trailer("aynig-state") != "completed" {
				t.Errorf("%d builds, HEAD is %s, and the first result: %v", f.started(), f.trailer("aynig-state"), first)
			}
		})
	}
}
