package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

const checkedTerms = "version: 1\nchecks:\n  - {name: test, run: [\"true\"]}\n"

// newDelivered is an installation whose verified work is delivered, and waits for the merge
// of its change where terms say so. The fake forge is told where the change branch is.
func newDelivered(t *testing.T, terms string) (f *forged, checks *int) {
	t.Helper()
	f = newTold(t, func(f *forged) { f.place.terms, checks = terms, f.counts() })
	f.drive()
	if f.ref(changeRef) == "" || f.started() != 1 || *checks != 1 {
		t.Fatalf("nothing is delivered: %d builds, %d checks", f.started(), *checks)
	}
	return f, checks
}

// base moves the base, by a person.
func (f *forged) moveBase(files map[string]string) string {
	f.t.Helper()
	f.clock.advance(1000)
	return f.push("refs/heads/main", "Go on", files)
}

// showBranch tells the fake forge where the change branch is now.
func (f *forged) showBranch() {
	f.scene.SetBranch(f.scene.Repo, f.scene.Robot.User, "writ/change/1", f.ref(changeRef))
}

// refreshed fails unless the change is one commit on a base with these files, of the one
// build, and HEAD says whose result it replaced.
func (f *forged) refreshed(base, of string, files ...string) {
	f.t.Helper()
	if parent := strings.TrimSpace(gittest.Git(f.t, f.bare, "rev-parse", changeRef+"^")); parent != base {
		f.t.Errorf("the change stands on %s, want %s", parent, base)
	}
	if got := f.filesAt(changeRef); !slices.Equal(got, files) {
		f.t.Errorf("the change holds %v, want %v", got, files)
	}
	if f.trailer("writ-refreshes") != of || f.trailer("writ-base") != base || f.trailer("writ-change") != f.ref(changeRef) || f.trailer("writ-attempt") != "1" {
		f.t.Errorf("HEAD refreshes %q on %q as %q, attempt %s", f.trailer("writ-refreshes"), f.trailer("writ-base"), f.trailer("writ-change"), f.trailer("writ-attempt"))
	}
	if f.started() != 1 {
		f.t.Errorf("%d builders", f.started())
	}
	f.verify(stateRef)
}

// TestE1_RefreshedOnTheMovedBase: the verified change is applied on the base as it is now,
// judged and checked again there, without a builder, as often as somebody asks. The earlier
// result is replaced, which is nobody's push while the forge shows it still, and all of it
// verifies offline, also once it is merged.
func TestE1_RefreshedOnTheMovedBase(t *testing.T) {
	t.Parallel()
	for _, terms := range []string{checkedTerms, checkedTerms + "close_on: merged\n"} {
		f, checks := newDelivered(t, terms)
		label, open := kernel.LabelCompleted, false
		if terms != checkedTerms {
			label, open = "", true
		}
		closed := f.acts(f.scene.Robot, forge.EventClosed)
		files := map[string]string{}
		want := []string{"README", "out.txt"}
		for i, name := range []string{"a", "z"} {
			run := f.trailer("writ-run-id")
			files[name] = "by somebody\n"
			base := f.moveBase(files)
			f.clock.advance(kernel.AutoEvery)
			f.later()
			if f.trailer("writ-run-id") != run {
				t.Fatal("it was refreshed and nobody asked")
			}
			asked := f.says(f.scene.Owner, "/writ refresh")
			f.later()
			if body := f.marked("task")[0].Body; strings.Contains(body, "Somebody pushed") {
				t.Errorf("the forge still shows the replaced commit, and the issue says %s", body)
			}
			f.showBranch()
			f.later()
			f.reacted(asked, forge.ReactionDone)
			want = append(want, name)
			slices.Sort(want)
			f.refreshed(base, run, want...)
			if *checks != i+2 {
				t.Errorf("checks ran %d times", *checks)
			}
			f.shows("task 1", label, open)
			if body := f.changeOf().Body; !strings.Contains(body, f.trailer("writ-run-id")) {
				t.Errorf("the change says %s", body)
			}
			if got := f.changeOf(); got.Number != 2 || got.State != forge.ChangeOpen {
				t.Errorf("the change is %d, %v", got.Number, got.State)
			}
		}
		if n := f.acts(f.scene.Robot, forge.EventClosed); n != closed || f.acts(f.scene.Robot, forge.EventReopened) != 0 {
			t.Errorf("closed %d times", n)
		}
		if terms == checkedTerms {
			continue
		}
		files["out.txt"] = "hello\n"
		f.merge("Say hello (#2)", files)
		f.wants(f.later(), kernel.StandFinal)
		f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
		f.verify(stateRef)
	}
}

