package supervisor

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// newGuardedDelivery is an installation whose work changes a guarded path, was accepted, and
// waits for the merge of its change.
func newGuardedDelivery(t *testing.T, more string) (f *forged, checks *int) {
	t.Helper()
	f = newGuarded(t, func(f *forged) { f.place.terms, checks = guardedTerms+"close_on: merged\n"+more, f.counts() })
	f.says(f.scene.Owner, f.line())
	f.wants(f.later(), kernel.StandWaiting)
	f.showBranch()
	f.delivered(*checks)
	f.later()
	return f, checks
}

// TestS14_GuardedWorkIsRefreshedOnceAccepted: what was accepted of guarded paths holds for the
// base that it was accepted on. On another one it is shown anew, and neither claimed nor
// checked before somebody who may has accepted exactly that; meanwhile the change stands.
func TestS14_GuardedWorkIsRefreshedOnceAccepted(t *testing.T) {
	t.Parallel()
	for _, auto := range []bool{false, true} {
		more := map[bool]string{true: "refresh: auto\n"}[auto]
		f, checks := newGuardedDelivery(t, more)
		run, change := f.trailer("writ-run-id"), f.ref(changeRef)
		f.moveBase(map[string]string{"a": "x\n"})
		if auto {
			f.clock.advance(kernel.AutoEvery)
		} else {
			asked := f.says(f.scene.Owner, "/writ refresh")
			defer f.reacted(asked, forge.ReactionDone)
		}
		f.wants(f.later(), kernel.StandWaiting)
		said := f.marked("task")[0].Body
		if f.ref(changeRef) != change || f.trailer("writ-run-id") != run || *checks != 1 {
			t.Fatalf("it was refreshed, and nobody accepted that: %d checks", *checks)
		}
		for _, want := range []string{"as is asked, the work changes guarded paths: 1 path.", `+hello\u202e`, "`maintain`", "waits for the merge of its change"} {
			if !strings.Contains(said, want) {
				t.Errorf("the issue doesn't say %s:\n%s", want, said)
			}
		}
		first := f.line()
		base := f.moveBase(map[string]string{"a": "y\n"})
		old, stranger := f.says(f.scene.Owner, first), f.says(f.scene.Triage, first)
		f.wants(f.later(), kernel.StandWaiting)
		f.reacted(old, forge.ReactionConfused)
		f.reacted(stranger, forge.ReactionRefused)
		if f.ref(changeRef) != change || *checks != 1 {
			t.Fatal("a line for another base was taken")
		}
		right := f.says(f.scene.Owner, f.line())
		for range 2 {
			f.later()
			f.showBranch()
		}
		f.reacted(right, forge.ReactionDone)
		f.refreshed(base, run, "README", "a", "out.txt")
		if *checks != 2 || f.trailer("writ-accepts") == "" || strings.Contains(f.marked("task")[0].Body, "/writ accept") {
			t.Errorf("checks ran %d times; it says %s", *checks, f.marked("task")[0].Body)
		}
	}
}

// TestS14_HeldRefreshIsGivenUp: who stops or rejects a refresh that waits for its guarded paths
// is done with it, and what accepts them counts for nothing.
func TestS14_HeldRefreshIsGivenUp(t *testing.T) {
	t.Parallel()
	f, checks := newGuardedDelivery(t, "")
	head := f.ref(stateRef)
	f.moveBase(map[string]string{"a": "x\n"})
	f.says(f.scene.Owner, "/writ refresh")
	f.later()
	line := f.line()
	stopped := f.says(f.scene.Owner, "/writ reject")
	f.wants(f.later(), kernel.StandWaiting)
	f.reacted(stopped, forge.ReactionDone)
	f.says(f.scene.Owner, line)
	for range 2 {
		f.wants(f.later(), kernel.StandWaiting)
	}
	if f.ref(stateRef) != head || *checks != 1 || strings.Contains(f.marked("task")[0].Body, "/writ accept") {
		t.Errorf("%d checks, HEAD moved: %t; it says %s", *checks, f.ref(stateRef) != head, f.marked("task")[0].Body)
	}
}

