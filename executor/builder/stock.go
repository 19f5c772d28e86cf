package builder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

const (
	// layLimit bounds how long a base may take to be laid out. What a server
	// doesn't give in this time it doesn't give at all.
	layLimit = 15 * time.Minute
	// spareBytes is the largest base that is laid out for the runner while the
	// builder still works. A larger one would fill the disk for a build that may
	// well fail.
	spareBytes = 64 << 20
	// gitBytes is the largest base that gets a throw-away .git: it is composed
	// in memory.
	gitBytes = 256 << 20
)

// use says what a tree is laid out for.
type use struct {
	runner bool // not for a builder
	git    bool // with a throw-away .git
}

// tree is a base in a directory of its own, in which nothing has run. It is
// good once done is closed and err is nil.
type tree struct {
	dir    string // holds the workspace and what else a run needs
	use    use
	cancel context.CancelFunc
	done   chan struct{}
	err    error // an *executor.Error

	layered bool // the base is in a layer, and the workspace an overlay above it
	feed    *feed
	mu      sync.Mutex
	pinned  []func() // let go of layers
}

func (t *tree) workspace() string { return filepath.Join(t.dir, "workspace") }

// stock lays trees out, ahead where it can, and takes them away again. It holds
// what is ready for one base: the one that was wanted last.
type stock struct {
	dir  string
	log  *slog.Logger
	disk func(need int64) bool // reports whether the disk has room for so many bytes

	layers *layers
	// checksOnly: a builder's workspace is laid out whole, see Layers.
	checksOnly bool
	owner      func() int      // the host's user that the next program will probably have
	life       context.Context // ends with close
	end        context.CancelFunc
	busy       sync.WaitGroup

	mu    sync.Mutex
	base  *feed
	ready map[use]*tree
	live  map[string]bool // directories that sweep must not touch
}

