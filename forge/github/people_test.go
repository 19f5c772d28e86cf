package github_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

// TestToken_ActsAsItsOwner: with a personal token writ is its owner, is warned
// of, and does what an App does.
func TestToken_ActsAsItsOwner(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	var log bytes.Buffer
	h := host(t, p.TokenConfig(p.Maintainer), held(t), func(c *github.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	about := must[forge.Repository](t)(h.Find(t.Context(), p.Repo.Owner, p.Repo.Name))
	if about.Repo != p.Repo {
		t.Errorf("found %+v", about)
	}
	c := h.Client(p.Repo)
	if self := must[forge.User](t)(c.Self(t.Context())); self.ID != p.Maintainer.ID || self.Kind != forge.Person {
		t.Errorf("writ is %+v", self)
	}
	i := must[forge.Issue](t)(p.As(t, p.Owner).FileIssue(t.Context(), p.Repo, "One", "text"))
	ok(t, c.AddLabel(t.Context(), p.Repo, i.Number, "writ"))
	must[forge.Comment](t)(c.AddComment(t.Context(), p.Repo, i.Number, "a comment"))
	must[[]forge.Event](t)(c.History(t.Context(), p.Repo, i.Number))
	if may := must[forge.Permission](t)(c.Permission(t.Context(), p.Repo, p.Maintainer.ID)); may != forge.Maintain {
		t.Errorf("it may %s", may)
	}
	if password := must[string](t)(h.GitAuth(p.Repo).AskPassword(t.Context())); password != p.Maintainer.Token {
		t.Error("git has another password")
	}
	if !strings.Contains(log.String(), "personal token is used") || strings.Contains(log.String(), p.Maintainer.Token) {
		t.Errorf("the log: %s", log.String())
	}
}

// TestToken_SetsStatuses: what an App says in a check run, a token says in a
// status, found again by its name.
func TestToken_SetsStatuses(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	c := host(t, p.TokenConfig(p.Writer), held(t)).Client(p.Repo)
	oid := p.Commit(t, "work", "main", map[string]string{"a": "b"})
	for _, state := range []forge.CheckState{forge.CheckRunning, forge.CheckFailed, forge.CheckPassed} {
		ok(t, c.SetCheck(t.Context(), p.Repo, oid, forge.Check{Name: "writ", State: state, Summary: strings.Repeat("long ", 60), Detail: "more"}))
		got := p.Checks(t, oid)
		if len(got) != 1 || got[0].State != state || got[0].Name != "writ" || len(got[0].Summary) > 140 {
			t.Errorf("checks %+v, want %s", got, state)
		}
	}
}

// TestF3_NothingSecretIsLogged: neither key nor tokens are in the log or in an
// error, whatever happens.
func TestF3_NothingSecretIsLogged(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	var log bytes.Buffer
	w := &wire{}
	h := host(t, p.Config(), func(c *github.Config) {
		c.Wrap, c.Logger = w.wrap, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	c := h.Client(p.Repo)
	token := must[string](t)(h.GitAuth(p.Repo).AskPassword(t.Context()))
	must[forge.Repository](t)(c.Repository(t.Context(), p.Repo.ID))
	w.set(func(req *http.Request, _ func() (*http.Response, error)) (*http.Response, error) {
		return answered(422, `{"message":"`+req.Header.Get("Authorization")+`"}`)
	})
	_, err := c.Issue(t.Context(), p.Repo, 1)
	if err == nil || !strings.Contains(err.Error(), "redacted") {
		t.Errorf("%v", err)
	}
	secrets := regexp.MustCompile(`ghs_|eyJ|PRIVATE KEY|` + regexp.QuoteMeta(token))
	if secrets.MatchString(log.String()) || secrets.MatchString(err.Error()) || strings.Contains(h.GitURL(p.Repo), token) {
		t.Errorf("a secret is in %s\n%v", log.String(), err)
	}
}

// TestI4_LoginTakenOver: an answer about the login of an account counts for that
// account only.
func TestI4_LoginTakenOver(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	w := &wire{}
	c := host(t, p.Config(), func(c *github.Config) { c.Wrap = w.wrap }).Client(p.Repo)
	if may := must[forge.Permission](t)(c.Permission(t.Context(), p.Repo, p.Maintainer.ID)); may != forge.Maintain {
		t.Fatalf("the maintainer may %s", may)
	}
	for what, body := range map[string]string{
		"another account": `{"permission":"admin","role_name":"admin","user":{"id":1,"login":"x","type":"User"}}`,
		"no account":      `{"permission":"admin","role_name":"admin"}`,
	} {
		w.set(func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
			if strings.HasSuffix(req.URL.Path, "/permission") {
				return answered(200, body)
			}
			return do()
		})
		if may := must[forge.Permission](t)(c.Permission(t.Context(), p.Repo, p.Maintainer.ID)); may != forge.None {
			t.Errorf("%s: the maintainer may %s", what, may)
		}
	}
}

// TestI4_Roles: an organisation's own role is what it is based on; a word that
// nobody knows is an error, never a permission.
func TestI4_Roles(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	w := &wire{}
	c := host(t, p.Config(), func(c *github.Config) { c.Wrap = w.wrap }).Client(p.Repo)
	for _, r := range []struct {
		permission, role string
		want             forge.Permission
	}{
		{"write", "maintain", forge.Maintain}, {"read", "triage", forge.Triage}, {"write", "release captain", forge.Write}, {"read", "auditor", forge.Read}, {"none", "", forge.None}, {"admin", "", forge.Admin},
	} {
		w.set(func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
			if !strings.HasSuffix(req.URL.Path, "/permission") {
				return do()
			}
			res, err := do()
			if err == nil {
				_ = res.Body.Close()
			}
			return answered(200, `{"permission":"`+r.permission+`","role_name":"`+r.role+`","user":{"id":`+idText(p.Maintainer.ID)+`}}`)
		})
		if may := must[forge.Permission](t)(c.Permission(t.Context(), p.Repo, p.Maintainer.ID)); may != r.want {
			t.Errorf("%+v: %s", r, may)
		}
	}
	w.set(func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
		if !strings.HasSuffix(req.URL.Path, "/permission") {
			return do()
		}
		return answered(200, `{"permission":"superuser","role_name":"superuser","user":{"id":`+idText(p.Maintainer.ID)+`}}`)
	})
	if may, err := c.Permission(t.Context(), p.Repo, p.Maintainer.ID); err == nil || may != forge.None {
		t.Errorf("an unknown word is %s, %v", may, err)
	}
}

// TestW12_UpdatedWhileListing: an issue that is updated while the list is read
// moves the others, and none of them is left out.
func TestW12_UpdatedWhileListing(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	const many = 130
	all := p.FileMany(t, many, time.Minute)
	c := host(t, p.Config()).Client(p.Repo)
	var got []int64
	ok(t, c.ListIssues(t.Context(), p.Repo, time.Time{}, func(i forge.Issue) error {
		if len(got) == 99 { // the first page is at its end: its first issues move behind the last
			for _, n := range all[:5] {
				p.Touch(t, n)
			}
		}
		got = append(got, i.Number)
		return nil
	}))
	for _, n := range all {
		if !slices.Contains(got, n) {
			t.Errorf("#%d was left out", n)
		}
	}
	for _, n := range all[:5] {
		if i := slices.Index(got, n); !slices.Contains(got[i+1:], n) {
			t.Errorf("#%d was not told again after its update", n)
		}
	}
}

// TestI12_ChangeOfAFork: a branch of that name elsewhere is another branch, and a
// trial merge is no merge.
func TestI12_ChangeOfAFork(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	w := &wire{}
	c := host(t, p.Config(), func(c *github.Config) { c.Wrap = w.wrap }).Client(p.Repo)
	pull := func(number int, repo int64) string {
		return `{"number":` + idText(int64(number)) + `,"title":"x","state":"open","merge_commit_sha":"trial","user":{"id":1,"login":"x","type":"User"},` +
			`"head":{"ref":"work","sha":"of-` + idText(int64(number)) + `","repo":{"id":` + idText(repo) + `}},"base":{"ref":"main"}}`
	}
	list := ""
	w.set(func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
		if strings.HasSuffix(req.URL.Path, "/pulls") {
			return answered(200, list)
		}
		return do()
	})
	list = "[" + pull(9, p.Repo.ID+1) + `,{"number":8,"head":{"ref":"work","repo":null}},` + pull(7, p.Repo.ID) + "," + pull(5, p.Repo.ID) + "]"
	got := must[forge.Change](t)(c.FindChange(t.Context(), p.Repo, "work", ""))
	if got.Number != 7 || got.HeadOID != "of-7" || got.MergedOID != "" || got.State != forge.ChangeOpen {
		t.Errorf("found %+v", got)
	}
	// One that is for another branch delivers only where none is for the base.
	list = "[" + strings.Replace(pull(9, p.Repo.ID), `"ref":"main"`, `"ref":"playground"`, 1) + "," + pull(7, p.Repo.ID) + "," + pull(5, p.Repo.ID) + "]"
	for base, want := range map[string]int64{"main": 7, "playground": 9, "gone": 9, "": 9} {
		if got := must[forge.Change](t)(c.FindChange(t.Context(), p.Repo, "work", base)); got.Number != want {
			t.Errorf("for %q it is %d, want %d", base, got.Number, want)
		}
	}
	list = "[" + pull(9, p.Repo.ID+1) + "]"
	_, err := c.FindChange(t.Context(), p.Repo, "work", "")
	wantReason(t, "only in a fork", err, forge.NotFound)
}