// TestE1_ConflictIsNamed: where the base has another content at a path of the change, the
// status says so. A refresh names the paths and changes nothing, and doesn't come to life
// later.
func TestE1_ConflictIsNamed(t *testing.T) {
	t.Parallel()
	f, checks := newDelivered(t, checkedTerms+"close_on: merged\n")
	head, change := f.ref(stateRef), f.ref(changeRef)
	f.moveBase(map[string]string{"out.txt": "goodbye\n"})
	f.later()
	f.shows("**The base moved.** It has another content by now at `out.txt`", "", true)
	asked := f.says(f.scene.Owner, "/writ refresh")
	f.later()
	f.reacted(asked, forge.ReactionConfused)
	if words := f.answeredWith(asked); !strings.Contains(words, "`change.base_moved` `out.txt`") || !strings.Contains(words, "/writ retry") {
		t.Errorf("it is answered %s", words)
	}
	f.moveBase(map[string]string{"a": "x\n"}) // it is gone again
	f.later()
	f.others(f.another()) // which has answered nothing
	if f.ref(stateRef) != head || f.ref(changeRef) != change || *checks != 1 {
		t.Errorf("HEAD moved, or checks ran %d times", *checks)
	}
	if strings.Contains(f.marked("task")[0].Body, "The base moved") {
		t.Error("it is said of a base to which the change applies")
	}
	f.says(f.scene.Owner, "/writ refresh")
	f.later()
	if f.ref(stateRef) == head || *checks != 2 {
		t.Errorf("a new word didn't count: checks ran %d times", *checks)
	}
	f.verify(stateRef)
}

// TestF7_ReviewersCommitIsNotRefreshedOver: what somebody pushed to the change branch is
// never forced over, be it there before a refresh is asked for or while its checks run.
func TestF7_ReviewersCommitIsNotRefreshedOver(t *testing.T) {
	t.Parallel()
	for _, meanwhile := range []bool{false, true} {
		f, _ := newDelivered(t, checkedTerms+"close_on: merged\n")
		run := f.trailer("writ-run-id")
		f.moveBase(map[string]string{"a": "x\n"})
		var theirs string
		push := func() { theirs = f.push(changeRef, "Better", map[string]string{"out.txt": "hello again\n"}) }
		if meanwhile {
			f.exec.check = func(job executor.CheckJob) executor.CheckOutcome {
				if theirs == "" {
					push()
				}
				return passed(job)
			}
		} else {
			push()
			f.showBranch()
		}
		asked := f.says(f.scene.Owner, "/writ refresh")
		f.later()
		f.showBranch()
		f.later()
		if f.ref(changeRef) != theirs || f.trailer("writ-run-id") != run || f.trailer("writ-waiting-for") != kernel.WaitMerge {
			t.Errorf("meanwhile %v: the branch is at %s, HEAD tells of %s and waits for %q", meanwhile, f.ref(changeRef), f.trailer("writ-run-id"), f.trailer("writ-waiting-for"))
		}
		said := f.answeredWith(asked)
		if meanwhile {
			said = f.marked("task")[0].Body
		}
		if !strings.Contains(said, string(kernel.CodeBranchTaken)) {
			t.Errorf("meanwhile %v: it says %s", meanwhile, said)
		}
		f.verify(stateRef)
	}
}

// TestE2_MergedWhileItIsRefreshed: a change that was merged or closed while a refresh ran is
// not replaced any more, and its merge completes the result that it was verified as.
func TestE2_MergedWhileItIsRefreshed(t *testing.T) {
	t.Parallel()
	f, _ := newDelivered(t, checkedTerms+"close_on: merged\n")
	run, change := f.trailer("writ-run-id"), f.ref(changeRef)
	f.moveBase(map[string]string{"a": "x\n"})
	merged := ""
	f.exec.check = func(job executor.CheckJob) executor.CheckOutcome {
		if merged == "" {
			merged = f.merge("Say hello (#2)", map[string]string{"a": "x\n", "out.txt": "hello\n"})
		}
		return passed(job)
	}
	f.says(f.scene.Owner, "/writ refresh")
	f.later()
	f.wants(f.later(), kernel.StandFinal)
	if f.ref(changeRef) != change || f.trailer("writ-run-id") != run || f.trailer("aynig-state") != "completed" {
		t.Errorf("the branch is at %s, HEAD is %s of %s", f.ref(changeRef), f.trailer("aynig-state"), f.trailer("writ-run-id"))
	}
	f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
	f.verify(stateRef)
}

