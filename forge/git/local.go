package git

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxSmallFile bounds HEAD, .git files, loose refs and configuration, in bytes.
const maxSmallFile = 1 << 20

// local is a repository on disk.
type local struct {
	dir    string // of this working tree: HEAD
	common string // of the repository: objects, refs, config
	files  bool   // refs are kept in files, not in a reftable
	store  *diskStore
}

// openLocal finds the repository at path: bare, a working tree, or a linked
// working tree. Nothing in its configuration is executed.
func openLocal(path string, maxObject int64) (*local, error) {
	dir, err := gitDir(path)
	if err != nil {
		return nil, err
	}
	l := &local{dir: dir, common: dir, files: true}
	if text, err := readSmall(filepath.Join(dir, "commondir")); err == nil {
		l.common = resolvePath(dir, strings.TrimSpace(string(text)))
	}
	ext, err := extensions(filepath.Join(l.common, "config"))
	if err != nil {
		return nil, err
	}
	if f := ext["objectformat"]; f != "" && f != "sha1" {
		return nil, fail(CodeUnsupported, "the repository names objects by "+f, "writ works with SHA-1 repositories", nil)
	}
	l.files = ext["refstorage"] == "" || ext["refstorage"] == "files"
	l.store = newDiskStore(filepath.Join(l.common, "objects"), maxObject)
	return l, nil
}

func notRepository(path string, err error) error {
	return fail(CodeNotFound, "there is no git repository at "+path, "check the path; git init makes one", err)
}

func gitDir(path string) (string, error) {
	path = filepath.Clean(path)
	dot := filepath.Join(path, ".git")
	info, err := os.Stat(dot)
	switch {
	case err == nil && info.IsDir():
		path = dot
	case err == nil:
		text, err := readSmall(dot)
		target, ok := strings.CutPrefix(string(text), "gitdir: ")
		if err != nil || !ok {
			return "", notRepository(path, err)
		}
		path = resolvePath(path, strings.TrimSpace(target))
	case !errors.Is(err, fs.ErrNotExist):
		return "", notRepository(path, err)
	}
	if _, err := os.Stat(filepath.Join(path, "HEAD")); err != nil {
		return "", notRepository(path, err)
	}
	return path, nil
}

func resolvePath(base, p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(base, p)
}

// extensions reads the [extensions] section of a configuration file: the only
// one that changes how a repository is read. Includes do not apply there.
func extensions(path string) (map[string]string, error) {
	text, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fail(CodeLocal, "the repository's configuration can't be read", "check its permissions", err)
	}
	out := map[string]string{}
	in := false
	s := bufio.NewScanner(strings.NewReader(string(text)))
	for s.Scan() {
		line := strings.TrimSpace(s.Text())
		if strings.HasPrefix(line, "[") {
			section, rest, _ := strings.Cut(line[1:], "]")
			in = strings.EqualFold(strings.TrimSpace(section), "extensions")
			line = strings.TrimSpace(rest)
		}
		if key, value, ok := strings.Cut(line, "="); ok && in {
			value, _, _ = strings.Cut(value, "#")
			out[strings.ToLower(strings.TrimSpace(key))] = strings.ToLower(strings.Trim(strings.TrimSpace(value), `"`))
		}
	}
	return out, nil
}

func readSmall(path string) ([]byte, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSmallFile))
}

// openFile opens a file of a repository on disk. One that is no regular file, such as
// a pipe or a device, would never end. A directory is left to whoever reads it, as
// where a ref is the beginning of another's name.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		_ = f.Close() // opened for reading
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return f, nil
}
