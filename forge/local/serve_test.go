package local

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
)

func (w *world) serve(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(must[http.Handler](t)(w.Handler()))
	t.Cleanup(srv.Close)
	return srv
}

func (w *world) token(t *testing.T, c *Client) string {
	t.Helper()
	return must[string](t)(w.NewToken(t.Context(), c.user.ID))
}

// withToken is a URL that git itself logs in with.
func withToken(t *testing.T, base, token string) string {
	t.Helper()
	u, err := url.Parse(base)
	ok(t, err)
	u.User = url.UserPassword("x", token)
	return u.String()
}

// TestGit_CloneAndPush: git's own client, over HTTP; the push is told to the
// hooks, in the name of who pushed, and moves its change.
func TestGit_CloneAndPush(t *testing.T) {
	r := newReceiver(t)
	w := newWorld(t, quick)
	ok(t, w.AddHook(t.Context(), r.hook()))
	srv := w.serve(t)
	dir := filepath.Join(t.TempDir(), "clone")
	remote := withToken(t, srv.URL+"/acme/shop.git", w.token(t, w.bot))
	gittest.Git(t, "/", "clone", "--quiet", srv.URL+"/acme/shop.git", dir) // anybody may read
	ok(t, os.WriteFile(filepath.Join(dir, "new.txt"), []byte("new\n"), 0o600))
	gittest.Git(t, dir, "add", "-A")
	gittest.Git(t, dir, "commit", "--quiet", "-m", "New")
	gittest.Git(t, dir, "push", "--quiet", remote, "HEAD:refs/heads/work", "HEAD:refs/writ/task/1")
	head := gittest.Git(t, dir, "rev-parse", "HEAD")
	got := r.wait(t, 1)
	if p := got[0].payload; len(got) != 1 || p.Ref != "refs/heads/work" || p.After != head || p.Sender.ID != w.bot.user.ID {
		t.Errorf("told %+v", got)
	}
	if c := w.open(t, "work"); c.HeadOID != head {
		t.Errorf("change %+v, want the head %s", c, head)
	}
	gittest.Git(t, dir, "commit", "--quiet", "--amend", "-m", "Newer")
	gittest.Git(t, dir, "push", "--quiet", "--force", remote, "HEAD:refs/heads/work")
	want := []string{"push refs/heads/work", "change openedrefs/heads/work", "push refs/heads/work", "change pushedrefs/heads/work"}
	if texts := actions(r.wait(t, 4)); !slices.Equal(texts, want) {
		t.Errorf("told %q, want %q", texts, want)
	}
}

// TestServe_PushIsChecked: a tree that git would lay out into .git, and an object that
// lacks what it must have, are refused by name, and nothing of the push is taken.
func TestServe_PushIsChecked(t *testing.T) {
	w := newWorld(t)
	srv := w.serve(t)
	dir := filepath.Join(t.TempDir(), "clone")
	remote := withToken(t, srv.URL+"/acme/shop.git", w.token(t, w.bot))
	gittest.Git(t, "/", "clone", "--quiet", srv.URL+"/acme/shop.git", dir)
	blob := gittest.GitInput(t, dir, "x\n", "hash-object", "-w", "--stdin")
	for name, c := range map[string]struct {
		tree []gittest.TreeEntry
		want string
	}{
		"a .git":        {[]gittest.TreeEntry{{Mode: "100644", Name: ".git", OID: blob}}, "hasDotgit"},
		"a name twice":  {[]gittest.TreeEntry{{Mode: "100644", Name: "a", OID: blob}, {Mode: "100644", Name: "a", OID: blob}}, "duplicateEntries"},
		"out of order":  {[]gittest.TreeEntry{{Mode: "100644", Name: "b", OID: blob}, {Mode: "100644", Name: "a", OID: blob}}, "treeNotSorted"},
		"nothing wrong": {[]gittest.TreeEntry{{Mode: "100644", Name: "a", OID: blob}, {Mode: "100644", Name: "b", OID: blob}}, ""},
	} {
		gittest.CommitTree(t, dir, "refs/heads/odd", gittest.RawTree(t, dir, c.tree...))
		out, err := exec.Command("git", "-C", dir, "push", remote, "+refs/heads/odd:refs/heads/odd").CombinedOutput()
		if (err == nil) != (c.want == "") || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		gittest.Git(t, dir, "update-ref", "-d", "refs/heads/odd")
	}
}

