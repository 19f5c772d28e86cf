package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/marker"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// newWaiting is an installation whose verified work waits for the merge of its change.
func newWaiting(t *testing.T) *forged {
	f := newTold(t, func(f *forged) { f.place.terms = mergeTerms })
	f.wants(f.drive(), kernel.StandWaiting)
	return f
}

// evidenceAt is a file of a commit's tree, "" for none.
func (f *forged) evidenceAt(commit, name string) string {
	f.t.Helper()
	if !slices.Contains(f.filesAt(commit), name) {
		return ""
	}
	data, err := f.task.readFile(f.t.Context(), git.OID(commit), name)
	must(f.t, err)
	return string(data)
}

func (f *forged) filesAt(commit string) []string {
	f.t.Helper()
	return strings.Fields(gittest.Git(f.t, f.bare, "ls-tree", "--name-only", commit))
}

func (f *forged) reportOf(commit string) report.Report {
	f.t.Helper()
	var r report.Report
	must(f.t, canon.UnmarshalCanonical([]byte(f.evidenceAt(commit, replay.FileReport)), &r))
	return r
}

// TestT24_WaitingForTheMerge: what waits for its merge is no end: HEAD is waiting, its
// report has no final state, and `completed` comes with the merge, on that very result
// and with its evidence.
func TestT24_WaitingForTheMerge(t *testing.T) {
	t.Parallel()
	f := newWaiting(t)
	result := f.ref(stateRef)
	if r := f.reportOf(result); r.FinalState != "" || !r.Verified || r.WaitingFor != kernel.WaitMerge {
		t.Errorf("before the merge it says %q, verified %v, waiting for %q", r.FinalState, r.Verified, r.WaitingFor)
	}
	f.later()
	if f.ref(stateRef) != result || f.evidenceAt(result, replay.FileMerge) != "" {
		t.Error("HEAD moved without a merge")
	}
	merged := f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
	f.wants(f.later(), kernel.StandFinal)
	head := f.ref(stateRef)
	if r := f.reportOf(head); r.FinalState != kernel.TaskCompleted || r.WaitingFor != "" || r.Merge == nil || r.Merge.Commit != merged || !r.Merge.AsVerified {
		t.Errorf("after the merge it says %+v", r)
	}
	if parent := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", head+"^")); parent != result {
		t.Errorf("completed stands on %s, the result is %s", parent, result)
	}
	for _, name := range f.filesAt(result) {
		if same := f.evidenceAt(result, name) == f.evidenceAt(head, name); same != !strings.HasPrefix(name, "report.") {
			t.Errorf("%s is the same: %v", name, same)
		}
	}
	f.verify(stateRef)
	if f.started() != 1 {
		t.Errorf("%d builders", f.started())
	}
}

// TestT24_AnyTrustedInstanceCompletes: the instance that did the work is gone. Another
// that is listed completes it at the merge, one that nobody lists doesn't; whoever
// verifies vouches for both signers.
func TestT24_AnyTrustedInstanceCompletes(t *testing.T) {
	t.Parallel()
	f := newWaiting(t)
	result := f.ref(stateRef)
	f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
	other := newBench(t, f.bare, func(b *bench) {
		b.clock, b.issue = f.clock, nil
		b.place.clock, b.place.issue, b.place.forge, b.place.terms = f.clock, nil, f.place.forge, f.place.terms
	})
	later := func() {
		f.clock.advance(3_600_000)
		_, err := other.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
		must(t, err)
	}
	later()
	if f.ref(stateRef) != result {
		t.Fatal("an instance completed a result that it doesn't trust")
	}
	other.trusts(f.bench)
	later()
	f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
	for _, c := range []struct {
		keys []ssh.PublicKey
		ok   bool
	}{{[]ssh.PublicKey{f.key, other.key}, true}, {[]ssh.PublicKey{f.key}, false}, {[]ssh.PublicKey{other.key}, false}} {
		r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: c.keys, World: f.place.cfg.World})
		if must(t, err); r.OK != c.ok || r.Vouched != c.ok {
			t.Errorf("with %d keys: verified %v, vouched %v\n%s", len(c.keys), r.OK, r.Vouched, r.Plain())
		}
	}
	if len(other.exec.builds) != 0 {
		t.Error("it was built again")
	}
}

