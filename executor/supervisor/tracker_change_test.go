package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// mergeTerms is a contract whose issues are closed at the merge.
const mergeTerms = "version: 1\nclose_on: merged\n"

func (f *forged) changeOf() forge.Change {
	f.t.Helper()
	c, err := f.scene.Owner.FindChange(f.t.Context(), f.scene.Repo, "writ/change/1", "main")
	must(f.t, err)
	return c
}

// TestI17_WhatTheDescriptionSaysStaysTrue: nobody writes the description of a change anew
// once that is merged or closed. So it tells a reader to merge it only while it is open, and
// says nothing of how task and state ref stand; of that the status comment tells, which asks
// for nothing any more once the change is merged.
func TestI17_WhatTheDescriptionSaysStaysTrue(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(f *forged){
		"merged": func(f *forged) { f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"}) },
		"closed": func(f *forged) {
			must(f.t, f.scene.Owner.CloseChange(f.t.Context(), f.scene.Repo, f.changeOf().Number))
		},
	} {
		for _, terms := range []string{mergeTerms, "version: 1\nclose_on: verified\n"} {
			t.Run(name+", "+terms, func(t *testing.T) {
				t.Parallel()
				f := newTold(t, func(f *forged) { f.place.terms = terms })
				f.drive()
				result, before := f.ref(stateRef), f.changeOf().Body
				ends(f)
				f.later()
				if got := f.changeOf().Body; got != before || f.changeOf().State == forge.ChangeOpen {
					t.Errorf("it was %q, and is %q", before, got)
				}
				for _, word := range []string{"**While it is open:** Review it and merge it, or close it.", "For #1.", result, f.changeOf().HeadOID} {
					if !strings.Contains(before, word) {
						t.Errorf("%q isn't in\n%s", word, before)
					}
				}
				for _, word := range []string{"**Now:**", "waiting for", "is at"} {
					if strings.Contains(before, word) {
						t.Errorf("it says %q:\n%s", word, before)
					}
				}
				if status := f.marked("task")[0].Body; strings.Contains(status, "Review the change") || !strings.Contains(status, name) {
					t.Errorf("the status is\n%s", status)
				}
			})
		}
	}
}

// merge merges the change as git knows it: with the files given, on the base as it
// is, in as many commits as the forge's way of merging makes.
func (f *forged) merge(message string, files map[string]string) string {
	f.t.Helper()
	f.clock.advance(1000)
	oid := f.push("refs/heads/main", message, files)
	must(f.t, f.scene.Owner.Merge(f.t.Context(), f.scene.Repo, f.changeOf().Number, oid))
	return oid
}

// push adds a commit to a branch, as a person does.
func (f *forged) push(ref, message string, files map[string]string) string {
	f.t.Helper()
	all := map[string]string{"README": "hi\n"}
	maps.Copy(all, files)
	oid := gittest.Commit(f.t, f.bare, ref, f.ref(ref), all)
	if message == "" {
		return oid
	}
	tree := strings.TrimSpace(gittest.Git(f.t, f.bare, "rev-parse", oid+"^{tree}"))
	parent := strings.TrimSpace(gittest.Git(f.t, f.bare, "rev-parse", oid+"^"))
	oid = strings.TrimSpace(gittest.Git(f.t, f.bare, "-c", "user.name=ana", "-c", "user.email=ana@example.com", "commit-tree", tree, "-p", parent, "-m", message))
	gittest.Git(f.t, f.bare, "update-ref", ref, oid)
	return oid
}

// later drives after some time.
func (f *forged) later() Status {
	f.t.Helper()
	f.clock.advance(120_000)
	return f.drive()
}

// TestD44_ClosedAtTheMerge: with close_on: merged the work is completed, the issue
// waits for the merge, and is then closed with the report that says whether what
// was merged is what was verified.
func TestD44_ClosedAtTheMerge(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.place.terms = mergeTerms })
	st := f.drive()
	f.wants(st, kernel.StandWaiting)
	if f.trailer("writ-waiting-for") != "merge" || f.trailer("aynig-state") != "waiting" {
		t.Errorf("HEAD is %s, waiting for %q", f.trailer("aynig-state"), f.trailer("writ-waiting-for"))
	}
	f.shows("task 1 is verified, and waits for the merge of its change", "", true)
	f.later()
	f.shows("waits for the merge", "", true)
	if strings.Contains(f.marked("task")[0].Body, "task_final_state") {
		t.Errorf("it has a final state before the merge: %s", f.marked("task")[0].Body)
	}
	f.verify(stateRef)
	merged := f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
	f.wants(f.later(), kernel.StandFinal)
	f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
	if f.trailer("writ-waiting-for") != "" || f.trailer("aynig-state") != "completed" {
		t.Errorf("merged, and HEAD is %s, waiting for %q", f.trailer("aynig-state"), f.trailer("writ-waiting-for"))
	}
	f.verify(stateRef)
	if k := f.marked("task")[0].Body; !strings.Contains(k, merged) || !strings.Contains(k, "and its change is merged") {
		t.Errorf("it says %s", k)
	}
	if n := f.acts(f.scene.Robot, forge.EventClosed); n != 1 {
		t.Errorf("closed %d times", n)
	}
}

