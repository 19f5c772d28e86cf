package builder

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
)

// treeOf lists what is in a directory: modes, and bytes or targets.
func treeOf(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := strings.TrimPrefix(path, root) + " " + info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " " + target
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// randomTree is a tree of few names, so that files and directories collide.
func randomTree(r *rand.Rand) map[string]string {
	names := []string{"a", "b", "c"}
	files := map[string]string{}
	for range 1 + r.IntN(8) {
		depth := 1 + r.IntN(3)
		var parts []string
		for range depth {
			parts = append(parts, names[r.IntN(len(names))])
		}
		files[strings.Join(parts, "/")] = fmt.Sprint(r.IntN(4))
	}
	for path := range files {
		for other := range files {
			if strings.HasPrefix(other, path+"/") {
				delete(files, path)
			}
		}
	}
	marked := map[string]string{}
	for path, text := range files {
		marked[path+[]string{"", "", "", "*", "@", "+"}[r.IntN(6)]] = text
	}
	return marked
}

// changesBetween makes the changes that lead from one base to the other, and
// the second tree without links and submodules that the first doesn't have.
func changesBetween(from, to executor.Base) (list []kernel.Change, after []scope.Entry) {
	have := map[string]executor.File{}
	for _, f := range from.Files {
		have[f.Path] = f
	}
	special := func(f executor.File) bool { return f.Mode == scope.ModeSymlink || f.Mode == scope.ModeGitlink }
	for _, f := range to.Files {
		if special(f) || special(have[f.Path]) {
			continue
		}
		op := kernel.OpModify
		switch old, there := have[f.Path]; {
		case !there:
			op = kernel.OpAdd
		case old == f:
			continue
		case old.ID == f.ID:
			op = kernel.OpMode
		}
		list = append(list, kernel.Change{Path: f.Path, Op: op, AfterID: f.ID, AfterMode: f.Mode})
	}
	for _, f := range from.Files {
		if !special(f) && !slices.ContainsFunc(to.Files, func(g executor.File) bool { return g.Path == f.Path }) {
			list = append(list, kernel.Change{Path: f.Path, Op: kernel.OpDelete})
		}
	}
	slices.SortFunc(list, func(a, b kernel.Change) int { return strings.Compare(a.Path, b.Path) })
	return list, scope.Apply(entries(from.Files), list)
}

// TestS17_AppliedIsLaidOut holds a base with a change applied against the whole
// tree laid out anew, for random pairs of trees.
func TestS17_AppliedIsLaidOut(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	blobs := map[string][]byte{}
	for i := range 4 {
		data := []byte(fmt.Sprint(i))
		blobs[scope.BlobID(data)] = data
	}
	get := func(id string) ([]byte, error) { return blobs[id], nil }
	tried, refused := 0, 0
	for tried < 200 {
		from, to := baseOf(randomTree(r)), baseOf(randomTree(r))
		list, after := changesBetween(from, to)
		c, err := newChange(entries(from.Files), list, blobs)
		if err != nil {
			refused++ // a link or submodule stayed where a directory must be
			continue
		}
		tried++
		dir := t.TempDir()
		applied, anew := filepath.Join(dir, "applied"), filepath.Join(dir, "anew")
		if err := scope.Materialise(context.Background(), applied, entries(from.Files), get); err != nil {
			t.Fatal(err)
		}
		if err := c.apply(applied); err != nil {
			t.Fatalf("%v → %v: %v", from.Files, list, err)
		}
		if err := scope.Materialise(context.Background(), anew, after, get); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(treeOf(t, anew), treeOf(t, applied)); d != "" {
			t.Fatalf("%v → %v:\n%s", from.Files, list, d)
		}
	}
	if refused > 200 {
		t.Errorf("only %d of %d pairs were of use", tried, tried+refused)
	}
}

// TestApply_StaysInside has a link of the base where a change wants a directory.
func TestApply_StaysInside(t *testing.T) {
	t.Parallel()
	base := baseOf(map[string]string{"a@": "/tmp", "b": "x"})
	data := []byte("evil")
	list := []kernel.Change{{Path: "a/file", Op: kernel.OpAdd, AfterID: scope.BlobID(data), AfterMode: scope.ModeFile}}
	if _, err := newChange(entries(base.Files), list, map[string][]byte{scope.BlobID(data): data}); err == nil {
		t.Error("a path below a link was accepted")
	}
}