// TestE2_BaseSetBackBeforeTheEnd: a change whose merge the base doesn't have any more, or
// not yet, when the task would be completed closes no issue.
func TestE2_BaseSetBackBeforeTheEnd(t *testing.T) {
	t.Parallel()
	f := newWaiting(t)
	before := f.ref("refs/heads/main")
	merged := f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
	gittest.Git(t, f.bare, "update-ref", "refs/heads/main", before)
	for range 3 {
		f.wants(f.later(), kernel.StandWaiting)
		if is := f.forgeIssue(); is.State != forge.Open || f.trailer("aynig-state") != string(kernel.TaskWaiting) {
			t.Errorf("HEAD is %s, the issue is %s", f.trailer("aynig-state"), is.State)
		}
	}
	gittest.Git(t, f.bare, "update-ref", "refs/heads/main", merged)
	f.wants(f.later(), kernel.StandFinal)
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	gittest.Git(t, f.bare, "update-ref", "refs/heads/main", before)
	f.later()
	f.shows("task 1 completed", kernel.LabelCompleted, false) // that takes nothing back
}

// TestD44_MergedOnceMore: the base was set back after the merge, and somebody merged the
// same commit once more. What the base got by that is compared, and named as the merge.
func TestD44_MergedOnceMore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string // of the second merge, beside README
		same  bool
	}{
		"with nothing of it":     {map[string]string{"other": "x\n"}, false},
		"with another content":   {map[string]string{"out.txt": "hello, evil\n"}, false},
		"as it was verified":     {map[string]string{"out.txt": "hello\n", "other": "x\n"}, true},
		"and then changed again": {map[string]string{"out.txt": "hello\n"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newWaiting(t)
			before := f.ref("refs/heads/main")
			merged := f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
			gittest.Git(t, f.bare, "update-ref", "refs/heads/main", before)
			tree := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", f.push("refs/heads/made", "", c.files)+"^{tree}"))
			again := strings.TrimSpace(gittest.Git(t, f.bare, "-c", "user.name=ana", "-c", "user.email=ana@example.com",
				"commit-tree", tree, "-p", before, "-p", merged, "-m", "Merge it once more"))
			gittest.Git(t, f.bare, "update-ref", "refs/heads/main", again)
			if strings.HasPrefix(name, "and then") { // which is nobody's merge
				f.push("refs/heads/main", "Go on", map[string]string{"out.txt": "goodbye\n"})
			}
			f.wants(f.later(), kernel.StandFinal)
			f.shows(fmt.Sprintf("merged_as_verified: `%v`", c.same), kernel.LabelCompleted, false)
			if r := f.reportOf(f.ref(stateRef)); r.Merge == nil || r.Merge.Commit != again {
				t.Errorf("the merge is %+v, want %s", r.Merge, again)
			}
			f.verify(stateRef)
		})
	}
}

// TestM2_HaltedTaskIsNotCompleted: a halted task is completed by no merge.
func TestM2_HaltedTaskIsNotCompleted(t *testing.T) {
	t.Parallel()
	f := newWaiting(t)
	must(t, f.sup.Halt(t.Context(), 1, "ana", "look at it"))
	f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
	result := f.ref(stateRef)
	_, _ = f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}) // it says that the task is halted
	if f.ref(stateRef) != result {
		t.Error("HEAD moved")
	}
	must(t, f.sup.Resume(t.Context(), 1, "ana", "all is well"))
	f.later()
	f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
}

