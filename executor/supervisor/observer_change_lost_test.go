package supervisor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// redelivers looks until the change branch of a half result is there. Nobody counts the
// result before.
func (b *bench) redelivers() {
	b.t.Helper()
	for range 4 {
		st := b.tick()
		if st.Decision.Action == kernel.ActionRedeliver {
			return
		}
		if st.Decision.Standing == kernel.StandFinal || st.Decision.Standing == kernel.StandWaiting {
			b.t.Fatalf("half a result counts: %s", st.Decision.Standing)
		}
		b.clock.advance(max(st.Decision.Wake-b.clock.Now().WallMs, 1000))
	}
	b.t.Fatal("the branch is never made")
}

// half is an installation whose result a server took without its change branch; it is
// gone since. pruned says that the server has dropped what no ref holds.
func newHalf(t *testing.T, terms string, pruned bool) *bench {
	f := &forgetter{at: kernel.ActionResult, half: true}
	b := newBench(t, newRepo(t), func(b *bench) {
		f.bare, b.place.terms, b.place.fault = b.bare, terms, f.fault
		b.place.wrap = func(r Repo) Repo { f.Repo = r; return f }
		b.place.cfg.Name = "writ here"
	})
	b.reach(kernel.ActionResult)
	b.task.Close()
	if pruned {
		gittest.Git(t, b.bare, "prune", "--expire=now")
	}
	return b
}

// TestA5_HalfAResultToAnother: the server took the state ref of a result and not its change
// branch, the owner is gone, and another installation looks first. It makes the branch, of
// the very commit that the result names, from what was sealed or from what the server still
// has, and nobody builds again. Where nobody has the commit, no result counts, and a person
// has the work done again.
func TestA5_HalfAResultToAnother(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		terms  string
		pruned bool
		lost   bool
	}{{checkTerms, false, false}, {checkTerms, true, false}, {"", false, false}, {"", true, true}} {
		t.Run(fmt.Sprintf("sealed=%v pruned=%v", c.terms != "", c.pruned), func(t *testing.T) {
			b := newHalf(t, c.terms, c.pruned)
			other := b.joins(t)
			if st := other.tick(); st.Decision.Standing != kernel.StandDue {
				t.Errorf("its maker isn't left a while: %s", st.Decision.Standing)
			}
			if !c.lost {
				other.redelivers()
				other.until(kernel.StandFinal)
				delivered(t, b.bare)
				if n := len(other.exec.builds); n != 0 {
					t.Errorf("%d builders", n)
				}
				return
			}
			st := other.until(kernel.StandWaiting)
			want(t, st, kernel.ActionNone, "", kernel.CodeChangeLost)
			if r, err := other.task.Report(t.Context(), st); err != nil || r.FinalState != "" || r.ChangeCommit != "" || r.WaitingFor != kernel.WaitRepair {
				t.Errorf("it reports %+v, %v", r, err)
			}
			must(t, other.sup.Resume(t.Context(), 1, "alice", "do it again"))
			other.until(kernel.StandFinal)
			if b.ref(changeRef) == "" || len(other.exec.builds) != 1 {
				t.Errorf("%q, %d builders", b.ref(changeRef), len(other.exec.builds))
			}
		})
	}
}

// TestA5_HalfAResultComesBack: what nobody has is there again once somebody pushes it: the
// process that made it, or the one after it.
func TestA5_HalfAResultComesBack(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"the process that made it": false, "the one after it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHalf(t, "", true)
			other := b.joins(t)
			other.until(kernel.StandWaiting)
			if restarted {
				b.open()
			} else {
				var err error
				b.task, err = b.sup.Open(t.Context(), 1, b.issue)
				must(t, err)
			}
			b.redelivers()
			if st := other.until(kernel.StandFinal); st.Decision.State != kernel.TaskCompleted {
				t.Errorf("it stands %s", st.Decision.State)
			}
			delivered(t, b.bare)
		})
	}
}

