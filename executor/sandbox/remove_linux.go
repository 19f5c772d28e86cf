package sandbox

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// maxOpenLevels is how many directories are open at once while a tree is
	// removed. What lies deeper is moved up: a program can nest directories deeper
	// than a process may have descriptors, or a stack may have frames.
	maxOpenLevels = 16
	// listBytes is the buffer of one listing: some hundred names.
	listBytes = 16 << 10
	// maxMoves bounds the names tried for a directory that is moved up.
	maxMoves = 1 << 20
)

// RemoveTree removes what is there by a name, even where a program took its own
// permissions away or still changes it; nothing is no error. It follows no link,
// and a tree of any depth costs few descriptors.
func RemoveTree(dir string) error {
	top, err := openOwn(unix.AT_FDCWD, dir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return os.Remove(dir)
	}
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	r := remover{top: top}
	err = r.empty(top, 0)
	if cerr := unix.Close(top); err == nil && cerr != nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Remove(dir)
}

// remover removes everything below one directory.
type remover struct {
	top   int // its handle
	moved int // directories moved to it so far
}

// empty removes what is in an open directory, in passes: a listing need not be
// whole while entries come and go. A pass that gets nowhere is the last.
func (r *remover) empty(fd, level int) error {
	for {
		gone, err := r.pass(fd, level)
		if err != nil && gone == 0 {
			return err
		}
		if err == nil && gone == 0 {
			return nil
		}
	}
}

// pass goes through a directory once. It gives how many entries went, and the
// first failure.
func (r *remover) pass(fd, level int) (gone int, first error) {
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return 0, err
	}
	buf := make([]byte, listBytes)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return gone, fmt.Errorf("list: %w", err)
		}
		if n <= 0 {
			return gone, first
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if err := r.entry(fd, name, level); err == nil {
				gone++
			} else if first == nil {
				first = err
			}
		}
	}
}

// entry removes one name, or moves it up. Names of a program stand in no error.
func (r *remover) entry(dir int, name string, level int) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("remove: %w", err)
	}
	fd, err := openOwn(dir, name)
	if err != nil {
		return fmt.Errorf("open a directory: %w", err)
	}
	if level+1 >= maxOpenLevels {
		unix.Close(fd)
		return r.moveUp(dir, name)
	}
	err = r.empty(fd, level+1)
	unix.Close(fd)
	if err != nil {
		return err
	}
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != nil {
		return fmt.Errorf("remove a directory: %w", err)
	}
	return nil
}

// moveUp moves a directory to the top, where a later pass finds it.
func (r *remover) moveUp(dir int, name string) error {
	for ; r.moved < maxMoves; r.moved++ {
		err := unix.Renameat2(dir, name, r.top, fmt.Sprintf("deep-%d", r.moved), unix.RENAME_NOREPLACE)
		if err == nil {
			r.moved++
			return nil
		}
		if err != unix.EEXIST {
			return fmt.Errorf("move a directory up: %w", err)
		}
	}
	return fmt.Errorf("more than %d directories to move up", maxMoves)
}

// openOwn opens a directory by handle and makes it one that its owner can
// empty. A link is an error.
func openOwn(dir int, name string) (int, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := openAt(dir, name, flags|unix.O_RDONLY)
	if errors.Is(err, unix.EACCES) {
		fd, err = openClosed(dir, name, flags)
	}
	if err != nil {
		return -1, err
	}
	if err := unix.Fchmod(fd, 0o700); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openClosed opens a directory that its owner can't read. The mode of a handle
// that opened nothing is set through its name in /proc, which leads to that very
// directory.
func openClosed(dir int, name string, flags int) (int, error) {
	handle, err := openAt(dir, name, flags|unix.O_PATH)
	if err != nil {
		return -1, err
	}
	defer unix.Close(handle)
	if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", handle), 0o700); err != nil {
		return -1, err
	}
	return openAt(handle, ".", flags|unix.O_RDONLY)
}

func openAt(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
