package gitlab

import (
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/forge/internal/transport"
)

// TestSelfManaged: below a path, behind a certificate of one's own authority,
// with subgroups.
func TestSelfManaged(t *testing.T) {
	s := gitlabtest.New(t, gitlabtest.Options{Path: "/git/lab", TLS: true})
	id := s.AddProject("acme/tools/deep", "shop")
	_, token := s.ProjectToken(id, gitlabtest.Developer)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	ok(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.HTTP.Certificate().Raw}), 0o600))
	config := Config{URL: s.URL, Token: token, CAFile: ca, Proxy: transport.NoProxy, Limits: unpaced}
	h := must[*Host](t)(New(t.Context(), config))
	t.Cleanup(h.Close)
	for _, owner := range []string{"acme/tools/deep", "ACME/Tools/Deep"} {
		got := must[forge.Repository](t)(h.Find(t.Context(), owner, "shop"))
		if got.Repo != (forge.Repo{ID: id, Owner: "acme/tools/deep", Name: "shop"}) || got.DefaultBranch != "main" || got.Private {
			t.Errorf("found %+v", got)
		}
		if want := s.URL + "/acme/tools/deep/shop.git"; h.GitURL(got.Repo) != want {
			t.Errorf("git is at %s, want %s", h.GitURL(got.Repo), want)
		}
	}
	r := forge.Repo{ID: id, Owner: "acme/tools/deep", Name: "shop"}
	c := h.Client(r)
	must[forge.User](t)(c.Self(t.Context()))
	if err := second(c.Issue(t.Context(), r, 1)); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("an issue that isn't there: %v", err)
	}
	if err := c.EditComment(t.Context(), r, 1, "x"); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("a comment that isn't there: %v", err)
	}
	if err := second(h.Find(t.Context(), "acme", "gone")); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("a project that isn't there: %v", err)
	}

	config.CAFile = ""
	unknown := must[*Host](t)(New(t.Context(), config))
	t.Cleanup(unknown.Close)
	if err := second(unknown.Self(t.Context())); !forge.IsReason(err, forge.Unavailable) {
		t.Errorf("an authority that nobody knows: %v", err)
	}
}

// TestConfig_Refused says what is wrong, and never the token.
func TestConfig_Refused(t *testing.T) {
	for _, c := range []Config{
		{}, {URL: DefaultURL}, {URL: "https://gitlab.example", Token: "glpat-canary\n"}, {URL: "gitlab.example", Token: "glpat-canary"},
		{URL: "http://gitlab.example", Token: "glpat-canary"}, {URL: "https://me:glpat-canary@gitlab.example", Token: "x"},
		{URL: "https://gitlab.example?private_token=glpat-canary", Token: "x"}, {URL: "https://gitlab.example", Token: "x", CAFile: "/does/not/exist"},
		{URL: "https://gitlab.example", Token: "x", Proxy: "://"},
	} {
		if _, err := New(t.Context(), c); err == nil || c.URL != "https://gitlab.example?private_token=glpat-canary" && strings.Contains(err.Error(), "canary") {
			t.Errorf("%+v: %v", c.URL, err)
		}
	}
}

// TestI12_Repository: archived, private, fork, renamed.
func TestI12_Repository(t *testing.T) {
	w := newWorld(t)
	w.ChangeProject(w.repo.ID, gitlabtest.ProjectChange{Name: "renamed", Visibility: gitlabtest.Private, Archived: true, ForkedFrom: 77})
	got := must[forge.Repository](t)(w.bot.Repository(t.Context(), w.repo.ID))
	if at := w.bot.host.GitURL(w.repo); at != w.URL+"/acme/tools/renamed.git" {
		t.Errorf("git is still at %s", at)
	}
	if got.Name != "renamed" || got.ID != w.repo.ID || !got.Private || !got.Archived || !got.Fork {
		t.Errorf("repository %+v", got)
	}
	w.ChangeProject(w.repo.ID, gitlabtest.ProjectChange{Visibility: gitlabtest.Internal})
	if got := must[forge.Repository](t)(w.bot.Repository(t.Context(), w.repo.ID)); got.Private {
		t.Error("what all of a host may read is called private")
	}
	w.SetMember(w.repo.ID, w.bot.user.ID, 0)
	w.ChangeProject(w.repo.ID, gitlabtest.ProjectChange{Visibility: gitlabtest.Private})
	if err := second(w.bot.Repository(t.Context(), w.repo.ID)); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("a project that is hidden from us: %v", err)
	}
}