// TestI4_WhoMayRefresh: who could approve may ask for a refresh, as the forge says then,
// and a comment that was edited asks for nothing.
func TestI4_WhoMayRefresh(t *testing.T) {
	t.Parallel()
	f, checks := newDelivered(t, checkedTerms)
	head := f.ref(stateRef)
	f.moveBase(map[string]string{"a": "x\n"})
	stranger := f.says(f.scene.Triage, "/writ refresh")
	f.later()
	f.reacted(stranger, forge.ReactionRefused)
	edited := f.says(f.scene.Owner, "/writ help")
	f.clock.advance(1000)
	must(t, f.scene.Owner.EditComment(t.Context(), f.scene.Repo, edited, "/writ refresh"))
	f.later()
	f.reacted(edited, forge.ReactionConfused)
	f.scene.Grant(f.scene.Repo, f.scene.Triage.User.ID, forge.Admin) // what was answered with a no stays one
	f.later()
	f.open()
	f.later()
	if f.ref(stateRef) != head || *checks != 1 {
		t.Error("HEAD moved")
	}
	f.says(f.scene.Triage, "/writ refresh")
	f.later()
	if f.ref(stateRef) == head || *checks != 2 {
		t.Error("nothing was refreshed")
	}
}

// TestE1_RefreshThatDoesNotHold: where the checks fail on the other base, a person stops it
// or the server refuses it, the delivered result stands, and says so. It is not tried again
// by itself, and is no attempt; a later word has it tried on a later base.
func TestE1_RefreshThatDoesNotHold(t *testing.T) {
	t.Parallel()
	f, checks := newDelivered(t, checkedTerms+"close_on: merged\n")
	run, change, result := f.trailer("writ-run-id"), f.ref(changeRef), f.ref(stateRef)
	f.moveBase(map[string]string{"a": "x\n"})
	f.exec.check = func(job executor.CheckJob) executor.CheckOutcome {
		*checks++
		out := passed(job)
		out.Run.Checks[0].Passed, out.Run.Checks[0].Exit.Code = false, 1
		out.Violations = []kernel.Violation{{Code: kernel.CodeCheckFailed, Subject: "test", Detail: "exit status 1"}}
		return out
	}
	asked := f.says(f.scene.Owner, "/writ refresh")
	for range 3 {
		f.wants(f.later(), kernel.StandWaiting)
	}
	f.reacted(asked, forge.ReactionDone)
	if f.ref(changeRef) != change || f.trailer("writ-run-id") != run || f.trailer("writ-waiting-for") != kernel.WaitMerge || f.trailer("writ-attempt") != "1" || *checks != 2 || f.started() != 1 {
		t.Errorf("HEAD tells of %s, attempt %s, checks ran %d times", f.trailer("writ-run-id"), f.trailer("writ-attempt"), *checks)
	}
	f.shows("it didn't hold, and the change is as it was", "", true)
	if said := f.marked("task")[0].Body; !strings.Contains(said, "`execution.check.failed` `test`: exit status 1") {
		t.Errorf("it says %s", said)
	}
	for _, name := range f.filesAt(result) {
		if f.evidenceAt(result, name) != f.evidenceAt(f.ref(stateRef), name) {
			t.Errorf("%s is another", name)
		}
	}
	f.verify(stateRef)
	f.counts()
	f.exec.check = nil
	base := f.moveBase(map[string]string{"a": "y\n"})
	f.says(f.scene.Owner, "/writ refresh")
	f.later()
	f.showBranch()
	f.later()
	f.refreshed(base, run, "README", "a", "out.txt")
	f.merge("Say hello (#2)", map[string]string{"a": "y\n", "out.txt": "hello\n"})
	f.wants(f.later(), kernel.StandFinal)
	f.verify(stateRef)
}

// TestE1_MergedAfterARefreshThatDidNotHold: the merge completes the result that was put
// back, and that verifies.
func TestE1_MergedAfterARefreshThatDidNotHold(t *testing.T) {
	t.Parallel()
	f, _ := newDelivered(t, checkedTerms+"close_on: merged\n")
	f.moveBase(map[string]string{"a": "x\n"})
	f.exec.broken = &executor.Error{Code: kernel.CodeSandboxUnavailable, Detail: "none"}
	f.says(f.scene.Owner, "/writ refresh")
	f.wants(f.later(), kernel.StandWaiting)
	if f.evidenceAt(f.ref(stateRef), replay.FileRefresh) == "" {
		t.Fatal("nothing says what was tried")
	}
	f.merge("Say hello (#2)", map[string]string{"a": "x\n", "out.txt": "hello\n"})
	f.wants(f.later(), kernel.StandFinal)
	f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
	f.verify(stateRef)
}