// TestF7_WaitingIsDoneAgain: work that waits for its merge is done again once its change
// was closed unmerged and a person says so, and not before; the task counts from one.
func TestF7_WaitingIsDoneAgain(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.place.terms, f.exec.build = mergeTerms, failing })
	f.drive()
	f.exec.build = writes(map[string]string{"out.txt": "hello\n"})
	f.wants(f.later(), kernel.StandWaiting)
	if f.trailer("writ-attempt") != "2" {
		t.Fatalf("it waits after attempt %s", f.trailer("writ-attempt"))
	}
	result := f.ref(stateRef)
	answered := func(says string) {
		t.Helper()
		id, why := f.says(f.scene.Owner, "/writ run"), f.says(f.scene.Owner, "/writ explain")
		f.later()
		f.reacted(id, forge.ReactionConfused)
		if f.ref(stateRef) != result || f.started() != 2 {
			t.Fatal("work that waits for its merge was done again")
		}
		if got := f.answeredWith(id); !strings.Contains(got, says) || !strings.Contains(got, "delete the branch `writ/change/1`") {
			t.Errorf("it is answered with %s", got)
		}
		if got := f.answeredWith(why); !strings.Contains(got, "delete its branch") {
			t.Errorf("explained: %s", got)
		}
	}
	answered("waits for the merge")
	must(t, f.scene.Owner.CloseChange(t.Context(), f.scene.Repo, f.changeOf().Number))
	f.later()
	f.shows("its change was closed unmerged", "", true)
	answered("turned down")
	gittest.Git(t, f.bare, "update-ref", "-d", changeRef)
	f.exec.build = writes(map[string]string{"out.txt": "HELLO\n"})
	f.says(f.scene.Owner, "/writ retry say it louder")
	f.later()
	if f.started() != 3 || f.trailer("aynig-state") != "waiting" || f.trailer("writ-attempt") != "1" || f.ref(stateRef) == result {
		t.Errorf("%d builders, HEAD %s, attempt %s", f.started(), f.trailer("aynig-state"), f.trailer("writ-attempt"))
	}
	f.verify(stateRef)
	f.merge("Say it louder", map[string]string{"out.txt": "HELLO\n"})
	f.wants(f.later(), kernel.StandFinal)
	f.verify(stateRef)
}

// TestE2_MergedElsewhere: a merge into another branch than the base completes nothing,
// whoever opened the change and whatever it was for at first; once that branch is
// merged itself, the work is delivered.
func TestE2_MergedElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere := func(f *forged) (branch, oid string) {
		f.scene.SetBranch(f.scene.Repo, f.scene.Owner.User, "playground", f.ref("refs/heads/main"))
		gittest.Git(t, f.bare, "update-ref", "refs/heads/playground", "refs/heads/main")
		return "playground", f.push("refs/heads/playground", "Say hello", map[string]string{"out.txt": "hello\n"})
	}
	for name, c := range map[string]struct {
		closes bool // the change onto the base
		act    func(*forged)
	}{
		"its change was made for another branch": {true, func(f *forged) {
			branch, oid := elsewhere(f)
			must(t, f.scene.Owner.Retarget(t.Context(), f.scene.Repo, f.changeOf().Number, branch))
			must(t, f.scene.Owner.Merge(t.Context(), f.scene.Repo, f.changeOf().Number, oid))
		}},
		"another change, and writ's was closed": {true, func(f *forged) {
			must(t, f.scene.Owner.CloseChange(t.Context(), f.scene.Repo, f.changeOf().Number))
			f.mergesAnother(elsewhere(f))
		}},
		"another change, and writ's is open": {false, func(f *forged) { f.mergesAnother(elsewhere(f)) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWaiting(t)
			result := f.ref(stateRef)
			c.act(f)
			f.later()
			if f.ref(stateRef) != result || f.forgeIssue().State != forge.Open {
				t.Fatalf("HEAD is %s, the issue %s", f.trailer("aynig-state"), f.forgeIssue().State)
			}
			f.verify(stateRef)
			if c.closes {
				return
			}
			f.merge("Merge it", map[string]string{"out.txt": "hello\n"})
			f.wants(f.later(), kernel.StandFinal)
			f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
		})
	}
	t.Run("and then onto the base", func(t *testing.T) {
		f := newWaiting(t)
		branch, oid := elsewhere(f)
		must(t, f.scene.Owner.Retarget(t.Context(), f.scene.Repo, f.changeOf().Number, branch))
		must(t, f.scene.Owner.Merge(t.Context(), f.scene.Repo, f.changeOf().Number, oid))
		f.later()
		f.shows("its change was merged into another branch than the base", "", true)
		f.shows("merged into: `playground`", "", true)
		gittest.Git(t, f.bare, "update-ref", "refs/heads/main", "refs/heads/playground")
		f.wants(f.later(), kernel.StandFinal)
		f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
		f.verify(stateRef)
	})
}

