package scope

import (
	"fmt"
	"sort"
	"strings"

	"github.com/writbot/writ/kernel"
)

// The modes that git stores, as it writes them.
const (
	ModeFile    = "100644"
	ModeExec    = "100755"
	ModeSymlink = "120000"
	ModeGitlink = "160000"
	// ModeTree is a directory's, in [Node] alone.
	ModeTree = "040000"
)

// Entry is one leaf of a tree: a blob, a symbolic link or a gitlink. Entries
// for directories don't exist.
type Entry struct {
	Path string // from the root, with slashes
	Mode string // one of the Mode constants
	OID  string // 40 lower-case hexadecimal digits
}

// maxBasePathBytes is the longest path of a base: Linux's PATH_MAX.
const maxBasePathBytes = 4096

// base is a tree's entries, indexed.
type base struct {
	entries map[string]Entry
	dirs    map[string]bool // every directory that has a tracked path below it
}

// newBase indexes the entries. A tree that no workspace can hold is an error:
// paths twice, a path below a file, names such as .git or .., modes that git
// doesn't write. Such a tree comes from a hostile server or a broken writer.
func newBase(entries []Entry) (base, error) {
	b := base{entries: make(map[string]Entry, len(entries)), dirs: make(map[string]bool, len(entries)/8)}
	for _, e := range entries {
		if err := checkEntry(e); err != nil {
			return base{}, err
		}
		if _, twice := b.entries[e.Path]; twice {
			return base{}, treeError(e.Path, "it is there twice")
		}
		b.entries[e.Path] = e
		for dir := parent(e.Path); dir != "" && !b.dirs[dir]; dir = parent(dir) {
			b.dirs[dir] = true
		}
	}
	for dir := range b.dirs {
		if _, file := b.entries[dir]; file {
			return base{}, treeError(dir, "it is a file and a directory")
		}
	}
	return b, nil
}

// CheckBase says why no workspace can hold a base, or nil: an error is a
// [*TreeError]. What the files hold isn't looked at.
func CheckBase(entries []Entry) error {
	_, err := newBase(entries)
	return err
}

// TreeError is a base tree that can't be laid out in a directory.
type TreeError struct {
	Path   string
	Reason string
}

// Error is one line.
func (e *TreeError) Error() string {
	return fmt.Sprintf("the base tree can't be used: %s: %s", Display(e.Path), e.Reason)
}

// Violation is the error as a broken rule, environment.base.unusable.
func (e *TreeError) Violation() kernel.Violation {
	return UnusableBase(e.Path, e.Reason)
}

// UnusableBase is the violation of a base tree that can't be used, for the reason
// that one of its paths gives; "" is the whole tree.
func UnusableBase(path, reason string) kernel.Violation {
	return kernel.Violation{Code: kernel.CodeEnvBase, Subject: Display(path), Detail: "The base tree can't be used: " + reason + "."}
}

func treeError(path, reason string) error { return &TreeError{path, reason} }

func checkEntry(e Entry) error {
	switch e.Mode {
	case ModeFile, ModeExec, ModeSymlink, ModeGitlink:
	default:
		return treeError(e.Path, "its mode "+Display(e.Mode)+" is unknown")
	}
	switch {
	case strings.IndexByte(e.Path, 0) >= 0:
		return treeError(e.Path, "its path holds a NUL")
	case len(e.Path) > maxBasePathBytes:
		return treeError(e.Path, fmt.Sprintf("its path is longer than %d bytes", maxBasePathBytes))
	case strings.Count(e.Path, "/") >= maxWalkDepth:
		return treeError(e.Path, fmt.Sprintf("it lies deeper than %d directories", maxWalkDepth))
	}
	for _, s := range strings.Split(e.Path, "/") {
		switch {
		case s == "" || s == "." || s == "..":
			return treeError(e.Path, "it has an empty segment, . or .. in its path")
		case isDotGit(s):
			return treeError(e.Path, "some system reads a name in its path as .git, or as a file that steers git")
		case len(s) > MaxSegmentBytes:
			return treeError(e.Path, fmt.Sprintf("a name in its path is longer than %d bytes", MaxSegmentBytes))
		}
	}
	return nil
}

// parent is the directory of a path, "" for the root.
func parent(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return ""
	}
	return path[:i]
}

// Apply returns the entries after the changes, sorted by path: the tree that
// is checked and committed. The changes must be those of a verdict on the same
// entries.
func Apply(entries []Entry, changes []kernel.Change) []Entry {
	after := make(map[string]Entry, len(entries)+len(changes))
	for _, e := range entries {
		after[e.Path] = e
	}
	for _, c := range changes {
		if c.Op == kernel.OpDelete {
			delete(after, c.Path)
			continue
		}
		after[c.Path] = Entry{Path: c.Path, Mode: c.AfterMode, OID: c.AfterID}
	}
	out := make([]Entry, 0, len(after))
	for _, e := range after {
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out
}

// IgnoreFiles lists the entries whose blobs a caller puts into [Rules].Ignore:
// the base's own .gitignore files, links left out.
func IgnoreFiles(entries []Entry) []Entry {
	var out []Entry
	for _, e := range entries {
		if (e.Mode == ModeFile || e.Mode == ModeExec) && (e.Path == ignoreName || strings.HasSuffix(e.Path, "/"+ignoreName)) {
			out = append(out, e)
		}
	}
	return out
}
