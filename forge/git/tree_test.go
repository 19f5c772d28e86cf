package git

import (
	"strings"
	"testing"
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
