package local

import (
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
)

func (w *world) open(t *testing.T, head string) forge.Change {
	t.Helper()
	return must[forge.Change](t)(w.bot.OpenChange(t.Context(), w.repo, forge.Change{Title: "Work of " + head, Head: head}))
}

func (w *world) git(t *testing.T, args ...string) string {
	t.Helper()
	return gittest.Git(t, w.GitDir(w.repo.ID), args...)
}

// TestMerge_FastForward: the base moves to the very commit of the branch.
func TestMerge_FastForward(t *testing.T) {
	w := newWorld(t)
	oid := w.branch(t, "work", "main", map[string]string{"README.md": "# Shop\n", "new.txt": "new\n"})
	c := w.open(t, "work")
	merged := must[forge.Change](t)(w.owner.MergeChange(t.Context(), w.repo, c.Number))
	if merged.State != forge.ChangeMerged || merged.MergedOID != oid || w.git(t, "rev-parse", "main") != oid {
		t.Errorf("merged as %+v, want the commit %s", merged, oid)
	}
	wantReason(t, "merge again", second(w.owner.MergeChange(t.Context(), w.repo, c.Number)), forge.Conflict)
	wantReason(t, "close after the merge", w.owner.CloseChange(t.Context(), w.repo, c.Number), forge.Conflict)
	wantReason(t, "merge by one who may not", second(w.triage.MergeChange(t.Context(), w.repo, c.Number)), forge.Forbidden)
	w.git(t, "fsck", "--strict")
}

// TestMerge_Commit: where the base has moved, a merge commit holds both sides,
// as git itself would merge them.
func TestMerge_Commit(t *testing.T) {
	w := newWorld(t)
	base := map[string]string{"README.md": "# Shop\n", "keep.txt": "keep\n", "gone.txt": "gone\n", "dir/a": "a\n"}
	w.branch(t, "main", "main", base)
	head := w.branch(t, "work", "main", map[string]string{"README.md": "# Shop\n", "keep.txt": "keep\n", "dir/a": "changed\n", "dir/b": "b\n"})
	main := w.branch(t, "main", "main", map[string]string{"README.md": "# A shop\n", "keep.txt": "keep\n", "gone.txt": "gone\n", "dir/a": "a\n", "c": "c\n"})
	want := w.git(t, "merge-tree", "--write-tree", "main", "work")
	c := w.open(t, "work")
	merged := must[forge.Change](t)(w.owner.MergeChange(t.Context(), w.repo, c.Number))
	if got := w.git(t, "rev-parse", "main^{tree}"); got != want {
		t.Errorf("tree %s, git makes %s", got, want)
	}
	if got := w.git(t, "log", "-1", "--format=%P %an", "main"); got != main+" "+head+" ana" || w.git(t, "rev-parse", "main") != merged.MergedOID {
		t.Errorf("the merge commit's parents and author: %s", got)
	}
	w.git(t, "fsck", "--strict")
}

// TestMerge_Conflict: what both sides changed is refused, and nothing moves.
func TestMerge_Conflict(t *testing.T) {
	w := newWorld(t)
	w.branch(t, "main", "main", map[string]string{"README.md": "# Shop\n", "keep": "keep\n"})
	w.branch(t, "work", "main", map[string]string{"README.md": "# Their shop\n", "keep": "keep\n"})
	main := w.branch(t, "main", "main", map[string]string{"README.md": "# Our shop\n", "keep": "keep\n"})
	c := w.open(t, "work")
	wantReason(t, "merge", second(w.owner.MergeChange(t.Context(), w.repo, c.Number)), forge.Conflict)
	got := must[forge.Change](t)(w.bot.Change(t.Context(), w.repo, c.Number))
	if got.State != forge.ChangeOpen || w.git(t, "rev-parse", "main") != main {
		t.Errorf("after the conflict: %+v, main at %s", got, w.git(t, "rev-parse", "main"))
	}
	ok(t, w.owner.CloseChange(t.Context(), w.repo, c.Number))
	if got := must[forge.Change](t)(w.bot.FindChange(t.Context(), w.repo, "work", "")); got.State != forge.ChangeClosed {
		t.Errorf("after closing: %+v", got)
	}
}

