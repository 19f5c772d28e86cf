package supervisor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

// TestX5_HandedOverAndShown: a task that a person stops or halts while it runs gives
// its lease back, and the issue says by whom; it no longer says that it is worked on.
func TestX5_HandedOverAndShown(t *testing.T) {
	for act, c := range map[string]struct{ head, says string }{
		kernel.ActStop: {"waiting", "Stopped by local:0:ana."},
		kernel.ActHalt: {kernel.HeadStalled, "Halted by `local:0:ana`."},
	} {
		t.Run(act, func(t *testing.T) {
			f := newTold(t, func(f *forged) { f.exec.hold = true })
			acts, answer := make(chan Act, 1), make(chan error, 1)
			ask := func() { acts <- Act{Kind: act, Actor: "local:0:ana", Reason: "enough", Done: answer} }
			f.scene.Bot.Before(forgetest.On(forgetest.AddLabel), 1, func(forgetest.Call) { ask() })
			_, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Acts: acts})
			if halted := act == kernel.ActHalt; (err != nil) != halted || f.sup.View(1).Halted != halted {
				t.Errorf("the drive ends with %v, halted %v", err, f.sup.View(1).Halted)
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

// TestX5_HaltedThoughNothingAnswers: neither git nor the forge keeps a task from being
// halted.
func TestX5_HaltedThoughNothingAnswers(t *testing.T) {
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	acts, answer := make(chan Act, 1), make(chan error, 1)
	f.exec.started = func(executor.BuildJob) {
		f.scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Unavailable})
		f.sup.deps.Repo = unreachable{}
		acts <- Act{Kind: kernel.ActHalt, Actor: "local:0:ana", Done: answer}
	}
	if _, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Acts: acts}); err == nil {
		t.Error("the drive goes on")
	}
	if err := <-answer; err != nil || !f.sup.View(1).Halted || !f.exec.builds[0].killed {
		t.Errorf("halted %v, %v", f.sup.View(1).Halted, err)
	}
}

// TestK10_DrainedIssueWaits: where a process ends and gives its run back, the issue
// says that the task waits, for one request; the next process goes on.
func TestK10_DrainedIssueWaits(t *testing.T) {
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

// TestM2_HaltedWhileItIsOpened: a task that is opened just as it is halted is halted
// by its own kernel, so that nothing more is done in this epoch.
func TestM2_HaltedWhileItIsOpened(t *testing.T) {
	f := newTold(t, nil)
	if done, err := f.sup.haltUnopened(t.Context(), 1, "local:0:ana", "now"); done || err != nil || f.sup.View(1).Halted {
		t.Fatalf("an open task was passed by: %v, %v", done, err)
	}
	must(t, f.sup.Halt(t.Context(), 1, "local:0:ana", "now"))
	if _, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}); !errors.Is(err, machine.ErrHalted) || !f.sup.View(1).Halted {
		t.Errorf("the drive ends with %v", err)
	}
	f.task.Close()
	if done, err := f.sup.haltUnopened(t.Context(), 2, "local:0:ana", "ahead"); !done || err != nil || !f.sup.View(2).Halted {
		t.Errorf("a task that isn't open: %v, %v", done, err)
	}
}