// guardedDocs are terms under which what newReviewed delivers is free, and docs are guarded.
var guardedDocs = strings.Replace(guardedTerms, "[out.txt]", `["docs/**"]`, 1) + "close_on: merged\n"

// newHeldRevision is an installation whose delivered work was reviewed and revised, and whose
// revision changes a guarded path, which nobody has accepted yet.
func newHeldRevision(t *testing.T, more string) (f *forged, checks *int, command int64) {
	t.Helper()
	f, checks = newReviewed(t, guardedDocs+more)
	f.exec.build = edits(t, map[string]string{"docs/a": hidden}, nil)
	command = f.says(f.scene.Owner, "/writ fix now")
	for range 2 {
		f.wants(f.later(), kernel.StandWaiting)
	}
	return f, checks, command
}

// TestP1_RevisionWaitsForItsGuardedPaths: a revision that changes a guarded path is pushed to
// no branch before somebody who may has accepted exactly that; then it is delivered by the
// one build and the one run of checks. The delivered change stands meanwhile, and what people
// say about it makes it no other revision.
func TestP1_RevisionWaitsForItsGuardedPaths(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(f *forged){
		"nothing":                func(*forged) {},
		"another process":        func(f *forged) { f.open() },
		"its thread is resolved": func(f *forged) { f.resolveReview() },
		"people talk of it":      func(f *forged) { f.review(f.scene.Owner, "Is that so?"); f.saysThere(f.scene.Owner, "It is.") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, checks, command := newHeldRevision(t, "")
			f.reacted(command, forge.ReactionDone)
			run, change := f.trailer("writ-run-id"), f.ref(changeRef)
			said := f.marked("task")[0].Body
			for _, want := range []string{"waits for the merge", "The revision is done, and changes guarded paths: 1 path.", `+hello\u202e`, "`maintain`"} {
				if !strings.Contains(said, want) {
					t.Errorf("the issue doesn't say %s:\n%s", want, said)
				}
			}
			if strings.Contains(said, "didn't hold") || strings.Contains(said, "tried again") {
				t.Errorf("the issue says %s", said)
			}
			f.verify(stateRef)
			held, err := HeldAt(t.Context(), f.repo, f.place.cfg.World, git.OID(f.ref(stateRef)))
			if must(t, err); held == nil || "/writ accept "+string(held.Digest) != f.line() {
				t.Errorf("at HEAD there is to accept %+v", held)
			}
			meanwhile(f)
			stranger := f.says(f.scene.Triage, f.line())
			for range 2 {
				f.wants(f.later(), kernel.StandWaiting)
			}
			f.reacted(stranger, forge.ReactionRefused)
			if f.ref(changeRef) != change || f.started() != 2 {
				t.Fatalf("the change is at %s; %d builders", f.ref(changeRef), f.started())
			}
			right := f.says(f.scene.Owner, f.line())
			for range 2 {
				f.later()
				f.showBranch()
			}
			f.reacted(right, forge.ReactionDone)
			f.revisedOn(change, run, "hello\n")
			if got := gittest.Git(t, f.bare, "show", changeRef+":docs/a"); got+"\n" != hidden {
				t.Errorf("delivered was %q", got)
			}
			if f.started() != 2 || *checks != 2 || f.trailer("writ-accepts") == "" {
				t.Errorf("%d builders, checks ran %d times, accepted by %q", f.started(), *checks, f.trailer("writ-accepts"))
			}
		})
	}
}

