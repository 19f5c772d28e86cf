package scope

import (
	"context"
	"crypto/sha1" //nolint:gosec // git's object format; git's own servers look for collisions
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"golang.org/x/sys/unix"
)

// BlobID is git's id of a blob with these bytes.
func BlobID(data []byte) string {
	h := blobHash(int64(len(data)))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

func blobHash(size int64) hash.Hash {
	h := sha1.New() //nolint:gosec // see the import
	fmt.Fprintf(h, "blob %d\x00", size)
	return h
}

// file judges and reads one regular file.
func (w *walker) file(dir int, name, path string, st unix.Stat_t) error {
	if code, why := w.unreadable(path, st); code != "" {
		w.refuse(code, path, why)
		return nil
	}
	if st.Size > w.readLeft {
		w.refuse(kernel.CodeScopeSize, path, fmt.Sprintf("The workspace holds more than %d bytes; the walk ended here.", int64(maxReadBytes)))
		return errStop
	}
	w.readLeft -= st.Size
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return w.vanished(path, err)
	}
	defer unix.Close(fd)
	if same, err := sameFile(fd, st); err != nil || !same {
		return w.changed(path, err)
	}
	if refused, err := w.marked(fd, path); refused || err != nil {
		return err
	}
	found, err := w.read(fd, path, st)
	if err != nil {
		return w.changed(path, err)
	}
	if same, err := sameFile(fd, st); err != nil || !same {
		return w.changed(path, err)
	}
	w.snap.files[path] = found
	return nil
}

// unreadable says why a regular file is refused before a byte of it is read.
func (w *walker) unreadable(path string, st unix.Stat_t) (kernel.Code, string) {
	e, tracked := w.scope.base.entries[path]
	switch {
	case st.Nlink != 1:
		return kernel.CodeScopeHardLink, fmt.Sprintf("It has %d hard links.", st.Nlink)
	case st.Mode&(unix.S_ISUID|unix.S_ISGID|unix.S_ISVTX) != 0:
		return kernel.CodeScopeMode, fmt.Sprintf("Its mode is %o.", st.Mode&0o7777)
	case st.Mode&unix.S_IRUSR == 0:
		return kernel.CodeScopeMode, "Its owner can't read it."
	case tracked && e.Mode == ModeGitlink:
		return kernel.CodeScopeFileType, whyReplaced
	}
	return w.scope.tooLarge(st.Size, tracked)
}

// tooLarge says why a file is refused for its length, before a byte of it is read.
func (s *Scope) tooLarge(size int64, tracked bool) (kernel.Code, string) {
	if !tracked && size > s.rules.MaxBytes || size > maxFileBytes {
		return kernel.CodeScopeSize, fmt.Sprintf("It has %d bytes; budgets.bytes is %d.", size, s.rules.MaxBytes)
	}
	return "", ""
}

// Why something that is there can't be delivered.
const (
	whyLink      = "It is a symbolic link that the base does not have."
	whySubmodule = "It is a submodule; what is in it can't be delivered."
	whyReplaced  = "It is a file where the base has a submodule."
)

// changed is for a file that didn't hold still, or that the disk can't give.
func (w *walker) changed(path string, err error) error {
	if err != nil && !errors.Is(err, errUnsteady) {
		return fmt.Errorf("read %s: %w", Display(path), err)
	}
	w.refuse(kernel.CodeScopeFileType, path, "It changed while it was read.")
	return nil
}

var errUnsteady = errors.New("the file's length changed")

// sameFile reports whether the open file is the one that was looked at, with
// the same length and times.
func sameFile(fd int, want unix.Stat_t) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	return st.Dev == want.Dev && st.Ino == want.Ino && st.Mode == want.Mode && st.Nlink == want.Nlink &&
		st.Size == want.Size && st.Mtim == want.Mtim && st.Ctim == want.Ctim, nil
}

// read hashes the file once. The bytes of what changed are kept: they are what
// is delivered, whatever happens to the file later (S17).
func (w *walker) read(fd int, path string, st unix.Stat_t) (Found, error) {
	f := Found{Path: path, Mode: ModeFile, Size: st.Size}
	if st.Mode&unix.S_IXUSR != 0 {
		f.Mode = ModeExec
	}
	if st.Size > w.keepLeft {
		oid, err := hashOnly(w.ctx, fd, st.Size)
		f.OID = oid
		return f, err
	}
	if int64(cap(w.buf)) < st.Size+1 {
		w.buf = make([]byte, st.Size+1+st.Size/2)
	}
	data, err := readExactly(fd, w.buf[:st.Size+1])
	if err != nil {
		return f, err
	}
	f.OID = BlobID(data)
	if e := w.scope.base.entries[path]; e.OID != f.OID || e.Mode != f.Mode {
		f.data = append(make([]byte, 0, len(data)), data...)
		f.Hash = canon.Sum(f.data)
		w.keepLeft -= st.Size
	}
	return f, nil
}

// readExactly fills all of buf but its last byte and then expects the end.
func readExactly(fd int, buf []byte) ([]byte, error) {
	n, want := 0, len(buf)-1
	for {
		m, err := unix.Read(fd, buf[n:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case m == 0 && n == want:
			return buf[:n], nil
		case m == 0 || n+m > want:
			return nil, errUnsteady
		default:
			n += m
		}
	}
}

// hashOnly hashes a file that is too large to keep, as long as ctx holds.
func hashOnly(ctx context.Context, fd int, size int64) (string, error) {
	h := blobHash(size)
	n, err := io.Copy(h, io.LimitReader(fdReader{ctx, fd}, size+1))
	if err != nil {
		return "", err
	}
	if n != size {
		return "", errUnsteady
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// fdReader reads a descriptor without taking it over.
type fdReader struct {
	ctx context.Context
	fd  int
}

func (r fdReader) Read(p []byte) (int, error) {
	for {
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		n, err := unix.Read(r.fd, p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// link reads a symbolic link's target; it is never followed. Only a link of
// the base that points where it pointed is accepted.
func (w *walker) link(dir int, name, path string) error {
	buf := make([]byte, maxLinkBytes)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return w.vanished(path, err)
	}
	f := Found{Path: path, Mode: ModeSymlink, Size: int64(n), OID: BlobID(buf[:n])}
	if e := w.scope.base.entries[path]; e.Mode != ModeSymlink || e.OID != f.OID {
		w.refuse(kernel.CodeScopeFileType, path, whyLink)
		return nil
	}
	w.snap.files[path] = f
	return nil
}