// TestGit_CompareAndSwap: leases are pushed the way writ pushes them.
func TestGit_CompareAndSwap(t *testing.T) {
	w := newWorld(t)
	srv := w.serve(t)
	open := func(token string) *git.Repo {
		r := must[*git.Repo](t)(git.Open(t.Context(), git.Endpoint{URL: srv.URL + "/acme/shop.git", Auth: git.Auth{Token: token}}, git.Options{}))
		t.Cleanup(func() { ok(t, r.Close()) })
		return r
	}
	bot, reader := open(w.token(t, w.bot)), open(w.token(t, w.reader))
	objects := git.NewObjects()
	tree := must[git.OID](t)(objects.Tree([]git.Entry{{Path: "a", Mode: git.ModeFile, OID: objects.Blob([]byte("a"))}}))
	oid := must[git.OID](t)(objects.Commit(git.CommitSpec{Tree: tree, Author: person(w.bot.user, 1), Committer: person(w.bot.user, 1), Message: []byte("lease\n")}, nil))
	claim := []git.Command{{Ref: "refs/writ/task/1", New: oid}, {Ref: "refs/heads/writ/change/1", New: oid}}
	if out := reader.CompareAndSwap(t.Context(), claim, objects.Pack()); out.Status == git.Won {
		t.Errorf("who may only read has pushed")
	}
	if out := bot.CompareAndSwap(t.Context(), claim, objects.Pack()); out.Status != git.Won {
		t.Errorf("the bot's push: %+v", out)
	}
	if out := bot.CompareAndSwap(t.Context(), claim, objects.Pack()); out.Status != git.Lost {
		t.Errorf("the same push again: %+v", out)
	}
	refs := must[git.Refs](t)(bot.Refs(t.Context(), "refs/writ/"))
	if refs.OID("refs/writ/task/1") != oid {
		t.Errorf("refs %v", refs.Names())
	}
}

// TestGit_WhoMay: the permission is asked for at each request.
func TestGit_WhoMay(t *testing.T) {
	w := newWorld(t)
	srv := w.serve(t)
	bot, reader := w.token(t, w.bot), w.token(t, w.reader)
	status := func(token, service string) int {
		q := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/acme/shop.git/info/refs?service=git-"+service, nil))
		if token != "" {
			q.SetBasicAuth("anything", token)
		}
		answer, err := srv.Client().Do(q)
		ok(t, err)
		defer answer.Body.Close()
		return answer.StatusCode
	}
	check := func(what, token, service string, want int) {
		t.Helper()
		if got := status(token, service); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	check("anybody reads", "", "upload-pack", 200)
	check("anybody pushes", "", "receive-pack", 401)
	check("a reader pushes", reader, "receive-pack", 403)
	check("the bot pushes", bot, "receive-pack", 200)
	check("a wrong token", bot+"x", "upload-pack", 401)
	ok(t, w.SetPrivate(t.Context(), w.repo.ID, true))
	check("anybody reads what is private", "", "upload-pack", 401)
	check("a stranger reads what is private", reader, "upload-pack", 404)
	check("the bot reads what is private", bot, "upload-pack", 200)
	ok(t, w.SetArchived(t.Context(), w.repo.ID, true))
	check("the bot pushes to what is archived", bot, "receive-pack", 403)
	ok(t, w.RenameRepo(t.Context(), w.repo.ID, "acme", "other"))
	check("the old name, to one who may know", bot, "upload-pack", 404)
	check("the old name, to anybody", "", "upload-pack", 401)
}

// TestServe_LoopbackOnly: neither another machine nor a web site whose name
// leads here is answered.
func TestServe_LoopbackOnly(t *testing.T) {
	w := newWorld(t)
	h := must[http.Handler](t)(w.Handler())
	for _, c := range []struct {
		from, host string
		want       int
	}{
		{"127.0.0.1:1234", "127.0.0.1:3000", 200}, {"[::1]:1234", "[::1]:3000", 200}, {"127.0.0.1:1", "localhost:3000", 200}, {"127.0.0.1:1", "localhost", 200},
		{"192.0.2.1:1234", "127.0.0.1:3000", 403}, {"127.0.0.1:1234", "evil.example:3000", 403}, {"127.0.0.1:1234", "localhost.evil.example", 403}, {"", "", 403},
	} {
		for _, path := range []string{"/", "/acme/shop.git/info/refs?service=git-upload-pack"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr, r.Host = c.from, c.host
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			if got := rec.Result().StatusCode; got != c.want {
				body, _ := io.ReadAll(rec.Result().Body)
				t.Errorf("%s from %q as %q: %d, want %d: %.80s", path, c.from, c.host, got, c.want, strings.TrimSpace(string(body)))
			}
		}
	}
}
