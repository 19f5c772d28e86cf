package git

import (
	"bytes"
	"slices"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// TestAgainPack_OfSeveral: what several packs brought is one pack that git takes, each
// object once; a pack that was damaged, or that isn't one of ours, is none.
func TestAgainPack_OfSeveral(t *testing.T) {
	first, second := NewObjects(), NewObjects()
	shared := []byte("shared\n")
	oid := first.Blob(shared)
	second.Blob(shared)
	tree, err := second.Tree([]Entry{{Path: "a/b", Mode: ModeFile, OID: oid}})
	if err != nil {
		t.Fatal(err)
	}
	who := Person{Name: "a", Email: "a@example.com", Seconds: 1, TZ: "+0000", OK: true}
	commit, err := second.Commit(CommitSpec{Tree: tree, Author: who, Committer: who, Message: []byte("m\n")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := NewObjects()
	for _, o := range []*Objects{first, second} {
		if err := again.AgainPack(o.Pack().Data); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := again.Added(commit); err != nil || c.Tree != tree || again.Len() != 4 {
		t.Errorf("%d objects, commit %+v, %v", again.Len(), c, err)
	}
	if _, err := again.Added(tree); CodeOf(err) != CodeObjectMissing {
		t.Errorf("a tree was read as a commit: %v", err)
	}
	bare := gittest.NewBare(t)
	gittest.GitInput(t, bare, string(again.Pack().Data), "unpack-objects", "-q", "--strict")
	if got := gittest.Git(t, bare, "show", string(commit)+":a/b"); got != "shared" {
		t.Errorf("git has %q", got)
	}

	good := second.Pack().Data
	for name, bad := range map[string][]byte{
		"empty": nil, "cut": good[:len(good)-1], "no pack": bytes.Repeat([]byte("x"), 64),
		"flipped": slices.Concat(good[:20], []byte{good[20] ^ 1}, good[21:]),
	} {
		if err := NewObjects().AgainPack(bad); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
