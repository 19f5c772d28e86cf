package git

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Mode is the mode of a tree entry.
type Mode uint32

// The modes that git writes.
const (
	ModeFile    Mode = 0o100644
	ModeExec    Mode = 0o100755
	ModeSymlink Mode = 0o120000
	ModeGitlink Mode = 0o160000
	ModeTree    Mode = 0o040000
)

// String is the mode in octal, as git ls-tree prints it.
func (m Mode) String() string {
	s := strconv.FormatUint(uint64(m), 8)
	return strings.Repeat("0", max(0, 6-len(s))) + s
}

// valid says whether git writes such an entry. 100664 is in old repositories.
func (m Mode) valid() bool {
	switch m {
	case ModeFile, ModeExec, ModeSymlink, ModeGitlink, ModeTree, 0o100664:
		return true
	}
	return false
}

// Entry is one file of a tree.
type Entry struct {
	Path string // slash-separated, relative to the root
	Mode Mode
	OID  OID
}

// Tree is a whole tree, flattened.
type Tree struct {
	OID     OID
	Entries []Entry // files, symlinks and gitlinks, sorted by Path bytewise

	trees map[OID]struct{} // all tree objects in it, the root included
}

// Find returns the entry at path.
func (t Tree) Find(path string) (Entry, bool) {
	i, ok := slices.BinarySearchFunc(t.Entries, path, func(e Entry, p string) int { return cmp.Compare(e.Path, p) })
	if !ok {
		return Entry{}, false
	}
	return t.Entries[i], true
}

// parseTree reads one tree object. Names come out as they are; order is git's.
func parseTree(data []byte) ([]Entry, error) {
	bad := func(why string) error { return fail(CodeObjectInvalid, "a tree object "+why, "", nil) }
	var out []Entry
	for len(data) > 0 {
		modeText, rest, ok := bytes.Cut(data, []byte(" "))
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(rest) < oidLen/2 {
			return nil, bad("is cut short")
		}
		mode, err := strconv.ParseUint(string(modeText), 8, 32)
		if err != nil || !Mode(mode).valid() {
			return nil, bad("holds a mode that git does not write")
		}
		if !treeName(name) {
			return nil, bad("holds a name that git forbids")
		}
		out = append(out, Entry{string(name), Mode(mode), OID(hex.EncodeToString(rest[:oidLen/2]))})
		data = rest[oidLen/2:]
	}
	return out, nil
}

// treeName says whether one component may be read. Odd names are for the
// verifier to judge; these here would climb out of a directory.
func treeName(n []byte) bool {
	return len(n) > 0 && bytes.IndexByte(n, '/') < 0 && string(n) != "." && string(n) != ".."
}

// flatten walks a tree, reading tree objects through read.
func flatten(root OID, maxEntries int, read func(OID) ([]byte, error)) (Tree, error) {
	t := Tree{OID: root, trees: map[OID]struct{}{}}
	left := maxTreePaths
	var walk func(oid OID, prefix string, depth int) error
	walk = func(oid OID, prefix string, depth int) error {
		if depth > maxTreeDepth {
			return fail(CodeTooLarge, "a tree is nested too deeply", "", nil)
		}
		data, err := read(oid)
		if err != nil {
			return err
		}
		entries, err := parseTree(data)
		if err != nil {
			return err
		}
		t.trees[oid] = struct{}{}
		for _, e := range entries {
			size := len(prefix) + len(e.Path)
			if size > maxPath {
				return fail(CodeTooLarge, "the tree holds a path longer than "+strconv.Itoa(maxPath)+" bytes", "", nil)
			}
			if left -= size; left < 0 {
				return fail(CodeTooLarge, "the tree's paths are longer than "+strconv.Itoa(maxTreePaths)+" bytes together", "", nil)
			}
			e.Path = prefix + e.Path
			if e.Mode == ModeTree {
				err = walk(e.OID, e.Path+"/", depth+1)
			} else {
				t.Entries = append(t.Entries, e)
			}
			if err != nil {
				return err
			}
			if len(t.Entries) > maxEntries {
				return fail(CodeTooLarge, "the tree holds more than "+strconv.Itoa(maxEntries)+" files",
					"raise the limit if this is right", nil)
			}
		}
		return nil
	}
	if err := walk(root, "", 0); err != nil {
		return Tree{}, err
	}
	sortEntries(t.Entries)
	return t, nil
}

func sortEntries(e []Entry) {
	slices.SortFunc(e, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
}

// treeNode is a directory while trees are being built.
type treeNode struct {
	files []Entry              // Path holds one component
	names map[string]*treeNode // what is in it; nil: a file
}

// encodeTrees makes the tree objects of sorted entries, deepest first, and
// returns the root's id. emit gets each one.
func encodeTrees(entries []Entry, emit func(OID, []byte)) (OID, error) {
	root := &treeNode{}
	for _, e := range entries {
		if !treePath(e.Path) || !e.Mode.valid() || e.Mode == ModeTree || !e.OID.Valid() || e.OID.IsZero() {
			return "", fail(CodePathInvalid, "entry "+strconv.Quote(e.Path)+" can't be in a tree", "", nil)
		}
		if err := root.add(e); err != nil {
			return "", err
		}
	}
	return root.encode(emit), nil
}

func (n *treeNode) add(e Entry) error {
	dir, rest, nested := strings.Cut(e.Path, "/")
	sub, there := n.names[dir]
	if there && (sub == nil || !nested) {
		return fail(CodePathInvalid, "path "+strconv.Quote(dir)+" is there twice, or both file and directory", "", nil)
	}
	if n.names == nil {
		n.names = map[string]*treeNode{}
	}
	if !nested {
		n.names[dir] = nil
		n.files = append(n.files, e)
		return nil
	}
	if sub == nil {
		sub = &treeNode{}
		n.names[dir] = sub
	}
	return sub.add(Entry{rest, e.Mode, e.OID})
}

// encode writes a directory as git orders it: a directory's name sorts as if it
// ended in a slash.
func (n *treeNode) encode(emit func(OID, []byte)) OID {
	all := slices.Clone(n.files)
	for name, d := range n.names {
		if d != nil {
			all = append(all, Entry{name, ModeTree, d.encode(emit)})
		}
	}
	key := func(e Entry) string {
		if e.Mode == ModeTree {
			return e.Path + "/"
		}
		return e.Path
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(key(a), key(b)) })
	var buf []byte
	for _, e := range all {
		buf = strconv.AppendUint(buf, uint64(e.Mode), 8)
		buf = append(append(append(buf, ' '), e.Path...), 0)
		buf, _ = hex.AppendDecode(buf, []byte(e.OID)) // validated before
	}
	oid := hashObject(objTree, buf)
	emit(oid, buf)
	return oid
}
