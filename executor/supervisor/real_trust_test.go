package supervisor

import (
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// TestL18_CopiedBetweenRepositories: state and change of a task that was completed in
// one repository are copied to another that the same installation governs. Nothing of
// it counts there, whatever the number.
func TestL18_CopiedBetweenRepositories(t *testing.T) {
	t.Parallel()
	own := newBench(t, newRepo(t), func(b *bench) { b.place.cfg.World = "local/attacker/repo" })
	own.until(kernel.StandFinal)
	for name, ref := range map[string]string{"the same number": stateRef, "another number": "refs/writ/task/2"} {
		r := newRivals(t)
		r.a.trusts(own)
		r.a.exec.hold = false
		gittest.Git(t, own.bare, "push", "-q", r.bare, stateRef+":"+ref)
		if ref != stateRef { // the copy is of task 1: it is given to task 1 of a third
			gittest.Git(t, r.bare, "update-ref", stateRef, ref)
		}
		copied := r.head()
		r.a.until(kernel.StandFinal)
		if states := r.states(); states[0] != "completed" || len(r.a.exec.builds) != 1 || r.a.ref(changeRef) == "" {
			t.Errorf("%s: %v after %d builds", name, states, len(r.a.exec.builds))
		}
		r.git("merge-base", "--is-ancestor", copied, stateRef)

		r.git("update-ref", stateRef, copied)
		r.waitsForRepair(r.a, kernel.CodeStateForeign)
	}
}

// TestL19_SetBackOrRemoved: on a real repository, over HTTP and on the same disk: a
// state that is removed, or set back to its own signed commits, waits for a person;
// what was completed isn't done again by itself, and a restart changes nothing.
func TestL19_SetBackOrRemoved(t *testing.T) {
	t.Parallel()
	for name, back := range map[string][]string{
		"removed": {"update-ref", "-d", stateRef}, "one commit": {"update-ref", stateRef, stateRef + "^"},
		"to its first commit": {"update-ref", stateRef, stateRef + "~2"},
	} {
		r := newRivals(t)
		r.a.exec.hold = false
		r.a.until(kernel.StandFinal)
		r.b.until(kernel.StandFinal)
		r.git(back...)
		r.waitsForRepair(r.a, kernel.CodeStateRollback)
		r.waitsForRepair(r.b, kernel.CodeStateRollback)
		r.a.open()
		r.waitsForRepair(r.a, kernel.CodeStateRollback)
		if n := len(r.a.exec.builds) + len(r.b.exec.builds); n != 1 {
			t.Errorf("%s: %d builds", name, n)
		}
	}
}

// TestL19_PutBack: the later commit, put back where it was, is the task's state again;
// nobody has to say so.
func TestL19_PutBack(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.exec.hold = false
	r.a.until(kernel.StandFinal)
	head := r.head()
	r.git("update-ref", stateRef, stateRef+"~2")
	r.waitsForRepair(r.a, kernel.CodeStateRollback)
	r.git("update-ref", stateRef, head)
	r.a.until(kernel.StandFinal)
}

// TestL19_ChangeBranchSetBack: a change branch that is removed or set back is none of
// the task's state: what was accepted stays accepted, and isn't done again.
func TestL19_ChangeBranchSetBack(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.exec.hold = false
	r.a.until(kernel.StandFinal)
	r.git("update-ref", "-d", changeRef)
	r.a.until(kernel.StandFinal)
	r.b.until(kernel.StandFinal)
	if n := len(r.a.exec.builds) + len(r.b.exec.builds); n != 1 {
		t.Errorf("%d builds", n)
	}
}

// TestL19_TheNoticeKeepsItsReason: an installation without memory of the task finds
// its state ref removed, or replaced by another task's commit. It says so on the
// issue, and what it says must not take away why it knows that there was a state:
// however often it looks, it builds nothing before a person says so.
func TestL19_TheNoticeKeepsItsReason(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]func(*forged){
		"removed": func(f *forged) { gittest.Git(t, f.bare, "update-ref", "-d", "refs/writ/task/1") },
		"replaced": func(f *forged) {
			gittest.Commit(t, f.bare, "refs/writ/task/1", f.ref("refs/writ/task/1"), map[string]string{"note": "hi\n"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTold(t, nil)
			f.exec.build = failing
			f.drive()
			run := f.trailer("writ-run-id")
			tamper(f)
			other := newBench(t, f.bare, func(b *bench) {
				b.clock, b.issue = f.clock, nil
				b.place.clock, b.place.issue, b.place.forge, b.place.terms = f.clock, nil, f.place.forge, f.place.terms
				b.place.cfg.Trusted = append(b.place.cfg.Trusted, f.key)
			})
			for range 3 {
				f.clock.advance(3_600_000)
				_, err := other.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
				must(t, err)
			}
			if n := len(other.exec.builds); n > 0 {
				t.Errorf("%d builds that nobody asked for", n)
			}
			if list := f.marked("task"); len(list) != 1 || !strings.Contains(list[0].Body, "run="+run+" -->") || !strings.Contains(list[0].Body, "repair") {
				t.Errorf("the status comment of run %s is now %+v", run, list)
			}
		})
	}
}
