package scope

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"golang.org/x/sys/unix"
)

// Limits of a walk. They bound its time and memory whatever lies there (S16).
const (
	// maxNewEntries is how many directory entries may be there beyond those of
	// the base: more than any build leaves outside ignored directories.
	maxNewEntries = 100_000
	// maxNewPathBytes is the sum of the lengths of the paths that the base does
	// not have: over 300 bytes for each of maxNewEntries.
	maxNewPathBytes = 32 << 20
	// maxWalkDepth is how deep directories are entered; one handle is open for
	// each level.
	maxWalkDepth = 256
	// maxFileBytes is the largest file that is hashed at all. A tracked file
	// may be larger than budgets.bytes as long as it stays as it was.
	maxFileBytes = 1 << 30
	// maxReadBytes is how much is hashed in one walk.
	maxReadBytes = 8 << 30
	// maxLinkBytes is the longest target of a symbolic link; Linux allows less.
	maxLinkBytes = 4096
)

// Found is one regular file or symbolic link of a workspace.
type Found struct {
	Path string
	Mode string // ModeFile, ModeExec or ModeSymlink
	OID  string // git's blob id of the raw bytes
	Size int64
	Hash canon.Digest // of the raw bytes; "" where path, mode and bytes equal the base's
	data []byte       // the hashed bytes, where Hash is set
}

// Snapshot is what a walk found.
type Snapshot struct {
	files     map[string]Found
	gitlinks  map[string]bool // those of the base that are an empty directory
	unread    map[string]bool // present, but refused before reading
	discarded []string
	cut       bool // the walk ended early: what is missing proves nothing
	faults    violations
}

// Files returns what was found, sorted by path.
func (s *Snapshot) Files() []Found {
	out := make([]Found, 0, len(s.files))
	for _, f := range s.files {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out
}

// errStop ends a walk early; the reason is already among the faults.
var errStop = errors.New("walk stopped")

// Snapshot walks the workspace at root. It follows no link, opens nothing but
// regular files and directories, and never waits for anything but the disk. No
// error names the workspace's place on this host: it may end in a record.
func (s *Scope) Snapshot(ctx context.Context, root string) (*Snapshot, error) {
	return s.walk(ctx, root, nil)
}

// walk walks a workspace, or with hides what was written into one that was an overlay:
// then it notes there what doesn't show of the base.
func (s *Scope) walk(ctx context.Context, root string, hides map[string]bool) (*Snapshot, error) {
	w := walker{ctx: ctx, scope: s, hides: hides, budget: int64(len(s.base.entries)+len(s.base.dirs)) + maxNewEntries,
		pathLeft: maxNewPathBytes, readLeft: maxReadBytes, keepLeft: s.rules.MaxBytes}
	w.snap = &Snapshot{files: make(map[string]Found, len(s.base.entries)), gitlinks: map[string]bool{}, unread: map[string]bool{}}
	fd, err := w.root(root)
	if err == nil {
		err = w.dir(fd, "", 0)
	}
	if w.snap.cut = errors.Is(err, errStop); err != nil && !w.snap.cut {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	return w.snap, nil
}

type walker struct {
	ctx      context.Context
	scope    *Scope
	snap     *Snapshot
	budget   int64 // directory entries left
	pathLeft int64 // bytes left for paths that the base does not have
	beyond   bool  // a path that no change may have was refused; one is enough
	readLeft int64 // bytes left to hash
	keepLeft int64 // bytes left to keep
	buf      []byte

	hides map[string]bool // of an overlay; nil for a workspace that holds everything
	marks []byte          // a buffer
}

func (w *walker) fault(code kernel.Code, path, detail string) { w.snap.faults.add(code, path, detail) }

// refuse notes something that is there and can't be delivered.
func (w *walker) refuse(code kernel.Code, path, detail string) {
	w.snap.unread[path] = true
	w.fault(code, path, detail)
}

// root opens the workspace. A builder may have shut it: that is its doing, and
// holds whoever runs this, a superuser included.
func (w *walker) root(path string) (int, error) {
	fd, err := openDir(unix.AT_FDCWD, path)
	var st unix.Stat_t
	if err == nil {
		if err = unix.Fstat(fd, &st); err == nil && !listable(st.Mode) {
			err = unix.EACCES
		}
		if err != nil {
			unix.Close(fd)
		}
	}
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		w.fault(kernel.CodeScopeMode, ".", "The workspace's own directory does not let it be read.")
		return -1, errStop
	}
	return fd, err
}

// listable reports whether its owner may list and enter a directory.
func listable(mode uint32) bool {
	return mode&(unix.S_IRUSR|unix.S_IXUSR) == unix.S_IRUSR|unix.S_IXUSR
}

// dir walks an open directory and closes it.
func (w *walker) dir(fd int, path string, depth int) error {
	defer unix.Close(fd)
	if refused, err := w.marked(fd, path); refused || err != nil {
		return err
	}
	names, err := w.names(fd, path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if path == "" && name == ".git" {
			continue
		}
		full := name
		if path != "" {
			full = path + "/" + name
		}
		if err := w.entry(fd, name, full, depth); err != nil {
			return err
		}
	}
	return nil
}

// names lists a directory, sorted, within the budget of entries.
func (w *walker) names(fd int, path string) ([]string, error) {
	var names []string
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", Display(path), err)
		}
		if n <= 0 {
			break
		}
		before := len(names)
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
		if w.budget -= int64(len(names) - before); w.budget < 0 {
			w.fault(kernel.CodeScopeSize, path, fmt.Sprintf("The workspace has more than %d new entries; the walk ended here.", maxNewEntries))
			return nil, errStop
		}
	}
	sort.Strings(names)
	return names, nil
}

