package git

import (
	"fmt"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/git/gittest"
)

// served is one repository as one transport shows it.
type served struct {
	dir  string
	open func(t testing.TB) *Repo
	http *gittest.HTTP // nil on other transports
}

func openAt(t testing.TB, ep Endpoint, opts Options) *Repo {
	t.Helper()
	r, err := Open(t.Context(), ep, opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r
}

func onFile(t testing.TB, config ...string) served {
	dir := gittest.NewBare(t, config...)
	return served{dir: dir, open: func(t testing.TB) *Repo { return openAt(t, Endpoint{URL: dir}, Options{}) }}
}

func onHTTP(t testing.TB, config ...string) served {
	dir := gittest.NewBare(t, config...)
	h := gittest.ServeHTTP(t, dir)
	return served{dir: dir, http: h, open: func(t testing.TB) *Repo { return openAt(t, Endpoint{URL: h.URL}, Options{}) }}
}

func onSSH(t testing.TB, v2 bool, config ...string) served {
	dir := gittest.NewBare(t, config...)
	s := gittest.ServeSSH(t, dir, v2)
	auth := Auth{SSHKeys: []ssh.Signer{s.Key}, KnownHosts: []string{s.KnownHosts}}
	return served{dir: dir, open: func(t testing.TB) *Repo {
		return openAt(t, Endpoint{URL: s.URL, Auth: auth}, Options{})
	}}
}

// everywhere runs a test over each transport.
func everywhere(t *testing.T, f func(t *testing.T, s served), config ...string) {
	t.Run("file", func(t *testing.T) { f(t, onFile(t, config...)) })
	t.Run("http", func(t *testing.T) { f(t, onHTTP(t, config...)) })
	t.Run("ssh", func(t *testing.T) { f(t, onSSH(t, true, config...)) })
	t.Run("ssh0", func(t *testing.T) { f(t, onSSH(t, false, config...)) })
}

const stateRef = "refs/writ/task/1"

var tester = Person{Name: "writ", Email: "writ@example.com", Seconds: 1_700_000_000}

// lease makes a commit with an empty tree on parent, told apart by message.
func lease(t testing.TB, parent OID, message string) (OID, Pack) {
	t.Helper()
	o := NewObjects()
	oid := addCommit(t, o, parent, message)
	return oid, o.Pack()
}

func addCommit(t testing.TB, o *Objects, parent OID, message string) OID {
	t.Helper()
	tree, err := o.Tree(nil)
	if err != nil {
		t.Fatal(err)
	}
	spec := CommitSpec{Tree: tree, Author: tester, Committer: tester, Message: []byte(message)}
	if !parent.IsZero() {
		spec.Parents = []OID{parent}
	}
	oid, err := o.Commit(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return oid
}

// claim puts a first commit at ref and fails the test if that is not won.
func claim(t testing.TB, r *Repo, ref, message string) OID {
	t.Helper()
	oid, pack := lease(t, ZeroOID, message)
	wantStatus(t, r.CompareAndSwap(t.Context(), []Command{{ref, ZeroOID, oid}}, pack), Won)
	return oid
}

func wantStatus(t testing.TB, out Outcome, want Status) {
	t.Helper()
	if out.Status != want {
		t.Fatalf("status %s, want %s (reason %q, error %v)", out.Status, want, out.Reason, out.Err)
	}
	if (out.Err == nil) != (want == Won) {
		t.Fatalf("status %s with error %v", out.Status, out.Err)
	}
}

// wantRef asks git itself where a ref is.
func wantRef(t testing.TB, dir, ref string, want OID) {
	t.Helper()
	got := gittest.RefOID(dir, ref)
	if want.IsZero() {
		want = ""
	}
	if got != string(want) {
		t.Fatalf("%s is at %q, want %q", ref, got, want)
	}
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if CodeOf(err) != code {
		t.Fatalf("error %v, want code %s", err, code)
	}
}

func runID(i int) string { return fmt.Sprintf("claim\n\nrun-id: %08d\n", i) }
