package supervisor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

// TestX5_HandedOverAndShown: a task that a person stops or halts while it runs gives
// its lease back, and the issue says by whom; it no longer says that it is worked on.
func TestX5_HandedOverAndShown(t *testing.T) {
	t.Parallel()
	for act, c := range map[string]struct{ head, says string }{
		kernel.ActStop: {"waiting", "Stopped by local:0:ana."},
		kernel.ActHalt: {kernel.HeadStalled, "Halted by `local:0:ana`."},
	} {
		t.Run(act, func(t *testing.T) {
			f := newTold(t, func(f *forged) { f.exec.hold = true })
			acts, answer := make(chan Act, 1), make(chan error, 1)
			ask := func() { acts <- Act{Kind: act, Actor: "local:0:ana", Reason: "enough", Done: answer} }
			f.scene.Bot.Before(forgetest.On(forgetest.AddLabel), 1, func(forgetest.Call) { ask() })
			st, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Acts: acts})
			must(t, err)
			if halted := act == kernel.ActHalt; (st.Decision.Standing == kernel.StandHalted) != halted || f.sup.View(1).Halted != halted {
				t.Errorf("it stands %s, halted %v", st.Decision.Standing, f.sup.View(1).Halted)
			}
			must(t, <-answer)
			if !f.exec.builds[0].killed || f.trailer("aynig-state") != c.head {
				t.Errorf("killed %v, HEAD is %s", f.exec.builds[0].killed, f.trailer("aynig-state"))
			}
			f.shows(c.says, "", true)
			if body := f.marked("task")[0].Body; strings.Contains(body, "worked on") {
				t.Errorf("the issue says %s", body)
			}
			if act == kernel.ActStop {
				return
			}
			f.exec.hold = false
			must(t, f.sup.Resume(t.Context(), 1, "local:0:ana", "go on"))
			if st := f.drive(); st.Decision.State != kernel.TaskCompleted || f.trailer("writ-attempt") != "1" {
				t.Errorf("resumed, it is %s, attempt %s", st.Decision.State, f.trailer("writ-attempt"))
			}
		})
	}
}

// TestX5_HaltedAtTheEnd: a process that is to end just as it halts a task looks at nothing
// any more, and gives the lease back all the same.
func TestX5_HaltedAtTheEnd(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	f.reach(kernel.ActionDispatch)
	ctx, end := context.WithCancel(t.Context())
	end()
	d := &drive{task: f.task, o: DriveOptions{Actor: "writ"}, came: make(chan struct{}, 1)}
	d.take(Act{Kind: kernel.ActHalt, Actor: "local:0:ana", Reason: "enough"})
	if _, err := d.run(ctx); !errors.Is(err, context.Canceled) || !f.sup.View(1).Halted {
		t.Errorf("halted %v, %v", f.sup.View(1).Halted, err)
	}
	if !f.exec.builds[0].killed || f.trailer("aynig-state") != kernel.HeadStalled {
		t.Errorf("killed %v, HEAD is %s", f.exec.builds[0].killed, f.trailer("aynig-state"))
	}
}

// TestX5_HaltedThoughNothingAnswers: neither git nor the forge keeps a task from being
// halted.
func TestX5_HaltedThoughNothingAnswers(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	acts, answer := make(chan Act, 1), make(chan error, 1)
	f.exec.started = func(executor.BuildJob) {
		f.scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Unavailable})
		f.sup.deps.Repo = unreachable{}
		acts <- Act{Kind: kernel.ActHalt, Actor: "local:0:ana", Done: answer}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := f.task.Drive(ctx, DriveOptions{Actor: "writ", Yield: true, Acts: acts}); err == nil || ctx.Err() != nil {
		t.Error("the drive goes on")
	}
	if err := <-answer; err != nil || !f.sup.View(1).Halted || !f.exec.builds[0].killed {
		t.Errorf("halted %v, %v", f.sup.View(1).Halted, err)
	}
}

