package scope

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"golang.org/x/sys/unix"
)

func TestUnchanged(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.add("calc/link", ModeSymlink, "../docs/readme.md")
	w.add("third/mod", ModeGitlink, "")
	w.layOut()
	v := w.verify(w.rules())
	wantClean(t, v)
	if len(v.Changes)+len(v.Discarded)+len(v.Contents) > 0 {
		t.Errorf("%+v", v)
	}
	w.remove("third")
	wantClean(t, w.verify(w.rules()))
}

func TestAcceptedChange(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	w.write("calc/add.go", "package calc // more\n")
	w.write("calc/new.go", "package calc\n")
	w.remove("calc/sub")
	v := w.verify(w.rules())
	wantClean(t, v)
	if d := cmp.Diff([]string{"modify calc/add.go", "add calc/new.go", "delete calc/sub/a.go"}, ops(v)); d != "" {
		t.Error(d)
	}
	c := v.Changes[0]
	if c.AfterHash != canon.Sum([]byte("package calc // more\n")) || string(v.Contents[c.AfterID]) != "package calc // more\n" || c.Size != 21 {
		t.Errorf("%+v", c)
	}
	after := Apply(w.entries, v.Changes)
	if len(after) != len(w.entries) {
		t.Errorf("%d entries after, had %d", len(after), len(w.entries))
	}
}

func TestS1_SymlinkToOutside(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	outside := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(outside, []byte("canary"), 0o600))
	must(t, os.Symlink(outside, w.path("calc/link")))
	v := w.verify(w.rules())
	wantViolation(t, v, kernel.CodeScopeFileType, "calc/link")
	if len(v.Contents) > 0 {
		t.Error("something was read through a link")
	}
}

// A tracked file that became a link to bytes equal to its own is still a link.
func TestS1_FileReplacedByLink(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	twin := filepath.Join(t.TempDir(), "twin")
	must(t, os.WriteFile(twin, []byte(baseFiles["calc/add.go"]), 0o644))
	w.remove("calc/add.go")
	must(t, os.Symlink(twin, w.path("calc/add.go")))
	wantViolation(t, w.verify(w.rules()), kernel.CodeScopeFileType, "calc/add.go")
}

func TestS1_BaseLinks(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.add("calc/link", ModeSymlink, "add.go")
	w.layOut()
	w.remove("calc/link")
	wantClean(t, w.verify(w.rules()))
	must(t, os.Symlink("/etc/passwd", w.path("calc/link")))
	wantViolation(t, w.verify(w.rules()), kernel.CodeScopeFileType, "calc/link")
}

func TestS2_ParentSwappedForLink(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	outside := t.TempDir()
	must(t, os.CopyFS(filepath.Join(outside, "sub"), os.DirFS(w.path("calc/sub"))))
	w.remove("calc/sub")
	must(t, os.Symlink(filepath.Join(outside, "sub"), w.path("calc/sub")))
	v := w.verify(w.rules())
	wantViolation(t, v, kernel.CodeScopeFileType, "calc/sub")
	if d := cmp.Diff([]string{"delete calc/sub/a.go"}, ops(v)); d != "" {
		t.Error(d)
	}
	// The workspace itself may not be a link either.
	must(t, os.Symlink(w.dir, w.dir+"-link"))
	s, err := New(w.entries, w.rules())
	must(t, err)
	if _, err := s.Verify(context.Background(), w.dir+"-link"); !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
		t.Errorf("a linked workspace: %v", err)
	}
}

func TestS3_HardLink(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	secret := filepath.Join(filepath.Dir(w.dir), "secret")
	if above() {
		secret = w.path("calc/secret") // no link leads out of a mount
	}
	must(t, os.WriteFile(secret, []byte("canary"), 0o600))
	must(t, os.Link(secret, w.path("calc/stolen")))
	v := w.verify(w.rules())
	wantViolation(t, v, kernel.CodeScopeHardLink, "calc/stolen")
	if len(v.Contents) > 0 {
		t.Error("the bytes were read")
	}
}

func TestS4_Modes(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	must(t, os.Chmod(w.path("calc/add.go"), 0o755))
	v := w.verify(w.rules())
	wantClean(t, v)
	if d := cmp.Diff([]string{"mode calc/add.go"}, ops(v)); d != "" || v.Changes[0].AfterMode != ModeExec || !v.Changes[0].AfterHash.Valid() {
		t.Error(d, v.Changes)
	}
	must(t, os.Chmod(w.path("docs/readme.md"), 0o755))
	wantViolation(t, w.verify(w.rules()), kernel.CodeScopeOutside, "docs/readme.md")
	must(t, syscall.Chmod(w.path("calc/run.sh"), 0o4755))
	wantViolation(t, w.verify(w.rules()), kernel.CodeScopeMode, "calc/run.sh")
	must(t, syscall.Chmod(w.path("calc/run.sh"), 0o000))
	wantViolation(t, w.verify(w.rules()), kernel.CodeScopeMode, "calc/run.sh")
}

