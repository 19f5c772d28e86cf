package github_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

// clock is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Now()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func wantReason(t *testing.T, what string, err error, want forge.Reason) {
	t.Helper()
	if !forge.IsReason(err, want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// TestI12_RenamedIsFound: a repository keeps its identity under another name,
// with an App and with a token, also right after.
func TestI12_RenamedIsFound(t *testing.T) {
	e := githubtest.Start(t)
	for _, kind := range []string{"app", "token"} {
		t.Run(kind, func(t *testing.T) {
			p := e.Place(t, githubtest.Options{})
			cfg := p.Config()
			if kind == "token" {
				cfg = p.TokenConfig(p.Maintainer)
			}
			h := host(t, cfg)
			c := h.Client(p.Repo)
			i := must[forge.Issue](t)(p.As(t, p.Owner).FileIssue(t.Context(), p.Repo, "One", "text"))
			must[forge.Issue](t)(c.Issue(t.Context(), p.Repo, i.Number))
			p.Rename(t, "store")
			ok(t, c.AddLabel(t.Context(), p.Repo, i.Number, "writ"))
			about := must[forge.Repository](t)(c.Repository(t.Context(), p.Repo.ID))
			if about.ID != p.Repo.ID || about.Name != "store" {
				t.Errorf("found %+v", about)
			}
			if got := h.GitURL(p.Repo); !strings.HasSuffix(got, "/store.git") {
				t.Errorf("git is at %s", got)
			}
			_, err := h.Find(t.Context(), p.Repo.Owner, "shop")
			wantReason(t, "find the old name", err, forge.NotFound)
		})
	}
}

// TestI12_RecreatedIsAnother: when another repository has taken the name, acts go
// to the one that is meant, and nothing reaches the other.
func TestI12_RecreatedIsAnother(t *testing.T) {
	e := githubtest.Start(t)
	p := e.Place(t, githubtest.Options{})
	cl := newClock()
	w := &wire{}
	h := host(t, p.Config(), func(c *github.Config) { c.Now, c.Wrap = cl.Now, w.wrap })
	c := h.Client(p.Repo)
	i := must[forge.Issue](t)(p.As(t, p.Owner).FileIssue(t.Context(), p.Repo, "One", "text"))
	must[forge.Issue](t)(c.Issue(t.Context(), p.Repo, i.Number))
	p.Rename(t, "store")
	other := p.Another(t, "shop")
	theirs := must[forge.Issue](t)(p.As(t, p.Owner).FileIssue(t.Context(), other, "Theirs", "text"))
	cl.pass(2 * time.Minute)
	w.set(nil)
	ok(t, c.AddLabel(t.Context(), p.Repo, i.Number, "writ"))
	if n := w.sent(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/shop/") }); n > 0 {
		t.Errorf("%d requests went to the name", n)
	}
	if got := must[forge.Issue](t)(p.As(t, p.Owner).Client.Issue(t.Context(), other, theirs.Number)); len(got.Labels) > 0 {
		t.Errorf("the other repository's issue was labelled: %+v", got)
	}
}

// TestI12_TransferredIsMissing: an issue that went to another repository is gone
// from this one; nobody follows it there.
func TestI12_TransferredIsMissing(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	w := &wire{}
	c := host(t, p.Config(), func(c *github.Config) { c.Wrap = w.wrap }).Client(p.Repo)
	must[forge.Repository](t)(c.Repository(t.Context(), p.Repo.ID))
	about := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/issues/5") }
	w.set(func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
		if about(req) {
			return answered(301, `{"message":"Moved Permanently"}`, "Location", p.URL+"/repositories/99/issues/1")
		}
		return do()
	})
	_, err := c.Issue(t.Context(), p.Repo, 5)
	wantReason(t, "read", err, forge.NotFound)
	wantReason(t, "close", c.SetState(t.Context(), p.Repo, 5, forge.Closed), forge.NotFound)
	if n := w.sent(about); n != 4 {
		t.Errorf("%d requests, want each one twice", n)
	}
	if n := w.sent(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/repositories/99/") }); n > 0 {
		t.Error("it was followed")
	}
}

// TestI12_Archived: what GitHub says of a repository is told.
func TestI12_Archived(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{Private: true})
	c := host(t, p.Config()).Client(p.Repo)
	i := must[forge.Issue](t)(p.As(t, p.Owner).FileIssue(t.Context(), p.Repo, "One", "text"))
	p.Archive(t)
	if about := must[forge.Repository](t)(c.Repository(t.Context(), p.Repo.ID)); !about.Archived || !about.Private {
		t.Errorf("found %+v", about)
	}
	wantReason(t, "label", c.AddLabel(t.Context(), p.Repo, i.Number, "writ"), forge.Forbidden)
}

