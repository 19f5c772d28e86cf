package sandbox

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// scratchPrefix begins the names of the temporary directories of sandboxes.
const scratchPrefix = "writ-scratch-"

// scratchTries bounds how often one is made anew that somebody took away.
const scratchTries = 8

// scratch is a temporary directory of a sandbox. While it is in use its process
// holds a lock on it, and a reaper does, as long as its tree lives. The system takes
// it away when they are dead: so those that a killed writ left are told from those
// that are in use, whoever asks.
type scratch struct {
	dir  string
	lock *os.File
}

// newScratch makes one. Who made it removes the directory, and then unlocks it.
func newScratch() (*scratch, error) {
	for range scratchTries {
		dir, err := os.MkdirTemp("", scratchPrefix)
		if err != nil {
			return nil, err
		}
		lock, err := lockDir(dir)
		if err != nil {
			_ = os.Remove(dir)
			return nil, err
		}
		if _, err := os.Lstat(dir); lock != nil && err == nil {
			return &scratch{dir, lock}, nil
		}
		// Somebody took it for one that was left, in the moment before it was locked.
		(&scratch{lock: lock}).unlock()
	}
	return nil, errors.New("each temporary directory that was made was taken away at once")
}

// unlock lets go of the lock; what is there then is taken for left.
func (s *scratch) unlock() {
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

// remove removes the directory with all that is in it, and unlocks it.
func (s *scratch) remove() error {
	if s == nil {
		return nil
	}
	defer s.unlock()
	return RemoveTree(s.dir)
}

// lockDir locks a directory of this user; nil where another process has it, or it
// isn't this user's.
func lockDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	f := os.NewFile(uintptr(fd), dir)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Geteuid() && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
		return f, nil
	}
	return nil, f.Close()
}
