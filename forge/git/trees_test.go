package git

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/forge/git/gittest"
)

// TestTrees_DiffAsGit: what differs between trees is what git lists, whether a name is
// a file here and a directory there, and whatever sorts between the two.
func TestTrees_DiffAsGit(t *testing.T) {
	dir := t.TempDir()
	gittest.Git(t, dir, "init", "--quiet", "--initial-branch=main")
	rnd := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "a.b", "a-", "a/b", "a/b.c", "a/b/c", "d/e/f/g", "d/e", "d", "z/y", "A", "z.y"}
	var ids []OID
	for i := range 40 {
		files := map[string]string{"always": "here"}
		for _, n := range names {
			if rnd.IntN(2) == 0 && fits(files, n) {
				files[n] = fmt.Sprint(rnd.IntN(3))
			}
		}
		ids = append(ids, OID(gittest.Commit(t, dir, fmt.Sprintf("refs/heads/b%d", i), "", files)))
	}
	r := openDir(t, dir)
	trees, ctx := r.Trees(), context.Background()
	for i := range ids[1:] {
		a, b := commitTree(t, r, ids[i]), commitTree(t, r, ids[i+1])
		diffs, err := trees.Diff(ctx, a, b)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range diffs {
			got = append(got, line(d))
		}
		want := gittest.Git(t, dir, "diff-tree", "-r", "--raw", "--no-renames", "--no-abbrev", string(ids[i]), string(ids[i+1]))
		if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
			t.Fatalf("%s %s, git wants:\n%s", ids[i], ids[i+1], diff)
		}
	}
	all, err := trees.Diff(ctx, "", commitTree(t, r, ids[0]))
	if whole, _ := r.Tree(ctx, ids[0]); err != nil || len(all) != len(whole.Entries) || all[0].Before.OID != "" || all[0].After != whole.Entries[0] {
		t.Errorf("against the empty tree: %v, %v", all, err)
	}
}

// fits reports whether a path can stand beside the others.
func fits(files map[string]string, path string) bool {
	for p := range files {
		if strings.HasPrefix(p, path+"/") || strings.HasPrefix(path, p+"/") {
			return false
		}
	}
	return true
}

// line is a difference as git diff-tree --raw prints it.
func line(d Difference) string {
	op, none := "M", strings.Repeat("0", oidLen)
	before, after := string(d.Before.OID), string(d.After.OID)
	switch {
	case before == "":
		op, before = "A", none
	case after == "":
		op, after = "D", none
	}
	return fmt.Sprintf(":%s %s %s %s %s\t%s", d.Before.Mode, d.After.Mode, before, after, op, d.Path)
}

func openDir(t *testing.T, dir string) *Repo {
	t.Helper()
	r, err := Open(context.Background(), Endpoint{URL: dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func commitTree(t *testing.T, r *Repo, oid OID) OID {
	t.Helper()
	c, err := r.Commit(context.Background(), oid)
	if err != nil {
		t.Fatal(err)
	}
	return c.Tree
}

// TestTrees_Bomb: a tree whose few objects stand for endless files is refused, though
// no limit of the whole tree is asked.
func TestTrees_Bomb(t *testing.T) {
	dir := gittest.NewBare(t)
	blob := gittest.GitInput(t, dir, "x", "hash-object", "-w", "--stdin")
	tree := gittest.RawTree(t, dir, gittest.TreeEntry{Mode: "100644", Name: "f", OID: blob})
	for range 20 {
		tree = gittest.RawTree(t, dir, gittest.TreeEntry{Mode: "40000", Name: "a", OID: tree}, gittest.TreeEntry{Mode: "40000", Name: "b", OID: tree})
	}
	_, err := openDir(t, dir).Trees().Diff(context.Background(), "", OID(tree))
	if CodeOf(err) != CodeTooLarge {
		t.Errorf("a tree of a million files and a million directories: %v", err)
	}
}

// TestTrees_Sizes: a blob's size is told without its content, loose or packed, whole or
// as a delta, and also where it is larger than what is read.
func TestTrees_Sizes(t *testing.T) {
	dir := t.TempDir()
	gittest.Git(t, dir, "init", "--quiet")
	rnd := rand.New(rand.NewPCG(3, 4))
	text := make([]byte, 60_000)
	for i := range text {
		text[i] = "abcdefghijklmnop"[rnd.IntN(16)]
	}
	want := map[OID]int64{}
	for i := range 20 {
		n := 50_000 + 500*i
		file := filepath.Join(dir, "f")
		if err := os.WriteFile(file, text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		want[OID(gittest.Git(t, dir, "hash-object", "-w", file))] = int64(n)
	}
	check := func(what string) {
		r, err := Open(context.Background(), Endpoint{URL: dir}, Options{Limits: Limits{Object: 100}})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for oid, n := range want {
			if got, err := r.Size(oid); err != nil || got != n {
				t.Errorf("%s: %s has %d bytes (%v), want %d", what, oid, got, err, n)
			}
		}
		if _, err := r.Size(OID(strings.Repeat("1", oidLen))); CodeOf(err) != CodeObjectMissing {
			t.Errorf("%s: what isn't there: %v", what, err)
		}
	}
	check("loose")
	var ids []string
	for oid := range want {
		ids = append(ids, string(oid))
	}
	gittest.GitInput(t, dir, strings.Join(ids, "\n")+"\n", "pack-objects", ".git/objects/pack/pack")
	gittest.Git(t, dir, "prune-packed")
	if s := gittest.Git(t, dir, "count-objects", "-v"); !strings.Contains(s, "count: 0\n") {
		t.Fatalf("not packed: %s", s)
	}
	check("packed")
}