// TestP5_RefreshThroughCrashes: the process is killed before and after each effect of a
// refresh, and another installation that is listed goes on, or the next process does. It
// comes out once, from the one build.
func TestP5_RefreshThroughCrashes(t *testing.T) {
	t.Parallel()
	for _, at := range []kernel.Action{kernel.ActionClaim, kernel.ActionChecks, kernel.ActionJudge, kernel.ActionResult} {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, other=%v", at, other), func(t *testing.T) {
				t.Parallel()
				f, _ := newDelivered(t, checkedTerms+"close_on: merged\n")
				second := f.another()
				run := f.trailer("writ-run-id")
				base := f.moveBase(map[string]string{"a": "x\n"})
				f.says(f.scene.Owner, "/writ refresh")
				f.reach(at)
				f.open() // the process that did it is gone
				who := f.bench
				if other {
					who = second
				}
				for range 6 {
					f.clock.advance(3_600_000)
					if _, err := who.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}); err != nil {
						f.t.Logf("not yet: %v", err)
					}
					f.showBranch()
				}
				if parent := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", changeRef+"^")); parent != base || f.trailer("writ-refreshes") != run {
					t.Errorf("the change stands on %s, HEAD refreshes %q", parent, f.trailer("writ-refreshes"))
				}
				if f.started() != 1 || len(second.exec.builds) > 0 {
					t.Error("it was built again")
				}
				r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key, second.key}, World: f.place.cfg.World})
				if must(t, err); !r.OK {
					t.Errorf("it doesn't verify:\n%s", r.Plain())
				}
				if !other {
					return
				}
				r, err = replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{who.key}, World: f.place.cfg.World})
				if must(t, err); r.OK {
					t.Error("it verifies, and nobody vouches for who did the work")
				}
			})
		}
	}
}

// TestI4_RefreshOfNothing: where nothing is delivered, or the change is on the base as it
// is, that is said.
func TestI4_RefreshOfNothing(t *testing.T) {
	t.Parallel()
	f, _ := newDelivered(t, checkedTerms)
	head := f.ref(stateRef)
	same := f.says(f.scene.Owner, "/writ refresh")
	f.later()
	f.reacted(same, forge.ReactionConfused)
	if !strings.Contains(f.answeredWith(same), "on the base as it is now") || f.ref(stateRef) != head {
		t.Errorf("it is answered %s", f.answeredWith(same))
	}
	g := newTold(t, func(f *forged) {
		f.exec.build = failing
		f.place.terms = "version: 1\nbudgets: {attempts: 1}\n"
	})
	g.drive()
	none := g.says(g.scene.Owner, "/writ refresh")
	g.later()
	g.reacted(none, forge.ReactionConfused)
	if !strings.Contains(g.answeredWith(none), "no delivered change") {
		t.Errorf("it is answered %s", g.answeredWith(none))
	}
}

// TestE1_RefreshOfOtherWorkIsFound: an instance that delivers other work than that which it
// replaced, or puts another result back, has no evidence that verifies.
func TestE1_RefreshOfOtherWorkIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alter func(*run)
		says  string
	}{
		"other work": {func(r *run) {
			o, err := writes(map[string]string{"out.txt": "hello, evil\n"})(executor.BuildJob{Run: r.resumes, Base: executor.Base{Commit: r.pack.Pins.BaseCommit}})
			must(t, err)
			r.built.Diff, r.built.Contents = o.Diff, o.Contents
		}, "It is not the diff of run"},
		"another word of the builder": {func(r *run) { r.built.Result.Builder = "somebody" }, "What it says of its builder isn't"},
		"less of a result": {func(r *run) {
			r.was.tree.Entries = slices.DeleteFunc(slices.Clone(r.was.tree.Entries), func(e git.Entry) bool { return e.Path == replay.FileProofs })
			r.ruling.refused = []kernel.Violation{{Code: kernel.CodePushRefused}}
		}, "The files are not those of the result that was put back"},
		"another change": {func(r *run) {
			r.was.event.Trailers = slices.Clone(r.was.event.Trailers)
			for i, tr := range r.was.event.Trailers {
				if tr.Key == kernel.TrailerChange {
					r.was.event.Trailers[i].Value = r.pack.Pins.BaseCommit
				}
			}
			r.ruling.refused = []kernel.Violation{{Code: kernel.CodePushRefused}}
		}, "the result that it put back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := newDelivered(t, checkedTerms+"close_on: merged\n")
			f.moveBase(map[string]string{"a": "x\n"})
			f.says(f.scene.Owner, "/writ refresh")
			f.reach(kernel.ActionClaim)
			if strings.Contains(name, "other w") {
				c.alter(f.task.worker.run)
				f.reach(kernel.ActionResult)
			} else {
				f.reach(kernel.ActionJudge)
				c.alter(f.task.worker.run)
				f.reach(kernel.ActionRestore)
			}
			r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key}, World: f.place.cfg.World})
			if must(t, err); r.OK || !strings.Contains(r.Plain(), c.says) {
				t.Errorf("it verifies, or doesn't say %q:\n%s", c.says, r.Plain())
			}
		})
	}
}