func newStock(dir string, log *slog.Logger) *stock {
	s := &stock{dir: dir, log: log, disk: func(int64) bool { return true },
		layers: &layers{}, owner: os.Geteuid, ready: map[use]*tree{}, live: map[string]bool{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// close takes away what is left and waits until all of it is gone.
func (s *stock) close() {
	s.end()
	s.mu.Lock()
	s.empty()
	s.mu.Unlock()
	s.busy.Wait()
}

// empty throws the ready trees away. The caller holds mu.
func (s *stock) empty() {
	for u, t := range s.ready {
		delete(s.ready, u)
		s.discard(t)
	}
}

// feedOf is the feed of a base. The trees of another base are thrown away.
func (s *stock) feedOf(base executor.Base) *feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base == nil || base.Commit == "" || s.base.base.Commit != base.Commit {
		s.empty()
		s.base = newFeed(base)
	}
	return s.base
}

// keep has a tree laid out for later.
func (s *stock) keep(f *feed, u use) *tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base != f {
		return nil
	}
	if s.ready[u] == nil {
		s.ready[u] = s.lay(f, u)
	}
	return s.ready[u]
}

// offer keeps a tree that is whole, if it is still of the base that is wanted and
// there is none of its kind.
func (s *stock) offer(f *feed, t *tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base != f || s.ready[t.use] != nil {
		s.discard(t)
		return
	}
	s.ready[t.use] = t
}

// ahead keeps a runner's tree, unless it would be too large. Above a layer there is
// nothing to lay out.
func (s *stock) ahead(f *feed) {
	if f.size() <= spareBytes && !s.layers.usable() {
		s.keep(f, use{runner: true})
	}
}

// take gives a tree of the base that is the caller's to use up and to discard.
// It comes from what is ready, if there is one of its kind that is whole.
func (s *stock) take(ctx context.Context, f *feed, u use) (*tree, error) {
	s.mu.Lock()
	t := s.ready[u]
	if s.base != f {
		t = nil
	}
	if t != nil {
		delete(s.ready, u)
	}
	s.mu.Unlock()
	if t != nil && s.await(ctx, t) == nil {
		return t, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	t = s.lay(f, u)
	if err := s.await(ctx, t); err != nil {
		return nil, err
	}
	return t, nil
}

// await waits for a tree, and discards it if it isn't to be had.
func (s *stock) await(ctx context.Context, t *tree) error {
	select {
	case <-t.done:
	case <-ctx.Done():
		t.cancel()
		<-t.done // laying out ends with its context
	}
	err := t.err
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		s.discard(t)
	}
	return err
}

// lay begins to lay a tree out.
func (s *stock) lay(f *feed, u use) *tree {
	t := &tree{use: u, done: make(chan struct{}), feed: f}
	ctx, cancel := context.WithTimeout(s.life, layLimit)
	t.cancel = cancel
	f.hold()
	s.busy.Go(func() {
		defer close(t.done)
		defer f.release()
		defer cancel()
		if t.dir, t.err = s.directory(); t.err == nil {
			t.err = s.fill(ctx, t, f)
		}
	})
	return t
}

// directory makes a fresh directory. The sandbox's user must pass through it,
// and nobody may list it.
func (s *stock) directory() (string, error) {
	dir, err := os.MkdirTemp(s.dir, "run-")
	if err == nil {
		err = os.Chmod(dir, 0o711) //nolint:gosec // see above
	}
	if err != nil {
		return dir, failed(kernel.CodeEnvWorkspace, "there is no directory for the run", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[dir] = true
	return dir, nil
}

// fill lays the base out in the tree's workspace, or sees that there is a layer of it.
func (s *stock) fill(ctx context.Context, t *tree, f *feed) error {
	if t.layered = s.layers.usable() && (t.use.runner || !s.checksOnly); t.layered {
		//nolint:gosec // a workspace has the modes of a checkout; the directory above it is closed
		if err := os.Mkdir(t.workspace(), 0o755); err != nil {
			return layoutFault(err)
		}
		// A layer that is there is looked at when a program starts above it.
		if owner := s.owner(); !s.layers.made(layerKey("base", f.tree(), owner)) {
			_, err := s.below(ctx, t, owner)
			return err
		}
		return nil
	}
	err := s.layOut(ctx, t.workspace(), f)
	if err == nil && t.use.git {
		err = s.writeGit(ctx, t.workspace(), t.workspace(), f, f.size())
	}
	return layoutFault(err)
}

// below gives the layers of a tree for a user of the host, the topmost first, and holds
// them until the tree is discarded.
func (s *stock) below(ctx context.Context, t *tree, owner int) (dirs []string, err error) {
	f := t.feed
	f.hold()
	defer f.release()
	base, length, err := s.layer(ctx, t, layerKey("base", f.tree(), owner), owner, source{
		fill: func(ctx context.Context, dir string) error { return layoutFault(s.layOut(ctx, dir, f)) },
		whole: func(ctx context.Context, dir string, count int) error {
			return isBase(ctx, dir, entries(f.base.Files), count)
		},
	})
	if err != nil || !t.use.git {
		return []string{base}, err
	}
	if length > gitBytes {
		s.noGit(length)
		return []string{base}, nil
	}
	repository, _, err := s.layer(ctx, t, layerKey("git", f.tree(), owner), owner, source{fill: func(ctx context.Context, dir string) error {
		//nolint:gosec // as git makes it; the builder reads it
		if err := os.Mkdir(dir, 0o755); err != nil {
			return layoutFault(err)
		}
		return layoutFault(s.writeGit(ctx, base, dir, f, length))
	}})
	return []string{repository, base}, err
}

// shown are the layers of a tree for the program that runs in it; nil for one that holds
// everything itself. A layer is looked at when the program starts.
func (s *stock) shown(t *tree) sandbox.Layers {
	if !t.layered {
		return nil
	}
	return func(ctx context.Context, owner int) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, layLimit)
		defer cancel()
		return s.below(ctx, t, owner)
	}
}

// layer is one of them.
func (s *stock) layer(ctx context.Context, t *tree, key string, owner int, src source) (dir string, length int64, err error) {
	dir, length, release, err := s.layers.get(ctx, key, owner, src)
	if err == nil {
		t.mu.Lock()
		t.pinned = append(t.pinned, release)
		t.mu.Unlock()
	}
	return dir, length, err
}

// isBase reports what a directory has that a base hasn't, or the other way round: count
// is of all files and directories, so that nothing is there that no rule looks at.
func isBase(ctx context.Context, dir string, list []scope.Entry, count int) error {
	s, err := scope.New(list, scope.Rules{})
	if err != nil {
		return err
	}
	v, err := s.Verify(ctx, dir)
	switch {
	case err != nil:
		return err
	case len(v.Violations) > 0:
		return fmt.Errorf("%s %s: %s", v.Violations[0].Code, v.Violations[0].Subject, v.Violations[0].Detail)
	case len(v.Changes) > 0:
		return fmt.Errorf("%s: %s", scope.Display(v.Changes[0].Path), v.Changes[0].Op)
	}
	dirs := map[string]bool{"": true}
	for _, e := range list {
		for at := parent(e.Path); !dirs[at]; at = parent(at) {
			dirs[at] = true
		}
	}
	if want := len(list) + len(dirs); count != want {
		return fmt.Errorf("%d files and directories, not %d", count, want)
	}
	return nil
}

// layOut writes the base's files into a new directory.
func (s *stock) layOut(ctx context.Context, dir string, f *feed) error {
	get := func(id string) ([]byte, error) {
		data, err := f.get(ctx, id)
		if err != nil {
			return nil, &readError{err}
		}
		if !s.disk(int64(len(data))) && !s.room(int64(len(data))) {
			return nil, failed(kernel.CodeEnvDisk, "the base can't be laid out", errDisk)
		}
		return data, nil
	}
	return scope.Materialise(ctx, dir, entries(f.base.Files), get)
}

// room removes the layers that nobody uses, for there is no other room on the disk.
func (s *stock) room(need int64) bool {
	s.layers.trim(0)
	return s.disk(need)
}

// layoutFault gives what kept a base from being laid out its code: the base
// itself, whoever should give it, or this machine.
func layoutFault(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*executor.Error](err); ok {
		return e
	}
	if v, ok := unusable(err); ok {
		return failed(v.Code, "the base can't be laid out", &baseError{v})
	}
	if _, reading := errors.AsType[*readError](err); reading || errors.Is(err, context.DeadlineExceeded) {
		return failed(kernel.CodeEnvRepository, "the base can't be read", err)
	}
	return failed(kernel.CodeEnvWorkspace, "the workspace can't be laid out", err)
}

