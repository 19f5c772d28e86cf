package git

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git/gittest"
)

// many makes commits on refs of their own, all of it loose, and says where they are.
func many(t testing.TB, dir string, from, refs int) {
	t.Helper()
	for i := from; i < from+refs; i++ {
		gittest.Commit(t, dir, fmt.Sprintf("refs/writ/task/%d", i), "", map[string]string{"a": fmt.Sprint(i), "b/c": fmt.Sprint("x", i)})
	}
}

// counted is a figure of git count-objects.
func counted(t testing.TB, dir, what string) string {
	t.Helper()
	for line := range strings.Lines(gittest.Git(t, dir, "count-objects", "-v")) {
		if n, ok := strings.CutPrefix(line, what+": "); ok {
			return strings.TrimSpace(n)
		}
	}
	t.Fatalf("git counts no %s", what)
	return ""
}

func mustMaintain(t testing.TB, dir string) {
	t.Helper()
	if err := Maintain(t.Context(), "", dir); err != nil {
		t.Fatal(err)
	}
}

// TestMaintain_KeepsEverything: refs are where they were, every object is there, also one
// that no ref leads to and one of a push that isn't taken yet, and packs stay few.
func TestMaintain_KeepsEverything(t *testing.T) {
	dir := gittest.NewBare(t)
	many(t, dir, 0, 30)
	unreached := gittest.GitInput(t, dir, "nobody's", "hash-object", "-w", "--stdin")
	incoming := filepath.Join(dir, "objects", "tmp_objdir-incoming-abc", "17")
	if err := os.MkdirAll(incoming, 0o700); err != nil {
		t.Fatal(err)
	}
	quarantined := filepath.Join(incoming, strings.Repeat("0", 38))
	if err := os.WriteFile(quarantined, []byte("a push"), 0o600); err != nil {
		t.Fatal(err)
	}
	refs := gittest.Git(t, dir, "for-each-ref")
	mustMaintain(t, dir)
	if got := gittest.Git(t, dir, "for-each-ref"); got != refs {
		t.Errorf("refs were\n%s\nand are\n%s", refs, got)
	}
	if n := counted(t, dir, "count"); n != "0" {
		t.Errorf("%s objects are still loose", n)
	}
	if _, err := os.Stat(filepath.Join(dir, "refs/writ/task/7")); err == nil {
		t.Error("a ref still has a file")
	}
	if got := gittest.Git(t, dir, "cat-file", "-p", unreached); got != "nobody's" {
		t.Errorf("what no ref leads to is %q", got)
	}
	if _, err := os.Stat(quarantined); err != nil {
		t.Errorf("a push that isn't taken yet: %v", err)
	}
	for i := range 8 {
		many(t, dir, 100+i, 1)
		mustMaintain(t, dir)
	}
	if n := counted(t, dir, "packs"); len(n) > 1 || n > "5" {
		t.Errorf("%s packs", n)
	}
	gittest.Git(t, dir, "fsck", "--full", "--strict")
}

// TestMaintain_BesidePushes: pushes win while a repository is packed again and again, if
// need be at a second try, all that they brought is there, and whoever reads meanwhile
// misses nothing.
func TestMaintain_BesidePushes(t *testing.T) {
	const pushes = 40
	dir := gittest.NewBare(t)
	many(t, dir, 1000, 5)
	r := openAt(t, Endpoint{URL: dir}, Options{})
	read := openAt(t, Endpoint{URL: dir}, Options{})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := Maintain(t.Context(), "", dir); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	want := map[string]OID{}
	for i := range pushes {
		ref := fmt.Sprintf("refs/writ/task/%d", i%8)
		old, was := want[ref]
		if !was {
			old = ZeroOID
		}
		parent := old
		oid, pack := lease(t, parent, runID(i))
		got := r.CompareAndSwap(t.Context(), []Command{{ref, old, oid}}, pack)
		for try := 0; got.Status == Unable && try < 5; try++ { // a directory went while it was written to
			got = r.CompareAndSwap(t.Context(), []Command{{ref, old, oid}}, pack)
		}
		wantStatus(t, got, Won)
		want[ref] = oid
		if _, err := read.Commit(t.Context(), oid); err != nil {
			t.Fatalf("push %d: %v", i, err)
		}
		refs, err := read.Refs(t.Context(), "refs/writ/")
		if err != nil {
			t.Fatal(err)
		}
		for ref, oid := range want {
			if refs.OID(ref) != oid {
				t.Fatalf("push %d: %s is at %q, want %s", i, ref, refs.OID(ref), oid)
			}
		}
	}
	close(stop)
	<-done
	for ref, oid := range want {
		wantRef(t, dir, ref, oid)
	}
	gittest.Git(t, dir, "fsck", "--full")
}

// TestMaintain_Killed: git that is killed at any moment of it loses no ref and no object,
// and what it left in the way is swept once it is old.
func TestMaintain_Killed(t *testing.T) {
	dir := gittest.NewBare(t)
	many(t, dir, 0, 25)
	unreached := gittest.GitInput(t, dir, "nobody's", "hash-object", "-w", "--stdin")
	program := filepath.Join(t.TempDir(), "git")
	killed := 0
	for ms := 1; ms < 40; ms += 5 {
		script := fmt.Sprintf("#!/bin/sh\nexec timeout -s KILL 0.%03d git \"$@\"\n", ms)
		gittest.WriteProgram(t, program, script)
		many(t, dir, 100+ms, 1)
		refs := gittest.Git(t, dir, "for-each-ref")
		if Maintain(t.Context(), program, dir) != nil {
			killed++
		}
		if got := gittest.Git(t, dir, "for-each-ref"); got != refs {
			t.Fatalf("killed after %d ms: refs were\n%s\nand are\n%s", ms, refs, got)
		}
		gittest.Git(t, dir, "fsck", "--full")
		gittest.Git(t, dir, "cat-file", "-e", unreached)
	}
	if killed == 0 {
		t.Fatal("nothing was killed")
	}
	left := []string{"packed-refs.lock", "refs/writ/task/3.lock", "objects/pack/tmp_pack_x"}
	for _, name := range left {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sweepLeftovers(dir, time.Now())
	for _, name := range left {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s may be somebody's: %v", name, err)
		}
	}
	sweepLeftovers(dir, time.Now().Add(2*temporaryOver))
	for _, name := range left {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	mustMaintain(t, dir)
	if n := counted(t, dir, "count"); n != "0" {
		t.Errorf("%s objects are still loose", n)
	}
}

// TestMaintain_Needed: only many loose objects make a repository worth packing.
func TestMaintain_Needed(t *testing.T) {
	dir := gittest.NewBare(t)
	if NeedsMaintenance(dir) {
		t.Error("an empty repository needs it")
	}
	sample := filepath.Join(dir, "objects", looseSample)
	if err := os.MkdirAll(sample, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range looseMany / 256 {
		if NeedsMaintenance(dir) {
			t.Errorf("%d objects in one of 256 directories need it", i)
		}
		if err := os.WriteFile(filepath.Join(sample, fmt.Sprintf("%038d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !NeedsMaintenance(dir) {
		t.Error("so many objects don't need it")
	}
}
