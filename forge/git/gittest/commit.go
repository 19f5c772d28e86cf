package gittest

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// Commit makes a commit of the files, moves ref to it whatever it was, and returns its
// id. Its parent is parent, if not "". It takes none of git's programs, of which it would
// be four.
func Commit(t testing.TB, dir, ref, parent string, files map[string]string) string {
	t.Helper()
	store := storeOf(dir)
	at := time.Unix(1_700_000_000, 0).UTC()
	commit := object.Commit{
		Author:    object.Signature{Name: "A U Thor", Email: "author@example.com", When: at},
		Committer: object.Signature{Name: "C O Mitter", Email: "committer@example.com", When: at},
		Message:   "test\n",
	}
	var err error
	if commit.TreeHash, err = storeTree(store, files); err != nil {
		t.Fatal(err)
	}
	if parent != "" {
		if !plumbing.IsHash(parent) {
			parent = Git(t, dir, "rev-parse", parent+"^{commit}")
		}
		commit.ParentHashes = []plumbing.Hash{plumbing.NewHash(parent)}
	}
	id, err := stored(store, &commit)
	if err != nil {
		t.Fatal(err)
	}
	moveRef(t, dir, ref, id.String())
	return id.String()
}

// storeOf is where a repository has its objects.
func storeOf(dir string) storer.EncodedObjectStorer {
	gitDir := filepath.Join(dir, ".git")
	if _, err := os.Stat(gitDir); err != nil {
		gitDir = dir // it is bare
	}
	return filesystem.NewStorage(osfs.New(gitDir), cache.NewObjectLRUDefault())
}

// storeTree stores the tree of files, whose names are paths in it.
func storeTree(s storer.EncodedObjectStorer, files map[string]string) (plumbing.Hash, error) {
	var tree object.Tree
	below := map[string]map[string]string{}
	add := func(name string, mode filemode.FileMode, id plumbing.Hash, err error) error {
		tree.Entries = append(tree.Entries, object.TreeEntry{Name: name, Mode: mode, Hash: id})
		return err
	}
	for path, text := range files {
		if dir, rest, ok := strings.Cut(path, "/"); ok {
			if below[dir] == nil {
				below[dir] = map[string]string{}
			}
			below[dir][rest] = text
			continue
		}
		id, err := stored(s, raw{plumbing.BlobObject, text})
		if err := add(path, filemode.Regular, id, err); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(below)) {
		id, err := storeTree(s, below[dir])
		if err := add(dir, filemode.Dir, id, err); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	slices.SortFunc(tree.Entries, func(a, b object.TreeEntry) int { return strings.Compare(sortsAs(a), sortsAs(b)) })
	return stored(s, &tree)
}

// sortsAs is what git sorts an entry of a tree by.
func sortsAs(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

// raw is an object of which nothing is checked.
type raw struct {
	kind plumbing.ObjectType
	text string
}

func (r raw) Encode(o plumbing.EncodedObject) error {
	o.SetType(r.kind)
	w, err := o.Writer()
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, r.text)
	return errors.Join(err, w.Close())
}

// stored stores an object of git and returns its id.
func stored(s storer.EncodedObjectStorer, what interface {
	Encode(plumbing.EncodedObject) error
}) (plumbing.Hash, error) {
	o := s.NewEncodedObject()
	if err := what.Encode(o); err != nil {
		return plumbing.ZeroHash, err
	}
	return s.SetEncodedObject(o)
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
