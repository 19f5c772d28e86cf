package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// foreignSystems are file systems whose locks and flushes SQLite can't rely on.
var foreignSystems = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.AFS_SUPER_MAGIC: "AFS", unix.V9FS_MAGIC: "9p",
}

// doubtfulSystems may, or lose what is there at the next start.
var doubtfulSystems = map[int64]string{
	unix.FUSE_SUPER_MAGIC: "FUSE", unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	unix.CEPH_SUPER_MAGIC: "Ceph", unix.OCFS2_SUPER_MAGIC: "OCFS2",
}

// leastFree is the room on the state directory's file system below which a store
// may fail soon, in bytes.
const leastFree = 1 << 30

// place is what a file system is like.
type place struct {
	kind int64
	free uint64 // bytes for who isn't root
}

func placeOf(path string) (place, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return place{}, err
	}
	return place{kind: int64(st.Type), free: st.Bavail * uint64(st.Bsize)}, nil //nolint:unconvert // its width differs by architecture
}

// judge says what a state directory on it is to expect.
func (p place) judge() result {
	const move = "Put server.state_dir on a local disk (ext4, xfs, a block volume), with writ stopped."
	switch name, foreign := foreignSystems[p.kind]; {
	case foreign:
		return bad(move, "It is on %s, whose locks can't be relied on: two writs could write one store.", name)
	case p.free < leastFree/8:
		return bad("Free some, or move it: a store that can't write stops the server.", "Its file system has %d MiB left.", p.free>>20)
	}
	if name, doubtful := doubtfulSystems[p.kind]; doubtful {
		return warn(move, "It is on %s: what is there may not last, or locks may not hold.", name)
	}
	if p.free < leastFree {
		return warn("Free some, or move it: a store that can't write stops the server.", "Its file system has %d MiB left.", p.free>>20)
	}
	return ok("It is writ's alone, on a file system that keeps locks, with %d GiB free.", p.free>>30)
}

// ahead names a file of the directory that was written in the future.
func ahead(dir string, now time.Time) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.ModTime().Sub(now) > skewDoubt {
			return fmt.Sprintf("%s was written at %s", filepath.Base(e.Name()), info.ModTime().UTC().Format(time.RFC3339))
		}
	}
	return ""
}
