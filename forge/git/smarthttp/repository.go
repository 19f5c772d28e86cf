package smarthttp

import (
	"os"
	"path/filepath"
)

// Limits on names. Longer ones serve nobody but an attacker.
const (
	maxName     = 1024 // bytes
	maxSegment  = 255  // bytes, as in file systems
	maxSegments = 8
)

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
