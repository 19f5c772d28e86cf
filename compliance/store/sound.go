package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// sumSuffix names the file beside the database that says what it was when it was
// closed. It is there only while nobody has the database open for writing: where
// it is missing, the last writer had no orderly end.
const sumSuffix = "-sum"

// compare reports whether the file is what it was when it was closed. It comes
// before the first connection, which may mend what it finds in the file's head.
func (db *DB) compare() (same bool, err error) {
	sum, err := os.ReadFile(db.path + sumSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	now, err := fileSum(db.path)
	if err != nil {
		return false, err
	}
	same = bytes.Equal(sum, now)
	db.altered = !same && sameFile(sum, now)
	return same, nil
}

// examine has the database look at its own structure where it isn't known to be
// what it was, before anything is written. What it finds is ErrDamaged.
func (db *DB) examine(ctx context.Context) error {
	var fault string
	if _, err := db.writer.row(ctx, "PRAGMA integrity_check(1)", nil, []any{&fault}); err != nil {
		return err
	}
	if fault != "ok" {
		return errors.Join(ErrDamaged, errors.New(oneLine(fault)))
	}
	if db.altered {
		db.log.Error("the store was changed while nobody had it open: its ledgers are verified, but what else it holds may not be what was stored",
			"file", db.path, "remedy", "find out who wrote there, or look at the disk; to be sure, restore a back-up")
	}
	return nil
}

// Altered reports whether the file was another when it was opened than when it was
// closed, though its structure is sound.
func (db *DB) Altered() bool { return db.altered }

// beginWriting takes the note of the last closing away, durably.
func (db *DB) beginWriting() error {
	err := os.Remove(db.path + sumSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(db.path))
}

// endWriting notes what the file is, once the last writer has closed it. Where
// somebody still reads, the log beside the file stays, and there is no note.
func (db *DB) endWriting() error {
	if _, err := os.Lstat(db.path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	sum, err := fileSum(db.path)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(db.path), ".writ-sum-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(part.Name()) }() // only the name, after success
	_, err = part.Write(sum)
	if err = errors.Join(err, part.Sync(), part.Close()); err != nil {
		return err
	}
	if err := os.Rename(part.Name(), db.path+sumSuffix); err != nil {
		return err
	}
	return syncDir(filepath.Dir(db.path))
}

// fileSum is a line with the file's number, so that one which was put in its place
// is not taken for it, and its digest.
func fileSum(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	var number uint64
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		number = st.Ino
	}
	return fmt.Appendf(nil, "%d sha256:%s\n", number, hex.EncodeToString(h.Sum(nil))), nil
}

// sameFile compares the files' numbers.
func sameFile(a, b []byte) bool {
	of, _, _ := bytes.Cut(a, []byte(" "))
	with, _, _ := bytes.Cut(b, []byte(" "))
	return bytes.Equal(of, with)
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }
