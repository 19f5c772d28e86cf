package gittest

import (
	"fmt"
	"testing"
)

// TestCommit_IsWhatGitMakes: ids and contents are git's, and git finds nothing wrong.
func TestCommit_IsWhatGitMakes(t *testing.T) {
	dir := NewBare(t)
	first := Commit(t, dir, "refs/heads/main", "", map[string]string{"README": "hi\n"})
	files := map[string]string{"a.b": "1", "a/b": "2", "a0": "3", "\xff": "4", "d/e/f": "5", "d/e.f": "6", "ä b": "7"}
	second := Commit(t, dir, "refs/writ/task/1", "refs/heads/main", files)

	input := "commit refs/heads/again\nauthor A U Thor <author@example.com> 1700000000 +0000\n" +
		"committer C O Mitter <committer@example.com> 1700000000 +0000\ndata 5\ntest\n\nfrom " + first + "\ndeleteall\n"
	for path, text := range files {
		input += fmt.Sprintf("M 100644 inline %s\ndata %d\n%s\n", path, len(text), text)
	}
	GitInput(t, dir, input, "fast-import", "--quiet", "--force")
	if again := Git(t, dir, "rev-parse", "refs/heads/again"); again != second {
		t.Errorf("%s, git makes %s", second, again)
	}
	if out := Git(t, dir, "fsck", "--strict", "--no-dangling"); out != "" {
		t.Error(out)
	}
}

// TestRefOID_IsWhatGitSays: wherever a ref lies.
func TestRefOID_IsWhatGitSays(t *testing.T) {
	dir := NewBare(t)
	tip := Commit(t, dir, "refs/heads/main", "", map[string]string{"README": "hi\n"})
	Git(t, dir, "symbolic-ref", "refs/heads/same", "refs/heads/main")
	held := func(when string) {
		t.Helper()
		for _, name := range []string{"refs/heads/main", "refs/heads/same", "refs/heads/none", "refs/heads/main/x", "main", "HEAD", "refs/heads/main^{tree}"} {
			want, err := TryGit(dir, "", "rev-parse", "--verify", "--quiet", name)
			if err != nil {
				want = ""
			}
			if got := RefOID(dir, name); got != want {
				t.Errorf("%s, %s: %q, git says %q", when, name, got, want)
			}
		}
	}
	held("loose")
	Git(t, dir, "pack-refs", "--all")
	held("packed")
	next := Commit(t, dir, "refs/heads/main", tip, map[string]string{"README": "ho\n"})
	held("both")
	if got := Commit(t, dir, "refs/heads/same", next, nil); RefOID(dir, "refs/heads/main") != got {
		t.Error("a ref that points at another isn't followed")
	}
}