func TestS5_Gitlinks(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.add("calc/mod", ModeGitlink, "")
	w.layOut()
	w.write("calc/mod/x.go", "x")
	wantViolation(t, w.verify(w.rules()), kernel.CodeScopeFileType, "calc/mod")
	w.remove("calc/mod")
	w.write("calc/mod", "now a file")
	wantViolation(t, w.verify(w.rules()), kernel.CodeScopeFileType, "calc/mod")
	w.remove("calc/mod")
	w.write(".gitmodules", "[submodule \"x\"]\n")
	r := w.rules()
	r.Allowed = append(r.Allowed, "*")
	wantViolation(t, w.verify(r), kernel.CodeProtectedPath, ".gitmodules")

	w = newWorld(t, baseFiles)
	w.add("calc/deep/mod", ModeGitlink, "")
	w.layOut()
	w.remove("calc/deep")
	w.write("calc/deep", "shadows the submodule")
	wantViolation(t, w.verify(w.rules()), kernel.CodeScopeFileType, "calc/deep/mod")
}

func TestS6_RenameFromOutside(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	must(t, os.Rename(w.path("docs/readme.md"), w.path("calc/readme.md")))
	v := w.verify(w.rules())
	wantViolation(t, v, kernel.CodeScopeOutside, "docs/readme.md")
	if d := cmp.Diff([]string{"add calc/readme.md", "delete docs/readme.md"}, ops(v)); d != "" {
		t.Error(d)
	}
}

func TestS7_RemovalsAndTypes(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	w.remove("calc/add.go")
	w.write("calc/add.go/inner", "a directory now")
	must(t, os.Remove(w.path("calc/sub/a.go")))
	v := w.verify(w.rules())
	wantClean(t, v)
	if d := cmp.Diff([]string{"delete calc/add.go", "add calc/add.go/inner", "delete calc/sub/a.go"}, ops(v)); d != "" {
		t.Error(d)
	}
	w.remove("docs")
	w.write("docs", "a file now")
	v = w.verify(w.rules())
	wantViolation(t, v, kernel.CodeScopeOutside, "docs/readme.md")
	wantViolation(t, v, kernel.CodeScopeOutside, "docs")
}

func TestS8_IgnoredAndHidden(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.add("kept.log", ModeFile, "tracked although ignored\n")
	w.layOut()
	// Neither an index that looks away nor excludes of the workspace's own count.
	w.write(".git/info/exclude", "*\n")
	w.write(".gitignore", "*\n")
	w.write("kept.log", "edited\n")
	w.write("trace.log", "left over\n")
	w.write("build/out/a.o", "left over\n")
	must(t, os.Mkdir(w.path("build/closed"), 0))
	w.write("stray.txt", "not ignored by the base\n")
	v := w.verify(w.rules())
	for _, p := range []string{"kept.log", "stray.txt", ".gitignore"} {
		wantViolation(t, v, kernel.CodeScopeOutside, p)
	}
	if d := cmp.Diff([]string{"build/", "trace.log"}, v.Discarded); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"modify .gitignore", "modify kept.log", "add stray.txt"}, ops(v)); d != "" {
		t.Error(d)
	}
}

func TestS8_AllowedCoversIgnored(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	w.write("calc/a.log", "wanted\n")
	w.write("build/keep/x", "wanted\n")
	w.write("build/drop/x", "left over\n")
	r := w.rules()
	r.Allowed = append(r.Allowed, "build/keep/**")
	v := w.verify(r)
	wantClean(t, v)
	if d := cmp.Diff([]string{"add build/keep/x", "add calc/a.log"}, ops(v)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"build/drop/"}, v.Discarded); d != "" {
		t.Error(d)
	}
	r.Ignore = nil
	wantViolation(t, w.verify(r), kernel.CodeScopeOutside, "build/drop/x")
}

func TestS8_IgnoreRules(t *testing.T) {
	w := newWorld(t, map[string]string{
		".gitignore": "# comment\n\n*.tmp\n!keep.tmp\n/root-only\ncache/\r\n", "sub/.gitignore": "local.txt\n", "calc/x": "x",
	})
	w.layOut()
	for _, p := range []string{"a.tmp", "keep.tmp", "sub/a.tmp", "root-only", "sub/root-only", "deep/cache/x/y", "sub/local.txt", "local.txt", "deep/cache/keep.tmp"} {
		w.write(p, "x")
	}
	v := w.verify(w.rules())
	if d := cmp.Diff([]string{"a.tmp", "deep/cache/", "root-only", "sub/a.tmp", "sub/local.txt"}, v.Discarded); d != "" {
		t.Error(d)
	}
	for _, p := range []string{"keep.tmp", "sub/root-only", "local.txt"} {
		wantViolation(t, v, kernel.CodeScopeOutside, p)
	}
}

