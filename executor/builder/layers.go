package builder

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// What the directories beside layers begin with.
const (
	newLayer = ".new-" // is being laid out
	oldLayer = ".old-" // is being removed
)

// layerTree is the directory in a layer's own that is shown. The time of the one above
// it tells when it was used last.
const layerTree = "tree"

// layers keeps trees that never change, each once for all runs that show it below what
// they write. It has a base under a name that follows from its files, and a throw-away
// .git under another.
//
// A layer is laid out under a temporary name and then renamed, so that a killed process
// leaves none that is half there. Runs see it read-only. Before each use its files are
// looked at (number, mode, owner, length, times, inode): where they aren't those that
// were laid out, or another process laid them out, a base is hashed again, and what
// isn't whole is laid out anew. What nobody uses is removed by age, and for its size.
type layers struct {
	dir   string
	limit int64         // bytes of all layers that nobody uses
	age   time.Duration // how long one stays that nobody uses
	log   *slog.Logger
	now   func() time.Time
	try   func(context.Context) error // whether a sandbox can show them

	once sync.Once
	mu   sync.Mutex
	off  error // why they aren't used
	held map[string]*layer
	live map[string]bool // temporary directories that sweep must not touch
}

// layer is one tree of one owner.
type layer struct {
	path string // of its own directory

	// use has room for who lays it out or looks at it.
	use  chan struct{}
	seen *layerState // since this process laid it out or hashed it; nil: neither

	bytes int64 // under layers.mu, 0 if it isn't known
	made  bool  // under layers.mu: seen is there, or was when it was last looked at
}

func newLayerAt(path string) *layer { return &layer{path: path, use: make(chan struct{}, 1)} }

// layerState is what a look at the files of a tree gives.
type layerState struct {
	sum    [sha256.Size]byte
	count  int   // of files and directories
	bytes  int64 // on the disk
	length int64 // of the files
}

// usable reports whether layers can be shown. It tries once.
func (s *layers) usable() bool {
	if s.dir == "" {
		return false
	}
	s.once.Do(func() {
		err := s.make()
		if err == nil {
			err = s.try(context.Background())
		}
		s.turnOff(err)
		if err == nil {
			s.log.Info("this host shows layers: a workspace above one costs what is written to it")
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off == nil
}

// make makes the directory of all layers, of which somebody may have made room.
func (s *layers) make() error { return os.MkdirAll(s.dir, 0o700) } // a program's user comes by a mount

// most is what one layer may have.
func (s *layers) most() int64 { return cmp.Or(s.limit, DefaultLayerBytes) }

// turnOff has every workspace laid out whole from now on. nil changes nothing.
func (s *layers) turnOff(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off == nil {
		s.off = err
		s.log.Warn("workspaces are laid out whole, each file of the base for each of them: this host shows no layers", "reason", err)
	}
}

// layerKey names the layer of a kind, of a tree and of a user of the host.
func layerKey(kind, tree string, owner int) string {
	return fmt.Sprintf("%s-%s-%d", kind, tree, owner)
}

// source is how a layer is made, and hashed where its files aren't known.
type source struct {
	fill func(ctx context.Context, dir string) error
	// whole is nil where dir holds what fill writes, and count is how many files and
	// directories there are in it. Nil: that can't be known, and it is made anew.
	whole func(ctx context.Context, dir string, count int) error
	// fresh reports whether what is there is still good, however whole it is. Nil: always.
	fresh func(dir string) bool
}

// made reports whether this process has made the layer of a key for some user, or found
// it whole, and has it still.
func (s *layers) made(key string) bool {
	key = key[:strings.LastIndexByte(key, '-')+1]
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, l := range s.held {
		if l.made && strings.HasPrefix(k, key) {
			return true
		}
	}
	return false
}

// get gives a layer that is whole, and holds it until release.
func (s *layers) get(ctx context.Context, key string, owner int, src source) (dir string, length int64, release func(), err error) {
	s.mu.Lock()
	l := s.held[key]
	if l == nil {
		l = newLayerAt(filepath.Join(s.dir, key))
		s.held[key] = l
	}
	s.mu.Unlock()
	select { // a preparation may take long, and who waits for it may be stopped
	case l.use <- struct{}{}:
		defer func() { <-l.use }()
	case <-ctx.Done():
		return "", 0, nil, ctx.Err()
	}
	user := s.sound(ctx, l, owner, src)
	if user == nil {
		user, err = s.lay(ctx, l, owner, src)
	}
	if err == nil && ctx.Err() != nil {
		unlock(user)
		err = ctx.Err()
	}
	if err != nil {
		return "", 0, nil, layoutFault(err)
	}
	return filepath.Join(l.path, layerTree), l.seen.length, sync.OnceFunc(func() { s.release(l, user) }), nil
}

// release lets go of a layer. Its time is that of its last use.
func (s *layers) release(l *layer, user *os.File) {
	now := s.now()
	_ = os.Chtimes(l.path, now, now) // else it goes earlier
	unlock(user)
	s.trim(s.limit)
}

// lock locks a directory, for one who uses it or for one who has it alone: the lock ends
// with the file, or with its process. It is of the directory that has the name then.
func lock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; err == unix.EINTR; { //nolint:errorlint // the system call's own answer
		err = unix.Flock(int(f.Fd()), how)
	}
	have, herr := f.Stat()
	named, nerr := os.Lstat(path)
	if err = errors.Join(err, herr, nerr); err == nil && !os.SameFile(have, named) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unlock ends a lock. A program that is being started has a copy of the file for a moment,
// and closing it alone would leave the lock to that one.
func unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	_ = f.Close() // nothing was written through it
}

// sound gives the lock of a layer that may be shown, nil for one that may not. The
// caller has l.use.
func (s *layers) sound(ctx context.Context, l *layer, owner int, src source) *os.File {
	user, err := lock(l.path, unix.LOCK_SH)
	if err == nil && s.whole(ctx, l, owner, src) {
		return user
	}
	if err == nil {
		unlock(user)
	}
	return nil
}

// whole reports whether a layer is what was laid out, or what would be.
func (s *layers) whole(ctx context.Context, l *layer, owner int, src source) bool {
	dir := filepath.Join(l.path, layerTree)
	now, err := stateOf(dir, owner)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) || l.seen != nil {
			s.log.Warn("a layer isn't what was laid out; it is laid out anew", "layer", l.path, "reason", err)
		}
		return false
	}
	if src.fresh != nil && !src.fresh(dir) {
		return false
	}
	if l.seen != nil && *l.seen == now {
		return true
	}
	if src.whole == nil {
		return false
	}
	if err := src.whole(ctx, dir, now.count); err != nil {
		s.log.Warn("a layer isn't what was laid out; it is laid out anew", "layer", l.path, "reason", err)
		return false
	}
	// What was hashed is what was looked at, if nothing has changed meanwhile.
	if again, err := stateOf(dir, owner); err != nil || again != now {
		return false
	}
	s.keep(l, now)
	return true
}

