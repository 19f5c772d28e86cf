package supervisor

import (
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// A list of changes, as each work touches it: as the base had it, as the work left it, as
// the base has it by now, and what the two come to.
const (
	listWas  = "# Changes\n\n## Next\n\n- one\n- two\n- three\n\n## 1.0\n\n- first\n"
	listWork = "# Changes\n\n## Next\n\n- one\n- hello\n- two\n- three\n\n## 1.0\n\n- first\n"
	listBase = "# Changes\n\n## Next\n\n- one\n- two\n- three\n- four\n\n## 1.0\n\n- first, late\n"
	listBoth = "# Changes\n\n## Next\n\n- one\n- hello\n- two\n- three\n- four\n\n## 1.0\n\n- first, late\n"
)

// modifies is a builder that changes the list and adds a file.
func modifies(job executor.BuildJob) (executor.BuildOutcome, error) {
	o, err := writes(map[string]string{"out.txt": listWork})(job)
	ch := &o.Diff.Changes[0]
	ch.Op, ch.BeforeID, ch.BeforeMode = kernel.OpModify, string(git.HashBlob([]byte(listWas))), "100644"
	return o, err
}

// newListed is an installation that delivered a change of the list.
func newListed(t *testing.T, change func(*forged)) *forged {
	t.Helper()
	f := newTold(t, func(f *forged) {
		f.place.terms = checkedTerms + "close_on: merged\n"
		f.push("refs/heads/main", "", map[string]string{"out.txt": listWas})
		f.exec.build = modifies
		if change != nil {
			change(f)
		}
	})
	f.drive()
	if f.ref(changeRef) == "" {
		t.Fatalf("nothing is delivered: %s", f.marked("task")[0].Body)
	}
	f.showBranch()
	return f
}

// holds fails unless the change has this list.
func (f *forged) holds(list string) {
	f.t.Helper()
	if got := gittest.Git(f.t, f.bare, "show", changeRef+":out.txt"); got != strings.TrimSuffix(list, "\n") {
		f.t.Errorf("the change holds %q", got)
	}
}

// TestE1_RefreshMergesByLines: where the base changed other lines of a file, the status
// says so, and a refresh merges the two, judges and checks the outcome, and says of which
// files it is a merge. It is refreshed again like any, and all of it verifies offline.
func TestE1_RefreshMergesByLines(t *testing.T) {
	t.Parallel()
	f := newListed(t, nil)
	run := f.trailer("writ-run-id")
	base := f.moveBase(map[string]string{"out.txt": listBase})
	f.later()
	f.shows("**The base moved.** It has other lines by now in `out.txt`", "", true)
	asked := f.says(f.scene.Owner, "/writ refresh")
	f.later()
	f.showBranch()
	f.later()
	f.reacted(asked, forge.ReactionDone)
	f.refreshed(base, run, "README", "out.txt")
	f.holds(listBoth)
	_, diff, ok := replay.Built([]byte(f.evidenceAt(f.ref(stateRef), replay.FileRecords)))
	id := func(s string) string { return string(git.HashBlob([]byte(s))) }
	want := kernel.MergedFile{Path: "out.txt", BaseID: id(listWas), OursID: id(listWork), TheirsID: id(listBase)}
	if !ok || len(diff.Merged) != 1 || diff.Merged[0] != want || diff.Changes[0].BeforeID != id(listBase) || diff.Changes[0].AfterID != id(listBoth) {
		t.Errorf("its diff says %+v", diff)
	}
	r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key}, World: f.place.cfg.World})
	if must(t, err); !strings.Contains(r.Plain(), `Merged by lines with what the base has: "out.txt" of `+id(listWork)) {
		t.Errorf("the verification doesn't name the merge:\n%s", r.Plain())
	}

	run = f.trailer("writ-run-id")
	base = f.moveBase(map[string]string{"out.txt": strings.Replace(listBase, "# Changes", "# All changes", 1)})
	f.says(f.scene.Owner, "/writ refresh")
	f.later()
	f.showBranch()
	f.later()
	f.refreshed(base, run, "README", "out.txt")
	f.holds(strings.Replace(listBoth, "# Changes", "# All changes", 1))

	f.moveBase(map[string]string{"out.txt": strings.Replace(listBase, "- two", "- zwei", 1)})
	asked = f.says(f.scene.Owner, "/writ refresh")
	f.later()
	f.reacted(asked, forge.ReactionConfused)
	if words := f.answeredWith(asked); !strings.Contains(words, "`change.base_moved` `out.txt`") {
		t.Errorf("lines beside one another are answered %s", words)
	}
}

