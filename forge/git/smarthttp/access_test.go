package smarthttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/git/smarthttp"
)

// TestG1_RepositoryNames: a name is a plain path below the root, and the only
// name of its repository.
func TestG1_RepositoryNames(t *testing.T) {
	var asked atomic.Int32
	s := serve(t, func(o *smarthttp.Options) {
		o.Root = filepath.Join(o.Root, "owner")
		o.Authorize = func(*http.Request, string, bool) (string, error) { asked.Add(1); return "", nil }
	})
	root := filepath.Join(s.root, "owner")
	newRepo(t, s.root, "outside.git")
	for _, name := range []string{"-x", ".hidden.git", "with space.git", "deep/er/repo.git", "back\\slash.git"} {
		newRepo(t, root, name)
	}
	work := filepath.Join(root, "work")
	gittest.Git(t, "/", "init", "--quiet", work)
	within := newRepo(t, root, "within.git")
	newRepo(t, within, ".git")
	for _, f := range []string{"refs/heads/x/HEAD", "refs/heads/x/objects/y", "refs/heads/x/refs/y"} {
		gittest.Commit(t, s.dir, f, "", map[string]string{"a": "1"})
	}
	for link, target := range map[string]string{
		"link.git": s.dir, "out.git": filepath.Join(s.root, "outside.git"), "dir": filepath.Join(root, "deep"), "up": s.root,
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	get := func(path string) int {
		u, err := url.Parse(s.base)
		if err != nil {
			t.Fatal(err)
		}
		u.Opaque = "//" + u.Host + path + "/info/refs?service=git-upload-pack"
		status, _ := do(t, &http.Request{Method: http.MethodGet, URL: u, Host: u.Host})
		return status
	}
	for _, path := range []string{"/repo.git", "/with%20space.git", "/deep/er/repo.git", "/%72epo.git"} {
		if status := get(path); status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
	}
	asked.Store(0)
	for _, path := range []string{
		"/../outside.git", "/%2e%2e/outside.git", "/..%2foutside.git", "/deep/../repo.git", "/./repo.git", "//repo.git", "/repo.git/",
		"/deep//er/repo.git", "/-x", "/--upload-pack=x", "/.hidden.git", "/back%5cslash.git", "/repo.git%00", "/repo.git%0a", "/%ff", "",
		"/" + strings.Repeat("a/", 20) + "b", "/" + strings.Repeat("a", 300),
	} {
		if status := get(path); status != http.StatusNotFound {
			t.Errorf("%.60s: %d", path, status)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("who may see them was asked %d times", n)
	}
	for _, path := range []string{
		"/link.git", "/out.git", "/dir/er/repo.git", "/up/outside.git", "/work", "/within.git", "/within.git/objects", "/deep", "/repo",
		"/repo.git/refs/heads/x", "/nothing.git", "/repo.git/HEAD",
	} {
		if status := get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// TestAuthorization: nothing is said or done before the callback has allowed it.
func TestAuthorization(t *testing.T) {
	type ask struct {
		repo  string
		write bool
	}
	var last atomic.Value
	s := serve(t, func(o *smarthttp.Options) {
		o.Authorize = func(r *http.Request, repo string, write bool) (string, error) {
			last.Store(ask{repo, write})
			user, password, ok := r.BasicAuth()
			switch {
			case !ok || password != "secret":
				return "", fmt.Errorf("who is it? %w", smarthttp.ErrUnauthenticated)
			case user == "stranger":
				return user, smarthttp.ErrNotFound
			case user == "broken":
				return user, errors.New("the database canary-9 is down")
			case user == "reader" && write:
				return user, fmt.Errorf("no: %w", smarthttp.ErrForbidden)
			}
			return user, nil
		}
	})
	first := gittest.Commit(t, s.dir, "refs/heads/main", "", map[string]string{"a": "1"})
	o := git.NewObjects()
	next := commit(t, o, git.OID(first), "next\n")
	push := pushBody(o, "report-status", smarthttp.RefUpdate{Ref: "refs/heads/main", Old: first, New: string(next)})
	type request struct {
		method, path, kind string
		body               string
	}
	reads := []request{
		{http.MethodGet, "/info/refs?service=git-upload-pack", "", ""},
		{http.MethodPost, "/git-upload-pack", "application/x-git-upload-pack-request", "0000"},
	}
	writes := []request{
		{http.MethodGet, "/info/refs?service=git-receive-pack", "", ""},
		{http.MethodPost, "/git-receive-pack", "application/x-git-receive-pack-request", string(push)},
	}
	try := func(user string, q request, wantWrite bool, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), q.method, s.url+q.path, strings.NewReader(q.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", q.kind)
		if user != "" {
			req.SetBasicAuth(user, "secret")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.ReadAll(res.Body); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != want {
			t.Errorf("%q %s %s: %s, want %d", user, q.method, q.path, res.Status, want)
		}
		if got := last.Load(); got != (ask{"owner/repo.git", wantWrite}) {
			t.Errorf("%s: asked for %v", q.path, got)
		}
		if challenge := res.Header.Get("WWW-Authenticate"); (want == http.StatusUnauthorized) != strings.HasPrefix(challenge, "Basic ") {
			t.Errorf("%q %s: challenge %q", user, q.path, challenge)
		}
	}
	refused := map[string]int{"": 401, "stranger": 404, "broken": 500}
	for user, want := range refused {
		for i, q := range append(reads, writes...) {
			try(user, q, i >= len(reads), want)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/nothing.git/info/refs?service=git-upload-pack", nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, text := do(t, req); status != http.StatusUnauthorized {
		t.Errorf("a stranger learns what is not there: %d %s", status, text)
	}
	for i := range reads {
		try("reader", reads[i], false, http.StatusOK)
		try("reader", writes[i], true, http.StatusForbidden)
	}
	wantEvents(t, s)
	if at := gittest.RefOID(s.dir, "refs/heads/main"); at != first {
		t.Fatalf("a reader moved the ref to %s", at)
	}
	try("writer", writes[0], true, http.StatusOK)
	try("writer", writes[1], true, http.StatusOK)
	wantEvents(t, s, strings.Replace(event("refs/heads/main", first, string(next)), " tester ", " writer ", 1))
}

// TestAuthorization_Git: git asks again with the credentials that its URL has.
func TestAuthorization_Git(t *testing.T) {
	s := serve(t, func(o *smarthttp.Options) {
		o.Authorize = func(r *http.Request, _ string, _ bool) (string, error) {
			if user, password, _ := r.BasicAuth(); password == "secret" {
				return user, nil
			}
			return "", smarthttp.ErrUnauthenticated
		}
	})
	gittest.Commit(t, s.dir, "refs/heads/main", "", map[string]string{"a": "1"})
	with := strings.Replace(s.url, "://", "://me:secret@", 1)
	if out := gittest.Git(t, "/", "ls-remote", with); !strings.Contains(out, "refs/heads/main") {
		t.Errorf("%q", out)
	}
	if out, err := gittest.TryGit("/", "", "ls-remote", s.url); err == nil {
		t.Errorf("without credentials: %q", out)
	}
}

func TestNew(t *testing.T) {
	allow := func(*http.Request, string, bool) (string, error) { return "", nil }
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]smarthttp.Options{
		"nobody decides": {Root: t.TempDir()},
		"no root":        {Root: filepath.Join(t.TempDir(), "none"), Authorize: allow},
		"a file":         {Root: file, Authorize: allow},
	} {
		if _, err := smarthttp.New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
