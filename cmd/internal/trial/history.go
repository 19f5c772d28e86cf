package trial

import (
	"context"
	"errors"
	"strings"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// Commit is a commit of the history with what it changed.
type Commit struct {
	ID      git.OID
	Title   string // the first line of its message
	Merge   bool
	Changes []kernel.Change // against its first parent, sorted by path

	base    git.OID // the first parent's tree; "" where there is none
	history *History
}

// History reads commits of a repository on disk.
type History struct {
	// LockSources are the operator's: what lock files may name beside the sources of their
	// base.
	LockSources []string

	repo  *git.Repo
	trees *git.Trees
}

// Read returns a reader of a repository's history.
func Read(repo *git.Repo) *History { return &History{repo: repo, trees: repo.Trees()} }

// Each calls f for the last commits before and with tip, newest first, following first
// parents. It reports whether the clone ends before the history does.
func (h *History) Each(ctx context.Context, tip git.OID, last int, f func(Commit) error) (shallow bool, err error) {
	next, err := h.commit(ctx, tip)
	if err != nil {
		return false, err
	}
	for range last {
		now := next
		c := Commit{ID: now.OID, Merge: len(now.Parents) > 1, history: h}
		c.Title, _, _ = strings.Cut(strings.TrimLeft(string(now.Message), "\n"), "\n")
		if len(now.Parents) > 0 {
			next, err = h.commit(ctx, now.Parents[0])
			if git.CodeOf(err) == git.CodeObjectMissing {
				return true, nil // what this one changed isn't known either
			}
			if err != nil {
				return false, err
			}
			c.base = next.Tree
		}
		if c.Changes, err = h.changes(ctx, c.base, now.Tree); err != nil {
			return false, err
		}
		if err := f(c); err != nil || len(now.Parents) == 0 {
			return false, err
		}
	}
	return false, nil
}

// commit reads a commit, also one that two readers may read differently: its tree and
// its first parent are beyond doubt, or it has none.
func (h *History) commit(ctx context.Context, id git.OID) (git.Commit, error) {
	c, err := h.repo.Commit(ctx, id)
	if git.CodeOf(err) == git.CodeCommitAmbiguous && c.Tree != "" {
		err = nil
	}
	return c, err
}

func (h *History) changes(ctx context.Context, before, after git.OID) ([]kernel.Change, error) {
	diffs, err := h.trees.Diff(ctx, before, after)
	if err != nil {
		return nil, err
	}
	out := make([]kernel.Change, 0, len(diffs))
	for _, d := range diffs {
		c := kernel.Change{Path: d.Path, Op: kernel.OpModify}
		if d.Before.OID != "" {
			c.BeforeID, c.BeforeMode = string(d.Before.OID), d.Before.Mode.String()
		}
		if d.After.OID != "" {
			c.AfterID, c.AfterMode = string(d.After.OID), d.After.Mode.String()
		}
		switch {
		case c.BeforeID == "":
			c.Op = kernel.OpAdd
		case c.AfterID == "":
			c.Op = kernel.OpDelete
		case c.BeforeID == c.AfterID:
			c.Op = kernel.OpMode
		}
		if c.AfterMode == scope.ModeFile || c.AfterMode == scope.ModeExec {
			if c.Size, err = h.repo.Size(d.After.OID); err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// around is as much of a commit's base as its changes are judged by.
func (c Commit) around(ctx context.Context) ([]scope.Entry, error) {
	return scope.Around(string(c.base), c.Changes, func(id string) ([]scope.Node, error) {
		list, err := c.history.trees.List(ctx, git.OID(id))
		out := make([]scope.Node, len(list))
		for i, e := range list {
			out[i] = scope.Node{Name: e.Path, Mode: e.Mode.String(), OID: string(e.OID)}
		}
		return out, err
	})
}

// ignore reads those of the base's .gitignore files that may match a new path.
func (c Commit) ignore(ctx context.Context) (map[string][]byte, error) {
	out, seen := map[string][]byte{}, map[string]bool{}
	for _, change := range c.Changes {
		if change.Op != kernel.OpAdd {
			continue
		}
		dir, rest := "", change.Path
		for tree := c.base; tree != ""; {
			list, err := c.history.trees.List(ctx, tree)
			if err != nil {
				return nil, err
			}
			if !seen[dir] {
				seen[dir] = true
				if err := c.readIgnore(ctx, dir, list, out); err != nil {
					return nil, err
				}
			}
			name, below, deeper := strings.Cut(rest, "/")
			if tree = ""; deeper {
				tree = subtree(list, name)
			}
			dir, rest = dir+name+"/", below
		}
	}
	return out, nil
}

// readIgnore reads the .gitignore file of one directory, if it has one.
func (c Commit) readIgnore(ctx context.Context, dir string, list []git.Entry, to map[string][]byte) error {
	var here []scope.Entry
	oid := map[string]git.OID{}
	for _, e := range list {
		here = append(here, scope.Entry{Path: dir + e.Path, Mode: e.Mode.String()})
		oid[dir+e.Path] = e.OID
	}
	for _, e := range scope.IgnoreFiles(here) {
		data, err := c.history.repo.Blob(ctx, oid[e.Path])
		if err != nil {
			return errors.Join(errors.New("the file "+scope.Display(e.Path)+" can't be read"), err)
		}
		to[e.Path] = data
	}
	return nil
}

func subtree(list []git.Entry, name string) git.OID {
	for _, e := range list {
		if e.Path == name && e.Mode == git.ModeTree {
			return e.OID
		}
	}
	return ""
}
