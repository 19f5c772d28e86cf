package supervisor

import (
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// TestE1_ConflictIsAdapted: on a conflict `/writ fix` is offered, and does what is said of it:
// the change stands on its old base, and is applied on the new one once it has the path as
// that has.
func TestE1_ConflictIsAdapted(t *testing.T) {
	t.Parallel()
	f, _ := newReviewed(t, checkedTerms+"close_on: merged\n")
	was := f.ref(changeRef)
	base := f.moveBase(map[string]string{"out.txt": "goodbye\n"})
	f.later()
	f.shows("has another content by now at `out.txt`", "", true)
	asked := f.says(f.scene.Owner, "/writ refresh")
	f.later()
	for _, said := range []string{f.marked("task")[0].Body, f.answeredWith(asked)} {
		if !strings.Contains(said, "Or comment `/writ fix` and what should be different: a builder adapts the change, but on its old base") {
			t.Errorf("no revision is offered: %s", said)
		}
	}
	f.exec.build = edits(t, map[string]string{"out.txt": "hi\n"}, nil)
	f.says(f.scene.Owner, "/writ fix say hi")
	f.later()
	f.showBranch()
	f.later()
	if parent := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", changeRef+"^")); parent != was {
		t.Errorf("the revision stands on %s", parent)
	}
	f.shows("has another content by now at `out.txt`", "", true)
	f.exec.build = edits(t, map[string]string{"out.txt": "goodbye\n", "docs/a": "x\n"}, nil)
	f.says(f.scene.Owner, "/writ fix leave out.txt to others, and say it in docs/a")
	f.later()
	f.showBranch()
	f.later()
	if said := f.marked("task")[0].Body; strings.Contains(said, "The base moved") {
		t.Errorf("it applies, and says %s", said)
	}
	f.says(f.scene.Owner, "/writ refresh")
	f.later()
	f.showBranch()
	f.later()
	if parent := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", changeRef+"^")); parent != base {
		t.Errorf("the change stands on %s, want %s", parent, base)
	}
	f.verify(stateRef)
}

// TestE1_ConflictFitsAPhone: what is added to the report of a delivered change, at worst, leaves
// all that stands above the evidence on two screens of a phone, 24 lines of 44 characters each.
func TestE1_ConflictFitsAPhone(t *testing.T) {
	t.Parallel()
	f, _ := newReviewed(t, checkedTerms+"close_on: merged\n")
	f.moveBase(map[string]string{"out.txt": "goodbye\n"})
	f.edit(issueBody + "\nAnd more.\n")
	f.later()
	body := f.marked("task")[0].Body
	_, shown, _ := strings.Cut(body, "**Writ")
	shown, _, _ = strings.Cut(shown, "<details>")
	lines := 0
	for l := range strings.Lines(shown) {
		lines += 1 + len([]rune(l))/44
	}
	if lines > 48 || !strings.Contains(shown, "The base moved") || !strings.Contains(shown, "was edited after") {
		t.Errorf("%d lines: %s", lines, shown)
	}
	if got := named(slices.Repeat([]string{strings.Repeat("deep/", 20) + "file.go"}, 20)); len([]rune(got)) > 200 || strings.Count(got, "/file.go`") != 3 || !strings.HasSuffix(got, " and 17 more") {
		t.Errorf("paths are named as %s", got)
	}
}

// TestE1_ConflictUnderAnotherContract: where the base has another contract as well, neither a
// revision nor a refresh helps, and nobody is sent from one to the other.
func TestE1_ConflictUnderAnotherContract(t *testing.T) {
	t.Parallel()
	terms := func(more string) map[string]string {
		return map[string]string{".writ/contract.yaml": checkedTerms + "close_on: merged\n" + more, "out.txt": "good" + more}
	}
	f := newTold(t, func(f *forged) {
		f.counts()
		gittest.Commit(t, f.bare, "refs/heads/main", f.ref("refs/heads/main"), terms(""))
	})
	f.drive()
	f.showBranch()
	f.later()
	f.moveBase(terms("budgets: {files: 3}\n"))
	f.later()
	refresh := f.says(f.scene.Owner, "/writ refresh")
	f.later()
	for _, said := range []string{f.marked("task")[0].Body, f.answeredWith(refresh)} {
		if strings.Contains(said, "Or comment `/writ fix`") || !strings.Contains(said, "`/writ fix` and `/writ refresh` don't help here") || !strings.Contains(said, "Merge it by hand") {
			t.Errorf("it says %s", said)
		}
	}
	fix := f.says(f.scene.Owner, "/writ fix say hi")
	f.later()
	if said := f.answeredWith(fix); strings.Contains(said, "/writ refresh") || !strings.Contains(said, "another content at .out.txt.. Merge") {
		t.Errorf("it is answered %s", said)
	}
}
