package smarthttp_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/git/smarthttp"
)

// TestGitClient: git itself clones, fetches and pushes, by each version of the
// protocol.
func TestGitClient(t *testing.T) {
	for _, version := range []string{"0", "1", "2"} {
		t.Run("version "+version, func(t *testing.T) {
			s := serve(t)
			work := filepath.Join(t.TempDir(), "work")
			run := func(args ...string) string {
				return gittest.Git(t, work, append([]string{"-c", "protocol.version=" + version}, args...)...)
			}
			gittest.Git(t, "/", "init", "--quiet", "--initial-branch=main", work)
			run("remote", "add", "origin", s.url)
			first := gittest.Commit(t, work, "refs/heads/main", "", map[string]string{"a": "1"})
			run("push", "--quiet", "origin", "main", "main:"+stateRef)
			wantEvents(t, s, event("refs/heads/main", "", first), event(stateRef, "", first))

			// More than git keeps in memory goes in chunks, behind a probe.
			random := make([]byte, 200_000)
			_, _ = rand.Read(random) // never fails
			second := gittest.Commit(t, work, "refs/heads/main", first, map[string]string{"a": "2", "big": fmt.Sprintf("%x", random)})
			run("-c", "http.postBuffer=65536", "push", "--quiet", "origin", "main")
			wantEvents(t, s, event("refs/heads/main", first, second))

			clone := filepath.Join(t.TempDir(), "clone")
			run("clone", "--quiet", s.url, clone)
			if text, err := os.ReadFile(filepath.Join(clone, "a")); err != nil || string(text) != "2" {
				t.Errorf("cloned %q, %v", text, err)
			}
			gittest.Git(t, clone, "fetch", "--quiet", "origin", stateRef)
			if got := gittest.Git(t, clone, "rev-parse", "FETCH_HEAD"); got != first {
				t.Errorf("fetched %s", got)
			}
			run("push", "--quiet", "origin", "--delete", stateRef)
			wantEvents(t, s, event(stateRef, first, ""))
			if list := run("ls-remote", "origin", "refs/*"); list != second+"\trefs/heads/main" {
				t.Errorf("refs: %q", list)
			}
		})
	}
}

// TestGitClient_Negotiation: git compresses a long list of what it has.
func TestGitClient_Negotiation(t *testing.T) {
	s := serve(t)
	tip := ""
	for i := range 100 {
		tip = gittest.Commit(t, s.dir, "refs/heads/main", tip, map[string]string{"a": fmt.Sprint(i)})
	}
	clone := filepath.Join(t.TempDir(), "clone")
	gittest.Git(t, "/", "clone", "--quiet", s.url, clone)
	mine := gittest.Git(t, clone, "rev-parse", "HEAD")
	for i := range 60 {
		mine = gittest.Commit(t, clone, "refs/heads/mine", mine, map[string]string{"b": fmt.Sprint(i)})
	}
	tip = gittest.Commit(t, s.dir, "refs/heads/main", tip, map[string]string{"a": "last"})
	gittest.Git(t, clone, "fetch", "--quiet", "origin")
	if got := gittest.Git(t, clone, "rev-parse", "origin/main"); got != tip {
		t.Errorf("fetched %s, want %s", got, tip)
	}
	partial := filepath.Join(t.TempDir(), "partial")
	gittest.Git(t, "/", "clone", "--quiet", "--bare", "--depth=1", "--filter=blob:none", s.url, partial)
	if n := gittest.Git(t, partial, "rev-list", "--count", "--all"); n != "1" {
		t.Errorf("%s commits in a shallow clone", n)
	}
}