// TestE2_ChangeFromBefore: a change from a branch of the task's name that ended
// before the work was begun is none of its, whatever its text says.
func TestE2_ChangeFromBefore(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"merged", "merged, by writ's account", "closed"} {
		merged := name != "closed"
		t.Run(name, func(t *testing.T) {
			f := newTold(t, func(f *forged) { f.place.terms = mergeTerms })
			gittest.Git(t, f.bare, "update-ref", changeRef, "refs/heads/main")
			f.push(changeRef, "Mine", map[string]string{"mine": "x"})
			f.scene.SetBranch(f.scene.Repo, f.scene.Owner.User, "writ/change/1", f.ref(changeRef))
			by := f.scene.Owner
			if name == "merged, by writ's account" {
				by = f.scene.Robot
			}
			old, err := by.OpenChange(t.Context(), f.scene.Repo, forge.Change{Title: "Mine", Head: "writ/change/1", Base: "main"})
			must(t, err)
			if merged {
				f.push("refs/heads/main", "Merge mine", map[string]string{"mine": "x"})
				must(t, f.scene.Owner.Merge(t.Context(), f.scene.Repo, old.Number, f.ref("refs/heads/main")))
			} else {
				must(t, f.scene.Owner.CloseChange(t.Context(), f.scene.Repo, old.Number))
			}
			gittest.Git(t, f.bare, "update-ref", "-d", changeRef)
			f.wants(f.drive(), kernel.StandWaiting)
			ours := f.changeOf()
			if ours.Number == old.Number || ours.State != forge.ChangeOpen || f.forgeIssue().State != forge.Open {
				t.Fatalf("the change is #%d, %s", ours.Number, ours.State)
			}
			if merged { // and its text is made to look like the other's
				must(t, f.scene.Owner.EditChange(t.Context(), f.scene.Repo, old.Number, "Mine", ours.Body))
				must(t, f.scene.Owner.Retarget(t.Context(), f.scene.Repo, ours.Number, "writ/change/1"))
				f.later()
				if f.trailer("aynig-state") != "waiting" || f.forgeIssue().State != forge.Open {
					t.Errorf("HEAD is %s, the issue %s", f.trailer("aynig-state"), f.forgeIssue().State)
				}
				return
			}
			f.merge("Merge it", map[string]string{"out.txt": "hello\n"})
			f.wants(f.later(), kernel.StandFinal)
			f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
		})
	}
}

// TestE2_ChangeMadeDuringTheBuild: a change of other work on the task's branch, whose
// text names the run that is going on, and that is merged before its result is there,
// is none of the result's.
func TestE2_ChangeMadeDuringTheBuild(t *testing.T) {
	t.Parallel()
	var number int64
	f := newTold(t, func(f *forged) {
		f.place.terms = mergeTerms
		f.exec.build = func(job executor.BuildJob) (executor.BuildOutcome, error) {
			gittest.Git(t, f.bare, "update-ref", changeRef, "refs/heads/main")
			f.push(changeRef, "A typo", map[string]string{"README": "hi!\n"})
			f.scene.SetBranch(f.scene.Repo, f.scene.Owner.User, "writ/change/1", f.ref(changeRef))
			body := marker.Marker{World: f.place.cfg.World, Task: 1}.Line(marker.Status, job.Run)
			c, err := f.scene.Owner.OpenChange(t.Context(), f.scene.Repo, forge.Change{Title: "A typo", Body: body, Head: "writ/change/1", Base: "main"})
			must(t, err)
			number = c.Number
			f.push("refs/heads/main", "A typo", map[string]string{"README": "hi!\n"})
			must(t, f.scene.Owner.Merge(t.Context(), f.scene.Repo, number, f.ref("refs/heads/main")))
			gittest.Git(t, f.bare, "update-ref", "-d", changeRef)
			return writes(map[string]string{"out.txt": "hello\n"})(job)
		}
	})
	f.drive()
	if ours := f.changeOf(); f.trailer("aynig-state") != "waiting" || f.forgeIssue().State != forge.Open || ours.Number == number || ours.State != forge.ChangeOpen {
		t.Errorf("HEAD is %s, the issue %s, the change #%d, %s", f.trailer("aynig-state"), f.forgeIssue().State, ours.Number, ours.State)
	}
}