func (s *layers) keep(l *layer, state layerState) {
	l.seen = &state
	s.mu.Lock()
	l.bytes, l.made = state.bytes, true
	s.mu.Unlock()
}

// lay makes a layer and gives its lock. The caller has l.use. Another executor of this
// process may lay the same one out: the second one takes what the first one made.
func (s *layers) lay(ctx context.Context, l *layer, owner int, src source) (user *os.File, err error) {
	l.seen = nil
	err = s.make()
	var temp string
	if err == nil {
		temp, err = os.MkdirTemp(s.dir, newLayer)
	}
	if err != nil {
		return nil, failed(kernel.CodeEnvLayers, "there is no directory for a layer", err)
	}
	s.living(temp, true)
	defer s.living(temp, false)
	defer func() { _ = sandbox.RemoveTree(temp) }() // nothing is there once it was renamed
	dir := filepath.Join(temp, layerTree)
	if err := src.fill(ctx, dir); err != nil {
		return nil, err
	}
	err = give(dir, owner)
	var state layerState
	if err == nil {
		state, err = stateOf(dir, owner)
	}
	if err == nil {
		user, err = lock(temp, unix.LOCK_SH) // so that nobody who makes room takes it
	}
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, l.path, unix.RENAME_NOREPLACE)
	}
	if errors.Is(err, fs.ErrExist) {
		if other := s.sound(ctx, l, owner, src); other != nil {
			unlock(user)
			return other, nil
		}
		err = s.replace(temp, l.path)
	}
	if err != nil {
		if user != nil {
			unlock(user)
		}
		return nil, failed(kernel.CodeEnvLayers, "the layer can't be laid out", err)
	}
	s.keep(l, state)
	return user, nil
}

func (s *layers) living(dir string, lives bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[dir] = true; !lives {
		delete(s.live, dir)
	}
}

// replace renames a directory over what may be there.
func (s *layers) replace(from, to string) error {
	alone, inUse := lock(to, unix.LOCK_EX|unix.LOCK_NB)
	old, err := s.unname(to)
	if err == nil {
		err = os.Rename(from, to)
	}
	if inUse == nil || errors.Is(inUse, fs.ErrNotExist) {
		_ = sandbox.RemoveTree(old) // sweep tries again
	}
	if inUse == nil {
		unlock(alone)
	}
	return err
}

// unname takes a layer's name away, so that none is ever there in part. What it gives
// is to be removed.
func (s *layers) unname(path string) (old string, err error) {
	if old, err = os.MkdirTemp(s.dir, oldLayer); err != nil {
		return "", err
	}
	if err = os.Rename(path, filepath.Join(old, layerTree)); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return old, err
}

// give makes a user the owner of a tree.
func give(dir string, owner int) error {
	if owner == os.Geteuid() {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, owner, owner))
	})
}