// TestE1_MergeIsJudgedAnew: what a merge comes to is held to the budgets of the contract as
// new work is.
func TestE1_MergeIsJudgedAnew(t *testing.T) {
	t.Parallel()
	f := newListed(t, func(f *forged) {
		f.place.terms += "budgets: {bytes: 200B}\n"
	})
	change := f.ref(changeRef)
	f.moveBase(map[string]string{"out.txt": listBase + strings.Repeat("- older\n", 40)})
	asked := f.says(f.scene.Owner, "/writ refresh")
	f.later()
	f.reacted(asked, forge.ReactionConfused)
	if words := f.answeredWith(asked); !strings.Contains(words, string(kernel.CodeScopeSize)) || f.ref(changeRef) != change {
		t.Errorf("it is answered %s", words)
	}
}

// TestE1_TamperedMergeIsFound: an instance that delivers something else than the merge, or
// lies about what was merged, has no evidence that verifies.
func TestE1_TamperedMergeIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alter func(*kernel.Diff, map[string][]byte)
		says  string
	}{
		"another line": {func(d *kernel.Diff, contents map[string][]byte) {
			data := []byte(strings.Replace(listBoth, "- hello", "- evil", 1))
			ch := &d.Changes[0]
			ch.AfterID, ch.AfterHash, ch.Size = string(git.HashBlob(data)), canon.Sum(data), int64(len(data))
			contents[ch.AfterID] = data
		}, "It is not the diff of run"},
		"the work alone": {func(d *kernel.Diff, contents map[string][]byte) {
			data := []byte(listWork)
			ch := &d.Changes[0]
			ch.AfterID, ch.AfterHash, ch.Size = string(git.HashBlob(data)), canon.Sum(data), int64(len(data))
			contents[ch.AfterID], d.Merged = data, nil
		}, "It is not the diff of run"},
		"of nothing":    {func(d *kernel.Diff, _ map[string][]byte) { d.Merged = nil }, "The files that it says were merged"},
		"of other work": {func(d *kernel.Diff, _ map[string][]byte) { d.Merged[0].OursID = d.Merged[0].BaseID }, "The files that it says were merged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newListed(t, nil)
			f.moveBase(map[string]string{"out.txt": listBase})
			f.says(f.scene.Owner, "/writ refresh")
			f.reach(kernel.ActionClaim)
			built := &f.task.worker.run.built
			c.alter(&built.Diff, built.Contents)
			f.reach(kernel.ActionResult)
			r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key}, World: f.place.cfg.World})
			if must(t, err); r.OK || !strings.Contains(r.Plain(), c.says) {
				t.Errorf("it verifies, or doesn't say %q:\n%s", c.says, r.Plain())
			}
		})
	}
}

// TestA5_HalfAMerge: the server took the state ref of a refresh's result alone, and dropped
// the merged file with the commit. It is merged again from what HEAD names.
func TestA5_HalfAMerge(t *testing.T) {
	t.Parallel()
	server := &forgetter{half: true}
	f := newListed(t, func(f *forged) {
		server.bare, f.place.fault = f.bare, server.fault
		f.place.wrap = func(r Repo) Repo { server.Repo = r; return server }
	})
	second := f.another()
	_, err := second.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
	must(t, err)
	base := f.moveBase(map[string]string{"out.txt": listBase})
	f.says(f.scene.Owner, "/writ refresh")
	server.at = kernel.ActionResult
	f.reach(kernel.ActionResult)
	f.task.Close()
	gittest.Git(t, f.bare, "prune", "--expire=now")
	f.others(second)
	f.refreshed(base, f.trailer("writ-refreshes"), "README", "out.txt")
	f.holds(listBoth)
}
