package githubtest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/git/smarthttp"
	"github.com/writbot/writ/forge/github"
)

// Options are the settings of a Place. The zero value is usable.
type Options struct {
	HookURL    string // where the App's webhooks go; "": nowhere
	HookSecret string
	Private    bool
	Enterprise bool // the API is at /api/v3, as on an Enterprise Server
	// Held is what requests to GitURL/api are held to; nil: nothing.
	Held *Description
}

// Person is an account of a place.
type Person struct {
	ID    int64
	Login string
	Token string
}

// Place is a repository on GitHub, its people, and an App that is installed on it.
type Place struct {
	*Emulator
	Repo         forge.Repo
	Owner        Person // may administer
	Maintainer   Person
	Writer       Person
	Reader       Person // may read, as everybody
	App          github.App
	Slug         string // of the App; its bot is Slug[bot]
	Installation int64
	GitDir       string // the bare repository
	GitURL       string // the server's
	Options      Options

	now atomic.Pointer[forge.Repo] // what it is called
}

// Place makes a repository whose default branch main has one commit.
func (e *Emulator) Place(t testing.TB, o Options) *Place {
	t.Helper()
	n := e.next.Add(2)
	p := &Place{Emulator: e, Options: o, Installation: n + 1, Slug: fmt.Sprintf("writ-%d", n)}
	p.App = github.App{ID: n, Key: e.key}
	p.Repo.Owner, p.Repo.Name = fmt.Sprintf("ana-%d", n), "shop"
	people := []struct {
		to        *Person
		name, may string
	}{{&p.Owner, "ana", ""}, {&p.Maintainer, "max", "maintain"}, {&p.Writer, "wanda", "push"}, {&p.Reader, "rita", ""}}
	type person struct {
		Login      string `json:"login"`
		Token      string `json:"token"`
		Permission string `json:"permission,omitempty"`
	}
	var list []person
	for _, m := range people {
		m.to.Login, m.to.Token = fmt.Sprintf("%s-%d", m.name, n), fmt.Sprintf("ghp_of_%s_%d", m.name, n)
		list = append(list, person{m.to.Login, m.to.Token, m.may})
	}
	var made struct {
		Repo  int64
		Users map[string]int64
	}
	must(t, e.admin(t.Context(), "place", map[string]any{
		"owner": p.Repo.Owner, "name": p.Repo.Name, "private": o.Private, "people": list,
		"app": map[string]any{
			"id": n, "slug": p.Slug, "key": string(p.App.Key), "permissions": github.Needed(), "installation": p.Installation,
			"webhook_url": o.HookURL, "webhook_secret": o.HookSecret,
		},
	}, &made))
	p.Repo.ID = made.Repo
	for _, m := range people {
		m.to.ID = made.Users[m.to.Login]
	}
	p.serveGit(t)
	p.Commit(t, "main", "", map[string]string{"README.md": "# Shop\n"})
	return p
}

// Config is how writ's adapter reaches the place as the App, unpaced.
func (p *Place) Config() github.Config {
	api := p.URL
	if p.Options.Enterprise {
		api += "/api/v3"
	}
	return github.Config{URL: p.GitURL, API: api, App: p.App, Proxy: "none", Limits: github.Limits{WriteInterval: -1, Creates: -1, Edits: -1}}
}

// TokenConfig is Config with somebody's personal token.
func (p *Place) TokenConfig(by Person) github.Config {
	c := p.Config()
	c.App, c.Token = github.App{}, by.Token
	return c
}

// serveGit serves the repository at its name, to whom the emulator lets.
func (p *Place) serveGit(t testing.TB) {
	root := t.TempDir()
	p.GitDir = filepath.Join(root, p.Repo.Owner, p.Repo.Name+".git")
	must(t, os.MkdirAll(filepath.Dir(p.GitDir), 0o700))
	gittest.Git(t, "/", "init", "--quiet", "--bare", "--initial-branch=main", p.GitDir)
	gittest.Git(t, p.GitDir, "config", "uploadpack.allowFilter", "true")
	handler, err := smarthttp.New(smarthttp.Options{
		Root: root, Env: gittest.Env(), Authorize: p.authorize,
		PostReceive: func(ctx context.Context, _, login string, updates []smarthttp.RefUpdate) {
			for _, u := range updates {
				if err := p.tell(ctx, login, u.Ref, u.Old, u.New); err != nil {
					t.Errorf("the emulator was not told of a push: %v", err)
				}
			}
		},
	})
	must(t, err)
	srv := httptest.NewServer(p.pages(t, p.where(handler)))
	t.Cleanup(srv.Close)
	p.GitURL = srv.URL
}

// authorize asks the emulator whose password it is.
func (p *Place) authorize(r *http.Request, _ string, write bool) (string, error) {
	user, password, _ := r.BasicAuth()
	if user == "" || password == "" {
		return "", smarthttp.ErrUnauthenticated
	}
	now := p.now.Load()
	var is struct {
		Known, Found, Read, Write bool
		Login                     string
	}
	if err := p.admin(r.Context(), "token", map[string]any{"token": password, "owner": now.Owner, "name": now.Name}, &is); err != nil {
		return "", err
	}
	switch {
	case !is.Known:
		return "", smarthttp.ErrUnauthenticated
	case !is.Found || !is.Read:
		return "", smarthttp.ErrNotFound
	case write && !is.Write:
		return "", smarthttp.ErrForbidden
	}
	return is.Login, nil
}

// where serves the repository, which stays where it lies, at the name that it has
// now, and redirects those that it had and that lead nowhere else.
func (p *Place) where(git http.Handler) http.Handler {
	first := p.Repo.String()
	p.now.Store(&forge.Repo{Owner: p.Repo.Owner, Name: p.Repo.Name})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git")
		now := p.now.Load().String()
		if asked == now {
			here := r.Clone(r.Context())
			here.URL.Path, here.URL.RawPath = "/"+first+".git"+rest, ""
			git.ServeHTTP(w, here)
			return
		}
		var to struct{ Name string }
		if err := p.admin(r.Context(), "leads", map[string]any{"name": asked}, &to); err != nil || to.Name == "" {
			http.NotFound(w, r)
			return
		}
		at := *r.URL
		at.Path, at.RawPath = "/"+to.Name+".git"+rest, ""
		http.Redirect(w, r, at.RequestURI(), http.StatusMovedPermanently)
	})
}

// tell tells the emulator where a ref is.
func (p *Place) tell(ctx context.Context, login, ref, old, now string) error {
	body := map[string]any{"repo": p.Repo.ID, "login": login, "ref": ref, "before": old, "after": now}
	if strings.Trim(now, "0") != "" {
		facts, err := gittest.TryGit(p.GitDir, "", "log", "-1", "--format=%T%n%P%n%B", now)
		if err != nil {
			return fmt.Errorf("%w: %s", err, facts)
		}
		tree, rest, _ := strings.Cut(facts, "\n")
		parents, message, _ := strings.Cut(rest, "\n")
		body["tree"], body["parents"], body["message"] = tree, strings.Fields(parents), message
	}
	return p.admin(ctx, "push", body, nil)
}