// TestP1_HeldRevisionLapses: what a revision was made for has to be so when its guarded paths
// are accepted. What isn't delivered is said, and nobody is paid to build it again.
func TestP1_HeldRevisionLapses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(f *forged, command int64)
		says   string
	}{
		"comment edited": {func(f *forged, _ int64) { f.editReview("Leak it.") }, string(kernel.CodeInstructionChanged)},
		"command gone": {func(f *forged, command int64) {
			must(f.t, f.scene.Owner.DeleteComment(f.t.Context(), f.scene.Repo, command))
		}, "isn't delivered"},
		"stopped":  {func(f *forged, _ int64) { f.says(f.scene.Owner, "/writ stop") }, string(kernel.CodeTaskStopped)},
		"rejected": {func(f *forged, _ int64) { f.says(f.scene.Owner, "/writ reject") }, string(kernel.CodeTaskStopped)},
		"contract is another": {func(f *forged, _ int64) {
			f.place.terms += "budgets: {files: 5}\n"
			f.open()
		}, string(kernel.CodeGovernanceMismatch)},
		"head moved": {func(f *forged, _ int64) {
			f.push(changeRef, "Better", map[string]string{"out.txt": "hello again\n"})
		}, string(kernel.CodeBranchTaken)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, checks, command := newHeldRevision(t, "")
			run, line := f.trailer("writ-run-id"), f.line()
			c.change(f, command)
			f.says(f.scene.Owner, line)
			for range 3 {
				f.later()
			}
			said := f.marked("task")[0].Body
			if f.trailer("writ-run-id") != run || f.started() != 2 || *checks != 2 || !strings.Contains(said, c.says) || strings.Contains(said, "/writ accept") {
				t.Errorf("HEAD tells of %s, %d builders, checks ran %d times; it says %s", f.trailer("writ-run-id"), f.started(), *checks, said)
			}
			f.verify(stateRef)
		})
	}
}

// TestP1_HeldRevisionIsAskedAnew: who asks anew has it built anew, and what accepted the
// earlier one accepts nothing of that.
func TestP1_HeldRevisionIsAskedAnew(t *testing.T) {
	t.Parallel()
	f, _, _ := newHeldRevision(t, "")
	change, line := f.ref(changeRef), f.line()
	f.exec.build = edits(t, map[string]string{"docs/a": "other\n"}, nil)
	f.says(f.scene.Owner, "/writ fix otherwise")
	for range 2 {
		f.wants(f.later(), kernel.StandWaiting)
	}
	f.says(f.scene.Owner, line)
	f.wants(f.later(), kernel.StandWaiting)
	if f.started() != 3 || f.ref(changeRef) != change {
		t.Fatalf("%d builders, the change is at %s", f.started(), f.ref(changeRef))
	}
	f.says(f.scene.Owner, f.line())
	f.later()
	if got := gittest.Git(t, f.bare, "show", changeRef+":docs/a"); got != "other" {
		t.Errorf("delivered was %q", got)
	}
	f.verify(stateRef)
}

// TestP5_HeldRevisionThroughCrashes: the process is killed at each effect on the way from the
// build to the delivery of a revision that has to be accepted, and the next process or another
// installation goes on. It comes out once, from one build.
func TestP5_HeldRevisionThroughCrashes(t *testing.T) {
	t.Parallel()
	for _, at := range []kernel.Action{kernel.ActionSeal, kernel.ActionRestore, kernel.ActionClaim, kernel.ActionJudge, kernel.ActionResult} {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/other=%t", at, other), func(t *testing.T) {
				t.Parallel()
				f, _ := newReviewed(t, guardedDocs)
				second := f.another()
				f.exec.build = edits(t, map[string]string{"docs/a": hidden}, nil)
				second.exec.build = f.exec.build
				run, change := f.trailer("writ-run-id"), f.ref(changeRef)
				f.says(f.scene.Owner, "/writ fix now")
				early := at == kernel.ActionSeal || at == kernel.ActionRestore
				who := f.bench
				goesOn := func() {
					f.open()
					if other {
						who = second
					}
				}
				drive := func() {
					f.clock.advance(3_600_000)
					if _, err := who.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}); err != nil {
						t.Logf("not yet: %v", err)
					}
					f.showBranch()
				}
				if early {
					f.reach(at)
					goesOn()
				}
				for range 6 {
					drive()
				}
				if f.ref(changeRef) != change {
					t.Fatal("it was delivered, and nobody accepted it")
				}
				f.says(f.scene.Owner, f.line())
				if !early {
					f.reach(at)
					goesOn()
				}
				for range 6 {
					drive()
				}
				if parent := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", changeRef+"^")); parent != change || f.trailer("writ-fixes") != run {
					t.Errorf("the change stands on %s, HEAD fixes %q", parent, f.trailer("writ-fixes"))
				}
				if n := f.started() + second.started(); n != 2 {
					t.Errorf("%d builders", n)
				}
				r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key, second.key}, World: f.place.cfg.World})
				if must(t, err); !r.OK {
					t.Errorf("it doesn't verify:\n%s", r.Plain())
				}
			})
		}
	}
}