// TestA5_HalfAResultOnAForge: the same where the issue is on a forge, closed with the result
// or at the merge. No word says that the work is somewhere before it is. What is lost is
// told, and `/writ retry` has it done again.
func TestA5_HalfAResultOnAForge(t *testing.T) {
	t.Parallel()
	for _, merged := range []bool{false, true} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("merged=%v lost=%v", merged, lost), func(t *testing.T) {
				server := &forgetter{at: kernel.ActionResult, half: true}
				f := newTold(t, func(f *forged) {
					server.bare, f.place.fault = f.bare, server.fault
					f.place.wrap = func(r Repo) Repo { server.Repo = r; return server }
					if merged {
						f.place.terms = mergeTerms
					}
				})
				other := f.another()
				f.reach(kernel.ActionResult)
				f.task.Close()
				if lost {
					gittest.Git(t, f.bare, "prune", "--expire=now")
				}
				drive := func() {
					_, err := other.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
					must(t, err)
				}
				f.clock.advance(5_000)
				drive()
				if n := len(f.marked("task")); n != 0 {
					t.Errorf("its maker isn't left a while: %d comments", n)
				}
				f.clock.advance(120_000)
				drive()
				if lost {
					f.shows(string(kernel.CodeChangeLost), "", true)
					if body := f.marked("task")[0].Body; strings.Contains(body, "The work is commit") || strings.Contains(body, "task_final_state: `completed`") {
						t.Errorf("it says %s", body)
					}
					f.clock.advance(5_000)
					f.comment(f.scene.Owner, "/writ retry")
					drive()
				}
				if merged {
					f.shows("waits for the merge", "", true)
				} else {
					f.shows("task 1 completed", kernel.LabelCompleted, false)
				}
				if n := f.started() + len(other.exec.builds); n != 1 && !lost || f.changeOf().HeadOID != f.ref(changeRef) || f.ref(changeRef) == "" {
					t.Errorf("%d builders, and the change is %+v", n, f.changeOf())
				}
			})
		}
	}
}

// TestP10_DeletedBranchStaysAway: a process dies after its result was pushed and before it
// looked; meanwhile a person merges the change and deletes its branch. Nobody makes it
// again.
func TestP10_DeletedBranchStaysAway(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"merged", "squashed", "seen"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t, newRepo(t), nil)
			b.reach(kernel.ActionResult)
			change := b.ref(changeRef)
			switch how {
			case "merged":
				gittest.Git(t, b.bare, "update-ref", "refs/heads/main", change)
				gittest.Commit(t, b.bare, "refs/heads/main", change, map[string]string{"README": "hi\n", "out.txt": "good evening\n"})
			case "squashed":
				gittest.Commit(t, b.bare, "refs/heads/main", b.ref("refs/heads/main"), map[string]string{"README": "hi\n", "out.txt": "hello\n"})
			case "seen":
				b.until(kernel.StandFinal)
			}
			gitIn(b.bare, git.Command{Ref: changeRef})
			b.open()
			for range 4 {
				if st := b.tick(); st.Decision.Standing != kernel.StandFinal {
					t.Errorf("it stands %s, and does %s", st.Decision.Standing, st.Decision.Action)
				}
				b.clock.advance(time.Hour.Milliseconds())
			}
			if b.ref(changeRef) != "" {
				t.Error("the branch is there again")
			}
		})
	}
}

// TestP10_TurnedDownBranchStaysAway: so is it where the change of it was closed or merged on
// the forge, into whatever.
func TestP10_TurnedDownBranchStaysAway(t *testing.T) {
	t.Parallel()
	for _, merged := range []bool{false, true} {
		f := newTold(t, nil)
		other := f.another()
		f.reach(kernel.ActionResult)
		f.task.Close()
		f.clock.advance(120_000)
		_, err := other.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
		must(t, err)
		if merged {
			f.merge("Something else (#2)", map[string]string{"out.txt": "hello again\n"})
		} else {
			must(t, f.scene.Owner.CloseChange(t.Context(), f.scene.Repo, f.changeOf().Number))
		}
		gitIn(f.bare, git.Command{Ref: changeRef})
		f.open()
		for range 3 {
			f.clock.advance(time.Hour.Milliseconds())
			f.drive()
		}
		if f.ref(changeRef) != "" {
			t.Errorf("merged %t: the branch is there again", merged)
		}
	}
}

