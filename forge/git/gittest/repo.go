package gittest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
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
	Git(t, "/", "init", "--quiet", "--bare", "--initial-branch=main", dir)
	for _, kv := range append([]string{"uploadpack.allowFilter=true"}, config...) {
		key, value, _ := strings.Cut(kv, "=")
		Git(t, dir, "config", key, value)
	}
	return dir
}

// Commit makes a commit of the files with git's own tools, moves ref to it
// whatever it was, and returns its id. A path's parent commit is parent, if not "".
func Commit(t testing.TB, dir, ref, parent string, files map[string]string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "commit %s\nauthor A U Thor <author@example.com> 1700000000 +0000\n", ref)
	b.WriteString("committer C O Mitter <committer@example.com> 1700000000 +0000\ndata 5\ntest\n\n")
	if parent != "" {
		fmt.Fprintf(&b, "from %s\n", parent)
	}
	b.WriteString("deleteall\n")
	for path, text := range files {
		name := strconv.Quote(path)
		if !utf8.ValidString(path) {
			name = path // git knows no \x
		}
		fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", name, len(text), text)
	}
	GitInput(t, dir, b.String(), "fast-import", "--quiet", "--force")
	return Git(t, dir, "rev-parse", ref)
}

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
	return GitInput(t, dir, b.String(), "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
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
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// RefOID returns where a ref of the repository is, "" if it does not exist.
func RefOID(dir, ref string) string {
	out, err := TryGit(dir, "", "rev-parse", "--verify", "--quiet", ref)
	if err != nil {
		return ""
	}
	return out
}