// TestFind_OntoTheBase: a change that is for another branch delivers only where none
// is for the base.
func TestFind_OntoTheBase(t *testing.T) {
	w := newWorld(t)
	w.branch(t, "work", "main", map[string]string{"README.md": "# Their shop\n"})
	w.branch(t, "playground", "main", map[string]string{"README.md": "# A playground\n"})
	first := w.open(t, "work")
	ok(t, w.owner.CloseChange(t.Context(), w.repo, first.Number))
	second := must[forge.Change](t)(w.owner.OpenChange(t.Context(), w.repo, forge.Change{Title: "Mine", Head: "work", Base: "playground"}))
	for base, want := range map[string]int64{"main": first.Number, "playground": second.Number, "gone": second.Number, "": second.Number} {
		if got := must[forge.Change](t)(w.bot.FindChange(t.Context(), w.repo, "work", base)); got.Number != want {
			t.Errorf("for %q it is %d, want %d", base, got.Number, want)
		}
	}
}

// TestMerge_AlreadyThere: a base that was moved by hand, or by a merge whose
// process died, makes the change merged.
func TestMerge_AlreadyThere(t *testing.T) {
	w := newWorld(t)
	oid := w.branch(t, "work", "main", map[string]string{"a": "a"})
	c := w.open(t, "work")
	w.git(t, "update-ref", "refs/heads/main", oid)
	merged := must[forge.Change](t)(w.owner.MergeChange(t.Context(), w.repo, c.Number))
	if merged.State != forge.ChangeMerged || merged.MergedOID != oid {
		t.Errorf("merged as %+v", merged)
	}
}

// TestChange_FollowsItsBranch: the head is where the branch is, told or not.
func TestChange_FollowsItsBranch(t *testing.T) {
	w := newWorld(t)
	w.branch(t, "work", "main", map[string]string{"a": "a"})
	c := w.open(t, "work")
	untold := gittest.Commit(t, w.GitDir(w.repo.ID), "refs/heads/work", c.HeadOID, map[string]string{"a": "b"})
	if got := must[forge.Change](t)(w.bot.Change(t.Context(), w.repo, c.Number)); got.HeadOID != untold {
		t.Errorf("head %s, want %s", got.HeadOID, untold)
	}
	told := w.branch(t, "work", "work", map[string]string{"a": "c"})
	w.git(t, "update-ref", "-d", "refs/heads/work")
	if got := must[forge.Change](t)(w.bot.Change(t.Context(), w.repo, c.Number)); got.HeadOID != told {
		t.Errorf("head %s after the branch was deleted, want %s", got.HeadOID, told)
	}
}

// TestDiff: what a change does, before and after it is merged.
func TestDiff(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("same\n", 20)
	w.branch(t, "main", "main", map[string]string{"long": long + "old\n" + long, "gone": "x\n", "bin": "a\x00b"})
	w.branch(t, "work", "main", map[string]string{"long": long + "new\nand more\n" + long, "bin": "a\x00c", "added": "no newline"})
	c := w.open(t, "work")
	before := render(must[[]FileDiff](t)(w.bot.Diff(t.Context(), w.repo, c.Number)))
	const want = `added added
+no newline
changed bin (binary)
deleted gone
-x
changed long
@from line 18, before 18
 same
 same
 same
-old
+new
+and more
 same
 same
 same
`
	if before != want {
		t.Errorf("diff:\n%s\nwant:\n%s", before, want)
	}
	must[forge.Change](t)(w.owner.MergeChange(t.Context(), w.repo, c.Number))
	if after := render(must[[]FileDiff](t)(w.bot.Diff(t.Context(), w.repo, c.Number))); after != want {
		t.Errorf("diff after the merge:\n%s", after)
	}
}

func render(files []FileDiff) string {
	var b strings.Builder
	for _, f := range files {
		b.WriteString(f.What + " " + f.Path)
		if f.Note != "" {
			b.WriteString(" (" + f.Note + ")")
		}
		b.WriteString("\n")
		for _, l := range f.Text {
			b.WriteString(string(l.Op) + l.Text + "\n")
		}
	}
	return b.String()
}