// entry looks at one name without opening it and goes on by its type.
func (w *walker) entry(dir int, name, path string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return w.vanished(path, err)
	}
	if err := w.spend(path); err != nil {
		return err
	}
	if w.hide(path, st) {
		return nil
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if w.discard(path, isDir) || w.tooFar(path, depth) {
		return nil
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return w.enter(dir, name, path, st, depth)
	case unix.S_IFREG:
		return w.file(dir, name, path, st)
	case unix.S_IFLNK:
		return w.link(dir, name, path)
	}
	w.refuse(kernel.CodeScopeFileType, path, "It is a "+typeName(st.Mode)+".")
	return nil
}

// hide notes what an entry of an upper directory hides: everything but a directory
// hides the base's path and all below it. It reports whether there is nothing more to
// an entry: it is the mark for a path that was removed.
func (w *walker) hide(path string, st unix.Stat_t) (removed bool) {
	if w.hides == nil {
		return false
	}
	kind := st.Mode & unix.S_IFMT
	_, file := w.scope.base.entries[path]
	if kind != unix.S_IFDIR || file {
		w.hides[path] = true
	}
	return kind == unix.S_IFCHR && st.Rdev == 0
}

func (w *walker) tracked(path string) bool {
	_, file := w.scope.base.entries[path]
	return file || w.scope.base.dirs[path]
}

// spend takes a new path's length from what is left for all of them: entries
// alone are no bound, since each one's path may be long.
func (w *walker) spend(path string) error {
	if w.tracked(path) {
		return nil
	}
	if w.pathLeft -= int64(len(path)); w.pathLeft < 0 {
		w.fault(kernel.CodeScopeSize, path, fmt.Sprintf("The new paths have more than %d bytes; the walk ended here.", int64(maxNewPathBytes)))
		return errStop
	}
	return nil
}

// tooFar refuses a new path that no change may have because of its length, and
// everything below it. The first one is told, and no later one is kept.
func (w *walker) tooFar(path string, depth int) bool {
	why := ""
	switch {
	case w.tracked(path):
	case depth >= MaxDepth:
		why = fmt.Sprintf("It is nested deeper than %d directories.", MaxDepth)
	case len(path) > MaxPathBytes:
		why = fmt.Sprintf("Its path is longer than %d bytes.", MaxPathBytes)
	}
	if why != "" && !w.beyond {
		w.beyond = true
		w.refuse(kernel.CodePathUnsafe, path, why)
	}
	return why != ""
}

func typeName(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return "named pipe"
	case unix.S_IFSOCK:
		return "socket"
	case unix.S_IFBLK, unix.S_IFCHR:
		return "device"
	}
	return "file of an unknown type"
}

// vanished turns what only a running process can cause into a violation, and
// leaves the system's own failures errors.
func (w *walker) vanished(path string, err error) error {
	among := func(list ...unix.Errno) bool {
		return slices.ContainsFunc(list, func(e unix.Errno) bool { return errors.Is(err, e) })
	}
	switch {
	case among(unix.ENOENT, unix.ELOOP, unix.ENOTDIR, unix.ENXIO, unix.ESTALE):
		w.refuse(kernel.CodeScopeFileType, path, "It changed while it was looked at.")
	case among(unix.EACCES, unix.EPERM):
		w.refuse(kernel.CodeScopeMode, path, "Its mode does not let it be read.")
	default:
		return fmt.Errorf("%s: %w", Display(path), err)
	}
	return nil
}

// discard notes an ignored leftover. Tracked paths and what an allowed pattern
// covers are never ignored; a directory is discarded as a whole only if that
// holds for everything below it.
func (w *walker) discard(path string, isDir bool) bool {
	if _, tracked := w.scope.base.entries[path]; tracked || !w.scope.ignore.match(path, isDir) {
		return false
	}
	shown := Display(path)
	if isDir {
		if w.scope.base.dirs[path] || w.scope.allowed.reachBelow(path) {
			return false
		}
		shown += "/"
	} else if w.scope.allowed.Match(path) {
		return false
	}
	if n := len(w.snap.discarded); n < MaxListed {
		w.snap.discarded = append(w.snap.discarded, shown)
	} else if n == MaxListed {
		w.snap.discarded = append(w.snap.discarded, "…")
	}
	return true
}

func (w *walker) enter(dir int, name, path string, st unix.Stat_t, depth int) error {
	if isDotGit(name) {
		w.refuse(kernel.CodePathUnsafe, path, CheckPath(name))
		return nil
	}
	if depth+1 >= maxWalkDepth {
		w.refuse(kernel.CodePathUnsafe, path, fmt.Sprintf("Directories are nested deeper than %d.", maxWalkDepth))
		return nil
	}
	if !listable(st.Mode) {
		w.refuse(kernel.CodeScopeMode, path, "It is a directory that its owner can't read.")
		return nil
	}
	fd, err := openDir(dir, name)
	if err != nil {
		return w.vanished(path, err)
	}
	if w.scope.base.entries[path].Mode == ModeGitlink {
		return w.gitlink(fd, path)
	}
	return w.dir(fd, path, depth+1)
}

// gitlink accepts the directory of a submodule if nothing is in it.
func (w *walker) gitlink(fd int, path string) error {
	defer unix.Close(fd)
	names, err := w.names(fd, path)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		w.refuse(kernel.CodeScopeFileType, path, whySubmodule)
		return nil
	}
	w.snap.gitlinks[path] = true
	return nil
}

// openDir opens a directory by handle; a link to one is an error.
func openDir(dir int, name string) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