// TestT24_KeyReplacedBeforeTheMerge: a result that waits for its merge is verified
// after its key was replaced, and is after the new key has completed it; a key that
// was revoked since counts there no more.
func TestT24_KeyReplacedBeforeTheMerge(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.place.terms, f.place.acts = mergeTerms, true })
	f.wants(f.drive(), kernel.StandWaiting)
	old, result := f.key, f.ref(stateRef)
	f.rotated()
	key, err := instancekey.Load(f.place.dir)
	must(t, err)
	next := key.SSHSigner().PublicKey()
	verified := func(keys ...ssh.PublicKey) replay.Report {
		r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: keys, World: f.place.cfg.World})
		must(t, err)
		return r
	}
	if r := verified(next); !r.OK {
		t.Errorf("before the merge: %s", r.Plain())
	}
	f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
	f.wants(f.later(), kernel.StandFinal)
	for name, keys := range map[string][]ssh.PublicKey{"the new key": {next}, "both": {old, next}, "none": nil} {
		if r := verified(keys...); !r.OK || r.Vouched != (len(keys) > 0) {
			t.Errorf("for who lists %s: %s", name, r.Plain())
		}
	}
	if r := verified(old); r.OK {
		t.Error("for who lists the old key alone, the completion counts")
	}
	refs, err := f.repo.Refs(t.Context(), DefaultRefPrefix, "refs/heads/", worldref.Ref(DefaultRefPrefix))
	must(t, err)
	stands, err := f.sup.Stands(t.Context(), refs)
	if must(t, err); len(stands) != 1 || stands[0].Until(git.Fingerprint(old), false) != git.OID(result) || stands[0].Until(git.Fingerprint(next), false) != git.OID(f.ref(stateRef)) {
		t.Errorf("they count up to %+v, the result is %s", stands, result)
	}
	f.bench.says(worldref.Act{Act: worldref.Revoke, Old: worldref.KeyLine(old)}, key.SSHSigner(), nil)
	if r := verified(next); r.OK {
		t.Error("the result of a revoked key is verified, and no act names it")
	}
	f.bench.says(worldref.Act{Act: worldref.Revoke, Old: worldref.KeyLine(old), Refs: []worldref.Mark{{Ref: stateRef, Head: result}}}, key.SSHSigner(), nil)
	if r := verified(next); !r.OK {
		t.Errorf("the result that the revocation names: %s", r.Plain())
	}
}

// mergesAnother has a person open another change from the task's branch, and merge it.
func (f *forged) mergesAnother(base, oid string) {
	f.t.Helper()
	other, err := f.scene.Owner.OpenChange(f.t.Context(), f.scene.Repo, forge.Change{Title: "Mine", Head: "writ/change/1", Base: base})
	must(f.t, err)
	must(f.t, f.scene.Owner.Merge(f.t.Context(), f.scene.Repo, other.Number, oid))
}

