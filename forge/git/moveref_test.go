package git

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// worked is a repository with a working tree, on branch main with one commit.
func worked(t testing.TB) (dir string, head OID) {
	t.Helper()
	dir = t.TempDir()
	gittest.Git(t, dir, "init", "--quiet", "--initial-branch=main")
	head = OID(gittest.Commit(t, dir, "refs/heads/main", "", map[string]string{"a": "1", ".aynig/command/build": "b", ".aynig/x": "x"}))
	gittest.Git(t, dir, "reset", "--quiet", "--hard")
	return dir, head
}

// TestL1_MoveRefHasOneWinner, on a branch that is checked out, which a push could
// not move; the working tree stays clean.
func TestL1_MoveRefHasOneWinner(t *testing.T) {
	dir, at := worked(t)
	const racers = 8
	for round := range 5 {
		outs, oids := make([]Outcome, racers), make([]OID, racers)
		var wg sync.WaitGroup
		for i := range racers {
			r := openAt(t, Endpoint{URL: dir}, Options{})
			c, err := r.Commit(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			objs := NewObjects()
			oids[i], err = objs.Commit(CommitSpec{Tree: c.Tree, Parents: []OID{at}, Author: tester, Committer: tester, Message: []byte(runID(round*racers + i))}, nil)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { outs[i] = r.MoveRef(t.Context(), Command{"refs/heads/main", at, oids[i]}, objs, "racer") })
		}
		wg.Wait()
		won := 0
		for i, out := range outs {
			switch out.Status {
			case Won:
				won++
				at = oids[i]
			case Lost:
			default:
				t.Fatalf("%s: %v", out.Status, out.Err)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d won", round, won)
		}
		wantRef(t, dir, "refs/heads/main", at)
	}
	gittest.Git(t, dir, "fsck", "--strict")
	if out := gittest.Git(t, dir, "status", "--porcelain"); out != "" {
		t.Errorf("the working tree isn't clean: %s", out)
	}
}

// TestG7_MoveRefTellsALockFromARival: what stands still isn't lost to anybody.
func TestG7_MoveRefTellsALockFromARival(t *testing.T) {
	dir, at := worked(t)
	r := openAt(t, Endpoint{URL: dir}, Options{})
	objs := NewObjects()
	next := addCommit(t, objs, at, "next")
	gittest.Hook(t, filepath.Join(dir, ".git"), "reference-transaction", "echo denied by policy >&2; exit 1")
	wantStatus(t, r.MoveRef(t.Context(), Command{"refs/heads/main", at, next}, objs, "x"), Refused)
	if err := os.Remove(filepath.Join(dir, ".git", "hooks", "reference-transaction")); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(dir, ".git", "refs", "heads", "main.lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, r.MoveRef(t.Context(), Command{"refs/heads/main", at, next}, objs, "x"), Unable)
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, r.MoveRef(t.Context(), Command{"refs/heads/new", ZeroOID, next}, objs, "x"), Won)
	wantStatus(t, r.MoveRef(t.Context(), Command{"refs/heads/new", ZeroOID, at}, nil, "x"), Lost)
	wantStatus(t, r.MoveRef(t.Context(), Command{"refs/heads/new", next, next}, nil, "x"), Lost)
	wantStatus(t, r.MoveRef(t.Context(), Command{"refs/heads/gone", at, next}, nil, "x"), Lost)
	wantStatus(t, r.MoveRef(t.Context(), Command{"refs/heads/-x", ZeroOID, next}, nil, "x"), Refused)
	wantRef(t, dir, "refs/heads/main", at)
}

// TestSubtreeReadsOneDirectory.
func TestSubtreeReadsOneDirectory(t *testing.T) {
	dir, at := worked(t)
	r := openAt(t, Endpoint{URL: dir}, Options{})
	tree, err := r.Subtree(t.Context(), at, ".aynig")
	if err != nil || len(tree.Entries) != 2 || tree.Entries[0].Path != "command/build" {
		t.Fatalf("%+v, %v", tree.Entries, err)
	}
	if tree, err = r.Subtree(t.Context(), at, "a"); err != nil || len(tree.Entries) != 0 {
		t.Errorf("a file: %+v, %v", tree, err)
	}
	own, common := r.Dirs()
	if own != filepath.Join(dir, ".git") || common != own {
		t.Errorf("%s, %s", own, common)
	}
}
