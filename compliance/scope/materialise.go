package scope

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// materialiseWorkers is how many files are written at once. Creating files is
// the kernel's work, mostly, and two keep it busy on the smallest machines.
const materialiseWorkers = 2

// Materialise lays the entries out in dir, which must be absent or empty: files
// with mode 644 or 755 whatever the umask, links as links, gitlinks as empty
// directories. No filter, attribute or hook has a say; what is written is what
// the blob holds. Everything is made anew through directory handles, so nothing
// outside dir can be reached, whatever the entries say.
//
// blob gives a blob's bytes by id, and may be called by several goroutines.
// After an error the directory is half full and is to be thrown away.
func Materialise(ctx context.Context, dir string, entries []Entry, blob func(oid string) ([]byte, error)) error {
	if _, err := newBase(entries); err != nil {
		return err
	}
	root, err := emptyDir(dir)
	if err != nil {
		return fmt.Errorf("workspace %s: %w", dir, err)
	}
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int { return compareByDir(a.Path, b.Path) })
	m := &materialiser{blob: blob, jobs: make(chan job, materialiseWorkers)}
	ctx, m.cancel = context.WithCancelCause(ctx)
	var workers sync.WaitGroup
	for range materialiseWorkers {
		workers.Go(m.work)
	}
	err = m.layout(ctx, root, sorted)
	close(m.jobs)
	workers.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	m.cancel(nil)
	return err
}

// compareByDir sorts by directory first, so that each is opened once.
func compareByDir(a, b string) int {
	if c := strings.Compare(parent(a), parent(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

func emptyDir(dir string) (int, error) {
	//nolint:gosec // a workspace has the modes of a checkout; the directory above it is closed
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return -1, err
	}
	fd, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		return -1, err
	}
	buf := make([]byte, 4<<10)
	n, err := unix.Getdents(fd, buf)
	if err == nil {
		if _, _, names := unix.ParseDirent(buf[:max(n, 0)], -1, nil); len(names) > 0 {
			err = errors.New("the directory is not empty")
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// job is the entries of one directory, and a handle on it that the worker
// closes.
type job struct {
	fd      int
	entries []Entry
}

// EntryError is an entry that could not be laid out, and why.
type EntryError struct {
	Path string
	Err  error
}

// Error is one line.
func (e *EntryError) Error() string { return "write " + Display(e.Path) + ": " + e.Err.Error() }

// Unwrap is the cause.
func (e *EntryError) Unwrap() error { return e.Err }

type materialiser struct {
	blob   func(string) ([]byte, error)
	jobs   chan job
	cancel context.CancelCauseFunc
}

// layout makes the directories and hands each one's entries to the workers.
func (m *materialiser) layout(ctx context.Context, root int, entries []Entry) error {
	stack := dirStack{fds: []int{root}}
	defer stack.close()
	for len(entries) > 0 {
		dir := parent(entries[0].Path)
		n := 1
		for n < len(entries) && parent(entries[n].Path) == dir {
			n++
		}
		fd, err := stack.open(dir)
		if err != nil {
			return fmt.Errorf("make %s: %w", Display(dir), err)
		}
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		select {
		case m.jobs <- job{own, entries[:n]}:
		case <-ctx.Done():
			unix.Close(own)
			return context.Cause(ctx)
		}
		entries = entries[n:]
	}
	return nil
}

func (m *materialiser) work() {
	for j := range m.jobs {
		for _, e := range j.entries {
			if err := m.write(j.fd, e); err != nil {
				m.cancel(&EntryError{e.Path, err})
				break
			}
		}
		unix.Close(j.fd)
	}
}

func (m *materialiser) write(dir int, e Entry) error {
	name := e.Path[strings.LastIndexByte(e.Path, '/')+1:]
	if e.Mode == ModeGitlink {
		return unix.Mkdirat(dir, name, 0o755)
	}
	data, err := m.blob(e.OID)
	if err != nil {
		return err
	}
	if e.Mode == ModeSymlink {
		if len(data) == 0 || len(data) >= maxBasePathBytes || bytes.IndexByte(data, 0) >= 0 {
			return treeError(e.Path, "it is a link to no possible path")
		}
		return unix.Symlinkat(string(data), dir, name)
	}
	mode := uint32(0o644)
	if e.Mode == ModeExec {
		mode = 0o755
	}
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	err = setMode(fd, mode)
	if err == nil {
		err = writeAll(fd, data)
	}
	if closed := unix.Close(fd); err == nil {
		err = closed
	}
	return err
}

// setMode changes the mode where the umask had a say in it. On a disk a look is
// far cheaper than a change to what is right already.
func setMode(fd int, mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&0o7777 == mode {
		return nil
	}
	return unix.Fchmod(fd, mode)
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && err != unix.EINTR {
			return err
		}
		data = data[max(n, 0):]
	}
	return nil
}

// dirStack holds handles on one directory and those above it.
type dirStack struct {
	path []string
	fds  []int // one more than path: the root
}

// open makes what is missing of a directory and returns a handle that is good
// until the next call.
func (s *dirStack) open(dir string) (int, error) {
	var want []string
	if dir != "" {
		want = strings.Split(dir, "/")
	}
	common := 0
	for common < len(want) && common < len(s.path) && want[common] == s.path[common] {
		common++
	}
	for len(s.path) > common {
		unix.Close(s.fds[len(s.fds)-1])
		s.path, s.fds = s.path[:len(s.path)-1], s.fds[:len(s.fds)-1]
	}
	for _, name := range want[common:] {
		top := s.fds[len(s.fds)-1]
		if err := unix.Mkdirat(top, name, 0o755); err != nil && err != unix.EEXIST {
			return -1, err
		}
		fd, err := openDir(top, name)
		if err != nil {
			return -1, err
		}
		if err := setMode(fd, 0o755); err != nil {
			unix.Close(fd)
			return -1, err
		}
		s.path, s.fds = append(s.path, name), append(s.fds, fd)
	}
	return s.fds[len(s.fds)-1], nil
}

func (s *dirStack) close() {
	for _, fd := range s.fds {
		unix.Close(fd)
	}
}