// TestI13_OtherInstallation: a repository of another installation than the
// configured one is refused, before any token is made.
func TestI13_OtherInstallation(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	w := &wire{}
	h := host(t, p.Config(), func(c *github.Config) { c.App.Installation, c.Wrap = p.Installation+1, w.wrap })
	_, err := h.Find(t.Context(), p.Repo.Owner, p.Repo.Name)
	wantReason(t, "find", err, forge.Forbidden)
	_, err = h.Client(p.Repo).Issue(t.Context(), p.Repo, 1)
	wantReason(t, "read", err, forge.Forbidden)
	if n := w.sent(func(r *http.Request) bool { return r.Method == http.MethodPost }); n > 0 {
		t.Errorf("%d tokens were made", n)
	}
}

// TestF6_TokensAreNarrow: each token is for this one repository and for what its
// act needs.
func TestF6_TokensAreNarrow(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	asked := map[string]bool{}
	w := &wire{}
	h := host(t, p.Config(), func(c *github.Config) { c.Wrap = w.wrap })
	w.set(func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
		if strings.HasSuffix(req.URL.Path, "/access_tokens") {
			b, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			req.Body = io.NopCloser(strings.NewReader(string(b)))
			var o struct {
				IDs         []int64           `json:"repository_ids"`
				Permissions map[string]string `json:"permissions"`
			}
			if err := json.Unmarshal(b, &o); err != nil || len(o.IDs) != 1 || o.IDs[0] != p.Repo.ID {
				t.Errorf("a token was asked for with %s", b)
			}
			asked[fmt.Sprint(o.Permissions)] = true
		}
		return do()
	})
	c := h.Client(p.Repo)
	i := must[forge.Issue](t)(p.As(t, p.Owner).FileIssue(t.Context(), p.Repo, "One", "text"))
	must[forge.Issue](t)(c.Issue(t.Context(), p.Repo, i.Number))
	ok(t, c.AddLabel(t.Context(), p.Repo, i.Number, "writ"))
	oid := p.Commit(t, "work", "main", map[string]string{"a": "b"})
	ok(t, c.SetCheck(t.Context(), p.Repo, oid, forge.Check{Name: "writ", State: forge.CheckRunning}))
	must[string](t)(h.GitAuth(p.Repo).AskPassword(t.Context()))
	want := map[string]bool{
		"map[issues:read metadata:read pull_requests:read]": true, "map[issues:write metadata:read pull_requests:write]": true,
		"map[checks:write metadata:read]": true, "map[contents:write metadata:read]": true,
	}
	if fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("tokens for %v, want %v", asked, want)
	}
}

// TestF6_TokenEndsInTheMiddle: the next act, read or write, makes a new one; one
// that is about to end isn't handed out.
func TestF6_TokenEndsInTheMiddle(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	cl := newClock()
	h := host(t, p.Config(), func(c *github.Config) { c.Now = cl.Now })
	c := h.Client(p.Repo)
	i := must[forge.Issue](t)(p.As(t, p.Owner).FileIssue(t.Context(), p.Repo, "One", "text"))
	ask := h.GitAuth(p.Repo).AskPassword
	for range 2 {
		ok(t, c.AddLabel(t.Context(), p.Repo, i.Number, "writ"))
		must[forge.Issue](t)(c.Issue(t.Context(), p.Repo, i.Number))
		p.ExpireTokens(t)
	}
	ok(t, c.SetState(t.Context(), p.Repo, i.Number, forge.Closed))
	p.ExpireTokens(t)
	must[forge.Repository](t)(c.Repository(t.Context(), p.Repo.ID))
	first := must[string](t)(ask(t.Context()))
	if again := must[string](t)(ask(t.Context())); again != first {
		t.Error("a token is made for each request")
	}
	cl.pass(55 * time.Minute)
	if later := must[string](t)(ask(t.Context())); later == first {
		t.Error("a token that is about to end was handed out")
	}
}

