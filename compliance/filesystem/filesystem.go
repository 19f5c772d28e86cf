// Package filesystem says of a path which file system it is on, and whether that
// one is full, so that an error can name it.
package filesystem

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// littleRoom is in bytes. Below it a larger write can fail where a smaller one
// still succeeds, so that nothing is free only in part.
const littleRoom = 1 << 20

// MountPoint is where the file system of a path is mounted. Of a path that isn't
// there, it is the one that the path would be on.
func MountPoint(path string) string {
	path = filepath.Clean(path)
	at, found := mountOf(path)
	for path != filepath.Dir(path) {
		up, ok := mountOf(filepath.Dir(path))
		if found && ok && up != at {
			return path
		}
		path, at, found = filepath.Dir(path), up, ok
	}
	return path
}

// mount is what tells one mounted file system from another.
type mount struct {
	id           uint64
	major, minor uint32
}

func mountOf(path string) (mount, bool) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st)
	return mount{st.Mnt_id, st.Dev_major, st.Dev_minor}, err == nil
}

// Refused reports whether an error says that there is no room.
func Refused(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// Full reports whether hardly anything can be written beside a path that is there.
func Full(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && (int64(st.Bavail)*st.Bsize < littleRoom || st.Files > 0 && st.Ffree == 0)
}

// Free is how many bytes whoever isn't root may still write beside a path that is there; 0
// where that can't be asked.
func Free(path string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}

// ReadOnly reports whether the file system of a path that is there is mounted read-only.
func ReadOnly(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

// NoRoom names the full file system of a path that is there, in a clause.
func NoRoom(path string) string {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return "the file system of " + path + " is full"
	}
	return fmt.Sprintf("the file system mounted at %s is full, or its quota is used up (free are %d KiB and %d files)", MountPoint(path), int64(st.Bavail)*st.Bsize>>10, st.Ffree)
}
