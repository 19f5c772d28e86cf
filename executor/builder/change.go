package builder

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/kernel"
)

// change is a proposal as the runner applies it: what is written are the bytes
// that were hashed, and nothing else (case S17).
type change struct {
	list  []kernel.Change
	bytes map[string][]byte // by git blob id
	after []scope.Entry     // the whole tree afterwards
}

// newChange verifies that the bytes are the hashed ones and that the tree
// afterwards is one. Whoever calls holds both already; a fault here is never a
// builder's doing.
func newChange(base []scope.Entry, list []kernel.Change, contents map[string][]byte) (*change, error) {
	c := &change{list: list, bytes: map[string][]byte{}}
	for _, ch := range list {
		if ch.Op == kernel.OpDelete {
			continue
		}
		if ch.AfterMode != scope.ModeFile && ch.AfterMode != scope.ModeExec {
			return nil, fmt.Errorf("mode %q of %q can't be delivered", ch.AfterMode, ch.Path)
		}
		data, ok := contents[ch.AfterID]
		if !ok {
			return nil, fmt.Errorf("the bytes of %q are missing", ch.Path)
		}
		if scope.BlobID(data) != ch.AfterID {
			return nil, fmt.Errorf("the bytes of %q are not the hashed ones", ch.Path)
		}
		c.bytes[ch.AfterID] = data
	}
	c.after = scope.Apply(base, list)
	if _, err := scope.New(c.after, scope.Rules{}); err != nil {
		return nil, err
	}
	return c, nil
}

// apply makes a freshly laid out base the tree afterwards. The result is the
// one that laying the whole tree out would give, at the cost of what changed.
func (c *change) apply(workspace string) error {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, ch := range c.list {
		if ch.Op != kernel.OpAdd {
			if err := takeOut(root, ch.Path); err != nil {
				return err
			}
		}
	}
	for _, ch := range c.list {
		if ch.Op != kernel.OpDelete {
			if err := putIn(root, ch, c.bytes[ch.AfterID]); err != nil {
				return err
			}
		}
	}
	return nil
}

// applyAbove writes the change into the upper directory of an overlay whose layer is the
// base, with the kernel's own marks for what it removes. What the overlay shows is the
// tree that apply makes.
func (c *change) applyAbove(upper string) error {
	//nolint:gosec // a workspace has the modes of a checkout; the directory above it is closed
	if err := os.Mkdir(upper, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(upper)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, ch := range c.list {
		if ch.Op != kernel.OpDelete {
			if err := putIn(root, ch, c.bytes[ch.AfterID]); err != nil {
				return err
			}
		}
	}
	hides, dirs := map[string]bool{}, map[string]bool{}
	for _, e := range c.after {
		hides[e.Path] = true
		for at := path.Dir(e.Path); at != "." && !dirs[at]; at = path.Dir(at) {
			dirs[at] = true
		}
	}
	for _, ch := range c.list {
		if gone := removed(ch.Path, hides, dirs); ch.Op == kernel.OpDelete && gone != "" {
			if err := mark(root, gone); err != nil {
				return err
			}
			hides[gone] = true
		}
	}
	return nil
}

// removed is the highest directory that a removed file took with it, or the file; "" if
// a directory is there now, or something else hides it already.
func removed(name string, hides, dirs map[string]bool) (gone string) {
	for at := name; at != "."; at = path.Dir(at) {
		switch {
		case hides[at]:
			return ""
		case !dirs[at]:
			gone = at
		}
	}
	return gone
}

// mark makes a mark for what a layer has and nobody is to see.
func mark(root *os.Root, name string) error {
	if err := makeDirs(root, path.Dir(name)); err != nil {
		return err
	}
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return os.NewSyscallError("mknod", unix.Mknodat(int(dir.Fd()), path.Base(name), unix.S_IFCHR, 0))
}

// takeOut removes a file and the directories that it leaves empty: git has none.
func takeOut(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		err := root.Remove(dir)
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// putIn writes a new file, with the mode that is meant whatever the umask.
func putIn(root *os.Root, ch kernel.Change, data []byte) error {
	if err := makeDirs(root, path.Dir(ch.Path)); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if ch.AfterMode == scope.ModeExec {
		mode = 0o755
	}
	f, err := root.OpenFile(ch.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

func makeDirs(root *os.Root, dir string) error {
	var up []string
	for ; dir != "."; dir = path.Dir(dir) {
		up = append(up, dir)
	}
	for _, d := range slices.Backward(up) {
		err := root.Mkdir(d, 0o755)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil {
			err = root.Chmod(d, 0o755)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
