package scope

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMaterialise(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	w := newWorld(t, baseFiles)
	w.add("calc/link", ModeSymlink, "../../outside")
	w.add("mod", ModeGitlink, "")
	w.layOut()
	for path, want := range map[string]os.FileMode{"calc/add.go": 0o644, "calc/run.sh": 0o755} {
		info, err := os.Lstat(w.path(path))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v", path, info, err)
		}
	}
	if target, err := os.Readlink(w.path("calc/link")); err != nil || target != "../../outside" {
		t.Errorf("%q %v", target, err)
	}
	if info, err := os.Stat(w.path("mod")); err != nil || !info.IsDir() {
		t.Error(info, err)
	}
	if err := Materialise(context.Background(), w.dir, w.entries, w.blob); err == nil {
		t.Error("a full directory was filled again")
	}
}

func TestS12_TreesThatEscape(t *testing.T) {
	blob := func(string) ([]byte, error) { return []byte("/tmp"), nil }
	for _, entries := range [][]Entry{
		{{"../x", ModeFile, "a"}}, {{"/x", ModeFile, "a"}}, {{"a/../../x", ModeFile, "a"}}, {{".git/hooks/x", ModeFile, "a"}},
		{{".GIT/config", ModeFile, "a"}}, {{"a", ModeSymlink, "a"}, {"a/b", ModeFile, "b"}}, {{"a", ModeFile, "a"}, {"a", ModeFile, "b"}},
		{{"a", "100664", "a"}}, {{"a", "040000", "a"}}, {{"a\x00b", ModeFile, "a"}}, {{"", ModeFile, "a"}}, {{"a//b", ModeFile, "a"}},
	} {
		dir := filepath.Join(t.TempDir(), "ws")
		var bad *TreeError
		if err := Materialise(context.Background(), dir, entries, blob); !errors.As(err, &bad) {
			t.Errorf("%v: %v", entries, err)
		}
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%v: something was made", entries)
		}
	}
}

func TestMaterialiseMissingBlob(t *testing.T) {
	w := newWorld(t, baseFiles)
	missing := errors.New("gone")
	err := Materialise(context.Background(), w.dir, w.entries, func(string) ([]byte, error) { return nil, missing })
	if !errors.Is(err, missing) {
		t.Error(err)
	}
}

func manyFiles(n int) *world {
	w := &world{blobs: map[string][]byte{}}
	for i := range n {
		w.add(fmt.Sprintf("dir%02d/sub%d/file%04d.go", i%20, i%5, i), ModeFile, fmt.Sprintf("package x // %d\n%01000d\n", i, 7))
	}
	return w
}

func BenchmarkMaterialise1000(b *testing.B) {
	w := manyFiles(1000)
	for i := range b.N {
		dir := filepath.Join(b.TempDir(), fmt.Sprint(i))
		if err := Materialise(context.Background(), dir, w.entries, w.blob); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify1000(b *testing.B) {
	w := manyFiles(1000)
	dir := filepath.Join(b.TempDir(), "ws")
	if err := Materialise(context.Background(), dir, w.entries, w.blob); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		s, err := New(w.entries, Rules{Allowed: []string{"a"}, MaxFiles: 10, MaxBytes: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		if v, err := s.Verify(context.Background(), dir); err != nil || len(v.Violations) > 0 {
			b.Fatal(v, err)
		}
	}
}
