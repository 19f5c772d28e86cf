package branch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/clone"
	"github.com/writbot/writ/kernel/tick"
)

// commands are the files below .aynig at the commit that a tick takes them from:
// one for all branches, or each event's own.
type commands struct {
	clone *clone.Clone
	pin   func(ctx context.Context, event git.OID) (git.OID, error)

	mu    sync.Mutex
	known map[git.OID]*listing
}

// begin pins where commands come from, for one tick: the commit that the branch is
// at in the refs that this tick has read.
func (c *commands) begin(r *Runner, refs git.Refs) {
	c.known = map[git.OID]*listing{}
	ref := r.cfg.From
	c.pin = func(ctx context.Context, event git.OID) (git.OID, error) {
		if ref == FromEvent {
			return event, r.fetch(ctx, event)
		}
		if ref == "" {
			if ref = refs.Head; r.deps.Remote == nil {
				var err error
				if ref, err = c.clone.DefaultBranch(ctx); err != nil {
					return "", err
				}
			}
		}
		if ref != "" && !strings.HasPrefix(ref, "refs/") {
			ref = heads + ref
		}
		oid := refs.OID(ref)
		if ref == "" || oid.IsZero() {
			return "", &git.Error{Code: git.CodeRefInvalid, Msg: fmt.Sprintf("there is no branch %q to take commands from", strings.TrimPrefix(ref, heads)),
				Remedy: "give --commands-from the name of the branch that has .aynig"}
		}
		return oid, r.fetch(ctx, oid)
	}
}

// at is the listing for an event.
func (c *commands) at(ctx context.Context, event git.OID) (*listing, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	commit, err := c.pin(ctx, event)
	if err != nil {
		return nil, err
	}
	if l := c.known[commit]; l != nil {
		return l, nil
	}
	tree, err := c.clone.Repo.Subtree(ctx, commit, tick.Dir)
	if err != nil {
		return nil, err
	}
	l := &listing{tree: tree, targets: map[string]string{}}
	for _, e := range tree.Entries {
		if e.Mode == git.ModeSymlink {
			target, err := c.clone.Repo.Blob(ctx, e.OID)
			if err != nil {
				return nil, err
			}
			l.targets[e.Path] = string(target)
		}
	}
	c.known[commit] = l
	return l, nil
}

func (c *commands) find(ctx context.Context, event git.OID, role, state string) (tick.Command, error) {
	l, err := c.at(ctx, event)
	if err != nil {
		return tick.Command{}, err
	}
	return tick.Resolve(l, role, state), nil
}

// listing answers kernel/tick from a tree of git's.
type listing struct {
	tree    git.Tree
	targets map[string]string // of its links
	writing sync.Mutex
}

// Kind implements tick.Files.
func (l *listing) Kind(path string) (tick.FileKind, bool) {
	e, ok := l.tree.Find(path)
	kinds := map[git.Mode]tick.FileKind{git.ModeFile: tick.FileRegular, git.ModeExec: tick.FileExecutable, git.ModeSymlink: tick.FileLink}
	return kinds[e.Mode], ok
}

// Target implements tick.Files.
func (l *listing) Target(path string) string { return l.targets[path] }

// maxTrees is how many sets of commands are kept on disk. A run uses the one that it
// began with.
const maxTrees = 64

// materialise writes the files below .aynig to a directory named by their tree, if
// they aren't there, and returns it. Links are left out: the command's own were
// followed already.
func (c *commands) materialise(ctx context.Context, event git.OID) (string, error) {
	l, err := c.at(ctx, event)
	if err != nil {
		return "", err
	}
	state, err := c.clone.State()
	if err != nil {
		return "", err
	}
	base := filepath.Join(state, "commands")
	dir := filepath.Join(base, string(l.tree.OID))
	l.writing.Lock()
	defer l.writing.Unlock()
	if _, err := os.Lstat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", err
	}
	trim(base, maxTrees)
	temp, err := os.MkdirTemp(base, "new-*")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temp) }() // a renamed one is gone
	if err := c.write(ctx, l, temp); err != nil {
		return "", err
	}
	if err := os.Rename(temp, dir); err != nil {
		if _, there := os.Lstat(dir); there != nil {
			return "", err
		}
	}
	return dir, nil
}

// write writes the files of a listing below a directory.
func (c *commands) write(ctx context.Context, l *listing, to string) error {
	for _, e := range l.tree.Entries {
		if e.Mode != git.ModeFile && e.Mode != git.ModeExec {
			continue
		}
		if err := git.ValidatePath(e.Path); err != nil {
			return err
		}
		data, err := c.clone.Repo.Blob(ctx, e.OID)
		if err != nil {
			return err
		}
		file := filepath.Join(to, filepath.FromSlash(e.Path))
		mode := fs.FileMode(0o600)
		if e.Mode == git.ModeExec {
			mode = 0o700
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), writeProgram(file, data, mode)); err != nil {
			return err
		}
	}
	return nil
}

// writeProgram writes a file that is executed soon after. No process is started
// meanwhile: until its exec it would have the file open for writing, too, and what
// somebody writes to can't be executed (golang.org/issue/22315).
func writeProgram(file string, data []byte, mode fs.FileMode) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(file, data, mode)
}