// errDisk is why a base isn't laid out further: the ledger may be on that disk, too.
var errDisk = errors.New("it would take the last of what is to stay free on the file system")

// readError marks a failure to read the base.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

func failed(code kernel.Code, what string, err error) *executor.Error {
	return &executor.Error{Code: code, Detail: what, Err: err}
}

// writeGit makes the throw-away one-commit .git, for tools that want one. It is
// never read again (case S9). It is the same for each run of a base.
func (s *stock) writeGit(ctx context.Context, files, at string, f *feed, size int64) error {
	spec := git.RepositorySpec{
		At:      at,
		Author:  git.Person{Name: "writ", Email: "writ@localhost", TZ: "+0000", OK: true},
		Message: []byte("base of the task\n"),
	}
	if size > gitBytes {
		s.noGit(size)
		return nil
	} else if size <= feedBytes/2 {
		// From memory: it has just been read. Otherwise from the files.
		spec.Read = func(e git.Entry) ([]byte, error) { return f.get(ctx, string(e.OID)) }
	}
	for _, file := range f.base.Files {
		mode, err := strconv.ParseUint(file.Mode, 8, 32)
		if err != nil {
			return fmt.Errorf("mode of %q: %w", file.Path, err)
		}
		spec.Entries = append(spec.Entries, git.Entry{Path: file.Path, Mode: git.Mode(mode), OID: git.OID(file.ID)})
	}
	return git.WriteRepository(files, spec)
}

func (s *stock) noGit(size int64) {
	s.log.Info("the workspace has no .git: the base is too large for one", "bytes", size, "limit", gitBytes)
}

// discard takes a tree away, in the background: it costs as much as laying it
// out did. Whatever ran in it is dead.
func (s *stock) discard(t *tree) {
	t.cancel()
	s.busy.Go(func() { s.discardNow(t) })
}

// discardNow takes a tree away before it returns: where the disk is full,
// nothing else comes first. Twice does no harm.
func (s *stock) discardNow(t *tree) {
	t.cancel()
	<-t.done
	if t.dir == "" {
		return
	}
	s.remove(t.dir)
	t.mu.Lock()
	pinned := t.pinned
	t.pinned = nil
	t.mu.Unlock()
	for _, release := range pinned {
		release()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, t.dir)
}

// sweep removes what dead processes left behind.
func (s *stock) sweep() error {
	list, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range list {
		dir := filepath.Join(s.dir, e.Name())
		s.mu.Lock()
		live := s.live[dir]
		s.mu.Unlock()
		if !live {
			s.remove(dir)
		}
	}
	return err
}

func (s *stock) remove(dir string) {
	if err := sandbox.RemoveTree(dir); err != nil {
		s.log.Warn("a workspace could not be removed", "dir", dir, "error", err)
	}
}
