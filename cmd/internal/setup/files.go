package setup

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The rights of what set-up writes: nobody but its owner.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
	// others are the rights that a directory or file with secrets must not have.
	others fs.FileMode = 0o077
)

// maxKept bounds a file that is read back, in bytes.
const maxKept = 256 << 10

// MakeDir makes the directory for credentials. One that is there must be a
// directory that only its owner enters.
func MakeDir(path string) error {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return &Error{Text: path + " can't be made: " + cause(err) + ".", Remedy: "Name another with --dir.", Err: err}
	}
	info, err := os.Stat(path)
	if err != nil {
		return &Error{Text: path + " can't be looked at: " + cause(err) + ".", Remedy: "Name another with --dir.", Err: err}
	}
	if info.Mode().Perm()&others != 0 {
		return wrong("chmod 700 "+path+", or name another with --dir.", "Others may enter the directory %s (mode %04o), and secrets are to lie in it.", path, info.Mode().Perm())
	}
	return try(path)
}

// try keeps a file and takes it away: what is given once must not be the first
// that a full or foreign file system is tried with.
func try(dir string) error {
	path := filepath.Join(dir, ".writ-try-"+rand.Text())
	err := keep(path, []byte("\n"))
	if err == nil {
		err = remove(path)
	}
	if err != nil {
		return &Error{Text: "No file can be kept in " + dir + ": " + cause(err) + ".", Remedy: "Make room, change its rights, or name a directory on a local disk with --dir.", Err: err}
	}
	return nil
}

// Keep writes a file that only its owner reads, durably, and never half of it or
// over another. One that is there with the very same content is left and no error.
func Keep(path string, data []byte) error {
	err := keep(path, data)
	if errors.Is(err, fs.ErrExist) {
		if have, readErr := ReadKept(path); readErr == nil && bytes.Equal(have, data) {
			return nil
		}
		return wrong("Move it away, or name another directory with --dir.", "%s is there already and was left as it is.", path)
	}
	if err != nil {
		return &Error{Text: path + " can't be written: " + cause(err) + ".", Remedy: "Make room, or change its directory's rights, and try again.", Err: err}
	}
	return nil
}

// keep writes beside the path and links the whole file to it, which fails where
// something is.
func keep(path string, data []byte) (err error) {
	temp := filepath.Join(filepath.Dir(path), ".writ-"+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, fileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(temp)) }()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReadKept reads a file with secrets. One that others may read is refused.
func ReadKept(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, wrong("Name the file itself.", "%s is no regular file.", path)
	case info.Mode().Perm()&others != 0:
		return nil, wrong("chmod 600 "+path+". If others may have read it, have a new one made.", "Others may read %s (mode %04o).", path, info.Mode().Perm())
	case info.Size() > maxKept:
		return nil, wrong("Name the right file.", "%s is larger than any secret.", path)
	}
	return io.ReadAll(io.LimitReader(f, maxKept))
}

// Exists reports whether there is anything at a path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// cause is what the system says, without the path that is told beside it.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err.Error()
	}
	return err.Error()
}

// remove takes a file away, durably.
func remove(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
