package replay

import (
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// TestD52_WhereTheChangeIs: an auditor is told where git holds the verified commit, and
// of a commit that no branch holds what is known and what isn't.
func TestD52_WhereTheChangeIs(t *testing.T) {
	const nowhere, landed = "No branch holds this commit", "has the changed files just as this commit has them"
	for name, c := range map[string]struct {
		after func(t *testing.T, dir, base, change string)
		said  []string
		isnt  []string
	}{
		"as delivered": {func(*testing.T, string, string, string) {}, nil, []string{nowhere}},
		"a reviewer's commit on top": {func(t *testing.T, dir, _, change string) {
			gittest.Commit(t, dir, changeRef, change, map[string]string{"calc/add.go": "package calc // reviewed\n"})
		}, nil, []string{nowhere}},
		"merged, its branch deleted, and more on the default branch": {func(t *testing.T, dir, base, change string) {
			merge, err := gittest.MergeCommit(dir, base, change, "Merge")
			if err != nil {
				t.Fatal(err)
			}
			gittest.Commit(t, dir, "refs/heads/main", merge, map[string]string{"other": "file\n"})
			gittest.Git(t, dir, "update-ref", "-d", changeRef)
		}, nil, []string{nowhere}},
		"squashed onto a default branch that went on": {func(t *testing.T, dir, base, change string) {
			tip := gittest.Commit(t, dir, "refs/heads/main", base, map[string]string{"calc/more.go": "package calc\n", "calc/add.go": baseFiles["calc/add.go"],
				"calc/old.go": baseFiles["calc/old.go"], "run.sh": baseFiles["run.sh"]})
			squash, err := gittest.Squash(dir, tip, change, "Squash")
			if err != nil {
				t.Fatal(err)
			}
			gittest.Git(t, dir, "update-ref", "refs/heads/main", squash)
			gittest.Git(t, dir, "update-ref", "-d", changeRef)
		}, []string{nowhere, "main nor writ/change/3", landed}, nil},
		"a clone": {func(t *testing.T, dir, _, change string) {
			gittest.Git(t, dir, "update-ref", "refs/remotes/origin/writ/change/3", change)
			gittest.Git(t, dir, "update-ref", "-d", changeRef)
		}, nil, []string{nowhere}},
		"a clone, and more on its branch": {func(t *testing.T, dir, _, change string) {
			gittest.Commit(t, dir, "refs/remotes/up/stream/writ/change/3", change, map[string]string{"calc/add.go": "package calc // reviewed\n"})
			gittest.Git(t, dir, "update-ref", "-d", changeRef)
		}, nil, []string{nowhere}},
		"a clone of what was squashed": {func(t *testing.T, dir, base, change string) {
			squash, err := gittest.Squash(dir, base, change, "Squash")
			if err != nil {
				t.Fatal(err)
			}
			gittest.Git(t, dir, "update-ref", "refs/remotes/origin/main", squash)
			gittest.Git(t, dir, "update-ref", "-d", changeRef)
		}, []string{nowhere, landed}, nil},
		"rewritten": {func(t *testing.T, dir, base, _ string) {
			gittest.Commit(t, dir, changeRef, base, map[string]string{"calc/add.go": "package calc // rewritten\n"})
		}, []string{nowhere, "rewritten", "on the forge shows"}, []string{landed}},
		"deleted": {func(t *testing.T, dir, _, _ string) {
			gittest.Git(t, dir, "update-ref", "-d", changeRef)
		}, []string{nowhere, "deleted", "on the forge shows"}, []string{landed}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, testWorld, 1)
			a := s.play(1, true, nil)
			c.after(t, s.dir, string(s.base), string(a.change))
			r := verified(t, s, Options{})
			if !r.OK {
				t.Errorf("where the commit is makes it another:\n%s", r.Plain())
			}
			for _, w := range c.said {
				if !strings.Contains(r.Plain(), w) {
					t.Errorf("not said: %s\n%s", w, r.Plain())
				}
			}
			for _, w := range c.isnt {
				if strings.Contains(r.Plain(), w) {
					t.Errorf("said: %s\n%s", w, r.Plain())
				}
			}
		})
	}
}