// newHalfRefresh is an installation whose work was delivered, and whose refresh the server
// took by half; it is gone since. A second one has seen what was delivered.
func newHalfRefresh(t *testing.T, server *forgetter) (f *forged, second *bench, base, was string) {
	f = newTold(t, func(f *forged) {
		f.place.terms, server.bare, f.place.fault = checkedTerms+"close_on: merged\n", f.bare, server.fault
		f.place.wrap = func(r Repo) Repo { server.Repo = r; return server }
	})
	second = f.another()
	f.drive()
	f.showBranch()
	_, err := second.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
	must(t, err)
	was = f.ref(changeRef)
	base = f.moveBase(map[string]string{"a": "x\n"})
	f.says(f.scene.Owner, "/writ refresh")
	server.at = kernel.ActionResult
	f.reach(kernel.ActionResult)
	f.task.Close()
	if server.pushed == "" || f.started() != 1 {
		t.Fatal("nothing was lost")
	}
	return f, second, base, was
}

// others has another installation look until everything is done that is due.
func (f *forged) others(second *bench) {
	f.t.Helper()
	for range 6 {
		f.clock.advance(3_600_000)
		if _, err := second.task.Drive(f.t.Context(), DriveOptions{Actor: "writ", Yield: true}); err != nil {
			f.t.Logf("not yet: %v", err)
		}
		f.showBranch()
	}
}

// TestA5_HalfARefresh: the server took the state ref of a refresh's result, and its change
// branch shows what was delivered before. Whoever comes moves the branch, of the very commit
// that the result names, be it that the server has dropped what no ref holds.
func TestA5_HalfARefresh(t *testing.T) {
	t.Parallel()
	for _, pruned := range []bool{false, true} {
		f, second, base, was := newHalfRefresh(t, &forgetter{half: true})
		if f.ref(changeRef) != was || f.trailer("writ-change") == was {
			t.Fatalf("the branch is at %s, HEAD names %s", f.ref(changeRef), f.trailer("writ-change"))
		}
		if pruned {
			gittest.Git(t, f.bare, "prune", "--expire=now")
		}
		f.others(second)
		f.refreshed(base, f.trailer("writ-refreshes"), "README", "a", "out.txt")
		if len(second.exec.builds) > 0 {
			t.Error("it was built again")
		}
		f.shows("waits for the merge", "", true)
		if strings.Contains(f.marked("task")[0].Body, string(kernel.CodeBranchTaken)) {
			t.Errorf("pruned %v: it says %s", pruned, f.marked("task")[0].Body)
		}
	}
}

// TestA5_BranchOfARefreshWithoutItsResult: the server took the change branch of a refresh's
// result alone. Whoever comes puts the result back that stood, the branch with it, of the very
// commit though its committer is another, and then does what was asked for.
func TestA5_BranchOfARefreshWithoutItsResult(t *testing.T) {
	t.Parallel()
	f, second, base, was := newHalfRefresh(t, &forgetter{branch: true})
	stray := f.ref(changeRef)
	if stray == was || f.trailer("aynig-state") != kernel.HeadWorking {
		t.Fatalf("the branch is at %s, HEAD is %s", stray, f.trailer("aynig-state"))
	}
	back := ""
	second.place.cfg.Name = "writ there"
	second.place.fault = func(at Point) {
		if at == PointOf(kernel.ActionRedeliver, StageDone) {
			back = f.ref(changeRef)
		}
	}
	second.open()
	f.others(second)
	if back != was {
		t.Errorf("the branch was at %q meanwhile, delivered was %s", back, was)
	}
	if parent := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", changeRef+"^")); parent != base || f.trailer("writ-refreshes") == "" || f.trailer("writ-change") != f.ref(changeRef) {
		t.Errorf("the change stands on %s, HEAD refreshes %q", parent, f.trailer("writ-refreshes"))
	}
	r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key, second.key}, World: f.place.cfg.World})
	if must(t, err); !r.OK {
		t.Errorf("it doesn't verify:\n%s", r.Plain())
	}
}

