package local_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
)

// TestMaintenance: a push to a repository with many loose objects has them packed, and
// one to a repository with few doesn't.
func TestMaintenance(t *testing.T) {
	p := localtest.New(t, "http://127.0.0.1:1/hooks/local")
	dir := p.Store.GitDir(p.Repo.ID)
	packs := func() int {
		names, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	push := func(n int) {
		gittest.Commit(t, clone, "refs/heads/mine", "", map[string]string{"a": fmt.Sprint(n)})
		gittest.Git(t, clone, "push", "--quiet", "--force", "origin", "refs/heads/mine")
	}
	gittest.Git(t, "/", "clone", "--quiet", strings.Replace(p.URL, "http://", "http://x:"+p.Token+"@", 1)+"/o/n.git", clone)
	push(1)
	before := packs()
	for i, n := 0, 0; n < 8; i++ { // objects of one directory out of 256, by which all are estimated
		text := fmt.Sprint("loose ", i)
		sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))
		if hex.EncodeToString(sum[:1]) == "17" {
			gittest.GitInput(t, dir, text, "hash-object", "-w", "--stdin")
			n++
		}
	}
	if packs() != before {
		t.Fatal("few objects were packed")
	}
	push(2)
	localtest.Until(t, time.Minute, "the objects are packed", func() bool {
		_, err := os.Stat(filepath.Join(dir, "objects", "17"))
		return os.IsNotExist(err) && packs() > before
	})
	gittest.Git(t, dir, "fsck", "--full")
}
