package git

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/forge/git/gittest"
)

var sample = map[string]string{
	"README.md": "hello\n", "calc/add.go": "package calc\n", "calc/sub/x.go": "package sub\n",
	"calc.go": "package main\n", "empty": "", "same": "hello\n",
}

// treeText is a tree as git ls-tree -r prints it.
func treeText(tr Tree) string {
	var b strings.Builder
	for _, e := range tr.Entries {
		kind := "blob"
		if e.Mode == ModeGitlink {
			kind = "commit"
		}
		fmt.Fprintf(&b, "%s %s %s\t%s\n", e.Mode, kind, e.OID, e.Path)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestRead(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		first := gittest.Commit(t, s.dir, "refs/heads/main", "", sample)
		files := map[string]string{"README.md": strings.Repeat("hello\n", 1000), "new/file": "n"}
		second := gittest.Commit(t, s.dir, "refs/heads/main", first, files)
		r := s.open(t)

		refs, err := r.Refs(t.Context(), "refs/heads/")
		if err != nil {
			t.Fatal(err)
		}
		if refs.Head != "refs/heads/main" || refs.OID("refs/heads/main") != OID(second) || len(refs.Names()) != 1 {
			t.Errorf("refs: %+v", refs)
		}
		c, err := r.Commit(t.Context(), OID(second))
		if err != nil {
			t.Fatal(err)
		}
		if c.OID != OID(second) || len(c.Parents) != 1 || c.Parents[0] != OID(first) || string(c.Message) != "test\n" ||
			c.Committer != (Person{"C O Mitter", "committer@example.com", 1700000000, "+0000", true}) {
			t.Errorf("commit: %+v", c)
		}
		tr, err := r.Tree(t.Context(), OID(second))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(gittest.Git(t, s.dir, "ls-tree", "-r", second), treeText(tr)); diff != "" {
			t.Errorf("tree (-git +ours):\n%s", diff)
		}
		e, ok := tr.Find("README.md")
		if !ok {
			t.Fatal("README.md not found")
		}
		data, err := r.Blob(t.Context(), e.OID)
		if err != nil || string(data) != files["README.md"] {
			t.Errorf("blob: %d bytes, %v", len(data), err)
		}
	})
}

// TestRefs_Equal: refs are the same where the same are there, at the same commits, and HEAD
// points to the same.
func TestRefs_Equal(t *testing.T) {
	on := onFile(t)
	first := gittest.Commit(t, on.dir, "refs/heads/main", "", sample)
	r := on.open(t)
	read := func() Refs {
		refs, err := r.Refs(t.Context(), "refs/heads/", OnlyHead)
		if err != nil {
			t.Fatal(err)
		}
		return refs
	}
	was := read()
	if !was.Equal(read()) {
		t.Error("the same refs aren't equal")
	}
	for _, change := range [][]string{
		{"update-ref", "refs/heads/other", first}, {"symbolic-ref", "HEAD", "refs/heads/other"}, {"update-ref", "-d", "refs/heads/main"},
		{"update-ref", "refs/heads/other", gittest.Commit(t, on.dir, "refs/x", first, sample)},
	} {
		gittest.Git(t, on.dir, change...)
		now := read()
		if now.Equal(was) || was.Equal(now) {
			t.Errorf("after git %v they are equal", change)
		}
		was = now
	}
}

// TestReadOld reads a commit that no ref points at, as a pinned base may be.
func TestReadOld(t *testing.T) {
	for name, s := range map[string]served{"file": onFile(t), "http": onHTTP(t), "ssh": onSSH(t, true)} {
		t.Run(name, func(t *testing.T) {
			first := gittest.Commit(t, s.dir, "refs/heads/main", "", sample)
			gittest.Commit(t, s.dir, "refs/heads/main", first, map[string]string{"a": "b"})
			r := s.open(t)
			tr, err := r.Tree(t.Context(), OID(first))
			if err != nil {
				t.Fatal(err)
			}
			got := map[OID]string{}
			var oids []OID
			for _, e := range tr.Entries {
				oids = append(oids, e.OID)
			}
			err = r.Blobs(t.Context(), oids, func(o OID, b []byte) error { got[o] = string(b); return nil })
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range tr.Entries {
				if got[e.OID] != sample[e.Path] {
					t.Errorf("%s: %q", e.Path, got[e.OID])
				}
			}
			if len(got) != len(sample)-1 {
				t.Errorf("%d blobs, each once", len(got))
			}
		})
	}
}

