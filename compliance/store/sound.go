package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"syscall"
)

// sumSuffix names the file beside the database that says what it was when it was
// closed. It is there only while nobody has the database open for writing: where
// it is missing, the last writer had no orderly end.
const sumSuffix = "-sum"

// Altered reports whether the file was another when it was opened than when it was
// closed, though its structure is sound.
func (db *DB) Altered() bool { return db.altered }

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
