package ledger

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

const (
	checkpointPrefix = "checkpoint-" // of the file's name

	originPrefix = "writ/"
	// historyWord stands between world and number in the origin of a checkpoint
	// of a later history. A world's name has no spaces.
	historyWord = " history "

	// maxCheckpointBytes is far above three lines and one signature.
	maxCheckpointBytes = 8 << 10
)

// Checkpoint is a signed statement of an instance: its ledger of World had this
// root when it had Size records. Two of one History never contradict each other.
type Checkpoint struct {
	World   string    `json:"world_id"`
	History int64     `json:"history"` // 1 is the first, which the origin doesn't name
	Size    int64     `json:"size"`
	Root    tlog.Hash `json:"root"`
}

// text is the note's body (C2SP, tlog-checkpoint). Each history has an origin of
// its own, and is a log of its own for a witness.
func (c Checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.origin(), c.Size, c.Root)
}

func (c Checkpoint) origin() string {
	if c.History <= firstHistory {
		return originPrefix + c.World
	}
	return originPrefix + c.World + historyWord + strconv.FormatInt(c.History, 10)
}

// sign makes the note. The same checkpoint always gives the same bytes.
func (c Checkpoint) sign(key *instancekey.Key) ([]byte, error) {
	signer, err := key.NoteSigner()
	if err != nil {
		return nil, err
	}
	return note.Sign(&note.Note{Text: c.text()}, signer)
}

// OpenCheckpoint reads a checkpoint signed by the key. Any other byte, line or
// number form is an error.
func OpenCheckpoint(signed []byte, key instancekey.Public) (Checkpoint, error) {
	if len(signed) > maxCheckpointBytes {
		return Checkpoint{}, fmt.Errorf("ledger: a checkpoint of %d bytes is over the limit of %d", len(signed), maxCheckpointBytes)
	}
	verifier, err := key.NoteVerifier()
	if err != nil {
		return Checkpoint{}, err
	}
	n, err := note.Open(signed, note.VerifierList(verifier))
	if err != nil {
		return Checkpoint{}, fmt.Errorf("ledger: the checkpoint is not signed by %s: %w", key.Fingerprint(), err)
	}
	c, err := parseCheckpoint(n.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	// The note's reader passes over signatures it doesn't know and over spare
	// bits of base64; a kept checkpoint has one form.
	sig := n.Sigs[0].Base64
	bits, err := base64.StdEncoding.Strict().DecodeString(sig)
	if err != nil || base64.StdEncoding.EncodeToString(bits) != sig {
		return Checkpoint{}, fmt.Errorf("ledger: the checkpoint's signature is not in its one form")
	}
	if want := fmt.Sprintf("%s\n— %s %s\n", n.Text, verifier.Name(), sig); want != string(signed) {
		return Checkpoint{}, fmt.Errorf("ledger: the checkpoint holds more than one signature")
	}
	return c, nil
}

func parseCheckpoint(text string) (Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], originPrefix) {
		return Checkpoint{}, fmt.Errorf("ledger: not a checkpoint: want origin, size and root")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 1 {
		return Checkpoint{}, fmt.Errorf("ledger: the checkpoint's size is not a number of one or more")
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return Checkpoint{}, fmt.Errorf("ledger: the checkpoint's root is not a hash")
	}
	c := Checkpoint{History: firstHistory, Size: size, Root: root}
	world, history, later := strings.Cut(strings.TrimPrefix(lines[0], originPrefix), historyWord)
	if c.World = world; later {
		if c.History, err = strconv.ParseInt(history, 10, 64); err != nil || c.History <= firstHistory {
			return Checkpoint{}, fmt.Errorf("ledger: the checkpoint's history is not a number of two or more")
		}
	}
	if c.text() != text {
		return Checkpoint{}, fmt.Errorf("ledger: the checkpoint is not in its one form")
	}
	return c, nil
}

// CheckpointWorld is the world that a checkpoint is said to be of; ok is false
// for what can't be one. Nothing of it is verified: it only says where to look.
func CheckpointWorld(signed []byte) (world string, ok bool) {
	text, _, ok := strings.Cut(string(signed), "\n\n")
	if !ok || len(signed) > maxCheckpointBytes {
		return "", false
	}
	c, err := parseCheckpoint(text + "\n")
	return c.World, err == nil
}

// CheckpointFile is where the checkpoint of a world lies in the state
// directory, outside the store: "checkpoint-" and 16 digits of the name's hash.
func CheckpointFile(dir, world string) string {
	const digits = 16 // 64 bits: no two worlds of one store meet
	return filepath.Join(dir, checkpointPrefix+canon.Sum([]byte(world)).Hex()[:digits])
}

// Recorded reports whether anything was ever recorded in a state directory. A checkpoint,
// or what SQLite and the store keep beside a store's file, is what a lost one leaves:
// opening that says so.
func Recorded(dir string) bool {
	entries, _ := os.ReadDir(dir) // one that can't be listed may still have a store
	_, err := os.Lstat(filepath.Join(dir, FileName))
	return !errors.Is(err, fs.ErrNotExist) || slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasPrefix(e.Name(), checkpointPrefix) || strings.HasPrefix(e.Name(), FileName+"-")
	})
}

// KeptCheckpoint is what lies in that file, nil where there is none.
func KeptCheckpoint(dir, world string) ([]byte, error) {
	path := CheckpointFile(dir, world)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is no regular file")
	case info.Size() > maxCheckpointBytes:
		err = fmt.Errorf("it has %d bytes, over the limit of %d", info.Size(), maxCheckpointBytes)
	}
	var signed []byte
	if err == nil {
		signed, err = os.ReadFile(path)
	}
	if err == nil && len(signed) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, &Error{Code: kernel.CodeEnvState, World: world, Seq: NoSeq, Detail: "the checkpoint at " + path + " can't be read", Err: err}
	}
	return signed, nil
}

// WriteCheckpoint replaces the file at path in one step; after a crash it has
// the old bytes or the new ones. An unchanged file isn't written.
func WriteCheckpoint(path string, signed []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, signed) {
		return nil
	}
	if err := replaceFile(path, signed); err != nil {
		return &Error{Code: kernel.CodeEnvState, Seq: NoSeq, Detail: "the checkpoint can't be written", Err: err}
	}
	return nil
}

func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".checkpoint.new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
