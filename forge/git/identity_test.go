package git

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// TestI12_IdentityOfAPath: a repository on disk is given its identity once. It is
// the same by each of its paths, moves with its files, and isn't read from a clone.
func TestI12_IdentityOfAPath(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "r")
	gittest.Git(t, dir, "init", "-q", "-b", "main", at)
	if id, err := Identity(at); id != "" || err != nil {
		t.Fatalf("before anybody asked for one: %q, %v", id, err)
	}
	id, err := MintIdentity(at)
	if err != nil || !strings.HasPrefix(id, pathIdentity) || len(id) != len(pathIdentity)+32 {
		t.Fatalf("%q, %v", id, err)
	}
	gittest.Git(t, at, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "x")
	gittest.Git(t, at, "worktree", "add", "-q", filepath.Join(dir, "linked"))
	gittest.Git(t, dir, "clone", "-q", at, "clone")
	if err := os.Symlink(at, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"r": id, "r/.git": id, "linked": id, "link": id, "clone": ""} {
		if got, err := Identity(filepath.Join(dir, name)); got != want || err != nil {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if err := os.Rename(at, filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	if got, err := MintIdentity(filepath.Join(dir, "moved")); got != id || err != nil {
		t.Errorf("moved it is %q, %v", got, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "moved/.git", IdentityFile+".new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestI12_IdentityIsMintedOnce: those who ask at once get one answer.
func TestI12_IdentityIsMintedOnce(t *testing.T) {
	at := filepath.Join(t.TempDir(), "r.git")
	gittest.Git(t, t.TempDir(), "init", "-q", "--bare", at)
	const many = 16
	got := make([]string, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			id, err := MintIdentity(at)
			if err != nil {
				t.Error(err)
			}
			got[i] = id
		})
	}
	all.Wait()
	for _, id := range got {
		if id != got[0] || id == "" {
			t.Fatalf("%q", got)
		}
	}
}

// TestI12_IdentityFails: a file that says something else is an error, never another
// identity; so is a directory that can't be written.
func TestI12_IdentityFails(t *testing.T) {
	at := filepath.Join(t.TempDir(), "r.git")
	gittest.Git(t, t.TempDir(), "init", "-q", "--bare", at)
	for _, text := range []string{"", "path#00", "path#" + strings.Repeat("A", 32) + "\n", "github.com#7\n", "path#" + strings.Repeat("0", 32) + "\nmore\n", "path#" + strings.Repeat("0", 32)} {
		if err := os.WriteFile(filepath.Join(at, IdentityFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := MintIdentity(at); id != "" || CodeOf(err) != CodeLocal {
			t.Errorf("%q gives %q, %v", text, id, err)
		}
	}
	for _, id := range []string{"", "github.com#7", "local-00#00"} {
		if err := SetIdentity(at, id); CodeOf(err) != CodeLocal {
			t.Errorf("%q is noted: %v", id, err)
		}
	}
	if err := os.Remove(filepath.Join(at, IdentityFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := MintIdentity(t.TempDir()); CodeOf(err) != CodeNotFound {
		t.Errorf("no repository: %v", err)
	}
}
