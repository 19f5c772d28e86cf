package smarthttp_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/git/smarthttp"
)

const stateRef = "refs/writ/task/1"

// server is a Handler over real HTTP, and what became of its requests.
type server struct {
	root string // of the repositories
	dir  string // the repository owner/repo.git
	url  string // its URL
	base string // of the server

	ended chan struct{} // a request has been answered

	mu     sync.Mutex
	events []string
}

func serve(t testing.TB, change ...func(*smarthttp.Options)) *server {
	t.Helper()
	s := &server{root: t.TempDir(), ended: make(chan struct{}, 1000)}
	s.dir = newRepo(t, s.root, "owner/repo.git")
	opts := smarthttp.Options{
		Root: s.root, Env: gittest.Env(),
		Authorize: func(*http.Request, string, bool) (string, error) { return "tester", nil },
		PostReceive: func(_ context.Context, repo, user string, updates []smarthttp.RefUpdate) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, u := range updates {
				s.events = append(s.events, fmt.Sprint(repo, " ", user, " ", u.Ref, " ", u.Old, " ", u.New))
			}
		},
	}
	for _, f := range change {
		f(&opts)
	}
	h, err := smarthttp.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { s.ended <- struct{}{} }()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s.base, s.url = srv.URL, srv.URL+"/owner/repo.git"
	return s
}

// newRepo makes a bare repository. It lacks what git http-backend would want.
func newRepo(t testing.TB, root, name string) string {
	t.Helper()
	dir := filepath.Join(root, filepath.FromSlash(name))
	gittest.Git(t, "/", "init", "--quiet", "--bare", "--initial-branch=main", dir)
	return dir
}

// pushed returns the events so far, and forgets them.
func (s *server) pushed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.events
	s.events = nil
	return out
}

func event(ref, from, to string) string {
	return strings.Join([]string{"owner/repo.git", "tester", ref, orZero(from), orZero(to)}, " ")
}

func orZero(oid string) string {
	if oid == "" {
		return string(git.ZeroOID)
	}
	return oid
}

func wantEvents(t testing.TB, s *server, want ...string) {
	t.Helper()
	if got := s.pushed(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// within fails the test if c is not ready in time: what should have ended did not.
func within[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
		panic("unreachable")
	}
}

// open opens the repository with our own client.
func (s *server) open(t testing.TB) *git.Repo {
	t.Helper()
	r, err := git.Open(t.Context(), git.Endpoint{URL: s.url}, git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// commit makes a commit with an empty tree.
func commit(t testing.TB, o *git.Objects, parent git.OID, message string) git.OID {
	t.Helper()
	tree, err := o.Tree(nil)
	if err != nil {
		t.Fatal(err)
	}
	who := git.Person{Name: "writ", Email: "writ@example.com", Seconds: 1_700_000_000}
	spec := git.CommitSpec{Tree: tree, Author: who, Committer: who, Message: []byte(message)}
	if !parent.IsZero() {
		spec.Parents = []git.OID{parent}
	}
	oid, err := o.Commit(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return oid
}

// claim puts a first commit at ref.
func claim(t testing.TB, r *git.Repo, ref, message string) git.OID {
	t.Helper()
	o := git.NewObjects()
	oid := commit(t, o, "", message)
	if out := r.CompareAndSwap(t.Context(), []git.Command{{Ref: ref, New: oid}}, o.Pack()); out.Status != git.Won {
		t.Fatalf("%+v", out)
	}
	return oid
}

// pushBody is a push as a client writes it, with the pack of o.
func pushBody(o *git.Objects, caps string, updates ...smarthttp.RefUpdate) []byte {
	var b bytes.Buffer
	for i, u := range updates {
		line := orZero(u.Old) + " " + orZero(u.New) + " " + u.Ref
		if i == 0 {
			line += "\x00" + caps
		}
		fmt.Fprintf(&b, "%04x%s", len(line)+4, line)
	}
	b.WriteString("0000")
	if o != nil {
		b.Write(o.Pack().Data)
	}
	return b.Bytes()
}

// post posts a push and returns status and text.
func (s *server) post(t testing.TB, body io.Reader, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/git-receive-pack", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return do(t, req)
}

func do(t testing.TB, req *http.Request) (int, string) {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// tasked fills a repository with what so many tasks leave: a state ref of five commits
// and a change branch each, in loose objects and refs.
func tasked(b testing.TB, dir string, tasks int) {
	b.Helper()
	var text strings.Builder
	commit := func(ref, file string, n int) {
		fmt.Fprintf(&text, "commit %s\ncommitter C O Mitter <committer@example.com> %d +0000\ndata 5\ntest\n\n", ref, 1_700_000_000+n)
		line := fmt.Sprintf("%s of %s, %d\n", file, ref, n)
		fmt.Fprintf(&text, "M 100644 inline %s\ndata %d\n%s\n", file, len(line), line)
	}
	for n := range tasks {
		for i := range 5 {
			commit(fmt.Sprintf("refs/writ/task/%d", n), fmt.Sprintf("record-%d", i), i)
		}
		commit(fmt.Sprintf("refs/heads/writ/change/%d", n), "code", n)
	}
	gittest.Git(b, dir, "config", "receive.autogc", "false") // as in the embedded forge
	gittest.GitInput(b, dir, text.String(), "-c", "fastimport.unpackLimit=1000000", "fast-import", "--quiet")
}
