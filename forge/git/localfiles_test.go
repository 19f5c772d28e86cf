package git_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
)

// TestJ6_FilesThatNeverEnd: a repository on disk whose files are pipes, devices or
// without end is refused and costs neither time nor memory.
func TestJ6_FilesThatNeverEnd(t *testing.T) {
	const packed = "packed-refs"
	pipe := func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) }
	device := func(t *testing.T, path string) { must(t, os.Symlink("/dev/zero", path)) }
	huge := func(t *testing.T, path string) {
		must(t, os.WriteFile(path, []byte("# pack-refs with: peeled fully-peeled sorted\n"), 0o600))
		must(t, os.Truncate(path, 200<<20))
	}
	for name, c := range map[string]struct {
		file string
		put  func(*testing.T, string)
		want string
	}{
		"a pipe for refs":            {packed, pipe, git.CodeLocal},
		"a device for refs":          {packed, device, git.CodeLocal},
		"refs of 200 MiB":            {packed, huge, git.CodeTooLarge},
		"a pipe for configuration":   {"config", pipe, git.CodeLocal},
		"a device for configuration": {"config", device, git.CodeLocal},
		"a pipe for HEAD":            {"HEAD", pipe, git.CodeLocal},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "r.git")
			gittest.Git(t, "/", "init", "--quiet", "--bare", dir)
			gittest.Commit(t, dir, "refs/heads/main", "", map[string]string{"a": "b"})
			if err := os.Remove(filepath.Join(dir, c.file)); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			c.put(t, filepath.Join(dir, c.file))
			repo, err := git.Open(t.Context(), git.Endpoint{URL: dir}, git.Options{})
			if err == nil {
				defer repo.Close()
				_, err = repo.Refs(t.Context())
			}
			if git.CodeOf(err) != c.want {
				t.Errorf("%v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
