package scope

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/kernel"
)

// Suppose judges changes by the rules for a workspace as if a builder had left exactly
// them in one, which is how a commit of the past is judged: what the base's own
// .gitignore files match is discarded, links and submodules are refused. It differs
// from a walk in one thing: a submodule that goes away, or a new one, is refused as
// such, where a walk finds nothing, or finds what is in it. The error is the context's.
//
// The scope's base may be what [Around] gives in place of a whole tree.
func (s *Scope) Suppose(ctx context.Context, changes []kernel.Change) (Verdict, error) {
	w := walker{ctx: ctx, scope: s, snap: s.untouched()}
	left := map[string]bool{} // discarded as a whole
	for _, c := range changes {
		if c.Op == kernel.OpAdd && w.leftover(c.Path, left) {
			continue
		}
		delete(w.snap.files, c.Path)
		if code, why := s.undeliverable(c); code != "" {
			w.refuse(code, c.Path, why)
		} else if c.Op != kernel.OpDelete {
			w.snap.files[c.Path] = Found{Path: c.Path, Mode: c.AfterMode, OID: c.AfterID, Size: c.Size, Hash: c.AfterHash}
		}
	}
	return s.Compare(ctx, w.snap)
}

// leftover reports whether a walk would discard a new path, alone or with a directory
// above it.
func (w *walker) leftover(path string, left map[string]bool) bool {
	for i, c := range path {
		if c != '/' {
			continue
		}
		dir := path[:i]
		if left[dir] {
			return true
		}
		if w.discard(dir, true) {
			left[dir] = true
			return true
		}
	}
	return w.discard(path, false)
}

// undeliverable says what no walk lets through of a change, whatever its path.
func (s *Scope) undeliverable(c kernel.Change) (kernel.Code, string) {
	e, tracked := s.base.entries[c.Path]
	switch {
	case c.AfterMode == ModeGitlink, e.Mode == ModeGitlink && c.Op == kernel.OpDelete:
		return kernel.CodeScopeFileType, whySubmodule
	case c.Op == kernel.OpDelete:
		return "", ""
	case c.AfterMode == ModeSymlink:
		return kernel.CodeScopeFileType, whyLink
	case e.Mode == ModeGitlink:
		return kernel.CodeScopeFileType, whyReplaced
	}
	return s.tooLarge(c.Size, tracked)
}

// Node is an entry of one directory of a tree.
type Node struct {
	Name string
	Mode string // one of the Mode constants
	OID  string
}

// Around is as much of a base tree as decides on changes to it: what they change, what
// stands beside new names that some system can't tell from them, and where a lock file
// changed, the lock files beside and above changed manifests. So a commit of a
// large repository is judged without its tree. List returns a directory by the id of
// its object; root is the tree's.
func Around(root string, changes []kernel.Change, list func(oid string) ([]Node, error)) ([]Entry, error) {
	a := around{list: list, folded: map[string]map[string][]Node{}, found: map[string]Entry{}}
	for _, c := range changes {
		if c.Op != kernel.OpAdd {
			a.found[c.Path] = Entry{Path: c.Path, Mode: c.BeforeMode, OID: c.BeforeID}
			continue
		}
		if err := a.beside("", root, strings.Split(c.Path, "/")); err != nil {
			return nil, err
		}
	}
	if err := a.locks(root, changes); err != nil {
		return nil, err
	}
	out := make([]Entry, 0, len(a.found))
	for _, e := range a.found {
		out = append(out, e)
	}
	return out, nil
}

type around struct {
	list   func(oid string) ([]Node, error)
	folded map[string]map[string][]Node // by a directory's id: its nodes by folded name
	found  map[string]Entry
	looks  int
}

// maxTwins bounds how many directories are looked into for one set of changes: a few
// tree objects can stand for endless directories whose names fold alike.
const maxTwins = 1_000_000

// beside finds what has the same folded names as a path, in all directories that have
// the same folded names as those above it. Of each such directory one file is taken, so
// that the base has it.
func (a *around) beside(prefix, dir string, names []string) error {
	if a.looks++; a.looks > maxTwins {
		return treeError(prefix, "too many of its directories differ in nothing but case")
	}
	byName, err := a.fold(dir)
	if err != nil {
		return err
	}
	for _, n := range byName[Fold(names[0])] {
		if n.Mode != ModeTree {
			a.add(prefix, n)
			continue
		}
		if err := a.first(prefix+n.Name+"/", n.OID); err != nil {
			return err
		}
		if len(names) > 1 {
			if err := a.beside(prefix+n.Name+"/", n.OID, names[1:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// locks adds the base's lock files that a changed manifest may be for.
func (a *around) locks(root string, changes []kernel.Change) (err error) {
	if !slices.ContainsFunc(changes, func(c kernel.Change) bool { return isLock(c.Path) }) {
		return nil
	}
	look := func(lock string) bool {
		if err == nil {
			err = a.exactly(root, lock)
		}
		return false // so that all are looked for
	}
	NewLocks(changes, look, nil)
	return err
}

// exactly adds what has this very path, if the base has it.
func (a *around) exactly(root, path string) error {
	prefix, dir := "", root
	for name := range strings.SplitSeq(path, "/") {
		byName, err := a.fold(dir)
		if err != nil {
			return err
		}
		nodes := byName[Fold(name)]
		at := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == name })
		if at < 0 {
			return nil
		}
		if nodes[at].Mode != ModeTree {
			if prefix+name == path {
				a.add(prefix, nodes[at])
			}
			return nil
		}
		prefix, dir = prefix+name+"/", nodes[at].OID
	}
	return nil
}

func (a *around) add(prefix string, n Node) {
	a.found[prefix+n.Name] = Entry{Path: prefix + n.Name, Mode: n.Mode, OID: n.OID}
}

// fold lists a directory by folded names, once.
func (a *around) fold(dir string) (map[string][]Node, error) {
	if known, ok := a.folded[dir]; ok || dir == "" {
		return known, nil
	}
	nodes, err := a.list(dir)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]Node, len(nodes))
	for _, n := range nodes {
		out[Fold(n.Name)] = append(out[Fold(n.Name)], n)
	}
	a.folded[dir] = out
	return out, nil
}

// first adds one file that lies below a directory.
func (a *around) first(prefix, dir string) error {
	for depth := 0; ; depth++ {
		nodes, err := a.list(dir)
		if err != nil || len(nodes) == 0 {
			return err
		}
		if nodes[0].Mode != ModeTree {
			a.add(prefix, nodes[0])
			return nil
		}
		if prefix, dir = prefix+nodes[0].Name+"/", nodes[0].OID; depth > maxWalkDepth {
			return treeError(prefix, fmt.Sprintf("it lies deeper than %d directories", maxWalkDepth))
		}
	}
}