// TestK10_DrainedIssueWaits: where a process ends and gives its run back, the issue
// says that the task waits, for one request; the next process goes on.
func TestK10_DrainedIssueWaits(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	ctx, end := context.WithCancel(t.Context())
	f.scene.Bot.Before(forgetest.On(forgetest.AddLabel), 1, func(forgetest.Call) { end() })
	if _, err := f.task.Drive(ctx, DriveOptions{Actor: "writ", Yield: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("the drive ends with %v", err)
	}
	list := f.marked("task")
	if len(list) != 1 || !strings.Contains(list[0].Body, "task 1 waits") || !strings.Contains(list[0].Body, "goes on by itself") {
		t.Errorf("the issue says %+v", list)
	}
	if n := len(f.scene.Bot.Calls(forgetest.On(forgetest.EditComment))); n != 1 {
		t.Errorf("%d edits", n)
	}
	f.exec.hold = false
	f.open()
	if st := f.later(); st.Decision.State != kernel.TaskCompleted || f.trailer("writ-attempt") != "1" {
		t.Errorf("then it is %s, attempt %s", st.Decision.State, f.trailer("writ-attempt"))
	}
	f.shows("task 1 completed", kernel.LabelCompleted, false)
}

// unreachable is a repository that gives no answer.
type unreachable struct{ Repo }

func (unreachable) Refs(context.Context, ...string) (git.Refs, error) {
	return git.Refs{}, errors.New("no network")
}

// dying is one that gives no answer to a process that ends.
type dying struct {
	Repo
	die func()
}

func (d dying) Refs(context.Context, ...string) (git.Refs, error) {
	d.die()
	return git.Refs{}, errors.New("no network")
}

// TestM2_HaltedWhileItIsOpened: a task that is opened just as it is halted does nothing
// more in this epoch but to tell the issue, and what it has just started is killed.
func TestM2_HaltedWhileItIsOpened(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	f.reach(kernel.ActionDispatch)
	must(t, f.sup.Halt(t.Context(), 1, "local:0:ana", "now"))
	if !f.exec.builds[0].killed {
		t.Error("what runs isn't killed")
	}
	f.wants(f.drive(), kernel.StandHalted, kernel.CodeTaskHalted)
	f.shows("Halted by `local:0:ana`.", "", true)
	if f.started() != 1 || f.task.worker.run != nil {
		t.Errorf("%d builders were started", f.started())
	}
	must(t, f.sup.Halt(t.Context(), 2, "local:0:ana", "ahead"))
	if !f.sup.View(2).Halted {
		t.Error("a task that isn't open isn't halted")
	}
}

// TestM2_HaltedThoughGitIsUnable: a server that takes no push, or of which no answer
// comes, keeps nobody from being told on the issue that the task is halted, and by whom;
// that a process died over it doesn't either. A forge that can't be asked is told once it
// can be. What is halted waits for no server.
func TestM2_HaltedThoughGitIsUnable(t *testing.T) {
	t.Parallel()
	const full = `echo "fatal: write error: No space left on device" >&2; exit 1`
	onResult := `while read old new ref; do case $ref in refs/heads/*) ` + full + `;; esac; done`
	for name, c := range map[string]struct {
		judged, away, mute, dies bool
	}{
		"it builds": {}, "it is judged": {judged: true}, "the forge is away": {away: true}, "no answer comes": {mute: true},
		"the process dies": {dies: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTold(t, func(f *forged) { f.exec.hold = !c.judged })
			if c.judged {
				gittest.Hook(t, f.bare, "pre-receive", onResult)
				f.outlast(time.Hour)
			} else {
				f.reach(kernel.ActionDispatch)
				f.tellAll()
				gittest.Hook(t, f.bare, "pre-receive", full)
			}
			if c.mute {
				f.sup.deps.Repo = unanswered{f.sup.deps.Repo}
			}
			if c.away {
				f.scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Unavailable})
			}
			if c.dies {
				must(t, f.sup.Halt(t.Context(), 1, "local:0:ana", "enough"))
				f.open()
			}
			acts, answer := make(chan Act, 1), make(chan error, 1)
			acts <- Act{Kind: kernel.ActHalt, Actor: "local:0:ana", Reason: "enough", Done: answer}
			st, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Acts: acts})
			if halted := <-answer; halted != nil || !f.sup.View(1).Halted || err != nil && !errors.Is(err, machine.ErrHalted) && !c.away {
				t.Errorf("halted %v, %v; the drive ends with %v", f.sup.View(1).Halted, halted, err)
			}
			if c.away {
				f.sup.deps.Repo = unreachable{}
				for range outageShown {
					st, err = f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
					if err == nil || !st.Unable || st.Wake <= f.clock.Now().WallMs {
						t.Errorf("unable %v, in %d ms: %v", st.Unable, st.Wake-f.clock.Now().WallMs, err)
					}
					f.clock.advance(st.Wake - f.clock.Now().WallMs)
				}
				if o, lasts := f.sup.Outage(); lasts {
					t.Errorf("it waits for the server: %+v", o)
				}
				f.sup.deps.Repo = f.repo
				f.scene.Bot.Clear()
				f.withBranch()
				f.clock.advance(max(st.Wake-f.clock.Now().WallMs, 0))
				f.drive()
			}
			f.shows("Halted by `local:0:ana`.", "", true)
			if body := f.marked("task")[0].Body; strings.Contains(body, "worked on") || len(f.marked("task")) != 1 {
				t.Errorf("the issue says %s", body)
			}
			if o, lasts := f.sup.Outage(); lasts || o.Tasks != 0 {
				t.Errorf("it waits for the server: %+v", o)
			}
			gittest.Hook(t, f.bare, "pre-receive", "exit 0")
			f.exec.hold, f.sup.deps.Repo = false, f.repo
			must(t, f.sup.Resume(t.Context(), 1, "local:0:ana", "go on"))
			f.later()
			f.shows("task 1 completed", kernel.LabelCompleted, false)
		})
	}
}