// TestF6_InstallationTroubles: suspended, removed, or with a permission taken
// away, every act is refused for good and nothing is sent unauthenticated.
func TestF6_InstallationTroubles(t *testing.T) {
	e := githubtest.Start(t)
	for name, c := range map[string]struct {
		trouble func(*testing.T, *githubtest.Place)
		want    forge.Reason
	}{
		"suspended": {func(t *testing.T, p *githubtest.Place) { p.Suspend(t, true) }, forge.Forbidden},
		"removed":   {func(t *testing.T, p *githubtest.Place) { p.Uninstall(t) }, forge.Unauthorized},
		"narrowed": {func(t *testing.T, p *githubtest.Place) {
			p.Permit(t, map[string]string{"metadata": "read", "issues": "read", "pull_requests": "read"})
			p.ExpireTokens(t)
		}, forge.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			p := e.Place(t, githubtest.Options{})
			cl := newClock()
			h := host(t, p.Config(), func(c *github.Config) { c.Now = cl.Now })
			client := h.Client(p.Repo)
			i := must[forge.Issue](t)(p.As(t, p.Owner).FileIssue(t.Context(), p.Repo, "One", "text"))
			ok(t, client.AddLabel(t.Context(), p.Repo, i.Number, "writ"))
			must[string](t)(h.GitAuth(p.Repo).AskPassword(t.Context()))
			c.trouble(t, p)
			for range 2 {
				wantReason(t, "close", client.SetState(t.Context(), p.Repo, i.Number, forge.Closed), c.want)
				cl.pass(time.Hour)
			}
			_, err := h.GitAuth(p.Repo).AskPassword(t.Context())
			wantReason(t, "git credential", err, c.want)
			if got := must[forge.Issue](t)(p.As(t, p.Owner).Client.Issue(t.Context(), p.Repo, i.Number)); got.State != forge.Open {
				t.Error("the issue was closed all the same")
			}
		})
	}
	p := e.Place(t, githubtest.Options{})
	c := host(t, p.Config()).Client(p.Repo)
	p.Suspend(t, true)
	_, err := c.Repository(t.Context(), p.Repo.ID)
	wantReason(t, "suspended", err, forge.Forbidden)
	p.Suspend(t, false)
	must[forge.Repository](t)(c.Repository(t.Context(), p.Repo.ID))
}

// TestGit_PushAndFetch: git works with tokens that are asked for, also after the
// one before has ended; a reader's token doesn't push.
func TestGit_PushAndFetch(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{Private: true})
	h := host(t, p.Config())
	must[forge.Repository](t)(h.Find(t.Context(), p.Repo.Owner, p.Repo.Name))
	open := func(h *github.Host) *git.Repo {
		r, err := git.Open(t.Context(), git.Endpoint{URL: h.GitURL(p.Repo), Auth: h.GitAuth(p.Repo)}, git.Options{})
		ok(t, err)
		t.Cleanup(func() { ok(t, r.Close()) })
		return r
	}
	c := h.Client(p.Repo)
	must[forge.Repository](t)(c.Repository(t.Context(), p.Repo.ID))
	r := open(h)
	refs := must[git.Refs](t)(r.Refs(t.Context()))
	main := refs.OID("refs/heads/main")
	o := git.NewObjects()
	tree, err := o.Tree([]git.Entry{{Path: "a", Mode: git.ModeFile, OID: o.Blob([]byte("b"))}})
	ok(t, err)
	me := git.Person{Name: "writ", Email: "writ@example.com", Seconds: 1700000000}
	oid, err := o.Commit(git.CommitSpec{Tree: tree, Parents: []git.OID{main}, Author: me, Committer: me, Message: []byte("Work\n")}, nil)
	ok(t, err)
	pack := o.Pack()
	p.ExpireTokens(t)
	// GitHub says so to the API first; git asks for the token after that.
	must[forge.Repository](t)(c.Repository(t.Context(), p.Repo.ID))
	push := []git.Command{{Ref: "refs/heads/writ/change/1", Old: git.ZeroOID, New: oid}}
	if out := open(host(t, p.TokenConfig(p.Reader))).CompareAndSwap(t.Context(), push, pack); out.Status == git.Won {
		t.Error("a reader pushed")
	}
	if out := r.CompareAndSwap(t.Context(), push, pack); out.Status != git.Won {
		t.Fatalf("push: %v", out)
	}
	made := must[forge.Change](t)(c.OpenChange(t.Context(), p.Repo, forge.Change{Title: "Work", Head: "writ/change/1", Base: "main", Draft: true}))
	if made.HeadOID != string(oid) || !made.Draft {
		t.Errorf("the change is %+v", made)
	}
}

// TestF6_Held: what an installation has, and what it lacks, is told.
func TestF6_Held(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	h := host(t, p.Config(), held(t))
	has := must[github.Installation](t)(h.Held(t.Context(), p.Repo))
	if has.ID != p.Installation || has.App != p.Slug || has.Suspended || len(has.Missing()) > 0 {
		t.Errorf("held %+v, missing %v", has, has.Missing())
	}
	p.Permit(t, map[string]string{"metadata": "read", "issues": "write", "contents": "read", "pull_requests": "write"})
	p.Suspend(t, true)
	has = must[github.Installation](t)(h.Held(t.Context(), p.Repo))
	if got := fmt.Sprint(has.Missing()); got != "map[checks:write contents:write]" || !has.Suspended {
		t.Errorf("held %+v, missing %s", has, got)
	}
	_, err := host(t, p.TokenConfig(p.Owner)).Held(t.Context(), p.Repo)
	wantReason(t, "with a token", err, forge.Unauthorized)
}
