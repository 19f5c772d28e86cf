package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// losesBase deletes the base branch, and returns what puts it back.
func (f *forged) losesBase() (back func()) {
	f.t.Helper()
	tip := f.ref("refs/heads/main")
	gittest.Git(f.t, f.bare, "update-ref", "-d", "refs/heads/main")
	return func() { gittest.Git(f.t, f.bare, "update-ref", "refs/heads/main", tip) }
}

// reopen gives the task up and takes it up again, as a server does with each look.
func (f *forged) reopen() {
	f.t.Helper()
	f.task.Close()
	task, err := f.sup.Open(f.t.Context(), 1, nil)
	must(f.t, err)
	f.task = task
}

// looks drives a task whose base can't be read as a server does, each time anew, and returns how
// often that was.
func (f *forged) looks(lasts time.Duration) (n int) {
	f.t.Helper()
	for from := f.clock.Now().WallMs; f.clock.Now().WallMs-from < lasts.Milliseconds(); n++ {
		f.reopen()
		st, err := f.task.Drive(f.t.Context(), DriveOptions{Actor: "writ", Yield: true})
		if !st.Unable || st.Wake <= f.clock.Now().WallMs {
			f.t.Fatalf("it stands %s, unable %v, %v", st.Decision.Standing, st.Unable, err)
		}
		f.clock.advance(st.Wake - f.clock.Now().WallMs)
	}
	return n
}

// TestE8_BaseGoneMeanwhile: the base branch is deleted while a task builds. What was done is
// delivered; the looks that follow are ever more seldom, the outage names the branch, and the
// issue is told once. It goes on with the next look once the branch is back.
func TestE8_BaseGoneMeanwhile(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.reach(kernel.ActionDispatch)
	f.tellAll()
	back := f.losesBase()
	f.exec.finish()
	f.reach(kernel.ActionResult)
	edits := func() int { return len(f.scene.Bot.Calls(forgetest.On(forgetest.EditComment))) }
	before := edits()
	if n := f.looks(time.Hour); n < 55 || n > 80 {
		t.Errorf("%d looks in an hour", n)
	}
	o, lasts := f.sup.Outage()
	if !lasts || o.Code() != kernel.CodeEnvRepository || !strings.Contains(o.Words, `the base branch "main" isn't there`) {
		t.Errorf("the outage is %+v", o)
	}
	f.shows("waits: the repository's base branch isn't there", kernel.LabelClaimed, true)
	if n := edits() - before; n != 1 {
		t.Errorf("the comment was edited %d times", n)
	}
	back()
	f.reopen()
	f.drive()
	if _, lasts := f.sup.Outage(); lasts || f.trailer("aynig-state") != "completed" {
		t.Errorf("HEAD is %q, an outage lasts: %v", f.trailer("aynig-state"), lasts)
	}
	f.shows("task 1 completed", kernel.LabelCompleted, false)
}

// TestE8_BaseGoneBeforeTheClose: the base branch is deleted after the last look at a
// delivered task and before its issue is closed. It is closed once the branch is back,
// though nobody speaks of the task again.
func TestE8_BaseGoneBeforeTheClose(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.reach(kernel.ActionDispatch)
	f.tellAll()
	f.exec.finish()
	f.reach(kernel.ActionResult)
	d := &drive{task: f.task, o: DriveOptions{Actor: "writ", Yield: true}}
	st := f.tick()
	back := f.losesBase()
	must(t, d.tell(t.Context(), st))
	wait := d.wakeAt(st) - f.clock.Now().WallMs
	if wait <= 0 || wait > time.Minute.Milliseconds() {
		t.Fatalf("it is looked at again after %d ms", wait)
	}
	back()
	f.clock.advance(wait)
	f.reopen()
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
}

// TestE8_SurveyFails: a base that can't be tried before a claim is tried ever more seldom,
// though all of each look before it can be read.
func TestE8_SurveyFails(t *testing.T) {
	t.Parallel()
	f, s := newSurveyed(t, nil)
	s.fails = errors.New("the pack ends too early")
	if n := f.looks(baseDoubt - time.Second); n > 8 {
		t.Errorf("%d looks in a minute", n)
	}
	if o, lasts := f.sup.Outage(); !lasts || o.Code() != kernel.CodeForgeUnable {
		t.Errorf("the outage is %+v, %v", o, lasts)
	}
}

// TestE8_BaseGoneBeforeTheStart: the base branch is deleted after a task was claimed and
// before its builder starts. Nothing is started under a contract that nobody can read. Where
// the branch comes back while the lease lasts, the very run goes on; else the lease is given
// up, and the task is claimed again once it is back. Nothing is counted.
func TestE8_BaseGoneBeforeTheStart(t *testing.T) {
	t.Parallel()
	for _, lasts := range []bool{true, false} {
		t.Run(fmt.Sprintf("lease lasts=%v", lasts), func(t *testing.T) {
			f := newTold(t, nil)
			f.reach(kernel.ActionClaim)
			for f.ask(kernel.RequestTell).Decision.Action != kernel.ActionNone {
				f.clock.advance(1000)
			}
			run, back := f.task.worker.run.id, f.losesBase()
			for range 2 {
				if _, err := f.task.Tick(t.Context(), kernel.RequestTick, "writ"); !Unable(err) || f.started() != 0 {
					t.Fatalf("%d builders started, the look ends with %v", f.started(), err)
				}
			}
			if !lasts {
				f.clock.advance(120_000)
				if st, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}); !st.Unable || f.task.worker.run != nil {
					t.Fatalf("it stands %s, %v", st.Decision.Standing, err)
				}
				f.looks(10 * time.Minute)
				f.reopen()
			}
			back()
			f.until(kernel.StandFinal)
			if again := f.trailer(kernel.TrailerRun) != run; f.started() != 1 || again == lasts || f.trailer(kernel.TrailerInterruptions) != "0" {
				t.Errorf("%d builders, claimed again: %v, %s interruptions", f.started(), again, f.trailer(kernel.TrailerInterruptions))
			}
			delivered(t, f.bare)
		})
	}
}

// TestE8_LeaseEndsWhileTheBaseIsGone: the process that worked on a task dies, and the base
// branch is deleted: the issue isn't left to say that the task is worked on. It goes on once
// the branch is back.
func TestE8_LeaseEndsWhileTheBaseIsGone(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	f.reach(kernel.ActionDispatch)
	f.tellAll()
	f.shows("is being worked on", kernel.LabelClaimed, true)
	back := f.losesBase()
	f.killed()
	f.clock.advance(time.Hour.Milliseconds())
	f.looks(30 * time.Minute)
	f.shows("waits: the repository's base branch isn't there", kernel.LabelClaimed, true)
	back()
	f.exec.hold = false
	f.reopen()
	f.until(kernel.StandFinal)
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
}