func TestS9_S10_BuildersGitIsNeverRead(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	w.write(".git/refs/replace/x", "x")
	w.write(".git/objects/info/alternates", "/elsewhere\n")
	w.write(".git/shallow", "x\n")
	w.write(".git/config", "[core]\n\tfsmonitor = touch canary\n\thooksPath = /x\n")
	w.write(".git/hooks/post-checkout", "#!/bin/sh\ntouch canary\n")
	must(t, unix.Mkfifo(w.path(".git/index"), 0o644))
	v := w.verify(w.rules())
	wantClean(t, v)
	if len(v.Changes) > 0 {
		t.Error(v.Changes)
	}
	w.remove(".git")
	w.write(".git", "gitdir: /elsewhere\n")
	wantClean(t, w.verify(w.rules()))
}

func TestS11_RawBytes(t *testing.T) {
	w := newWorld(t, map[string]string{".gitattributes": "* text eol=crlf ident\n", "calc/a.txt": "one\n$Id$\n"})
	w.layOut()
	if got, _ := os.ReadFile(w.path("calc/a.txt")); string(got) != "one\n$Id$\n" {
		t.Errorf("a filter wrote %q", got)
	}
	wantClean(t, w.verify(w.rules()))
	w.write("calc/a.txt", "one\r\n$Id$\r\n")
	v := w.verify(w.rules())
	if len(v.Changes) != 1 || string(v.Contents[v.Changes[0].AfterID]) != "one\r\n$Id$\r\n" {
		t.Errorf("%+v", v)
	}
	w.write(".gitattributes", "* filter=evil\n")
	r := w.rules()
	r.Allowed = append(r.Allowed, "*")
	wantViolation(t, w.verify(r), kernel.CodeProtectedPath, ".gitattributes")
}

func TestS16_NothingBlocks(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	must(t, unix.Mkfifo(w.path("calc/fifo"), 0o644))
	socket, err := net.Listen("unix", w.path("calc/sock"))
	must(t, err)
	defer socket.Close()
	sparse, err := os.Create(w.path("calc/sparse"))
	must(t, err)
	must(t, sparse.Truncate(1<<40))
	must(t, sparse.Close())
	must(t, os.Mkdir(w.path("calc/closed"), 0o000))
	t.Cleanup(func() { _ = os.Chmod(w.path("calc/closed"), 0o700) })
	w.remove("calc/add.go")
	must(t, unix.Mkfifo(w.path("calc/add.go"), 0o644))
	before := time.Now()
	v := w.verify(w.rules())
	if d := time.Since(before); d > time.Minute {
		t.Errorf("took %v", d)
	}
	wantViolation(t, v, kernel.CodeScopeFileType, "calc/fifo")
	wantViolation(t, v, kernel.CodeScopeFileType, "calc/sock")
	wantViolation(t, v, kernel.CodeScopeFileType, "calc/add.go")
	wantViolation(t, v, kernel.CodeScopeSize, "calc/sparse")
	wantViolation(t, v, kernel.CodeScopeMode, "calc/closed")
}

// A tracked file blown up to a terabyte isn't read either.
func TestS16_TrackedSparse(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	must(t, os.Truncate(w.path("calc/add.go"), 1<<40))
	wantViolation(t, w.verify(w.rules()), kernel.CodeScopeSize, "calc/add.go")
}

