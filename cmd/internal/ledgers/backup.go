package ledgers

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/store"
)

// checkpointsSuffix is what the directory of a back-up's checkpoints adds to
// the back-up's name.
const checkpointsSuffix = ".checkpoints"

// Copied is a store that was copied.
type Copied struct {
	Dir         *installation.Dir // of the store
	Beside      string            // the directory of the copied checkpoints
	Checkpoints int
}

// Backup copies checkpoints first and the store last. So no checkpoint is newer
// than the copy, which would make it a rollback, and a FILE that is there is a
// back-up that is whole.
func Backup(ctx context.Context, state, path string) (done Copied, err error) {
	dir, err := installation.OpenDir(state, false)
	if err != nil {
		return done, err
	}
	if _, err := os.Lstat(path); err == nil {
		return done, alreadyThere(path)
	}
	db, err := openForBackup(ctx, dir)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	checkpoints, err := dir.Checkpoints()
	if err != nil {
		return done, err
	}
	beside := path + checkpointsSuffix
	if err := writeCheckpoints(beside, checkpoints); err != nil {
		return done, err
	}
	if err := db.Backup(ctx, path); err != nil {
		_ = os.RemoveAll(beside) // made above; the error that matters is the other one
		if errors.Is(err, fs.ErrExist) {
			return done, alreadyThere(path)
		}
		return done, err
	}
	return Copied{Dir: dir, Beside: beside, Checkpoints: len(checkpoints)}, nil
}

// openForBackup opens the store beside its writer.
func openForBackup(ctx context.Context, dir *installation.Dir) (*store.DB, error) {
	if !ledger.Recorded(dir.Path) {
		p := installation.BadState(dir.Path, "has no store: nothing was recorded there")
		p.Remedy = "Give the --state-dir of an installation that ran."
		return nil, p
	}
	return store.OpenReadOnly(ctx, dir.File(store.FileName), store.Options{})
}

// writeCheckpoints makes a directory that isn't there with these files in it, all of it
// durable, or nothing.
func writeCheckpoints(dir string, files map[string][]byte) (err error) {
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return alreadyThere(dir)
	} else if err != nil {
		return notWritten(dir, err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // made above; the error that matters is the other one
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeDurable(filepath.Join(dir, name), files[name]); err != nil {
			return notWritten(dir, err)
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		return notWritten(dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return notWritten(dir, err)
	}
	return nil
}

func writeDurable(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func alreadyThere(path string) *problem.Error {
	return &problem.Error{Exit: problem.ExitOther, Text: path + " is there already, and a back-up overwrites nothing.", Remedy: "Give another name, or remove it first."}
}

func notWritten(path string, err error) *problem.Error {
	return &problem.Error{Exit: problem.ExitOther, Text: "The back-up can't write " + path + ": " + problem.Cause(err) + ".", Remedy: "Give a FILE in a directory that is there, is yours, and has room."}
}