// TestReadWithoutFilter: a server that has no filters, git's own default.
func TestReadWithoutFilter(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		at := gittest.Commit(t, s.dir, "refs/heads/main", "", sample)
		r := s.open(t)
		if _, err := r.Commit(t.Context(), OID(at)); err != nil {
			t.Fatal(err)
		}
		tr, err := r.Tree(t.Context(), OID(at))
		if err != nil || len(tr.Entries) != len(sample) {
			t.Fatalf("%d entries, %v", len(tr.Entries), err)
		}
	}, "uploadpack.allowFilter=false")
}

func TestReadCommitAloneIsOneObject(t *testing.T) {
	s := onHTTP(t)
	at := gittest.Commit(t, s.dir, "refs/heads/main", "", sample)
	r := s.open(t)
	var n int
	err := r.fetch(t.Context(), want{oids: []OID{OID(at)}, depth: 1, filter: "tree:0"}, func(rawObject) error { n++; return nil })
	if err != nil || n != 1 {
		t.Fatalf("%d objects, %v", n, err)
	}
}

// TestReadOld_CachedTree: over version 0 the files of a tree that was kept in memory are those
// of its own commit, whatever was read since.
func TestReadOld_CachedTree(t *testing.T) {
	s := onSSH(t, false)
	large := map[string]string{"large": strings.Repeat("x", maxCachedObject+1)}
	at := OID(gittest.Commit(t, s.dir, "refs/heads/main", "", large))
	r := s.open(t)
	for range 2 {
		r.recent.list = nil // as if many others were read since
		if _, err := r.Tree(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := r.Blob(t.Context(), HashBlob([]byte(large["large"]))); err != nil || len(data) != len(large["large"]) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// TestReadOld_OtherCommitsReadSince: over version 0 a task that reads the files of its commit
// has them though others have read theirs since, and one of those is gone from the server.
func TestReadOld_OtherCommitsReadSince(t *testing.T) {
	s := onSSH(t, false)
	r := s.open(t)
	large := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, maxCachedObject+1) } // isn't kept
	const commits = 6
	var at [commits]OID
	for i := range at {
		name := fmt.Sprint("refs/heads/", i)
		at[i] = OID(gittest.Commit(t, s.dir, name, "", map[string]string{"large": string(large(i))}))
		if _, err := r.Tree(t.Context(), at[i]); err != nil {
			t.Fatal(err)
		}
		if i == commits-1 {
			gittest.Git(t, s.dir, "update-ref", "-d", name)
		}
	}
	for i := range commits - 1 {
		want := large(i)
		if data, err := r.Blob(t.Context(), HashBlob(want)); err != nil || !bytes.Equal(data, want) {
			t.Errorf("commit %d: %d bytes, %v", i, len(data), err)
		}
		if first := r.recent.all()[0]; first != at[i] {
			t.Errorf("what follows of commit %d is looked for in %s first", i, first)
		}
	}
	_, err := r.Blob(t.Context(), HashBlob(large(commits-1)))
	wantCode(t, err, CodeObjectMissing)
	err = r.Blobs(t.Context(), []OID{HashBlob(large(0))}, func(OID, []byte) error { return missing(at[0]) })
	wantCode(t, err, CodeObjectMissing) // is the reader's own
}

// TestRecentCommits: the last ones are kept, each once.
func TestRecentCommits(t *testing.T) {
	var c recentCommits
	for i := range 3 * maxRecentCommits {
		c.add(OID(fmt.Sprint(i)))
		c.add("again")
	}
	if got := c.all(); len(got) != maxRecentCommits || got[0] != "again" || got[1] != OID(fmt.Sprint(3*maxRecentCommits-1)) || slices.Contains(got[1:], "again") {
		t.Errorf("kept are %q", got)
	}
}

func TestReadMissing(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		gittest.Commit(t, s.dir, "refs/heads/main", "", sample)
		r := s.open(t)
		gone := OID(strings.Repeat("1", oidLen))
		_, err := r.Commit(t.Context(), gone)
		wantCode(t, err, CodeObjectMissing)
		_, err = r.Tree(t.Context(), gone)
		wantCode(t, err, CodeObjectMissing)
		_, err = r.Commit(t.Context(), ZeroOID)
		wantCode(t, err, CodeOIDInvalid)
		_, err = r.Commit(t.Context(), "main")
		wantCode(t, err, CodeOIDInvalid)
	})
}

func TestReadEmptyRepository(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		refs, err := s.open(t).Refs(t.Context(), "refs/heads/main")
		if err != nil || len(refs.Names()) != 0 || !refs.OID("refs/heads/main").IsZero() {
			t.Fatalf("%+v, %v", refs, err)
		}
	})
}