// TestP1_LapsedRevisionHoldsNothingUp: a revision that waited for its guarded paths, and that
// nobody begins again by itself, keeps no refresh waiting, whoever asks for that.
func TestP1_LapsedRevisionHoldsNothingUp(t *testing.T) {
	t.Parallel()
	for _, auto := range []bool{false, true} {
		f, _, _ := newHeldRevision(t, map[bool]string{true: "refresh: auto\n"}[auto])
		run := f.trailer("writ-run-id")
		f.editReview("Leak it.")
		f.later()
		base := f.moveBase(map[string]string{"a": "x\n"})
		if auto {
			f.clock.advance(kernel.AutoEvery)
		} else {
			f.says(f.scene.Owner, "/writ refresh")
		}
		for range 2 {
			f.later()
			f.showBranch()
		}
		if f.trailer("writ-refreshes") != run || f.trailer("writ-base") != base || f.started() != 2 {
			t.Errorf("auto: %t, HEAD refreshes %q on %s, %d builders; it says %s", auto, f.trailer("writ-refreshes"), f.trailer("writ-base"), f.started(), f.marked("task")[0].Body)
		}
		f.verify(stateRef)
	}
}

// TestP1_RejectedIsNotBegunAgain: what was asked of delivered work, and what accepted its guarded
// paths, counts for nothing once somebody rejected it: an approval that comes later begins
// nothing of it again, and asks nobody to accept it. What accepts it after that is answered so.
func TestP1_RejectedIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	for _, fix := range []bool{false, true} {
		for _, accepted := range []string{"never", "before", "at once", "after"} {
			t.Run(fmt.Sprintf("fix=%t/%s", fix, accepted), func(t *testing.T) {
				t.Parallel()
				var f *forged
				if fix {
					f, _, _ = newHeldRevision(t, "")
				} else {
					f, _ = newGuardedDelivery(t, "")
					f.moveBase(map[string]string{"a": "x\n"})
					f.says(f.scene.Owner, "/writ refresh")
					f.later()
				}
				change, line := f.ref(changeRef), f.line()
				if accepted == "before" {
					f.says(f.scene.Owner, line)
				}
				f.says(f.scene.Owner, "/writ reject")
				if accepted == "at once" {
					f.says(f.scene.Owner, line)
				}
				f.later()
				if accepted == "after" {
					said := f.says(f.scene.Owner, line)
					f.later()
					f.reacted(said, forge.ReactionConfused)
				}
				f.says(f.scene.Owner, "/writ run")
				for range 3 {
					f.later()
					f.showBranch()
				}
				if said := f.marked("task")[0].Body; f.ref(changeRef) != change || strings.Contains(said, "/writ accept") {
					t.Errorf("delivered: %t; it says %s", f.ref(changeRef) != change, said)
				}
				f.verify(stateRef)
			})
		}
	}
}

// TestK11_RevisionToBeAcceptedIsCutOff: whether it dies before anybody was asked to accept its
// guarded paths or after somebody did, what people say of it meanwhile makes it no other
// revision: no second builder is paid, and the line that is shown is that of `task show`.
func TestK11_RevisionToBeAcceptedIsCutOff(t *testing.T) {
	t.Parallel()
	for _, at := range []kernel.Action{kernel.ActionSeal, kernel.ActionClaim, kernel.ActionJudge} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			f, _ := newReviewed(t, guardedDocs)
			f.exec.build = edits(t, map[string]string{"docs/a": hidden}, nil)
			change := f.ref(changeRef)
			f.says(f.scene.Owner, "/writ fix now")
			goesOn := func() {
				for range 6 {
					f.clock.advance(3_600_000)
					if _, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}); err != nil {
						t.Logf("not yet: %v", err)
					}
					f.showBranch()
				}
			}
			if at == kernel.ActionSeal {
				f.reach(at)
				f.open()
			}
			goesOn()
			f.review(f.scene.Owner, "Is that so?")
			f.later()
			held, err := HeldAt(t.Context(), f.repo, f.place.cfg.World, git.OID(f.ref(stateRef)))
			if must(t, err); held == nil || "/writ accept "+string(held.Digest) != f.line() {
				t.Errorf("at HEAD there is to accept %+v", held)
			}
			f.says(f.scene.Owner, f.line())
			if at != kernel.ActionSeal {
				f.reach(at)
				f.open()
			}
			goesOn()
			if parent := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", changeRef+"^")); parent != change || f.started() != 2 {
				t.Errorf("%d builders, the change stands on %s; it says %s", f.started(), parent, f.marked("task")[0].Body)
			}
			f.verify(stateRef)
		})
	}
}