// stateOf looks at each file of a tree without opening it. The time of an inode's last
// change is among what is looked at, and nobody but the system sets it. A mode or an
// owner that no layer has is an error.
func stateOf(dir string, owner int) (layerState, error) {
	v := viewer{owner: uint32(owner), sum: sha256.New()}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return layerState{}, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	if err := v.view(fd, "."); err != nil {
		return layerState{}, err
	}
	v.sum.Sum(v.state.sum[:0])
	return v.state, nil
}

type viewer struct {
	owner uint32
	sum   hash.Hash
	state layerState
	line  []byte
}

// view goes through an open directory, in the order in which it is listed, and closes
// it: the order of one that doesn't change is always the same.
func (v *viewer) view(fd int, name string) error {
	defer unix.Close(fd)
	if err := v.add(fd, "", name); err != nil {
		return err
	}
	var names []string
	for buf := make([]byte, 32<<10); ; {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", name, err)
		}
		if n <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	for _, name := range names {
		if err := v.add(fd, name, name); err != nil {
			return err
		}
	}
	return nil
}

// add looks at one entry of a directory, or at the directory itself.
func (v *viewer) add(fd int, entry, name string) error {
	var st unix.Stat_t
	flags := unix.AT_SYMLINK_NOFOLLOW
	if entry == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if err := unix.Fstatat(fd, entry, &st, flags); err != nil {
		return fmt.Errorf("%s: %w", scope.Display(name), err)
	}
	kind, perm := st.Mode&unix.S_IFMT, st.Mode&0o7777
	if kind == unix.S_IFDIR && entry != "" {
		below, err := unix.Openat(fd, entry, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", scope.Display(name), err)
		}
		return v.view(below, name)
	}
	plain := kind == unix.S_IFREG && st.Nlink == 1 && (perm == 0o644 || perm == 0o755) || kind == unix.S_IFDIR && perm == 0o755 || kind == unix.S_IFLNK
	if !plain || st.Uid != v.owner {
		return fmt.Errorf("%s has mode %o, owner %d and %d names", scope.Display(name), st.Mode, st.Uid, st.Nlink)
	}
	v.state.count++
	v.state.bytes += st.Blocks * 512
	if kind != unix.S_IFDIR {
		v.state.length += st.Size
	}
	be := binary.BigEndian
	v.line = be.AppendUint32(append(append(v.line[:0], name...), 0), st.Mode)
	for _, n := range []int64{int64(st.Ino), st.Size, st.Mtim.Nano(), st.Ctim.Nano()} {
		v.line = be.AppendUint64(v.line, uint64(n))
	}
	v.sum.Write(v.line)
	return nil
}

// sweep removes what dead processes left half made or half removed, and what is too
// old. The caller holds the state directory's lock.
func (s *layers) sweep() error {
	if s.dir == "" {
		return nil
	}
	list, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range list {
		dir := filepath.Join(s.dir, e.Name())
		s.mu.Lock()
		live := s.live[dir]
		s.mu.Unlock()
		if !live && (strings.HasPrefix(e.Name(), newLayer) || strings.HasPrefix(e.Name(), oldLayer)) {
			err = errors.Join(err, sandbox.RemoveTree(dir))
		}
	}
	s.trim(s.limit)
	return err
}

// trim removes layers that nobody uses: those that weren't used for too long, and of the
// rest the least recently used ones until no more than limit bytes are left.
func (s *layers) trim(limit int64) {
	type idle struct {
		path  string
		used  time.Time
		bytes int64
	}
	var list []idle
	entries, _ := os.ReadDir(s.dir) // nothing is there to remove
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(s.dir, e.Name())
		if alone, err := lock(path, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			unlock(alone)
			list = append(list, idle{path, info.ModTime(), s.bytesOf(e.Name(), path)})
		}
	}
	slices.SortFunc(list, func(a, b idle) int { return b.used.Compare(a.used) })
	var sum int64
	for _, l := range list {
		sum += l.bytes
		if sum > limit || s.now().Sub(l.used) > s.age {
			sum -= s.drop(l.path, l.bytes)
		}
	}
}

// bytesOf is what a layer takes on the disk that no run uses. One that this executor
// hasn't looked at is measured, once.
func (s *layers) bytesOf(key, path string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.held[key]
	if l == nil {
		l = newLayerAt(path)
		s.held[key] = l
	}
	if l.bytes == 0 {
		_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // what can't be seen isn't counted
			}
			if info, err := d.Info(); err == nil {
				l.bytes += info.Size()
			}
			return nil
		})
	}
	return l.bytes
}

// drop removes a layer unless somebody uses it, and says how much that gave.
func (s *layers) drop(path string, bytes int64) int64 {
	alone, err := lock(path, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return 0
	}
	s.mu.Lock()
	if l := s.held[filepath.Base(path)]; l != nil {
		l.made, l.bytes = false, 0
	}
	s.mu.Unlock()
	old, err := s.unname(path)
	unlock(alone) // who waits for it finds another name
	if err == nil {
		err = sandbox.RemoveTree(old)
	}
	if err != nil {
		s.log.Warn("a layer could not be removed", "layer", path, "error", err)
		return 0
	}
	return bytes
}