func TestReadNoRepository(t *testing.T) {
	s := onHTTP(t)
	r := openAt(t, Endpoint{URL: s.http.URL + "x"}, Options{})
	_, err := r.Refs(t.Context())
	wantCode(t, err, CodeNotFound)
	_, err = Open(t.Context(), Endpoint{URL: t.TempDir()}, Options{})
	wantCode(t, err, CodeNotFound)
}

// TestReadPacked reads a repository on disk in the states that git leaves it in.
func TestReadPacked(t *testing.T) {
	s := onFile(t)
	var at string
	for i := range 30 {
		text := strings.Repeat(fmt.Sprintf("a line that stays the same\nand %d\n", i), 200)
		at = gittest.Commit(t, s.dir, "refs/heads/main", at, map[string]string{"big": text, "dir/x": fmt.Sprint(i)})
	}
	r := s.open(t)
	want := gittest.Git(t, s.dir, "ls-tree", "-r", at)
	blob := gittest.Git(t, s.dir, "rev-parse", at+":big")
	check := func(state string, r *Repo) {
		t.Helper()
		refs, err := r.Refs(t.Context(), "refs/heads/main")
		if err != nil || refs.OID("refs/heads/main") != OID(at) {
			t.Fatalf("%s: refs %+v, %v", state, refs, err)
		}
		tr, err := r.Tree(t.Context(), refs.OID("refs/heads/main"))
		if err != nil || treeText(tr) != want {
			t.Fatalf("%s: tree %q, %v", state, treeText(tr), err)
		}
		data, err := r.Blob(t.Context(), OID(blob))
		if err != nil || HashBlob(data) != OID(blob) {
			t.Fatalf("%s: blob of %d bytes, %v", state, len(data), err)
		}
	}
	check("as fast-import left it", r)
	gittest.Git(t, s.dir, "repack", "-adfq", "--depth=50")
	gittest.Git(t, s.dir, "pack-refs", "--all")
	check("repacked while open", r)
	check("packed", s.open(t))
	gittest.Git(t, s.dir, "-c", "pack.indexVersion=2", "multi-pack-index", "write")
	check("with a multi-pack index", s.open(t))

	clone := filepath.Join(t.TempDir(), "clone")
	gittest.Git(t, "/", "clone", "--quiet", "--shared", "--no-checkout", s.dir, clone)
	check("through alternates", openAt(t, Endpoint{URL: clone}, Options{}))
	linked := filepath.Join(t.TempDir(), "linked")
	gittest.Git(t, clone, "worktree", "add", "--quiet", "--detach", linked)
	check("from a linked working tree", openAt(t, Endpoint{URL: linked}, Options{}))
}

// TestRefsAgree compares all refs with git's own list, packed, loose and nested.
func TestRefsAgree(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		at := gittest.Commit(t, s.dir, "refs/heads/main", "", sample)
		for i := range 20 {
			gittest.Git(t, s.dir, "update-ref", fmt.Sprintf("refs/writ/task/%d", i), at)
			if i == 9 {
				gittest.Git(t, s.dir, "pack-refs", "--all")
			}
		}
		gittest.Git(t, s.dir, "update-ref", "-d", "refs/writ/task/3")
		gittest.Git(t, s.dir, "tag", "-a", "-m", "tag", "v1", at)
		r := s.open(t)
		for _, ask := range [][]string{nil, {"refs/writ/task/"}, {"refs/writ/task/1", "refs/heads/"}, {"refs/writ/task/3"}} {
			refs, err := r.Refs(t.Context(), ask...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range refs.Names() {
				got = append(got, string(refs.OID(n))+" "+n)
			}
			out := gittest.Git(t, s.dir, append([]string{"for-each-ref", "--format=%(objectname) %(refname)"}, ask...)...)
			if diff := cmp.Diff(out, strings.Join(got, "\n")); diff != "" {
				t.Errorf("%v (-git +ours):\n%s", ask, diff)
			}
		}
		for _, ask := range [][]string{{OnlyHead}, {"refs/writ/task/15/"}, {"refs/writ/task/15/", OnlyHead}} {
			refs, err := r.Refs(t.Context(), ask...)
			if err != nil || refs.Head != "refs/heads/main" || refs.OID(refs.Head) != OID(at) || len(refs.Names()) > 0 {
				t.Errorf("%v: %+v, %v", ask, refs, err)
			}
		}
	})
}