// unanswered is a repository that answers no push.
type unanswered struct{ Repo }

func (unanswered) CompareAndSwap(context.Context, []git.Command, git.Pack) git.Outcome {
	return git.Outcome{Status: git.Unknown, Err: errors.New("no answer")}
}

func (unanswered) Reassert(context.Context, []git.Command, git.Pack) git.Outcome {
	return git.Outcome{Status: git.Unknown, Err: errors.New("no answer")}
}

// TestX5_StoppedAndNotTold: a process that dies after it handed a stopped task over,
// before the issue was told, leaves the stop to the next one: that finds nothing to
// stop, and tells.
func TestX5_StoppedAndNotTold(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	f.reach(kernel.ActionDispatch)
	for f.ask(kernel.RequestTell).Decision.Action != kernel.ActionNone { // that it is worked on
	}
	if st := f.ask(kernel.RequestStop); st.Decision.Action != kernel.ActionWait || len(f.forgeIssue().Labels) < 2 {
		t.Fatalf("%s, and the issue has %v", st.Decision.Action, f.forgeIssue().Labels)
	}
	acts, answer := make(chan Act, 1), make(chan error, 1)
	acts <- Act{Kind: kernel.ActStop, Actor: "local:0:ana", Reason: "enough", Done: answer}
	_, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Acts: acts})
	must(t, err)
	must(t, <-answer)
	if f.trailer("aynig-state") != "waiting" {
		t.Errorf("HEAD is %s", f.trailer("aynig-state"))
	}
	f.shows("waiting", "", true)
	if body := f.marked("task")[0].Body; strings.Contains(body, "worked on") {
		t.Errorf("the issue says %s", body)
	}
}

// TestX5_HaltedAndNotTold: a process that dies after it recorded a halt leaves it to
// the next one to tell, though its lease still stands at HEAD.
func TestX5_HaltedAndNotTold(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	f.reach(kernel.ActionDispatch)
	for f.ask(kernel.RequestTell).Decision.Action != kernel.ActionNone { // that it is worked on
	}
	must(t, f.sup.Halt(t.Context(), 1, "local:0:ana", "enough"))
	f.open()
	f.wants(f.drive(), kernel.StandHalted, kernel.CodeTaskHalted)
	f.shows("Halted by `local:0:ana`. Nothing of it runs", "", true)
	if body := f.marked("task")[0].Body; strings.Contains(body, "worked on") {
		t.Errorf("the issue says %s", body)
	}
}

// TestP10_ResumedWhileTold: a halt that is being told when the task is resumed doesn't
// end the epoch that the resume has begun.
func TestP10_ResumedWhileTold(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.ask(kernel.RequestTick)
	must(t, f.sup.Halt(t.Context(), 1, "local:0:ana", "enough"))
	must(t, f.sup.Resume(t.Context(), 1, "local:0:ana", "go on"))
	must(t, f.task.haltKernel(t.Context()))
	f.wants(f.drive(), kernel.StandFinal)
}

// TestM2_ResumedWhileDriven: a person may resume a task at any moment of a look at it.
// What it holds, the race detector says.
func TestM2_ResumedWhileDriven(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	driven := make(chan struct{})
	go func() {
		defer close(driven)
		for n := 0; n < 10; n++ {
			f.task.kernelEnded()
			must(t, f.sup.Resume(t.Context(), 1, "local:0:ana", "go on"))
		}
	}()
	f.wants(f.drive(), kernel.StandFinal)
	<-driven
}