// TestG6_BranchOfAHalfResultIsRefused: a rule refuses the branch that half a result lacks.
// The task waits for it and says so, and is tried again by itself, once a minute.
func TestG6_BranchOfAHalfResultIsRefused(t *testing.T) {
	t.Parallel()
	server := &forgetter{at: kernel.ActionResult, half: true}
	f := newTold(t, func(f *forged) {
		server.bare, f.place.fault = f.bare, server.fault
		f.place.wrap = func(r Repo) Repo { server.Repo = r; return server }
	})
	f.reach(kernel.ActionResult)
	gittest.Hook(t, f.bare, "pre-receive", "while read old new ref; do test $ref = "+changeRef+" && { echo 'policy 9' >&2; exit 1; }; done; exit 0")
	st := f.drive()
	words, _ := st.Rule()
	if !strings.Contains(words, "policy 9") || st.Decision.Standing != kernel.StandDue || st.Wake == 0 {
		t.Errorf("it stands %s, waits for %q, until %d", st.Decision.Standing, words, st.Wake)
	}
	f.shows("policy 9", "", true)
	if body := f.marked("task")[0].Body; strings.Contains(body, "The work is commit") {
		t.Errorf("it says %s", body)
	}
	if r, err := f.task.Report(t.Context(), st); err != nil || r.FinalState != "" {
		t.Errorf("it reports %+v, %v", r, err)
	}
	tries := f.effects(kernel.ActionRedeliver, kernel.OutcomeRefused)
	f.clock.advance(10_000)
	if f.drive(); tries == 0 || f.effects(kernel.ActionRedeliver, kernel.OutcomeRefused) != tries {
		t.Errorf("%d tries, and then more at once", tries)
	}
	gittest.Hook(t, f.bare, "pre-receive", "exit 0")
	f.clock.advance(st.Wake - f.clock.Now().WallMs)
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	delivered(t, f.bare)
}

// TestA5_BranchWithoutItsResult: the server took the change branch of a result and not the
// state ref, the owner is gone, and another installation takes over. The branch is what the
// sealed work comes to, so it stands in nobody's way: the work is delivered without another
// build, or where the contract is another by then, built anew over it, whatever interrupts
// that one.
func TestA5_BranchWithoutItsResult(t *testing.T) {
	t.Parallel()
	for name, terms := range map[string]string{"gone on with": checkTerms, "built anew": checkTerms + "paths: {protected: [\"secret/**\"]}\n"} {
		t.Run(name, func(t *testing.T) {
			b, stray := newRear(t, checkTerms)
			keys := []ssh.PublicKey{b.key}
			for range 2 { // the first one dies before its result
				other := b.joins(t)
				other.place.terms = terms
				other.trusts(b)
				other.pastLease()
				other.reach(kernel.ActionChecks)
				other.task.Close()
				b, keys = other, append(keys, other.key)
			}
			last := b.joins(t)
			last.place.terms, last.place.cfg.Trusted = terms, b.place.cfg.Trusted
			last.trusts(b)
			last.pastLease()
			last.until(kernel.StandFinal)
			delivered(t, b.bare)
			if again := b.ref(changeRef) != stray; again != (name == "built anew") {
				t.Errorf("the change is another: %t", again)
			}
			if r, err := replay.VerifyTask(t.Context(), last.repo, stateRef, replay.Options{Keys: append(keys, last.key)}); err != nil || !r.OK {
				t.Errorf("%v\n%s", err, r.Plain())
			}
		})
	}
}

// newRear is an installation whose change branch a server took without the state ref of
// its result; it is gone since.
func newRear(t *testing.T, terms string) (b *bench, stray string) {
	f := &forgetter{at: kernel.ActionResult, branch: true}
	b = newBench(t, newRepo(t), func(b *bench) {
		f.bare, b.place.terms, b.place.fault = b.bare, terms, f.fault
		b.place.wrap = func(r Repo) Repo { f.Repo = r; return f }
	})
	b.reach(kernel.ActionResult)
	b.task.Close()
	if stray = b.ref(changeRef); stray == "" {
		t.Fatal("the server took nothing")
	}
	return b, stray
}

// TestA5_BranchOfAPerson: what a person put there, or committed on top, stands in the way,
// however like the sealed work it is.
func TestA5_BranchOfAPerson(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"on top":  {"commit-tree", changeRef + "^{tree}", "-p", changeRef, "-m", "looks good"},
		"amended": {"commit-tree", changeRef + "^{tree}", "-p", "refs/heads/main", "-m", "Say hello"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := newRear(t, checkTerms)
			theirs := gittest.Git(t, b.bare, args...)
			gittest.Git(t, b.bare, "update-ref", changeRef, theirs)
			other := b.joins(t)
			other.pastLease()
			want(t, other.until(kernel.StandRefused), kernel.ActionNone, "", kernel.CodeBranchTaken)
			if b.ref(changeRef) != theirs {
				t.Error("it is overwritten")
			}
		})
	}
}
