package git

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
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

// valid says whether git writes such an entry.
func (m Mode) valid() bool {
	switch m {
	case ModeFile, ModeExec, ModeSymlink, ModeGitlink, ModeTree:
		return true
	}
	return false
}

// canonical is the mode that git reads a stored one as: of a file's permissions
// only the owner's right to execute counts. Old programs stored all of them, so
// 100664 stands in the history of many repositories.
func (m Mode) canonical() Mode {
	const kind, permissions = 0o170000, 0o777
	switch {
	case m&kind != ModeFile&kind || m&^(kind|permissions) != 0:
		return m
	case m&0o100 != 0:
		return ModeExec
	}
	return ModeFile
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

// Unequal lists the paths at which two trees differ, sorted bytewise.
func Unequal(a, b Tree) (paths []string) {
	for i, j := 0, 0; i < len(a.Entries) || j < len(b.Entries); {
		switch {
		case j == len(b.Entries) || i < len(a.Entries) && a.Entries[i].Path < b.Entries[j].Path:
			paths = append(paths, a.Entries[i].Path)
			i++
		case i == len(a.Entries) || b.Entries[j].Path < a.Entries[i].Path:
			paths = append(paths, b.Entries[j].Path)
			j++
		default:
			if a.Entries[i] != b.Entries[j] {
				paths = append(paths, a.Entries[i].Path)
			}
			i, j = i+1, j+1
		}
	}
	return paths
}

// parseTree reads one tree object. Names come out as they are; order is git's.
func parseTree(data []byte) ([]Entry, error) {
	bad := func(name []byte, why string) error {
		return &TreeError{string(name), fail(CodeObjectInvalid, "a tree object "+why, "", nil)}
	}
	var out []Entry
	for len(data) > 0 {
		modeText, rest, ok := bytes.Cut(data, []byte(" "))
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(rest) < oidLen/2 {
			return nil, bad(nil, "is cut short")
		}
		mode, err := strconv.ParseUint(string(modeText), 8, 32)
		if err != nil || !Mode(mode).canonical().valid() {
			return nil, bad(name, "holds a mode that git does not write")
		}
		if !treeName(name) {
			return nil, bad(name, "holds a name that git forbids")
		}
		out = append(out, Entry{string(name), Mode(mode).canonical(), OID(hex.EncodeToString(rest[:oidLen/2]))})
		data = rest[oidLen/2:]
	}
	return out, nil
}

// treeName says whether one component may be read. Odd names are for the
// verifier to judge; these here would climb out of a directory.
func treeName(n []byte) bool {
	return len(n) > 0 && bytes.IndexByte(n, '/') < 0 && string(n) != "." && string(n) != ".."
}

// measurer works out how large trees are, each distinct one once, and holds that
// against the limits. Its time and memory are those of the objects read, never
// those of what they unfold to.
type measurer struct {
	maxEntries int
	read       func(OID) ([]byte, error)
	known      map[OID]measured
}

// measured is what a tree unfolds to, seen from its own root. All numbers are
// within the limits, so that sums and products of two of them fit.
type measured struct {
	entries []Entry // as they stand in the object
	files   int     // and links and submodules
	nodes   int     // directories too
	bytes   int     // of the paths of all nodes
	longest int     // of these paths
	depth   int     // directories nested in it
}

func (m *measurer) measure(oid OID, depth int) (measured, error) {
	if t, ok := m.known[oid]; ok {
		return t, nil
	}
	if depth > maxTreeDepth {
		return measured{}, &TreeError{"", tooDeep()}
	}
	data, err := m.read(oid)
	if err != nil {
		return measured{}, err
	}
	var t measured
	if t.entries, err = parseTree(data); err != nil {
		return t, err
	}
	for _, e := range t.entries {
		if err := m.add(&t, e, depth); err != nil {
			return t, below(e.Path, err)
		}
	}
	m.known[oid] = t
	return t, nil
}

// add adds an entry of a tree, and what lies below it, to the tree's measures.
func (m *measurer) add(t *measured, e Entry, depth int) error {
	sub := measured{files: 1}
	if e.Mode == ModeTree {
		var err error
		if sub, err = m.measure(e.OID, depth+1); err != nil {
			return err
		}
		t.depth = max(t.depth, sub.depth+1)
		sub.longest++ // the slash behind this name
		sub.bytes += sub.nodes
	}
	t.files += sub.files
	t.nodes += sub.nodes + 1
	t.longest = max(t.longest, len(e.Path)+sub.longest)
	t.bytes += sub.bytes + (sub.nodes+1)*len(e.Path)
	return m.within(t)
}

// within holds a tree's measures against the limits.
func (m *measurer) within(t *measured) error {
	over := func(msg, remedy string) error { return &TreeError{"", fail(CodeTooLarge, msg, remedy, nil)} }
	switch {
	case t.depth > maxTreeDepth:
		return &TreeError{"", tooDeep()}
	case t.longest > maxPath:
		return over("the tree holds a path longer than "+strconv.Itoa(maxPath)+" bytes", "")
	case t.bytes > maxTreePaths:
		return over("the tree's paths are longer than "+strconv.Itoa(maxTreePaths)+" bytes together", "")
	case t.files > m.maxEntries:
		return over("the tree holds more than "+strconv.Itoa(m.maxEntries)+" files", "raise the limit if this is right")
	}
	return nil
}

func tooDeep() *Error { return fail(CodeTooLarge, "a tree is nested too deeply", "", nil) }

// TreeError says that a tree's own objects can't be used: the same objects are as
// bad the next time. What a server failed to give is no TreeError.
type TreeError struct {
	Path string // of the entry that is at fault, as the tree has it; "" is the root
	Err  *Error
}

// Error is one line.
func (e *TreeError) Error() string {
	if e.Path == "" {
		return e.Err.Error()
	}
	return e.Err.Code + ": at " + strconv.QuoteToASCII(e.Path) + ": " + e.Err.Msg
}

// Unwrap is the error with its code.
func (e *TreeError) Unwrap() error { return e.Err }

// below puts a directory's name before the path of what is wrong in it. Beyond
// what a path may be nothing more is told.
func below(name string, err error) error {
	if te, ok := errors.AsType[*TreeError](err); ok && len(te.Path)+len(name) < maxPath {
		return &TreeError{strings.TrimSuffix(name+"/"+te.Path, "/"), te.Err}
	}
	return err
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