// TestP5_InterruptedRefreshBacksOff: a refresh that is cut off is tried again by itself,
// ever more seldom, as often as the contract allows, and the delivered result bears none of
// it. Then a new word has it tried again.
func TestP5_InterruptedRefreshBacksOff(t *testing.T) {
	t.Parallel()
	f, checks := newDelivered(t, checkedTerms+"budgets: {interruptions: 2, retry_backoff: 40s}\nclose_on: merged\n")
	base := f.moveBase(map[string]string{"a": "x\n"})
	f.says(f.scene.Owner, "/writ refresh")
	var waited []int64
	for n := range 3 {
		f.reach(kernel.ActionChecks)
		f.open() // the process that did it is gone
		f.task.worker.admission.admit = nil
		f.reach(kernel.ActionRestore)
		if got := f.trailer("writ-refresh-interruptions"); n < 2 && got != fmt.Sprint(n+1) || n == 2 && got != "" || f.trailer("writ-interruptions") != "0" {
			t.Errorf("after %d: HEAD counts %q and %q", n+1, got, f.trailer("writ-interruptions"))
		}
		if st := f.tick(); n < 2 && st.Decision.Standing == kernel.StandWaiting {
			waited = append(waited, st.Decision.Wake-f.clock.Now().WallMs)
			f.clock.advance(st.Decision.Wake - f.clock.Now().WallMs)
		}
	}
	if len(waited) != 1 || waited[0] < 39_000 || waited[0] > 41_000 {
		t.Errorf("it waited %v", waited)
	}
	st := f.later()
	f.wants(st, kernel.StandWaiting)
	if st.Decision.Wake != 0 {
		t.Errorf("it wakes at %d", st.Decision.Wake)
	}
	f.shows(string(kernel.CodeInterruptionsSpent), "", true)
	f.verify(stateRef)
	n := *checks
	f.says(f.scene.Owner, "/writ refresh")
	f.later()
	f.showBranch()
	f.later()
	f.refreshed(base, f.trailer("writ-refreshes"), "README", "a", "out.txt")
	if *checks != n+1 || f.trailer("writ-refresh-interruptions") != "" {
		t.Errorf("checks ran %d times more, HEAD counts %q", *checks-n, f.trailer("writ-refresh-interruptions"))
	}
}

// TestK8_HostFailsARefresh: what the host couldn't do, before the claim or after it, costs
// no word: it is tried again by itself, a minute later, and counts nothing.
func TestK8_HostFailsARefresh(t *testing.T) {
	t.Parallel()
	for _, claimed := range []bool{false, true} {
		f, _ := newDelivered(t, checkedTerms+"close_on: merged\n")
		run, base := f.trailer("writ-run-id"), f.moveBase(map[string]string{"a": "x\n"})
		fault := kernel.Violation{Code: kernel.CodeSandboxUnavailable, Detail: "none"}
		if claimed {
			f.exec.broken = &executor.Error{Code: fault.Code, Detail: fault.Detail}
		} else {
			f.exec.env = []kernel.Violation{fault}
		}
		asked := f.says(f.scene.Owner, "/writ refresh")
		for range 3 {
			st := f.later()
			f.wants(st, kernel.StandWaiting)
			if wait := st.Wake - f.clock.Now().WallMs; wait < 55_000 || wait > 61_000 {
				t.Errorf("claimed %t: it is looked at again after %d ms", claimed, wait)
			}
			f.clock.advance(60_000)
		}
		if f.trailer("writ-run-id") != run || f.answeredWith(asked) != "" {
			t.Errorf("claimed %t: HEAD tells of %s, it is answered %s", claimed, f.trailer("writ-run-id"), f.answeredWith(asked))
		}
		f.exec.broken, f.exec.env = nil, nil
		f.later()
		f.showBranch()
		f.later()
		f.refreshed(base, run, "README", "a", "out.txt")
	}
}

// TestL18_KeyOfAReplacedResultIsRevoked: a lease that was to replace a result stands there,
// its holder is dead, and the key that signed the result was revoked since. Nobody puts that
// back; a person moves on, and the issue says why.
func TestL18_KeyOfAReplacedResultIsRevoked(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{false, true} {
		f := newTold(t, func(f *forged) { f.place.terms, f.place.acts = checkedTerms+"close_on: merged\n", true })
		f.drive()
		old := f.key
		f.rotated()
		f.task.worker.admission.admit = nil
		f.moveBase(map[string]string{"a": "x\n"})
		f.says(f.scene.Owner, "/writ refresh")
		f.reach(kernel.ActionClaim)
		key, err := instancekey.Load(f.place.dir)
		must(t, err)
		f.bench.says(worldref.Act{Act: worldref.Revoke, Old: worldref.KeyLine(old)}, key.SSHSigner(), nil)
		if !live {
			f.open()
			f.task.worker.admission.admit = nil
		}
		st := f.drive()
		f.wants(st, kernel.StandWaiting, kernel.CodeLeaseUntrusted)
		if st.Decision.WaitingFor != kernel.WaitRepair {
			t.Errorf("live %t: it waits for %q", live, st.Decision.WaitingFor)
		}
		f.shows(string(kernel.CodeLeaseUntrusted), "", true)
		builds := f.started()
		f.comment(f.scene.Owner, "/writ retry")
		f.wants(f.later(), kernel.StandWaiting)
		if f.started() != builds+1 || f.trailer("writ-waiting-for") != kernel.WaitMerge || f.trailer("writ-refreshes") != "" {
			t.Errorf("live %t: %d builders more, HEAD waits for %q", live, f.started()-builds, f.trailer("writ-waiting-for"))
		}
	}
}