// TestRefsThroughGit: refs that are not in files (a reftable) are asked of git.
func TestRefsThroughGit(t *testing.T) {
	s := onFile(t)
	at := gittest.Commit(t, s.dir, "refs/heads/main", "", sample)
	r := s.open(t)
	r.local.files = false
	refs, err := r.Refs(t.Context(), "refs/heads/main", stateRef)
	if err != nil || refs.OID("refs/heads/main") != OID(at) || refs.Head != "refs/heads/main" || !refs.OID(stateRef).IsZero() {
		t.Fatalf("%+v, %v", refs, err)
	}
}

func TestReadLimits(t *testing.T) {
	big := strings.Repeat("x", 300_000)
	for name, s := range map[string]served{"file": onFile(t), "http": onHTTP(t)} {
		t.Run(name, func(t *testing.T) {
			at := gittest.Commit(t, s.dir, "refs/heads/main", "", map[string]string{"big": big, "a": "", "b": "", "c": ""})
			url := s.dir
			if s.http != nil {
				url = s.http.URL
			}
			r := openAt(t, Endpoint{URL: url}, Options{Limits: Limits{Object: 100_000, Entries: 3}})
			_, err := r.Tree(t.Context(), OID(at))
			wantCode(t, err, CodeTooLarge)
			_, err = r.Blob(t.Context(), HashBlob([]byte(big)))
			wantCode(t, err, CodeTooLarge)
		})
	}
	s := onHTTP(t)
	at := gittest.Commit(t, s.dir, "refs/heads/main", "", sample)
	r := openAt(t, Endpoint{URL: s.http.URL}, Options{Limits: Limits{Pack: 50}})
	_, err := r.Tree(t.Context(), OID(at))
	wantCode(t, err, CodeTooLarge)
}

// TestS9_ReplaceAndGrafts: neither changes what an id names, on any transport.
func TestS9_ReplaceAndGrafts(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		honest := gittest.Commit(t, s.dir, "refs/heads/main", "", map[string]string{"a": "honest"})
		evil := gittest.Commit(t, s.dir, "refs/heads/evil", "", map[string]string{"a": "evil", "b": "more"})
		gittest.Git(t, s.dir, "replace", honest, evil)
		gittest.Git(t, s.dir, "replace", string(HashBlob([]byte("honest"))), string(HashBlob([]byte("evil"))))
		graft := honest + " " + evil + "\n"
		if err := os.WriteFile(filepath.Join(s.dir, "info", "grafts"), []byte(graft), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := gittest.Git(t, s.dir, "cat-file", "-p", honest+":a"); got != "evil" {
			t.Fatalf("git itself is not fooled: %q", got)
		}
		r := s.open(t)
		c, err := r.Commit(t.Context(), OID(honest))
		if err != nil || len(c.Parents) != 0 {
			t.Fatalf("commit %+v, %v", c, err)
		}
		tr, err := r.Tree(t.Context(), OID(honest))
		if err != nil || len(tr.Entries) != 1 {
			t.Fatalf("tree %+v, %v", tr, err)
		}
		data, err := r.Blob(t.Context(), tr.Entries[0].OID)
		if err != nil || string(data) != "honest" {
			t.Fatalf("blob %q, %v", data, err)
		}
	})
}

// TestUnpackHostile: broken packs are errors, and never larger than they may be.
func TestUnpackHostile(t *testing.T) {
	o := NewObjects()
	o.Blob([]byte(strings.Repeat("a", 1000)))
	addCommit(t, o, ZeroOID, "x\n")
	good := o.Pack().Data
	limits := Limits{Object: 2000}.orDefaults()
	count := func(data []byte) (int, error) {
		n := 0
		err := unpack(t.Context(), bytes.NewReader(data), int64(len(data)), limits, nil, func(rawObject) error { n++; return nil })
		return n, err
	}
	if n, err := count(good); n != 3 || err != nil {
		t.Fatalf("%d objects, %v", n, err)
	}
	for cut := range len(good) - rawOID {
		if _, err := count(good[:cut]); err == nil {
			t.Fatalf("cut at %d: no error", cut)
		} else if CodeOf(err) == "" {
			t.Fatalf("cut at %d: %v has no code", cut, err)
		}
	}
	for i := range len(good) - rawOID {
		bad := bytes.Clone(good)
		bad[i] ^= 0x55
		_, err := count(bad)
		var coded *Error
		if err != nil && !errors.As(err, &coded) {
			t.Fatalf("flip at %d: %v has no code", i, err)
		}
	}
}