// TestOwnClient: two refs move together or not at all, and what a repository
// hides from others is there.
func TestOwnClient(t *testing.T) {
	s := serve(t)
	for _, key := range []string{"transfer.hideRefs", "receive.hideRefs", "uploadpack.hideRefs"} {
		gittest.Git(t, s.dir, "config", key, "refs/writ")
	}
	gittest.Git(t, s.dir, "config", "receive.advertiseAtomic", "false")
	r := s.open(t)
	lease := claim(t, r, stateRef, "lease\n")
	s.pushed()

	const change = "refs/heads/writ/change/1"
	o := git.NewObjects()
	result := commit(t, o, lease, "result\n")
	both := []git.Command{{Ref: stateRef, Old: lease, New: result}, {Ref: change, New: result}}
	stale := []git.Command{{Ref: stateRef, Old: result, New: lease}, {Ref: change, New: lease}}
	if out := r.CompareAndSwap(t.Context(), stale, git.Pack{}); out.Status != git.Lost {
		t.Fatalf("%+v", out)
	}
	wantEvents(t, s)
	if out := r.CompareAndSwap(t.Context(), both, o.Pack()); out.Status != git.Won {
		t.Fatalf("%+v", out)
	}
	wantEvents(t, s, event(stateRef, string(lease), string(result)), event(change, "", string(result)))

	refs, err := r.Refs(t.Context(), "refs/writ/")
	if err != nil || refs.OID(stateRef) != result {
		t.Errorf("%v, %v", refs, err)
	}
	if c, err := r.Commit(t.Context(), result); err != nil || len(c.Parents) != 1 || c.Parents[0] != lease {
		t.Errorf("%+v, %v", c, err)
	}
	if tree, err := r.Tree(t.Context(), result); err != nil || len(tree.Entries) != 0 {
		t.Errorf("%+v, %v", tree, err)
	}
}

// TestL1_OneEventForOneWinner: many push at once, one wins, and one event tells it.
func TestL1_OneEventForOneWinner(t *testing.T) {
	s := serve(t, func(o *smarthttp.Options) { o.MaxProcesses = 4 })
	const racers = 12
	outs := make([]git.Outcome, racers)
	oids := make([]git.OID, racers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range racers {
		r := s.open(t)
		o := git.NewObjects()
		oids[i] = commit(t, o, "", fmt.Sprintf("run %d\n", i))
		wg.Go(func() {
			<-start
			outs[i] = r.CompareAndSwap(t.Context(), []git.Command{{Ref: stateRef, New: oids[i]}}, o.Pack())
		})
	}
	close(start)
	wg.Wait()
	for range racers {
		within(t, s.ended, "a push")
	}
	winner := ""
	for i, out := range outs {
		switch {
		case out.Status == git.Won && winner == "":
			winner = string(oids[i])
		case out.Status != git.Lost:
			t.Errorf("racer %d: %+v", i, out)
		}
	}
	if at := gittest.RefOID(s.dir, stateRef); at != winner || winner == "" {
		t.Errorf("the ref is at %s, the winner pushed %s", at, winner)
	}
	wantEvents(t, s, event(stateRef, "", winner))
}

// TestHygiene: git hears nothing of our own environment, and its hooks who pushes.
func TestHygiene(t *testing.T) {
	for key, value := range map[string]string{
		"GIT_DIR": "/nonexistent", "GIT_CONFIG_PARAMETERS": "'core.hooksPath=/nonexistent'", "CANARY": "canary-51",
		"GIT_REPLACE_REF_BASE": "refs/x/", "GIT_SSH_COMMAND": "false",
	} {
		t.Setenv(key, value)
	}
	s := serve(t)
	out := filepath.Join(t.TempDir(), "env")
	gittest.Hook(t, s.dir, "pre-receive", "cat >/dev/null; env >"+out)
	claim(t, s.open(t), stateRef, "lease\n")
	text, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(text), "REMOTE_USER=tester\n") {
		t.Errorf("%s, %v", text, err)
	}
	for _, bad := range []string{"CANARY", "GIT_REPLACE_REF_BASE", "GIT_SSH_COMMAND", "nonexistent'"} {
		if strings.Contains(string(text), bad) {
			t.Errorf("a hook sees %s:\n%s", bad, text)
		}
	}
}
