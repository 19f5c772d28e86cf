package smarthttp

import (
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on names. Longer ones serve nobody but an attacker.
const (
	maxName     = 1024 // bytes
	maxSegment  = 255  // bytes, as in file systems
	maxSegments = 8
)

// validName says whether a name may be looked for at all (case G1): segments
// with a slash between them, none empty, none that begins with a dot or dash. So
// a name is a relative path that stays below the root, and no option.
func validName(name string) bool {
	if len(name) > maxName || !utf8.ValidString(name) || strings.Contains(name, `\`) ||
		strings.ContainsFunc(name, unicode.IsControl) {
		return false
	}
	segments := strings.Split(name, "/")
	for _, s := range segments {
		if s == "" || s[0] == '.' || s[0] == '-' || len(s) > maxSegment {
			return false
		}
	}
	return len(segments) <= maxSegments
}

// find returns the directory of a repository. Nothing on the way to it may be a
// symbolic link, which would give a repository a second name, or a repository:
// whoever may push refs named x/HEAD, x/objects/y and x/refs/y could make a
// directory of refs look like one.
func (h *Handler) find(name string) (string, error) {
	dir := h.opts.Root
	for segment := range strings.SplitSeq(name, "/") {
		if isRepository(dir) {
			return "", ErrNotFound
		}
		dir = filepath.Join(dir, segment)
		if !isKind(dir, os.ModeDir) {
			return "", ErrNotFound
		}
	}
	// git would go on to a .git within.
	if _, err := os.Lstat(filepath.Join(dir, ".git")); !os.IsNotExist(err) || !isRepository(dir) {
		return "", ErrNotFound
	}
	return dir, nil
}

// isRepository says whether a directory looks like a bare repository.
func isRepository(dir string) bool {
	return isKind(filepath.Join(dir, "HEAD"), 0) && isKind(filepath.Join(dir, "objects"), os.ModeDir) &&
		isKind(filepath.Join(dir, "refs"), os.ModeDir)
}

// isKind says whether path is of that type, and no symbolic link to one.
func isKind(path string, kind os.FileMode) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Type() == kind
}