// TestE1_IssueStandsWhileItIsRefreshed: while a refresh is checked the issue stays closed,
// with the label of what is delivered.
func TestE1_IssueStandsWhileItIsRefreshed(t *testing.T) {
	t.Parallel()
	f, _ := newDelivered(t, checkedTerms)
	f.moveBase(map[string]string{"a": "x\n"})
	f.says(f.scene.Owner, "/writ refresh")
	f.exec.held = func() {}
	f.reach(kernel.ActionChecks)
	for range 6 {
		f.ask(kernel.RequestTell)
	}
	f.shows("is being applied on the base", kernel.LabelCompleted, false)
	if f.acts(f.scene.Robot, forge.EventReopened) != 0 {
		t.Error("it was put back open")
	}
}

// TestE1_RefreshedByTheContract: with refresh: auto delivered work is applied on the base as
// it is now without anybody asking, an hour after it was delivered, once on each base and no
// oftener than budgets.refreshes says. A person's word counts as before, and from there it
// is counted anew.
func TestE1_RefreshedByTheContract(t *testing.T) {
	t.Parallel()
	f, checks := newDelivered(t, checkedTerms+"close_on: merged\nrefresh: auto\nbudgets: {refreshes: 2}\n")
	files, want, n := map[string]string{}, []string{"README", "out.txt"}, 1
	moves := func(name string) string {
		files[name] = "by somebody\n"
		base := f.moveBase(files)
		want = append(want, name)
		slices.Sort(want)
		return base
	}
	for i, name := range []string{"a", "b"} {
		run := f.trailer("writ-run-id")
		base := moves(name)
		if st := f.later(); i == 0 && (f.trailer("writ-run-id") != run || st.Wake <= f.clock.Now().WallMs || st.Wake > f.clock.Now().WallMs+3_600_000) {
			t.Fatalf("within the hour: run %s, and it is looked at again at %d of %d", f.trailer("writ-run-id"), st.Wake, f.clock.Now().WallMs)
		}
		f.clock.advance(3_600_000)
		f.later()
		f.showBranch()
		f.later()
		f.refreshed(base, run, want...)
		if n++; *checks != n {
			t.Errorf("checks ran %d times, want %d", *checks, n)
		}
		f.clock.advance(7_200_000)
		if f.later(); f.trailer("writ-base") != base || *checks != n {
			t.Error("it was applied again on the base that it stands on")
		}
	}
	run := f.trailer("writ-run-id")
	base := moves("c")
	f.clock.advance(7_200_000)
	if f.later(); f.trailer("writ-run-id") != run {
		t.Error("the contract asked oftener than its budget lets it")
	}
	f.shows("The contract asked 2 times that this work be applied there", "", true)
	asked := f.says(f.scene.Owner, "/writ refresh")
	f.later()
	f.showBranch()
	f.later()
	f.reacted(asked, forge.ReactionDone)
	f.refreshed(base, run, want...)
	run, base = f.trailer("writ-run-id"), moves("d")
	f.clock.advance(7_200_000)
	f.later()
	f.showBranch()
	f.later()
	f.refreshed(base, run, want...)
	f.shows("task 1", "", true)
}

// TestE1_RefreshByTheContractThatDoesNotHold: on a base where the checks fail the delivered
// change stays as it was, and it isn't tried there again, by whomever. On the next base it
// is. What was interrupted is tried again on the same base.
func TestE1_RefreshByTheContractThatDoesNotHold(t *testing.T) {
	t.Parallel()
	f, checks := newDelivered(t, checkedTerms+"close_on: merged\nrefresh: auto\n")
	run, change := f.trailer("writ-run-id"), f.ref(changeRef)
	bad := f.moveBase(map[string]string{"a": "bad\n"})
	f.exec.check = func(job executor.CheckJob) executor.CheckOutcome {
		*checks++
		out := passed(job)
		if job.Base.Commit == bad {
			out.Violations = []kernel.Violation{{Code: kernel.CodeCheckFailed, Subject: "test", Detail: "exit status 1"}}
		}
		return out
	}
	for range 3 {
		f.clock.advance(7_200_000)
		f.later()
	}
	if f.ref(changeRef) != change || f.trailer("writ-run-id") != run || *checks != 2 {
		t.Fatalf("the branch is at %s, HEAD of run %s, checks ran %d times", f.ref(changeRef), f.trailer("writ-run-id"), *checks)
	}
	f.shows("Applied on the base", "", true)
	f.verify(stateRef)
	f.others(f.another())
	if *checks != 2 {
		t.Error("another installation tried it on that base")
	}
	good := f.moveBase(map[string]string{"a": "good\n"})
	f.clock.advance(7_200_000)
	f.later()
	f.showBranch()
	f.later()
	f.refreshed(good, run, "README", "a", "out.txt")
}

// otherTerms is a repository whose contracts, and nothing else, are others.
type otherTerms struct {
	replay.Repo
	old, new string
}