// TestS14_HeldRefreshThatCannotBeIsToldOf: who was answered that a refresh counts, which then
// waited for its guarded paths, is told why it isn't done any more, once.
func TestS14_HeldRefreshThatCannotBeIsToldOf(t *testing.T) {
	t.Parallel()
	f, _ := newGuardedDelivery(t, "")
	f.moveBase(map[string]string{"a": "x\n"})
	asked := f.says(f.scene.Owner, "/writ refresh")
	f.later()
	f.line()
	f.reacted(asked, forge.ReactionDone)
	f.push(changeRef, "Better", map[string]string{"out.txt": "hello again\n"})
	for range 3 {
		f.later()
	}
	f.reacted(asked, forge.ReactionDone)
	if said := f.answeredWith(asked); !strings.Contains(said, string(kernel.CodeBranchTaken)) || len(f.marked("answer")) != 1 {
		t.Errorf("it is answered %q, %d answers", said, len(f.marked("answer")))
	}
}

// TestE1_RefreshWaitsForAHeldRevision: of two acts over delivered work the older one comes
// first, also while it waits: what accepts the revision accepts nothing of the refresh, whose
// line is shown once the revision is delivered.
func TestE1_RefreshWaitsForAHeldRevision(t *testing.T) {
	t.Parallel()
	f, _, _ := newHeldRevision(t, "")
	run, change, first := f.trailer("writ-run-id"), f.ref(changeRef), f.line()
	base := f.moveBase(map[string]string{"a": "x\n"})
	f.says(f.scene.Owner, "/writ refresh")
	f.later()
	if f.ref(changeRef) != change || f.line() != first {
		t.Fatalf("the change is at %s, and to accept is %s", f.ref(changeRef), f.line())
	}
	f.says(f.scene.Owner, first)
	for range 3 {
		f.later()
		f.showBranch()
	}
	f.revisedOn(change, run, "hello\n")
	if f.line() == first {
		t.Fatal("one line accepts both")
	}
	f.says(f.scene.Owner, f.line())
	for range 3 {
		f.later()
		f.showBranch()
	}
	if parent := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", changeRef+"^")); parent != base || f.started() != 2 {
		t.Errorf("the change stands on %s, %d builders", parent, f.started())
	}
	f.verify(stateRef)
}

// TestI4_AskedAgainAfterAReject: who rejected what was asked of delivered work finds out how he
// asks again, and it is done then, for a line of its own.
func TestI4_AskedAgainAfterAReject(t *testing.T) {
	t.Parallel()
	f, _, _ := newHeldRevision(t, "")
	change := f.ref(changeRef)
	f.says(f.scene.Owner, "/writ reject")
	f.later()
	refused := f.says(f.scene.Owner, "/writ fix again")
	f.later()
	f.reacted(refused, forge.ReactionConfused)
	if said := f.answeredWith(refused); !strings.Contains(said, "Comment `/writ run`") {
		t.Errorf("it is answered %q", said)
	}
	anew := f.says(f.scene.Owner, "/writ run")
	f.later()
	f.reacted(anew, forge.ReactionDone)
	if said := f.answeredWith(anew); !strings.Contains(said, "ask for it once more") || f.started() != 2 {
		t.Errorf("it is answered %q, %d builders", said, f.started())
	}
	f.says(f.scene.Owner, "/writ fix again")
	for range 2 {
		f.later()
	}
	f.says(f.scene.Owner, f.line())
	f.later()
	if parent := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", changeRef+"^")); parent != change || f.started() != 3 {
		t.Errorf("the change stands on %s, %d builders; it says %s", parent, f.started(), f.marked("task")[0].Body)
	}
	f.verify(stateRef)
}
