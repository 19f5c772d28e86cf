package gittest

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Commit makes a commit of the files, moves ref to it whatever it was, and returns its
// id. Its parent is parent, if not "". The objects are those that git would make, and
// are written here: of its own programs it would take four.
func Commit(t testing.TB, dir, ref, parent string, files map[string]string) string {
	t.Helper()
	store := filepath.Join(dir, "objects")
	if _, err := os.Stat(store); err != nil {
		store = filepath.Join(dir, ".git", "objects")
	}
	tree, err := writeTree(store, files)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", hex.EncodeToString(tree))
	if parent != "" {
		if _, err := hex.DecodeString(parent); err != nil || len(parent) != 2*sha1.Size {
			parent = Git(t, dir, "rev-parse", parent+"^{commit}")
		}
		fmt.Fprintf(&b, "parent %s\n", parent)
	}
	b.WriteString("author A U Thor <author@example.com> 1700000000 +0000\n")
	b.WriteString("committer C O Mitter <committer@example.com> 1700000000 +0000\n\ntest\n")
	id, err := writeObject(store, "commit", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	commit := hex.EncodeToString(id)
	moveRef(t, dir, ref, commit)
	return commit
}

// writeTree writes the tree of files, whose names are paths in it.
func writeTree(store string, files map[string]string) ([]byte, error) {
	type entry struct {
		mode, sortsAs string
		id            []byte
	}
	entries, below := map[string]entry{}, map[string]map[string]string{}
	for path, text := range files {
		if dir, rest, ok := strings.Cut(path, "/"); ok {
			if below[dir] == nil {
				below[dir] = map[string]string{}
			}
			below[dir][rest] = text
			continue
		}
		id, err := writeObject(store, "blob", []byte(text))
		if err != nil {
			return nil, err
		}
		entries[path] = entry{"100644", path, id}
	}
	for dir, files := range below {
		id, err := writeTree(store, files)
		if err != nil {
			return nil, err
		}
		entries[dir] = entry{"40000", dir + "/", id}
	}
	var b bytes.Buffer
	for _, name := range slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		return strings.Compare(entries[a].sortsAs, entries[b].sortsAs)
	}) {
		fmt.Fprintf(&b, "%s %s\x00%s", entries[name].mode, name, entries[name].id)
	}
	return writeObject(store, "tree", b.Bytes())
}

// writeObject writes a loose object, if it isn't one yet, and returns its id.
func writeObject(store, kind string, body []byte) ([]byte, error) {
	whole := append(fmt.Appendf(nil, "%s %d\x00", kind, len(body)), body...)
	sum := sha1.Sum(whole)
	name := hex.EncodeToString(sum[:])
	path := filepath.Join(store, name[:2], name[2:])
	if _, err := os.Stat(path); err == nil {
		return sum[:], nil
	}
	var b bytes.Buffer
	z, err := zlib.NewWriterLevel(&b, zlib.BestSpeed)
	if err != nil {
		return nil, err
	}
	_, _ = z.Write(whole) // a buffer takes it
	_ = z.Close()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(store, "tmp_obj_")
	if err != nil {
		return nil, err
	}
	_ = f.Chmod(0o444) // as git has them; nothing depends on it
	return sum[:], fill(f, b.Bytes(), path)
}

// moveRef moves a ref whatever it was, as git does: by a lock file that takes its
// place. Git itself does it where more than a file is at stake.
func moveRef(t testing.TB, dir, ref, oid string) {
	t.Helper()
	if isRef(ref) && looseOnly(dir) && moveLoose(filepath.Join(dir, ref), oid) == nil {
		return
	}
	Git(t, dir, "update-ref", ref, oid)
}

func moveLoose(path, oid string) error {
	if was, err := os.ReadFile(path); err == nil && bytes.HasPrefix(was, []byte("ref:")) {
		return errors.New("it points at another ref")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return fill(f, []byte(oid+"\n"), path)
}

// fill writes a file whole and only then gives it its name.
func fill(f *os.File, data []byte, path string) error {
	_, err := f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error says why
	}
	return err
}