func TestS16_DeepPath(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	fd, err := unix.Open(w.path("calc"), unix.O_DIRECTORY|unix.O_RDONLY, 0)
	must(t, err)
	for range 4096 {
		must(t, unix.Mkdirat(fd, "d", 0o755))
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_RDONLY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	v := w.verify(w.rules())
	if len(v.Violations) == 0 || len(v.Violations) > 10 {
		t.Errorf("%d violations", len(v.Violations))
	}
	found := false
	for _, x := range v.Violations {
		found = found || x.Code == kernel.CodePathUnsafe && strings.Contains(x.Detail, "nested")
	}
	if !found {
		t.Errorf("%v", v.Violations)
	}
}

func TestS16_TooManyFiles(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	s, err := New(w.entries, w.rules())
	must(t, err)
	for i := range 300 {
		w.write(fmt.Sprintf("calc/many/%d", i), "x")
	}
	snap := &Snapshot{files: map[string]Found{}, gitlinks: map[string]bool{}, unread: map[string]bool{}}
	walk := walker{ctx: context.Background(), scope: s, budget: 100, pathLeft: maxNewPathBytes, readLeft: maxReadBytes, keepLeft: 1 << 20, snap: snap}
	fd, err := openDir(unix.AT_FDCWD, w.dir)
	must(t, err)
	if err := walk.dir(fd, "", 0); !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	snap.cut = true
	v, err := s.Compare(context.Background(), snap)
	must(t, err)
	wantViolation(t, v, kernel.CodeScopeSize, "calc/many")
	for _, c := range v.Changes {
		if c.Op == kernel.OpDelete {
			t.Errorf("%s is called deleted after a cut walk", c.Path)
		}
	}
}

func TestS17_HashedBytesAreTheDeliveredBytes(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	w.write("calc/add.go", "judged\n")
	s, err := New(w.entries, w.rules())
	must(t, err)
	snap, err := w.snapshot(s)
	must(t, err)
	w.write("calc/add.go", "swapped afterwards\n")
	v, err := s.Compare(context.Background(), snap)
	must(t, err)
	c := v.Changes[0]
	if string(v.Contents[c.AfterID]) != "judged\n" || BlobID(v.Contents[c.AfterID]) != c.AfterID || canon.Sum(v.Contents[c.AfterID]) != c.AfterHash {
		t.Errorf("%+v", v)
	}
}

// A file that moves under the reader is noticed between the two looks at it.
func TestS17_ChangeWhileReading(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	var st unix.Stat_t
	must(t, unix.Lstat(w.path("calc/add.go"), &st))
	w.write("calc/add.go", "longer than what was looked at\n")
	f, err := os.Open(w.path("calc/add.go"))
	must(t, err)
	defer f.Close()
	if same, err := sameFile(int(f.Fd()), st); same || err != nil {
		t.Errorf("same: %v, %v", same, err)
	}
	if _, err := readExactly(int(f.Fd()), make([]byte, st.Size+1)); !errors.Is(err, errUnsteady) {
		t.Errorf("read: %v", err)
	}
}

func TestS18_ExpandedSize(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	w.write("calc/big", strings.Repeat("\x00", 3000))
	w.write("calc/big2", strings.Repeat("\x00", 3000))
	r := w.rules()
	r.MaxBytes = 4096
	v := w.verify(r)
	wantViolation(t, v, kernel.CodeScopeSize, "budgets.bytes")
	r.MaxBytes, r.MaxFiles = 1<<20, 1
	wantViolation(t, w.verify(r), kernel.CodeScopeSize, "budgets.files")
	r.MaxBytes, r.MaxFiles = 2999, 10
	wantViolation(t, w.verify(r), kernel.CodeScopeSize, "calc/big")
	// A large file of the base that nobody touched is no matter.
	w = newWorld(t, map[string]string{"calc/big": strings.Repeat("x", 9000)})
	w.layOut()
	wantClean(t, w.verify(r))
}

func TestManyViolationsStayShort(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	for i := range MaxListed + 50 {
		w.write(fmt.Sprintf("out/%04d", i), "x")
	}
	v := w.verify(w.rules())
	if len(v.Changes) != MaxListed || len(v.Violations) > 3*maxPerCode {
		t.Errorf("%d changes, %d violations", len(v.Changes), len(v.Violations))
	}
	if d := cmp.Diff(v, w.verify(w.rules())); d != "" {
		t.Errorf("two looks differ:\n%s", d)
	}
}

func TestS15_ReportedFiles(t *testing.T) {
	v := Verdict{Changes: []kernel.Change{{Path: "a"}, {Path: "b/c"}}, Discarded: []string{"build/", "x.log"}}
	for _, ok := range [][]string{{"a", "b/c"}, {"b/c", "a"}, {"a", "b/c", "x.log", "build/out/x", "build"}} {
		if got := CheckReported(ok, v); len(got) > 0 {
			t.Errorf("%v: %v", ok, got)
		}
	}
	for _, bad := range [][]string{
		{"a"}, {"a", "b/c", "d"}, {"a", "a", "b/c"}, {"/a", "b/c"}, {"./a", "b/c"}, {"a", "b/./c"}, {"a", "b//c"}, {"a", "b/c/"},
		{"a", "../x/b/c"}, {"a", `b\c`}, {}, {"", "a", "b/c"}, {"A", "b/c"}, make([]string, MaxReported+1),
	} {
		got := CheckReported(bad, v)
		if len(got) == 0 {
			t.Errorf("%v passes", bad)
		}
		for _, x := range got {
			if x.Code != kernel.CodeResultInvalid {
				t.Errorf("%v: %v", bad, x)
			}
		}
	}
}