func (r otherTerms) Blobs(ctx context.Context, oids []git.OID, f func(git.OID, []byte) error) error {
	return r.Repo.Blobs(ctx, oids, func(oid git.OID, data []byte) error {
		return f(oid, bytes.ReplaceAll(data, []byte(r.old), []byte(r.new)))
	})
}

// otherActs is a repository whose commits say another time of the first act by which the
// contract asked.
type otherActs struct{ replay.Repo }

func (r otherActs) Commit(ctx context.Context, oid git.OID) (git.Commit, error) {
	c, err := r.Repo.Commit(ctx, oid)
	c.Message = bytes.ReplaceAll(c.Message, []byte("/auto:1:"), []byte("9/auto:1:"))
	return c, err
}

func (r otherActs) Log(ctx context.Context, from, not []git.OID, most int) ([]git.Commit, []git.OID, error) {
	list, rest, err := r.Repo.Log(ctx, from, not, most)
	for i := range list {
		list[i].Message = bytes.ReplaceAll(list[i].Message, []byte("/auto:1:"), []byte("9/auto:1:"))
	}
	return list, rest, err
}

// TestP5_ContractThatAskedForNoRefresh: what nobody asked for is found in a replay, where
// the contract on that base didn't either, may not so often, or named another base.
func TestP5_ContractThatAskedForNoRefresh(t *testing.T) {
	t.Parallel()
	f, _ := newDelivered(t, checkedTerms+"close_on: merged\nrefresh: auto\nbudgets: {refreshes: 2}\n")
	for _, name := range []string{"a", "b"} {
		f.moveBase(map[string]string{name: "x\n"})
		f.clock.advance(7_200_000)
		f.later()
		f.showBranch()
		f.later()
	}
	f.verify(stateRef)
	base := f.trailer("writ-base")
	for _, c := range [][3]string{
		{"refresh: auto", "refresh: manual", "the contract doesn't say refresh: auto"},
		{"{refreshes: 2}", "{refreshes: 1}", "for the 2. time: budgets.refreshes is 1"},
	} {
		r, err := replay.VerifyTask(t.Context(), otherTerms{f.repo, c[0], c[1]}, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key}, World: f.place.cfg.World})
		if err != nil || r.OK || !strings.Contains(r.Plain(), c[2]) {
			t.Errorf("%s: %v\n%s", c[1], err, r.Plain())
		}
	}
	// The act is worked out from the result that was replaced: of another one of that, it is another.
	r, err := replay.VerifyTask(t.Context(), otherActs{f.repo}, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key}, World: f.place.cfg.World})
	if err != nil || r.OK || !strings.Contains(r.Plain(), "by what it replaced the act is") {
		t.Errorf("%v\n%s", err, r.Plain())
	}
	if act := f.trailer("writ-refresh-act"); !strings.HasSuffix(act, "/auto:2:"+base) {
		t.Errorf("the act is %s", act)
	}
}

// TestE1_StopEndsTheContractsRefreshes: who says /writ stop of delivered work has the
// contract leave it alone from then on, and the issue says so once the base moves.
func TestE1_StopEndsTheContractsRefreshes(t *testing.T) {
	t.Parallel()
	f, checks := newDelivered(t, checkedTerms+"close_on: merged\nrefresh: auto\n")
	run := f.trailer("writ-run-id")
	f.says(f.scene.Owner, "/writ stop")
	f.later()
	f.moveBase(map[string]string{"a": "x\n"})
	f.clock.advance(7_200_000)
	if f.later(); f.trailer("writ-run-id") != run || *checks != 1 {
		t.Errorf("HEAD is of run %s, checks ran %d times", f.trailer("writ-run-id"), *checks)
	}
	f.shows("Since `/writ stop` was said, the contract no longer has this work applied there", "", true)
}

// TestP5_NobodyAsksAgain: a refresh that was interrupted is said to be tried again as long as
// somebody asks for it.
func TestP5_NobodyAsksAgain(t *testing.T) {
	t.Parallel()
	f, _ := newDelivered(t, checkedTerms+"budgets: {retry_backoff: 10m}\nclose_on: merged\n")
	f.moveBase(map[string]string{"a": "x\n"})
	asked := f.says(f.scene.Owner, "/writ refresh")
	for range 2 {
		f.reach(kernel.ActionChecks)
		f.open() // the process that did it is gone
		f.task.worker.admission.admit = nil
		f.reach(kernel.ActionRestore)
	}
	f.drive()
	f.shows("It is tried again by itself", "", true)
	must(t, f.scene.Owner.DeleteComment(t.Context(), f.scene.Repo, asked))
	f.later()
	if said := f.marked("task")[0].Body; strings.Contains(said, "tried again by itself") || !strings.Contains(said, "was interrupted") {
		t.Errorf("nobody asks any more, and it says %s", said)
	}
}
