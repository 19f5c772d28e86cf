package git

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// fillWorkspace writes n files of a few kilobytes and returns their entries.
func fillWorkspace(t testing.TB, dir string, n int) []Entry {
	t.Helper()
	var out []Entry
	for i := range n {
		e := Entry{Path: fmt.Sprintf("dir%02d/sub%d/file%04d.go", i%37, i%3, i), Mode: ModeFile}
		text := []byte(strings.Repeat(fmt.Sprintf("line %d\n", i), 300))
		if i%50 == 7 {
			e.Mode = ModeExec
		}
		e.OID = HashBlob(text)
		out = append(out, e)
		writeEntry(t, dir, e, text)
	}
	return out
}

func writeEntry(t testing.TB, dir string, e Entry, text []byte) {
	t.Helper()
	path := filepath.Join(dir, e.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	switch e.Mode {
	case ModeSymlink:
		err = os.Symlink(string(text), path)
	case ModeExec:
		err = os.WriteFile(path, text, 0o755)
	default:
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriteRepository(t *testing.T) {
	dir := t.TempDir()
	entries := fillWorkspace(t, dir, 200)
	for _, odd := range []struct {
		e    Entry
		text string
	}{
		{Entry{Path: "link", Mode: ModeSymlink}, "dir01/sub1"},
		{Entry{Path: "empty", Mode: ModeFile}, ""},
		{Entry{Path: "a.b", Mode: ModeFile}, "between a and a/"},
		{Entry{Path: "a/x", Mode: ModeFile}, strings.Repeat("large ", 40_000)},
		{Entry{Path: "name with \"quotes\" and ü", Mode: ModeFile}, "odd"},
		{Entry{Path: strings.Repeat("long/", 20) + "x", Mode: ModeFile}, ""},
	} {
		odd.e.OID = HashBlob([]byte(odd.text))
		entries = append(entries, odd.e)
		writeEntry(t, dir, odd.e, []byte(odd.text))
	}
	err := WriteRepository(dir, RepositorySpec{Entries: entries, Author: tester, Message: []byte("base\n")})
	if err != nil {
		t.Fatal(err)
	}
	if out := gittest.Git(t, dir, "status", "--porcelain"); out != "" {
		t.Errorf("git status: %s", out)
	}
	gittest.Git(t, dir, "fsck", "--strict", "--full")
	if out := gittest.Git(t, dir, "rev-list", "--count", "--all"); out != "1" {
		t.Errorf("%s commits", out)
	}
	if out := gittest.Git(t, dir, "ls-files"); len(strings.Split(out, "\n")) != len(entries) {
		t.Errorf("%d files, want %d", len(strings.Split(out, "\n")), len(entries))
	}
	if out := gittest.Git(t, dir, "symbolic-ref", "HEAD"); out != "refs/heads/main" {
		t.Errorf("HEAD is %s", out)
	}
	if err := os.WriteFile(filepath.Join(dir, "empty"), []byte("now not"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := gittest.Git(t, dir, "status", "--porcelain"); out != " M empty" {
		t.Errorf("git status after an edit: %q", out)
	}
}

func TestWriteRepositoryRefusesOtherBytes(t *testing.T) {
	dir := t.TempDir()
	entries := fillWorkspace(t, dir, 3)
	if err := os.WriteFile(filepath.Join(dir, entries[1].Path), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantCode(t, WriteRepository(dir, RepositorySpec{Entries: entries, Author: tester}), CodeObjectInvalid)
}

// BenchmarkWriteRepository takes 1,000 files of 2.7 KiB; the target is 15 ms.
func BenchmarkWriteRepository(b *testing.B) {
	dir := b.TempDir()
	entries := fillWorkspace(b, dir, 1000)
	blobs := map[OID][]byte{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Path))
		if err != nil {
			b.Fatal(err)
		}
		blobs[e.OID] = text
	}
	for name, read := range map[string]func(Entry) ([]byte, error){
		"files": nil, "memory": func(e Entry) ([]byte, error) { return blobs[e.OID], nil },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := WriteRepository(dir, RepositorySpec{Entries: entries, Read: read, Author: tester}); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
