package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/writbot/writ/forge/git/internal/process"
)

const (
	// looseMany is from how many loose objects on a repository is worth packing: those of
	// some hundred tasks. Each is a file that is opened for itself, and each push and
	// fetch looks through their directories.
	looseMany = 2048
	// looseSample is one of the 256 directories of loose objects. Which of them an object
	// lies in is as good as random, so one tells of all.
	looseSample = "17"
	// lockOver is the age from which on a lock file is nobody's: no git of a server runs
	// as long.
	lockOver = time.Hour
	// temporaryOver is the same of a pack or a push that was never finished.
	temporaryOver = 24 * time.Hour
)

// NeedsMaintenance estimates whether a bare repository on disk has loose objects enough
// for [Maintain]. It reads one directory.
func NeedsMaintenance(dir string) bool {
	entries, err := os.ReadDir(filepath.Join(dir, "objects", looseSample))
	return err == nil && len(entries)*256 >= looseMany
}

// Maintain packs the loose objects and refs of a bare repository on disk, and joins small
// packs to larger ones, each at least twice the next. Pushes and fetches go on meanwhile:
//
//   - no object is ever left out, whether a ref leads to it or not, and a loose file or a
//     pack goes only once all of it lies in another pack that is on the disk. A push that
//     isn't taken yet has its objects in a directory of its own, which isn't looked at;
//   - a directory of loose objects that has become empty goes. A push that is about to put
//     an object there is refused with what it meets, changes nothing, and is tried again
//     ([Unable]): git has no lock for it;
//   - a ref is taken out of its file under its lock, and only if it still is what was
//     packed; a push that meets the lock waits for it.
//
// So what is killed at any moment leaves everything where it can be read. What such a
// death left behind besides, locks and unfinished packs, goes once it is old enough to be
// nobody's. gitProgram "" is the one on the PATH.
func Maintain(ctx context.Context, gitProgram, dir string) error {
	sweepLeftovers(dir, time.Now())
	for _, args := range [][]string{
		{"repack", "-d", "-l", "-q", "--geometric=2"},
		{"pack-refs", "--all", "--prune"},
	} {
		// What is taken away afterwards must be on the disk in its new place before.
		all := append([]string{"-c", "core.fsync=all", "-c", "pack.threads=1", "--git-dir=" + dir}, args...)
		if words, err := process.Run(ctx, process.Command{Git: gitProgram, Args: all}); err != nil {
			return fmt.Errorf("git %s in %s: %w: %s", args[0], dir, err, words)
		}
	}
	return nil
}

// sweepLeftovers removes what dead processes left. What can't be removed is no worse than
// before.
func sweepLeftovers(dir string, now time.Time) {
	old := func(path string, age time.Duration) bool {
		info, err := os.Lstat(path)
		return err == nil && now.Sub(info.ModTime()) > age
	}
	locks := []string{filepath.Join(dir, "packed-refs.lock"), filepath.Join(dir, "packed-refs.new")}
	_ = filepath.WalkDir(filepath.Join(dir, "refs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(path, ".lock") { // no ref may be called so
			locks = append(locks, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	for _, path := range locks {
		if old(path, lockOver) {
			_ = os.Remove(path)
		}
	}
	for _, pattern := range []string{"objects/pack/tmp_*", "objects/pack/.tmp-*", "objects/tmp_objdir-*"} {
		names, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern))) // the pattern is valid
		for _, name := range names {
			if old(name, temporaryOver) {
				_ = os.RemoveAll(name)
			}
		}
	}
}