// TestGit: the credentials open a private repository, hidden refs and atomic
// pushes included, until the token ends.
func TestGit(t *testing.T) {
	w := newWorld(t)
	w.ChangeProject(w.repo.ID, gitlabtest.ProjectChange{Visibility: gitlabtest.Private})
	open := func(p *person) *git.Repo {
		r := must[*git.Repo](t)(git.Open(t.Context(), git.Endpoint{URL: p.host.GitURL(w.repo), Auth: p.host.GitAuth(w.repo)}, git.Options{}))
		t.Cleanup(func() { ok(t, r.Close()) })
		return r
	}
	refs := must[git.Refs](t)(open(w.bot).Refs(t.Context(), "refs/heads/main"))
	if got := refs.OID("refs/heads/main"); string(got) != w.Ref(w.repo.ID, "refs/heads/main") {
		t.Errorf("main is %s", got)
	}
	w.Revoke(w.bot.token)
	if _, err := open(w.bot).Refs(t.Context()); git.CodeOf(err) != git.CodeUnauthorized || strings.Contains(err.Error(), w.bot.token) {
		t.Errorf("with a revoked token: %v", err)
	}
}

// TestF3_TokenStaysInside: whatever GitLab answers, the token is in no error and
// no log, and goes nowhere else.
func TestF3_TokenStaysInside(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	var told []string
	elsewhere := gitlabtest.New(t, gitlabtest.Options{})
	for _, f := range []gitlabtest.Fault{
		{Status: 400, Body: `{"message":"your token ` + w.bot.token + ` is odd"}`},
		{Status: 500, Body: w.bot.token},
		{Status: 200, Body: `{"id":"` + w.bot.token + `"}`},
		gitlabtest.Refuse(http.StatusFound, "Location", elsewhere.URL+"/api/v4/user?private_token="+w.bot.token),
		gitlabtest.Lost(),
	} {
		w.Lie("", "", 2, f)
		for _, err := range []error{second(w.bot.Issue(t.Context(), w.repo, i.Number)), w.bot.EditComment(t.Context(), w.repo, 1, "x")} {
			if err == nil {
				t.Fatalf("%+v was taken for an answer", f)
			}
			for ; err != nil; err = errors.Unwrap(err) {
				told = append(told, err.Error())
			}
		}
		w.Honest()
	}
	if all := strings.Join(told, "\n") + w.log.String(); strings.Contains(all, w.bot.token) {
		t.Errorf("the token is told: %s", all)
	}
	if got := elsewhere.Requests(); len(got) > 0 {
		t.Errorf("another host was asked: %+v", got)
	}
}

// TestConcurrent: for the race detector; the bot's own comments are its own
// whoever asks at the same time.
func TestConcurrent(t *testing.T) {
	w := newWorld(t)
	ctx, i := t.Context(), w.file(t)
	c := must[forge.Comment](t)(w.bot.AddComment(ctx, w.repo, i.Number, "/close\nnothing"))
	fresh := w.person(t, w.bot.user, w.bot.token)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			all, err := fresh.Comments(ctx, w.repo, i.Number)
			if err != nil || len(all) != 1 || all[0].Body != "/close\nnothing" {
				t.Errorf("comments %+v, %v", all, err)
			}
			_, err = fresh.Repository(ctx, w.repo.ID)
			err = errors.Join(err, fresh.React(ctx, w.repo, c.ID, forge.ReactionSeen), second(fresh.History(ctx, w.repo, i.Number)), second(fresh.Self(ctx)))
			if err != nil || fresh.host.GitURL(w.repo) == "" || len(fresh.host.Warnings()) > 0 {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
