package supervisor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// outlast drives a task whose server can't, as a server does, for a while.
func (f *forged) outlast(lasts time.Duration) {
	f.t.Helper()
	for from := f.clock.Now().WallMs; f.clock.Now().WallMs-from < lasts.Milliseconds(); {
		st := f.drive()
		if !st.Unable || st.Wake <= f.clock.Now().WallMs || st.Wake > f.clock.Now().WallMs+outageFar.Milliseconds() {
			f.t.Fatalf("it stands %s, %s, unable %v, next in %d ms", st.Decision.Standing, st.Decision.Action, st.Unable, st.Wake-f.clock.Now().WallMs)
		}
		f.clock.advance(st.Wake - f.clock.Now().WallMs)
	}
}

// onItsWay reports whether a stop would meet a result that was pushed.
func (f *forged) onItsWay() bool {
	is, _ := f.sup.Unsettled(1)
	return is
}

// undelivered reports whether it would meet judged work.
func (f *forged) undelivered() bool {
	_, is := f.sup.Unsettled(1)
	return is
}

// TestP10_ResultThatNoLookHasShown: from its push until a look shows it, a result is on its
// way, for a server may lose it.
func TestP10_ResultThatNoLookHasShown(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.reach(kernel.ActionResult)
	if !f.onItsWay() {
		t.Error("it was pushed, and isn't on its way")
	}
	f.drive()
	if f.onItsWay() {
		t.Error("it was shown, and is on its way still")
	}
}

// TestP10_UndeliveredWorkIsThere: work that the server couldn't take is something to stop,
// between two tries and in one, and isn't once it was delivered or stopped.
func TestP10_UndeliveredWorkIsThere(t *testing.T) {
	t.Parallel()
	for _, stops := range []bool{false, true} {
		f := newTold(t, nil)
		gittest.Hook(t, f.bare, "pre-receive", `while read old new ref; do case $ref in refs/heads/*) echo "fatal: write error: No space left on device" >&2; exit 1;; esac; done`)
		if st := f.drive(); !st.Unable || !f.undelivered() {
			t.Fatalf("it stands %s, and there is something to stop: %t", st.Decision.Standing, f.undelivered())
		}
		f.clock.advance(outageFar.Milliseconds())
		f.task.Close()
		if !f.undelivered() {
			t.Error("between two tries there is nothing to stop")
		}
		task, err := f.sup.Open(t.Context(), 1, nil)
		must(t, err)
		t.Cleanup(task.Close)
		if f.task = task; !f.undelivered() {
			t.Error("once it is driven again there is nothing to stop")
		}
		gittest.Hook(t, f.bare, "pre-receive", "exit 0")
		if stops {
			f.says(f.scene.Owner, "/writ stop")
		}
		f.drive()
		if f.undelivered() {
			t.Errorf("HEAD is %s, and there is something to stop", f.trailer("aynig-state"))
		}
	}
}

// TestE8_LimitsOfTheForgeKeepNobodyElse: a look that ends at the forge's limits gives the
// leave to try a server that can't back to the other tasks of the repository.
func TestE8_LimitsOfTheForgeKeepNobodyElse(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	gittest.Hook(t, f.bare, "pre-receive", `echo "fatal: write error: No space left on device" >&2; exit 1`)
	st := f.drive()
	if !st.Unable {
		t.Fatalf("it stands %s", st.Decision.Standing)
	}
	f.clock.advance(st.Wake - f.clock.Now().WallMs)
	f.scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Limited, RetryAfter: time.Hour})
	if _, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}); !forge.IsReason(err, forge.Limited) {
		t.Fatalf("the look ends with %v", err)
	}
	if left := f.sup.outage.rest(f.clock.Now()); left > 0 {
		t.Errorf("the repository is left alone for %s by all its tasks", left)
	}
}

// TestG7_E8_TheIssueIsTold: an outage that lasts is said on the issue, in the one comment
// and once, at the claim and with work that is judged; what is told next takes it back. A
// short one is said nowhere, and what was done is delivered soon after its end.
func TestG7_E8_TheIssueIsTold(t *testing.T) {
	t.Parallel()
	const full = `echo "fatal: write error: No space left on device" >&2; exit 1`
	for _, c := range []struct {
		name, script string
		lasts        time.Duration
		told         bool
	}{
		{"claim, short", full, 2 * time.Minute, false},
		{"claim, long", full, time.Hour, true},
		{"result, short", `while read old new ref; do case $ref in refs/heads/*) ` + full + `;; esac; done`, 2 * time.Minute, false},
		{"result, long", `while read old new ref; do case $ref in refs/heads/*) ` + full + `;; esac; done`, time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newTold(t, nil)
			gittest.Hook(t, f.bare, "pre-receive", c.script)
			f.outlast(c.lasts)
			says := func() (is bool) {
				for _, k := range f.marked("task") {
					is = is || strings.Contains(k.Body, "No space left on device")
				}
				return is
			}
			edits := len(f.scene.Bot.Calls(forgetest.On(forgetest.EditComment))) + len(f.scene.Bot.Calls(forgetest.On(forgetest.AddComment)))
			if says() != c.told || len(f.marked("task")) > 1 || edits > 3 {
				t.Errorf("told %v, with %d comments, written %d times", says(), len(f.marked("task")), edits)
			}
			gittest.Hook(t, f.bare, "pre-receive", "exit 0")
			for from := f.clock.Now().WallMs; f.trailer("aynig-state") != "completed"; f.clock.advance(1000) {
				if f.drive(); f.clock.Now().WallMs-from > (2 * time.Minute).Milliseconds() {
					t.Fatalf("two minutes after healing HEAD is %q", f.trailer("aynig-state"))
				}
			}
			f.drive()
			if says() || f.started() != 1 || f.trailer("writ-interruptions") != "0" {
				t.Errorf("it still says so: %v; %d builds, %s interruptions", says(), f.started(), f.trailer("writ-interruptions"))
			}
			f.shows("task 1 completed", kernel.LabelCompleted, false)
			f.verify(stateRef)
		})
	}
}

// TestG7_OurOwnLimit: what a limit of writ's own refuses is named as that, and not as the
// server's outage.
func TestG7_OurOwnLimit(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	for range outageShown {
		f.sup.deps.Repo = overBudget{f.repo}
		st, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
		if err == nil {
			t.Fatal("it is read")
		}
		f.clock.advance(st.Wake - f.clock.Now().WallMs)
	}
	if o, lasts := f.sup.Outage(); !lasts || o.Code() != kernel.CodeGitBudget {
		t.Errorf("it is shown as %+v", o)
	}
	f.clock.advance(time.Hour.Milliseconds())
	if words := f.task.worker.outageWords(); !strings.Contains(words, "limit of writ's own") || strings.Contains(words, "server must mend") {
		t.Errorf("the issue would say %s", words)
	}
}

// overBudget is a repository that is more than writ takes.
type overBudget struct{ Repo }

func (overBudget) Refs(context.Context, ...string) (git.Refs, error) {
	return git.Refs{}, &git.Error{Code: git.CodeBudget, Msg: "too much"}
}