// TestW12_MergeThatNobodyToldOf: an issue that waits for a merge is looked at again by
// itself, ever more seldom, for no sweep sees a merge.
func TestW12_MergeThatNobodyToldOf(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.place.terms = mergeTerms })
	for _, want := range []int64{900_000, 900_000, 900_000, 900_000, 900_250, 1_125_312, 1_406_640} {
		st := f.drive()
		if wait := st.Wake - f.clock.Now().WallMs; wait < want-1000 || wait > want+1000 {
			t.Errorf("it is looked at again in %d ms, want about %d", wait, want)
		}
		f.clock.advance(st.Wake - f.clock.Now().WallMs)
	}
	f.clock.advance(30 * 86_400_000)
	if st := f.drive(); st.Wake-f.clock.Now().WallMs != mergeLatest {
		t.Errorf("after a month in %d ms", st.Wake-f.clock.Now().WallMs)
	}
	f.merge("Merge it", map[string]string{"out.txt": "hello\n"})
	if st := f.drive(); st.Wake != 0 || f.forgeIssue().State != forge.Closed {
		t.Errorf("merged, and it is %s, looked at again at %d", f.forgeIssue().State, st.Wake)
	}
}

// TestD44_MergedAsVerified: the merged blobs are compared with the verified ones,
// whatever way the change was merged.
func TestD44_MergedAsVerified(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(*forged)     // what happens to base and branch before the merge
		files  map[string]string // that the merge brings
		want   []string          // paths that differ
	}{
		"squashed":                   {nil, map[string]string{"out.txt": "hello\n"}, nil},
		"on a base that moved":       {func(f *forged) { f.push("refs/heads/main", "", map[string]string{"other": "x"}) }, map[string]string{"out.txt": "hello\n", "other": "x"}, nil},
		"another content":            {nil, map[string]string{"out.txt": "hello, evil\n"}, []string{"out.txt"}},
		"not merged really":          {nil, map[string]string{"else": "x"}, []string{"out.txt"}},
		"a reviewer's other file":    {func(f *forged) { f.reviewer(map[string]string{"out.txt": "hello\n", "more.txt": "x"}) }, map[string]string{"out.txt": "hello\n", "more.txt": "x"}, []string{"more.txt"}},
		"a name that is not UTF-8":   {func(f *forged) { f.reviewer(map[string]string{"out.txt": "hello\n", "\xff": "x"}) }, map[string]string{"out.txt": "hello\n", "\xff": "y"}, []string{`\xff`}},
		"a reviewer's push left out": {func(f *forged) { f.reviewer(map[string]string{"out.txt": "hello\n", "more.txt": "x"}) }, map[string]string{"out.txt": "hello\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTold(t, func(f *forged) { f.place.terms = mergeTerms })
			f.drive()
			if c.before != nil {
				c.before(f)
			}
			f.merge("Merge it", c.files)
			f.later()
			f.shows(fmt.Sprintf("merged_as_verified: `%v`", len(c.want) == 0), kernel.LabelCompleted, false)
			d := f.lastIssue()
			if !slices.Equal(d.Change.Differs, c.want) {
				t.Errorf("differing are %v, want %v", d.Change.Differs, c.want)
			}
			if v := d.Change.Verified; v != f.trailer("writ-change") || f.reportOf(f.ref(stateRef)).Merge.Verified != v {
				t.Errorf("the verified commit is %q", v)
			}
			f.verify(stateRef)
			for _, path := range c.want {
				if !strings.Contains(f.marked("task")[0].Body, "| "+strings.ReplaceAll(path, `\`, `\\`)) {
					t.Errorf("%s isn't named", path)
				}
			}
		})
	}
}

// TestD44_MergeIsComparedAgain: who verifies compares what was merged himself. That an
// instance says, signed and in all its evidence, that it is as verified, shows nothing.
func TestD44_MergeIsComparedAgain(t *testing.T) {
	t.Parallel()
	f := newWaiting(t)
	oid := git.OID(f.ref(changeRef))
	merged := f.merge("Merge it", map[string]string{"out.txt": "hello, evil\n"})
	f.task.tracker.merge = compared{key: mergeKey{oid, oid, git.OID(merged)}} // as one that never compared
	f.later()
	f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
	verify := func() replay.Report {
		r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key}, World: f.place.cfg.World})
		must(t, err)
		return r
	}
	if r := verify(); r.OK || !strings.Contains(r.Plain(), `compared again, the paths merged otherwise than verified are "out.txt"`) {
		t.Errorf("verified: %v\n%s", r.OK, r.Plain())
	}
	gittest.Git(t, f.bare, "update-ref", "refs/heads/main", string(oid)+"^")
	gittest.Git(t, f.bare, "reflog", "expire", "--expire=now", "--all")
	gittest.Git(t, f.bare, "prune", "--expire=now")
	if r := verify(); r.OK || !strings.Contains(r.Plain(), "The merge "+merged+" can't be read in this repository") {
		t.Errorf("without the merge: %v\n%s", r.OK, r.Plain())
	}
}

// TestR7_MergeThatTheBaseDoesntHave: a merge that is recorded as the base's is looked for on
// the base, with what it brought there.
func TestR7_MergeThatTheBaseDoesntHave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after func(f *forged, merged string)
		says  string
	}{
		"the base has it":           {func(*forged, string) {}, ""},
		"the base went on":          {func(f *forged, _ string) { f.push("refs/heads/main", "more", map[string]string{"out.txt": "HELLO\n"}) }, ""},
		"another branch is newer":   {func(f *forged, m string) { f.other(m) }, ""},
		"it is on no branch":        {func(f *forged, m string) { f.mainAt(m + "^") }, "isn't in the history of main"},
		"the base is another one":   {func(f *forged, m string) { f.mainAt(m + "^"); f.push("refs/heads/main", "more", nil) }, "isn't in the history of main"},
		"a merge of it kept ours":   {func(f *forged, m string) { f.mainAt(f.joins(m+"^", m, m+"^")) }, "which brought that commit onto main"},
		"a merge of it kept all":    {func(f *forged, m string) { f.mainAt(f.joins(m+"^", m, m)) }, ""},
		"it is one of many commits": {func(f *forged, m string) { f.mainAt(f.joins(m, f.other(m), m)) }, ""},
		"a clone on its own branch": {func(f *forged, m string) {
			gittest.Git(f.t, f.bare, "update-ref", "refs/remotes/origin/HEAD", m)
			gittest.Git(f.t, f.bare, "update-ref", "refs/heads/mine", m+"^")
			gittest.Git(f.t, f.bare, "symbolic-ref", "HEAD", "refs/heads/mine")
		}, ""},
		"no branch is known": {func(f *forged, _ string) { gittest.Git(f.t, f.bare, "symbolic-ref", "HEAD", "refs/heads/none") }, "isn't told here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newWaiting(t)
			m := f.ref(changeRef)
			f.clock.advance(1000)
			f.mainAt(m) // fast-forward
			must(t, f.scene.Owner.Merge(t.Context(), f.scene.Repo, f.changeOf().Number, m))
			f.wants(f.later(), kernel.StandFinal)
			c.after(f, m)
			r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key}, World: f.place.cfg.World})
			ok := c.says == "" || strings.Contains(c.says, "told")
			if must(t, err); r.OK != ok || !strings.Contains(r.Plain(), c.says) {
				t.Errorf("want %q in\n%s", c.says, r.Plain())
			}
		})
	}
}

// mainAt moves the base, as who may push does.
func (f *forged) mainAt(commit string) {
	f.t.Helper()
	gittest.Git(f.t, f.bare, "update-ref", "refs/heads/main", gittest.Git(f.t, f.bare, "rev-parse", commit))
}

// other is a commit of another branch, above a commit.
func (f *forged) other(above string) string {
	f.t.Helper()
	gittest.Git(f.t, f.bare, "update-ref", "refs/heads/other", above)
	return f.push("refs/heads/other", "more", nil)
}

// joins is a merge of two commits with the content of one.
func (f *forged) joins(first, second, content string) string {
	f.t.Helper()
	return gittest.Git(f.t, f.bare, "-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-m", "join", "-p", first, "-p", second, content+"^{tree}")
}

// TestR7_MergeOfALostBranch: where the last commit of the change's branch is gone, what is
// recorded of the merge is held against the verified one.
func TestR7_MergeOfALostBranch(t *testing.T) {
	t.Parallel()
	for name, lies := range map[string]bool{"as it is": false, "as verified": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newWaiting(t)
			own := f.ref(changeRef)
			f.reviewer(map[string]string{"out.txt": "hello\n", "more.txt": "x"})
			merged := f.merge("Merge it", map[string]string{"out.txt": "hello, evil\n", "more.txt": "y"})
			if lies {
				f.task.tracker.merge = compared{key: mergeKey{git.OID(own), git.OID(f.ref(changeRef)), git.OID(merged)}}
			}
			f.wants(f.later(), kernel.StandFinal)
			gittest.Git(t, f.bare, "update-ref", changeRef, own)
			gittest.Git(t, f.bare, "reflog", "expire", "--expire=now", "--all")
			gittest.Git(t, f.bare, "prune", "--expire=now")
			r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key}, World: f.place.cfg.World})
			if must(t, err); r.OK == lies {
				t.Error(r.Plain())
			}
		})
	}
}

// reviewer pushes to the change branch.
func (f *forged) reviewer(files map[string]string) {
	f.t.Helper()
	oid := f.push(changeRef, "", files)
	f.scene.SetBranch(f.scene.Repo, f.scene.Owner.User, "writ/change/1", oid)
}

// lastIssue is what was last recorded of the issue.
func (f *forged) lastIssue() kernel.IssueFacts {
	f.t.Helper()
	var out kernel.IssueFacts
	for _, r := range f.records() {
		if r.Kind != kernel.KindObservation {
			continue
		}
		var facts kernel.Facts
		must(f.t, json.Unmarshal(r.Body, &facts))
		if facts.Issue != nil {
			out = *facts.Issue
		}
	}
	return out
}

// TestF7_TurnedDown: where writ closed the issue and its change was then closed
// unmerged, or reverted on the base, the issue is put back open with a report, once
// for each closing; a person's closing afterwards stands.
func TestF7_TurnedDown(t *testing.T) {
	t.Parallel()
	revert := func(f *forged) {
		merged := f.merge("Say hello", map[string]string{"out.txt": "hello\n"})
		f.later()
		f.shows("and its change is merged", kernel.LabelCompleted, false)
		f.push("refs/heads/main", "Revert \"Say hello\"\n\nThis reverts commit "+merged+".", map[string]string{"out.txt": ""})
	}
	for name, c := range map[string]struct {
		terms string
		act   func(*forged)
		says  string
	}{
		"closed unmerged": {"", func(f *forged) { must(t, f.scene.Owner.CloseChange(t.Context(), f.scene.Repo, f.changeOf().Number)) }, "its change was closed unmerged"},
		"reverted":        {"", revert, "its change was reverted"},
		"reverted after the merge that closed it": {mergeTerms, revert, "its change was reverted"},
		"reverted by the forge's button": {"", func(f *forged) {
			f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
			f.push("refs/heads/main", fmt.Sprintf("Revert \"Say hello\" (#9)\n\nReverts acme/shop#%d", f.changeOf().Number), map[string]string{"out.txt": ""})
		}, "its change was reverted"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTold(t, func(f *forged) { f.place.terms = c.terms })
			f.drive()
			c.act(f)
			for range 3 {
				f.later()
			}
			f.shows(c.says, kernel.LabelCompleted, true)
			if n := f.acts(f.scene.Robot, forge.EventReopened); n != 1 {
				t.Errorf("put back open %d times", n)
			}
			if k := f.marked("task")[0].Body; !strings.Contains(k, "/writ retry") {
				t.Errorf("it doesn't say how to go on: %s", k)
			}
			must(t, f.scene.Owner.SetState(t.Context(), f.scene.Repo, 1, forge.Closed))
			f.later()
			if n := f.acts(f.scene.Robot, forge.EventReopened); n != 1 || f.forgeIssue().State != forge.Closed {
				t.Errorf("a person's closing doesn't stand: %d", n)
			}
		})
	}
}

// TestF7_NotTurnedDown: what only looks like a revert is none, and a revert that was
// itself reverted isn't one any more.
func TestF7_NotTurnedDown(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.drive()
	merged := f.merge("Say hello", map[string]string{"out.txt": "hello\n"})
	for _, message := range []string{
		"Follow up on " + merged, "This reverts commit " + strings.Repeat("a", 40) + ", reversing\nchanges made to " + merged + ".",
		"Reverts acme/shop#999",
	} {
		f.push("refs/heads/main", message, map[string]string{"x": message})
	}
	f.later()
	f.shows("and its change is merged", kernel.LabelCompleted, false)
	first := f.push("refs/heads/main", "This reverts commit "+merged+".", map[string]string{"out.txt": ""})
	f.push("refs/heads/main", "Reapply\n\nThis reverts commit "+first+".", map[string]string{"out.txt": "hello\n"})
	f.later()
	f.shows("and its change is merged", kernel.LabelCompleted, false)
	if n := f.acts(f.scene.Robot, forge.EventReopened); n != 0 {
		t.Errorf("put back open %d times", n)
	}
}

// TestF7_DoneAgain: work that was turned down is done again when a person says so
// with `/writ retry`, and only then; it is delivered by a change of its own.
func TestF7_DoneAgain(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.drive()
	first := f.changeOf().Number
	f.comment(f.scene.Owner, "/writ retry")
	f.later()
	if f.started() != 1 {
		t.Fatal("completed work was done again")
	}
	must(t, f.scene.Owner.CloseChange(t.Context(), f.scene.Repo, first))
	f.later()
	f.comment(f.scene.Owner, "/writ run")
	f.later()
	id := f.says(f.scene.Owner, "/writ retry say it louder")
	f.wants(f.later(), kernel.StandRefused, kernel.CodeBranchTaken) // its branch is there
	gittest.Git(t, f.bare, "update-ref", "-d", changeRef)
	f.exec.build = writes(map[string]string{"out.txt": "HELLO\n"})
	f.later()
	f.reacted(id, forge.ReactionDone)
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	if f.started() != 2 || f.changeOf().Number == first || f.changeOf().State != forge.ChangeOpen {
		t.Errorf("%d builders, change %+v", f.started(), f.changeOf())
	}
	f.verify(stateRef)
}

// TestF7_AnAnswerSettlesARetry: a retry that was answered "no" doesn't count later, once
// the change is closed or the state ref is gone, before and after a restart. A later one
// counts, and one that nobody had answered.
func TestF7_AnAnswerSettlesARetry(t *testing.T) {
	t.Parallel()
	closes := func(f *forged) {
		must(t, f.scene.Owner.CloseChange(t.Context(), f.scene.Repo, f.changeOf().Number))
		gittest.Git(t, f.bare, "update-ref", "-d", changeRef)
	}
	removes := func(f *forged) { gittest.Git(t, f.bare, "update-ref", "-d", stateRef, f.ref(stateRef)) }
	restarts := func(f *forged) { f.open() }
	retries := func(f *forged) { f.comment(f.scene.Owner, "/writ retry") }
	looks := func(f *forged) { f.later() }
	for name, c := range map[string]struct {
		terms  string
		acts   []func(*forged)
		builds int
	}{
		"closed":                     {"", []func(*forged){retries, looks, closes}, 1},
		"closed after a restart":     {"", []func(*forged){retries, looks, restarts, closes}, 1},
		"closed before a restart":    {mergeTerms, []func(*forged){retries, looks, closes, restarts}, 1},
		"the state ref is removed":   {"", []func(*forged){retries, looks, restarts, closes, removes}, 1},
		"another one afterwards":     {"", []func(*forged){retries, looks, closes, looks, retries}, 2},
		"another, after a restart":   {mergeTerms, []func(*forged){retries, looks, closes, restarts, retries}, 2},
		"nobody had answered":        {"", []func(*forged){retries, closes}, 2},
		"nobody had, when it starts": {mergeTerms, []func(*forged){retries, closes, restarts}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTold(t, func(f *forged) { f.place.terms = c.terms })
			f.drive()
			for _, act := range c.acts {
				act(f)
			}
			for range 3 {
				f.later()
			}
			if f.started() != c.builds {
				t.Errorf("%d builds, want %d", f.started(), c.builds)
			}
		})
	}
}

// TestD45_CheckOnTheChange: the change's commit bears one check with the report,
// set once.
func TestD45_CheckOnTheChange(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.drive()
	checks := f.scene.Checks(f.scene.Repo, f.ref(changeRef))
	if len(checks) != 1 || checks[0].Name != "writ" || checks[0].State != forge.CheckPassed || !strings.Contains(checks[0].Detail, "execution_verified") {
		t.Errorf("checks %+v", checks)
	}
	f.open()
	f.later()
	if n := len(f.scene.Bot.Calls(forgetest.On(forgetest.SetCheck))); n != 1 {
		t.Errorf("it was set %d times", n)
	}
}

// TestF7_ReviewersPush: what somebody pushes to the change branch is never forced
// over. It gets a fresh look at its scope and a fresh run of the checks, whose word
// stands on the pushed commit, and the report says whether what was merged is what
// was verified.
func TestF7_ReviewersPush(t *testing.T) {
	t.Parallel()
	const terms = mergeTerms + "checks: [{name: test, run: [\"true\"]}]\n"
	better := map[string]string{"out.txt": "hello, better\n"}
	for name, c := range map[string]struct {
		push  map[string]string
		fails bool // the checks, on it
		state forge.CheckState
		says  string // by the check
	}{
		"within the scope":  {better, false, forge.CheckPassed, ""},
		"outside the scope": {map[string]string{"out.txt": "hello\n", "evil.txt": "x"}, false, forge.CheckFailed, "`scope.outside` `evil.txt`"},
		"protected":         {map[string]string{"out.txt": "hello\n", ".github/workflows/x.yml": "x"}, false, forge.CheckFailed, "`policy.protected_path`"},
		"failing checks":    {better, true, forge.CheckFailed, "`execution.check.failed` `test`"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTold(t, func(f *forged) { f.place.terms = terms })
			f.drive()
			first := f.ref(changeRef)
			var jobs []executor.CheckJob
			f.exec.check = func(job executor.CheckJob) executor.CheckOutcome {
				jobs = append(jobs, job)
				out := passed(job)
				if c.fails {
					out.Violations = []kernel.Violation{{Code: kernel.CodeCheckFailed, Subject: "test", Detail: "exit status 1"}}
				}
				return out
			}
			f.reviewer(c.push)
			head := f.ref(changeRef)
			for range 2 {
				f.later()
				f.open()
			}
			if f.ref(changeRef) != head || f.started() != 1 {
				t.Errorf("the branch is at %s, %d builders", f.ref(changeRef), f.started())
			}
			checks := f.scene.Checks(f.scene.Repo, head)
			if len(checks) != 1 || checks[0].State != c.state || !strings.Contains(checks[0].Detail, c.says) {
				t.Errorf("checks %+v", checks)
			}
			if old := f.scene.Checks(f.scene.Repo, first); len(old) != 1 || old[0].State != forge.CheckPassed {
				t.Errorf("checks of the verified commit: %+v", old)
			}
			if c.state == forge.CheckPassed || c.fails {
				tree := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", head+"^{tree}"))
				if len(jobs) != 1 || jobs[0].TreeID != tree || jobs[0].Base.Commit != head || len(jobs[0].Base.Files) != 2 {
					t.Errorf("checked were %+v", jobs)
				}
			} else if len(jobs) != 0 {
				t.Errorf("checks ran on what is out of scope")
			}
			f.shows("Somebody pushed to `writ/change/1` after the verification.", "", true)
			f.merge("Merge it", c.push)
			f.later()
			f.shows(fmt.Sprintf("merged_as_verified: `%v`", c.state == forge.CheckPassed), kernel.LabelCompleted, false)
			f.verify(stateRef)
		})
	}
}

// TestF7_ReviewIsCutOff: a review that a shutdown cuts off says nothing, and is done
// again.
func TestF7_ReviewIsCutOff(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.place.terms = mergeTerms + "checks: [{name: test, run: [\"true\"]}]\n" })
	f.drive()
	f.reviewer(map[string]string{"out.txt": "hello, better\n"})
	head := f.ref(changeRef)
	ctx, cancel := context.WithCancel(t.Context())
	f.exec.held = cancel
	ran := 0
	f.exec.check = func(job executor.CheckJob) executor.CheckOutcome { ran++; return passed(job) }
	if _, err := f.task.Drive(ctx, DriveOptions{Actor: "writ", Yield: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("the drive ends with %v", err)
	}
	if got := f.scene.Checks(f.scene.Repo, head); len(got) != 0 || len(f.exec.cut) != 1 {
		t.Errorf("checks %+v, %d were cut off", got, len(f.exec.cut))
	}
	f.exec.held = nil
	f.later()
	if got := f.scene.Checks(f.scene.Repo, head); len(got) != 1 || got[0].State != forge.CheckPassed || ran != 2 {
		t.Errorf("checks %+v, run %d times", got, ran)
	}
}

// TestF7_HoldsWhatIsBelow: a commit holds itself and what lies below it, and nothing else,
// in a repository on disk, too.
func TestF7_HoldsWhatIsBelow(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), nil)
	first := git.OID(gittest.RefOID(b.bare, "refs/heads/main"))
	second := git.OID(gittest.Commit(t, b.bare, "refs/heads/main", string(first), map[string]string{"a": "x"}))
	third := git.OID(gittest.Commit(t, b.bare, "refs/heads/main", string(second), map[string]string{"b": "x"}))
	beside := git.OID(gittest.Commit(t, b.bare, "refs/heads/beside", string(first), map[string]string{"c": "x"}))
	for _, c := range []struct {
		commit, other git.OID
		want          bool
	}{{third, third, true}, {third, second, true}, {third, first, true}, {second, third, false}, {third, beside, false}, {beside, second, false}} {
		if got, err := b.task.tracker.holds(t.Context(), c.commit, c.other); err != nil || got != c.want {
			t.Errorf("%s holds %s: %v, %v", c.commit, c.other, got, err)
		}
	}
}