// TestM2_HaltedIsSilent: once the issue is told of the halt, nothing more is written of the
// task and no command answered, by no process, whether the task was looked at when it was
// halted or not. What was said meanwhile is answered after the resume.
func TestM2_HaltedIsSilent(t *testing.T) {
	t.Parallel()
	for name, driven := range map[string]bool{"while it is looked at": true, "while it isn't": false} {
		t.Run(name, func(t *testing.T) {
			f := newWaiting(t)
			acts := make(chan Act, 1)
			if driven {
				acts <- Act{Kind: kernel.ActHalt, Actor: "local:0:ana", Reason: "enough"}
			} else {
				must(t, f.sup.Halt(t.Context(), 1, "local:0:ana", "enough"))
			}
			st, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Acts: acts})
			must(t, err)
			f.wants(st, kernel.StandHalted, kernel.CodeTaskHalted)
			f.shows("Halted by `local:0:ana`.", "", true)
			if st.Wake != 0 {
				t.Errorf("it is looked at again in %d ms", st.Wake-f.clock.Now().WallMs)
			}
			id := f.says(f.scene.Owner, "/writ explain")
			f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
			before := len(f.scene.Bot.Calls(forgetest.Writes()))
			if _, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}); !errors.Is(err, machine.ErrHalted) {
				t.Errorf("the next look ends with %v", err)
			}
			f.close()
			f.opened, err = f.place.open(t.Context())
			t.Cleanup(f.opened.close)
			if !errors.Is(err, machine.ErrHalted) {
				t.Errorf("the next process: %v", err)
			}
			if n := len(f.scene.Bot.Calls(forgetest.Writes())) - before; n > 0 {
				t.Errorf("%d writes to the forge while it is halted", n)
			}
			f.reacted(id)
			must(t, f.sup.Resume(t.Context(), 1, "local:0:ana", "go on"))
			f.task, err = f.sup.Open(t.Context(), 1, f.place.issue)
			must(t, err)
			f.later()
			f.reacted(id, forge.ReactionDone)
			f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
		})
	}
}

// TestX5_UnapprovedWhileDead: an approval that is taken back while its process is dead
// leaves no lease behind: it is given back once it has expired, and the issue no longer
// says that the task is worked on.
func TestX5_UnapprovedWhileDead(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	f.reach(kernel.ActionDispatch)
	for f.ask(kernel.RequestTell).Decision.Action != kernel.ActionNone { // that it is worked on
	}
	f.task.worker.setRun(nil) // as a process knows it that was started anew
	f.unlabel(f.scene.Owner)
	for range 3 { // the lease is seen to stand for its time
		f.clock.advance(time.Hour.Milliseconds())
		f.drive()
	}
	f.wants(f.drive(), kernel.StandWaiting)
	if f.trailer("aynig-state") != string(kernel.TaskWaiting) || f.trailer("writ-waiting-for") != kernel.WaitApproval || f.trailer("writ-interruptions") != "0" {
		t.Errorf("HEAD is %s", f.trailer("aynig-state"))
	}
	if labels := f.forgeIssue().Labels; len(labels) > 0 {
		t.Errorf("the issue has %v", labels)
	}
	if body := f.marked("task")[0].Body; strings.Contains(body, "worked on") {
		t.Errorf("the issue says %s", body)
	}
}

// TestX5_StopOutlivesItsProcess: a stop that the server can't be told of holds in the next
// process over the same state directory, until HEAD says so or a person moves on.
func TestX5_StopOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	for _, undone := range []bool{false, true} {
		f := newTold(t, func(f *forged) { f.exec.hold = true })
		acts := make(chan Act, 1)
		ctx, die := context.WithCancel(t.Context())
		f.exec.started = func(executor.BuildJob) {
			f.sup.deps.Repo = dying{die: func() {
				if f.sup.View(1).Stop != "" {
					die()
				}
			}}
			acts <- Act{Kind: kernel.ActStop, Actor: "local:0:ana", Reason: "enough"}
		}
		if _, err := f.task.Drive(ctx, DriveOptions{Actor: "writ", Yield: true, Acts: acts}); err == nil {
			t.Error("the drive goes on")
		}
		f.exec.hold, f.exec.started = false, nil
		f.open()
		if undone {
			must(t, f.sup.Resume(t.Context(), 1, "local:0:ana", "go on"))
		}
		for range 3 {
			f.later()
		}
		if undone {
			if f.trailer("aynig-state") != "completed" {
				t.Errorf("HEAD is %s", f.trailer("aynig-state"))
			}
			continue
		}
		if n := f.started(); n != 1 || f.trailer("aynig-state") != "waiting" || f.sup.View(1).Stop != "" {
			t.Errorf("%d builders, HEAD is %s, the stop of %q stands", n, f.trailer("aynig-state"), f.sup.View(1).Stop)
		}
		f.shows("Stopped by local:0:ana.", "", true)
	}
}
