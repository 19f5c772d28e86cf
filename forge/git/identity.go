package git

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// IdentityFile is the file in a repository's git directory that says which
// repository it is, whatever its path is called.
const IdentityFile = "writ-world"

// pathIdentity is what the identity of a repository without a forge begins with.
const pathIdentity = "path#"

// identityBytes are enough that no two repositories meet.
const identityBytes = 16

var identityForm = lazyregexp.New(`^(path#[0-9a-f]{32}|local-[0-9a-f]{16}#[0-9a-f]{16})\n$`)

// Identity reads which repository lies at path; "" where none was noted yet. It
// changes nothing.
func Identity(path string) (string, error) {
	file, err := identityFile(path)
	if err != nil {
		return "", err
	}
	text, err := readSmall(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fail(CodeLocal, "the file "+file+" can't be read", "check its permissions", err)
	}
	if !identityForm().Match(text) {
		return "", fail(CodeLocal, "the file "+file+" doesn't say which repository this is",
			"put back what it said; if that is lost, remove it: a new identity is made, and `writ world rebind` goes on with what the old one left", nil)
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}

// MintIdentity reads which repository lies at path, or decides it once and for
// all. Two processes that do so at once get the same answer; a crash leaves the
// whole file or none.
func MintIdentity(path string) (string, error) {
	if id, err := Identity(path); id != "" || err != nil {
		return id, err
	}
	random := make([]byte, identityBytes)
	if _, err := rand.Read(random); err != nil {
		return "", fail(CodeLocal, "this machine gives no random bytes", "", err)
	}
	err := noteIdentity(path, pathIdentity+hex.EncodeToString(random), os.Link)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return Identity(path)
}

// SetIdentity notes an identity that a forge gave. What the file said before
// is of another life of these files.
func SetIdentity(path, id string) error { return noteIdentity(path, id, os.Rename) }

// noteIdentity writes the file whole and durably, then gives it its name.
func noteIdentity(path, id string, place func(from, to string) error) error {
	if !identityForm().MatchString(id + "\n") {
		return fail(CodeLocal, "this is no identity of a repository: "+id, "", nil)
	}
	file, err := identityFile(path)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), IdentityFile+".new-*")
	if err == nil {
		_, err = temp.WriteString(id + "\n")
		err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close())
		if err == nil {
			err = place(temp.Name(), file)
		}
		_ = os.Remove(temp.Name()) // a renamed one is gone
	}
	if err != nil {
		return fail(CodeLocal, "the identity of the repository can't be noted in "+file, "run writ as the owner of the repository, or give its forge's URL", err)
	}
	return nil
}

// identityFile lies in the part of a git directory that linked working trees
// share.
func identityFile(path string) (string, error) {
	dir, err := gitDir(path)
	if err != nil {
		return "", err
	}
	if text, err := readSmall(filepath.Join(dir, "commondir")); err == nil {
		dir = resolvePath(dir, strings.TrimSpace(string(text)))
	}
	return filepath.Join(dir, IdentityFile), nil
}

// SameRepository reports whether two paths are one repository: the same directory, or
// working trees of one.
func SameRepository(a, b string) bool {
	var infos [2]fs.FileInfo
	for i, path := range []string{a, b} {
		file, err := identityFile(path)
		if err == nil {
			infos[i], err = os.Stat(filepath.Dir(file))
		}
		if err != nil {
			return false
		}
	}
	return os.SameFile(infos[0], infos[1])
}