// TestD54_LogOfAMerge: the log has the execution when it ended, and the final state
// once there is one; written again from the records it is the same.
func TestD54_LogOfAMerge(t *testing.T) {
	t.Parallel()
	f := newWaiting(t)
	states := func() (out []kernel.TaskState) {
		lines, err := report.Cycles(f.records())
		must(t, err)
		for _, l := range lines {
			if l.VerificationOutcome != report.OutcomeVerified {
				t.Errorf("it is %s", l.VerificationOutcome)
			}
			out = append(out, l.FinalTaskState)
		}
		return out
	}
	if got := states(); !slices.Equal(got, []kernel.TaskState{""}) {
		t.Errorf("before the merge: %q", got)
	}
	f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
	f.later()
	if got := states(); !slices.Equal(got, []kernel.TaskState{"", kernel.TaskCompleted}) {
		t.Errorf("after the merge: %q", got)
	}
}

// TestR7_InstanceLiesOfAMerge: a completed HEAD that doesn't follow from its result and
// the facts of the merge is found out, though a trusted instance has signed it.
func TestR7_InstanceLiesOfAMerge(t *testing.T) {
	t.Parallel()
	f := newWaiting(t)
	result := f.ref(stateRef)
	f.merge("Say hello (#2)", map[string]string{"out.txt": "hello, evil\n"})
	f.wants(f.later(), kernel.StandFinal)
	head := f.ref(stateRef)
	for name, c := range map[string]struct {
		file, was, is, parent, says string
	}{
		"the truth":                       {replay.FileReport, "", "", result, "verified"},
		"the report says as verified":     {replay.FileReport, `"merged_as_verified":false`, `"merged_as_verified":true`, result, "not what the result and its merge make it"},
		"the facts don't know of a merge": {replay.FileMerge, `"merged":"`, `"head":"`, result, "It can't be read"},
		"the facts are of another HEAD":   {replay.FileMerge, `"waiting_for":"merge"`, `"waiting_for":"pause"`, result, "Its facts know of no merge"},
		"the records are others":          {replay.FileRecords, `"kind":"observation"`, `"kind":"observatiom"`, result, "not what the result and its merge make it"},
		"it stands on the claim":          {replay.FileReport, "", "", result + "^", "no result that waited for a merge"},
		"it stands on itself":             {replay.FileReport, "", "", head, "no result that waited for a merge"},
	} {
		f.lie(head, c.parent, c.file, c.was, c.is)
		r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key}})
		must(t, err)
		if plain := r.Plain(); r.OK != (c.says == "verified") || !strings.Contains(plain, c.says) {
			t.Errorf("%s: want %q in\n%s", name, c.says, plain)
		}
	}
}

// lie puts a copy of a commit on another parent, with one file changed, signed by the
// instance.
func (f *forged) lie(head, parent, file, was, is string) {
	f.t.Helper()
	objs := git.NewObjects()
	var entries []git.Entry
	for _, name := range f.filesAt(head) {
		data := f.evidenceAt(head, name)
		if name == file {
			if !strings.Contains(data, was) {
				f.t.Fatalf("%s doesn't hold %s", name, was)
			}
			data = strings.Replace(data, was, is, 1)
		}
		entries = append(entries, git.Entry{Path: name, Mode: git.ModeFile, OID: objs.Blob([]byte(data))})
	}
	tree, err := objs.Tree(entries)
	must(f.t, err)
	c, err := f.repo.Commit(f.t.Context(), git.OID(head))
	must(f.t, err)
	below := strings.TrimSpace(gittest.Git(f.t, f.bare, "rev-parse", parent))
	oid, err := objs.Commit(git.CommitSpec{
		Tree: tree, Parents: []git.OID{git.OID(below)}, Author: c.Author, Committer: c.Committer, Message: c.Message,
	}, f.sup.deps.Signer)
	must(f.t, err)
	const ref = "refs/writ/lie/1"
	old := git.OID(f.ref(ref))
	if old == "" {
		old = git.ZeroOID
	}
	defer func() { gittest.Git(f.t, f.bare, "update-ref", stateRef, string(oid)) }()
	if old == oid {
		return
	}
	if out := f.repo.CompareAndSwap(f.t.Context(), []git.Command{{Ref: ref, Old: old, New: oid}}, objs.Pack()); out.Status != git.Won {
		f.t.Fatal(out)
	}
}
