package clone

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
)

// newClone is a repository with a working tree on main, and a branch for each name.
func newClone(t testing.TB, branches ...string) (*Clone, git.OID) {
	t.Helper()
	dir := t.TempDir()
	gittest.Git(t, dir, "init", "--quiet", "--initial-branch=main")
	head := gittest.Commit(t, dir, "refs/heads/main", "", map[string]string{"a": "1", "d/b": "2"})
	gittest.Git(t, dir, "reset", "--quiet", "--hard")
	for _, name := range branches {
		gittest.Git(t, dir, "branch", name)
	}
	return openAt(t, dir), git.OID(head)
}

func openAt(t testing.TB, dir string) *Clone {
	t.Helper()
	c, err := Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestAddManyAtOnce: sixty working trees appear whole, beside one another and
// beside git's own, and nothing of them stays.
func TestAddManyAtOnce(t *testing.T) {
	c, head := newClone(t, "job")
	parent := filepath.Join(c.Top, ".worktrees")
	const many = 60
	trees := make([]*Worktree, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			branch := ""
			if i == 0 {
				branch = "refs/heads/job"
			}
			w, err := c.Add(t.Context(), parent, "x", branch, head)
			if err != nil {
				t.Error(err)
				return
			}
			trees[i] = w
			if out, err := gittest.TryGit(w.Dir, "", "status", "--porcelain"); out != "" || err != nil {
				t.Errorf("status %q, %v", out, err)
			}
			if out, err := gittest.TryGit(c.Top, "", "worktree", "list"); err != nil {
				t.Errorf("%s, %v", out, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if out := gittest.Git(t, c.Top, "status", "--porcelain"); out != "" {
		t.Errorf("the clone shows the working trees: %s", out)
	}
	if err := c.Sweep(); err != nil { // they are in use
		t.Fatal(err)
	}
	gittest.Git(t, c.Top, "worktree", "prune", "--expire=now")
	for _, w := range trees {
		if text, err := os.ReadFile(filepath.Join(w.Dir, "d", "b")); err != nil || !strings.HasPrefix(string(text), "2") {
			t.Errorf("%q, %v", text, err)
		}
		if err := w.Remove(); err != nil {
			t.Error(err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(parent, "[^.]*"))
	admin, _ := filepath.Glob(filepath.Join(c.Common, "worktrees", "*"))
	if len(left)+len(admin) > 0 {
		t.Errorf("left over: %q, %q", left, admin)
	}
}

// TestSweepRemovesWhatTheDeadLeft and nothing else.
func TestSweepRemovesWhatTheDeadLeft(t *testing.T) {
	c, head := newClone(t, "hers")
	w, err := c.Add(t.Context(), filepath.Join(c.Top, ".worktrees"), "x", "", head)
	if err != nil {
		t.Fatal(err)
	}
	hers := filepath.Join(t.TempDir(), "hers")
	gittest.Git(t, c.Top, "worktree", "add", "--quiet", hers, "hers")
	bystander := filepath.Join(t.TempDir(), "bystander")
	if err := os.Mkdir(bystander, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := w.lock.Close(); err != nil { // as its process's end does
		t.Fatal(err)
	}
	other, err := c.Add(t.Context(), filepath.Join(c.Top, ".worktrees"), "y", "", head)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other.admin, "gitdir"), []byte(filepath.Join(bystander, ".git")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := other.lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Sweep(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{w.Dir: false, w.admin: false, other.admin: false, hers: true, bystander: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: there is %v, want %v", path, err == nil, want)
		}
	}
}

// TestT9_LeftIsTheCommandsOwn: a commit made in the working tree is, a move that a
// runner made on its branch isn't.
func TestT9_LeftIsTheCommandsOwn(t *testing.T) {
	for name, bare := range map[string]bool{"clone": false, "bare": true} {
		t.Run(name, func(t *testing.T) {
			c, head := newClone(t, "job")
			if bare {
				dir := filepath.Join(t.TempDir(), "bare.git")
				gittest.Git(t, "/", "clone", "--quiet", "--bare", c.Top, dir)
				c = openAt(t, dir)
			}
			w, err := c.Add(t.Context(), filepath.Join(t.TempDir(), "w"), "x", "refs/heads/job", head)
			if err != nil {
				t.Fatal(err)
			}
			wantLeft(t, w, "")
			gittest.Git(t, w.Dir, "commit", "--quiet", "--allow-empty", "-m", "mine")
			mine := git.OID(gittest.Git(t, w.Dir, "rev-parse", "HEAD"))
			wantLeft(t, w, mine)
			objs := git.NewObjects()
			commit, err := c.Repo.Commit(t.Context(), mine)
			if err != nil {
				t.Fatal(err)
			}
			rival, err := objs.Commit(git.CommitSpec{Tree: commit.Tree, Parents: []git.OID{mine}, Author: commit.Author, Committer: commit.Committer, Message: []byte("rival")}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if out := c.Repo.MoveRef(t.Context(), git.Command{Ref: "refs/heads/job", Old: mine, New: rival}, objs, Note("lease")); out.Status != git.Won {
				t.Fatal(out.Err)
			}
			wantLeft(t, w, "")
			inside := openAt(t, w.Dir)
			if inside.Repo.MoveRef(t.Context(), git.Command{Ref: "refs/heads/job", Old: rival, New: mine}, nil, "state set").Status != git.Won {
				t.Fatal("not moved back")
			}
			wantLeft(t, w, mine)
		})
	}
}

func wantLeft(t testing.TB, w *Worktree, want git.OID) {
	t.Helper()
	if got, err := w.Left(context.Background()); got != want || err != nil {
		t.Fatalf("left %q, %v; want %q", got, err, want)
	}
}

// TestCheckedOut: the branch of each person's working tree, not of ours.
func TestCheckedOut(t *testing.T) {
	c, head := newClone(t, "hers", "job")
	hers := filepath.Join(t.TempDir(), "hers")
	gittest.Git(t, c.Top, "worktree", "add", "--quiet", hers, "hers")
	w, err := c.Add(t.Context(), filepath.Join(c.Top, ".worktrees"), "x", "refs/heads/job", head)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Remove() }()
	got := c.CheckedOut()
	if len(got) != 2 || got["refs/heads/main"] != c.Top || got["refs/heads/hers"] != hers {
		t.Errorf("%q", got)
	}
}

// TestOpenFindsTheCloneAround, as git does.
func TestOpenFindsTheCloneAround(t *testing.T) {
	c, _ := newClone(t)
	if in := openAt(t, filepath.Join(c.Top, "d")); in.Top != c.Top {
		t.Errorf("found %s", in.Top)
	}
	empty := t.TempDir()
	if err := os.WriteFile(filepath.Join(empty, "HEAD"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), empty); git.CodeOf(err) != git.CodeNotFound {
		t.Errorf("%v", err)
	}
}

// TestG1_RemotesAreNames of the clone, never options or commands.
func TestG1_RemotesAreNames(t *testing.T) {
	c, _ := newClone(t)
	gittest.Git(t, c.Top, "remote", "add", "origin", "../up.git")
	url, err := c.PushURL(t.Context(), "origin")
	if want := filepath.Join(filepath.Dir(c.Top), "up.git"); url != want || err != nil {
		t.Errorf("%s, %v", url, err)
	}
	gittest.Git(t, c.Top, "remote", "add", "odd", filepath.Dir(c.Top)+"/x/../up.git")
	if url, err := c.PushURL(t.Context(), "odd"); url != filepath.Join(filepath.Dir(c.Top), "up.git") || err != nil {
		t.Errorf("%s, %v", url, err)
	}
	for _, name := range []string{"", "gone", "-v", "--upload-pack=x", "ext::sh -c x", "a..b", "a@{0}", "a\nb"} {
		if _, err := c.PushURL(t.Context(), name); git.CodeOf(err) != git.CodeURLInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestPackSince: what it packs is what another repository lacks, whatever byte it
// ends in.
func TestPackSince(t *testing.T) {
	c, head := newClone(t)
	bare := filepath.Join(t.TempDir(), "up.git")
	gittest.Git(t, "/", "clone", "--quiet", "--bare", c.Top, bare)
	up, err := git.Open(t.Context(), git.Endpoint{URL: bare}, git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	at := head
	for range 20 {
		gittest.Git(t, c.Top, "commit", "--quiet", "--allow-empty", "-m", "next")
		tip := git.OID(gittest.Git(t, c.Top, "rev-parse", "HEAD"))
		if !c.Reaches(t.Context(), tip, at) || c.Reaches(t.Context(), at, tip) {
			t.Fatal("ancestry")
		}
		pack, err := c.PackSince(t.Context(), tip, at)
		if err != nil {
			t.Fatal(err)
		}
		if out := up.CompareAndSwap(t.Context(), []git.Command{{Ref: "refs/heads/main", Old: at, New: tip}}, pack); out.Status != git.Won {
			t.Fatal(out.Err)
		}
		at = tip
	}
}
