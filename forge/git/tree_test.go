package git

import (
	"errors"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// nestedTrees are levels of one tree within another, the last being empty, with
// width names in each.
func nestedTrees(t *testing.T, names []string, levels int) (OID, func(OID) ([]byte, error)) {
	t.Helper()
	trees := map[OID][]byte{}
	at := hashObject(objTree, nil)
	trees[at] = nil
	for range levels {
		n := &treeNode{}
		for _, name := range names {
			n.files = append(n.files, Entry{name, ModeTree, at})
		}
		at = n.encode(func(o OID, b []byte) { trees[o] = b })
	}
	return at, func(o OID) ([]byte, error) { return trees[o], nil }
}

// A small repository may stand for a tree of any size: its paths are bounded.
func TestFlattenBoundsPaths(t *testing.T) {
	long, read := nestedTrees(t, []string{strings.Repeat("d", 255)}, 200)
	_, err := flatten(long, DefaultMaxEntries, read)
	wantCode(t, err, CodeTooLarge)
	var names []string
	for c := 'a'; c <= 'p'; c++ {
		names = append(names, strings.Repeat(string(c), 250))
	}
	wide, read := nestedTrees(t, names, 12) // 16^12 directories, no file
	_, err = flatten(wide, DefaultMaxEntries, read)
	wantCode(t, err, CodeTooLarge)
}

// A tree of seven objects that unfolds to 16^7 files is refused before it is
// unfolded: each object is read once, and nothing is made of what it stands for.
func TestUnfoldingIsMeasuredFirst(t *testing.T) {
	blob := HashBlob([]byte("x"))
	var names []string
	for c := 'a'; c <= 'p'; c++ {
		names = append(names, string(c))
	}
	leaf := &treeNode{}
	for _, n := range names {
		leaf.files = append(leaf.files, Entry{n, ModeFile, blob})
	}
	trees := map[OID][]byte{}
	at := leaf.encode(func(o OID, b []byte) { trees[o] = b })
	for range 6 {
		n := &treeNode{}
		for _, name := range names {
			n.files = append(n.files, Entry{name, ModeTree, at})
		}
		at = n.encode(func(o OID, b []byte) { trees[o] = b })
	}
	reads := 0
	cost := testing.AllocsPerRun(1, func() {
		reads = 0
		_, err := flatten(at, DefaultMaxEntries, func(o OID) ([]byte, error) { reads++; return trees[o], nil })
		wantCode(t, err, CodeTooLarge)
	})
	if reads > len(trees) {
		t.Errorf("%d objects were read of %d", reads, len(trees))
	}
	if cost > 10_000 {
		t.Errorf("%v allocations for %d objects", cost, len(trees))
	}
}

// What is measured is what the whole tree has: the limits hold to the byte and to
// the file, wherever shared trees stand.
func TestFlattenLimitsAreExact(t *testing.T) {
	blob := HashBlob([]byte("x"))
	trees := map[OID][]byte{}
	encode := func(files ...Entry) OID {
		return (&treeNode{files: files}).encode(func(o OID, b []byte) { trees[o] = b })
	}
	read := func(o OID) ([]byte, error) { return trees[o], nil }
	leaf := encode(Entry{"f", ModeFile, blob}, Entry{"g", ModeFile, blob})
	root := encode(Entry{"a", ModeTree, leaf}, Entry{"b", ModeTree, leaf}, Entry{"c", ModeFile, blob})
	tree, err := flatten(root, 5, read)
	if err != nil || len(tree.Entries) != 5 || tree.Entries[3].Path != "b/g" {
		t.Errorf("%v %v", tree.Entries, err)
	}
	_, err = flatten(root, 4, read)
	wantCode(t, err, CodeTooLarge)
	long := encode(Entry{strings.Repeat("f", maxPath-2), ModeFile, blob})
	if _, err = flatten(encode(Entry{"a", ModeTree, long}), 5, read); err != nil {
		t.Error(err)
	}
	_, err = flatten(encode(Entry{"ab", ModeTree, long}), 5, read)
	wantCode(t, err, CodeTooLarge)
}

// A file's stored permissions are read as git reads them; what isn't a file, a
// link, a submodule or a directory is refused, with its path.
func TestModesAreReadAsGitReadsThem(t *testing.T) {
	repo := gittest.NewBare(t)
	blob := gittest.GitInput(t, repo, "hi\n", "hash-object", "-w", "--stdin")
	in := func(tree string) OID {
		return OID(gittest.RawTree(t, repo, gittest.TreeEntry{Mode: "40000", Name: "dir", OID: tree}))
	}
	r := openAt(t, Endpoint{URL: repo}, Options{})
	files := gittest.RawTree(t, repo, gittest.TreeEntry{Mode: "100600", Name: "a", OID: blob}, gittest.TreeEntry{Mode: "100664", Name: "b", OID: blob},
		gittest.TreeEntry{Mode: "100775", Name: "c", OID: blob}, gittest.TreeEntry{Mode: "100744", Name: "d", OID: blob})
	tree, err := r.Tree(t.Context(), in(files))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(gittest.Git(t, repo, "ls-tree", "-r", string(in(files))), "\n") {
		e := tree.Entries[i]
		if got := e.Mode.String() + " blob " + string(e.OID) + "\t" + e.Path; got != line {
			t.Errorf("git has %q, we have %q", line, got)
		}
	}
	for _, mode := range []string{"010644", "020000", "140000", "170000", "1100644"} {
		_, err := r.Tree(t.Context(), in(gittest.RawTree(t, repo, gittest.TreeEntry{Mode: mode, Name: "odd", OID: blob})))
		te, ok := errors.AsType[*TreeError](err)
		if !ok || te.Path != "dir/odd" || CodeOf(err) != CodeObjectInvalid {
			t.Errorf("mode %s: %v", mode, err)
		}
	}
}
