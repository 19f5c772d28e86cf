package gittest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/go-git/go-git/v5/plumbing"
)

// Env is a clean environment for git: no configuration of the machine or the
// user, a fixed identity and date.
func Env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=A U Thor", "GIT_AUTHOR_EMAIL=author@example.com", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=C O Mitter", "GIT_COMMITTER_EMAIL=committer@example.com", "GIT_COMMITTER_DATE=1700000000 +0000",
	}
}

// Git runs git in dir and returns its output without the last newline.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return GitInput(t, dir, "", args...)
}

// GitInput is Git with standard input.
func GitInput(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	out, err := TryGit(dir, stdin, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TryGit runs git and returns its output, or its error output with an error.
func TryGit(dir, stdin string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, Env(), strings.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return errOut.String(), err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// NewBare makes an empty bare repository that may be read with filters. config
// holds further settings as key=value.
func NewBare(t testing.TB, config ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "repo.git")
	if err := os.CopyFS(dir, emptyBare()); err != nil {
		t.Fatal(err)
	}
	for _, kv := range config {
		key, value, _ := strings.Cut(kv, "=")
		Git(t, dir, "config", key, value)
	}
	return dir
}

// emptyBare is what git makes for an empty bare repository, made once for all. It has
// no sample hooks. A push to it doesn't make git look whether it has to tidy up, nor list
// all refs a second time, as those of the store that it borrows from while it checks.
var emptyBare = sync.OnceValue(func() fs.FS {
	root, err := os.MkdirTemp("", "gittest-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(root) }() // what is in it is in memory by then
	dir := filepath.Join(root, "repo.git")
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", "--template=", dir},
		{"-C", dir, "config", "uploadpack.allowFilter", "true"},
		{"-C", dir, "config", "receive.autogc", "false"},
		{"-C", dir, "config", "core.alternateRefsCommand", "true"},
	} {
		if out, err := TryGit("/", "", args...); err != nil {
			panic("git " + strings.Join(args, " ") + ": " + out)
		}
	}
	files := fstest.MapFS{"hooks": {Mode: 0o755 | fs.ModeDir}, "info": {Mode: 0o755 | fs.ModeDir}}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, f := path[len(dir)+1:], &fstest.MapFile{Mode: 0o755 | fs.ModeDir}
		if !d.IsDir() {
			f.Mode = 0o644
			f.Data, err = os.ReadFile(path)
		}
		files[name] = f
		return err
	})
	if err != nil {
		panic(err)
	}
	return files
})

// TreeEntry is an entry of a tree as it is stored: nothing of it is checked.
type TreeEntry struct{ Mode, Name, OID string }

// RawTree writes a tree object that git itself would not write, and returns its id.
func RawTree(t testing.TB, dir string, entries ...TreeEntry) string {
	t.Helper()
	var b strings.Builder
	for _, e := range entries {
		raw, err := hex.DecodeString(e.OID)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(e.Mode + " " + e.Name + "\x00" + string(raw))
	}
	id, err := stored(storeOf(dir), raw{plumbing.TreeObject, b.String()})
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// CommitTree commits a tree to a ref, on what is there, and returns the commit.
func CommitTree(t testing.TB, dir, ref, tree string) string {
	t.Helper()
	args := []string{"commit-tree", tree, "-m", "odd"}
	if parent := RefOID(dir, ref); parent != "" {
		args = append(args, "-p", parent)
	}
	commit := Git(t, dir, args...)
	Git(t, dir, "update-ref", ref, commit)
	return commit
}

// Hook installs a hook script.
func Hook(t testing.TB, dir, name, script string) {
	t.Helper()
	path := filepath.Join(dir, "hooks", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	WriteProgram(t, path, "#!/bin/sh\n"+script+"\n")
}

// WriteProgram writes a file that everybody may execute. No process is started meanwhile:
// until its exec it would have the file open for writing, too, and what somebody writes
// to can't be executed (golang.org/issue/22315).
func WriteProgram(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// RefOID returns where a ref of the repository is, "" if it does not exist. Git is
// asked where that isn't plain from the file of the ref alone, for it takes milliseconds.
func RefOID(dir, ref string) string {
	if isRef(ref) {
		data, err := os.ReadFile(filepath.Join(dir, ref))
		oid, whole := strings.CutSuffix(string(data), "\n")
		if err == nil && whole && len(oid) == 40 && strings.Trim(oid, "0123456789abcdef") == "" {
			return oid
		}
		if errors.Is(err, fs.ErrNotExist) && looseOnly(dir) {
			return ""
		}
	}
	out, err := TryGit(dir, "", "rev-parse", "--verify", "--quiet", ref)
	if err != nil {
		return ""
	}
	return out
}

// isRef reports whether a name is a ref's own, and no revision or short name.
func isRef(name string) bool {
	return strings.HasPrefix(name, "refs/") && filepath.Clean(name) == name && !strings.ContainsAny(name, "^~:@{ ")
}

// looseOnly reports whether each ref of a bare repository is a file of its own.
func looseOnly(dir string) bool {
	for _, name := range []string{"packed-refs", "reftable"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	_, err := os.Stat(filepath.Join(dir, "HEAD"))
	return err == nil
}
